// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"context"
	"slices"
	"strings"
	"sync"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// List implements cloud.Provider. Machines that another autoscaler bought for a NodeClaim are there, too, without a claim's uid:
// they are not ours to end unasked.
func (p *Provider) List(ctx context.Context) ([]model.Instance, error) {
	if ctx.Err() != nil {
		return nil, classifyError(ctx, "list", "", ctx.Err())
	}
	l, err := p.instances.list(ctx, p.aws.clock.Now())
	if err != nil {
		return nil, classifyError(ctx, "list", "", err)
	}
	if !cloud.LooksOnly(ctx) {
		p.groups.CleanUp(ctx, l)
	}
	now := p.aws.clock.Now()
	out := make([]model.Instance, 0, len(l.all))
	for _, m := range l.all {
		in := model.Instance{ProviderID: providerID(m.zone, m.id), ClaimUID: m.claimUID, ClaimName: m.claimName, Launched: m.launched, Gone: m.gone}
		if m.capacityType == model.OnDemand && now.Sub(m.launched) > ListDelay {
			in.Unreserved = unreservedLabels
		}
		if m.autoScalingGroup != "" && m.claimUID == "" && !m.gone {
			in.Class, in.Labels = p.groups.AdoptableAs(&m)
		}
		out = append(out, in)
	}
	out = append(out, p.groups.Placeholders()...)
	slices.SortFunc(out, func(a, b model.Instance) int { return strings.Compare(a.ProviderID, b.ProviderID) })
	return out, nil
}

// unreservedLabels is what labels say of an on-demand machine. EC2 names no reservation any more on one that it was bought from and that has ended.
var unreservedLabels = model.Labels{
	model.LabelCapacityType: model.OnDemand, awsv1.LabelCapacityReservationID: "", awsv1.LabelCapacityReservationType: "", awsv1.LabelCapacityReservationInterruptible: "",
}

// Terminate implements cloud.Provider: what several callers ask for at once is one call.
func (p *Provider) Terminate(ctx context.Context, providerIDs []string) []error {
	errs := make([]error, len(providerIDs))
	all := func(err error) []error {
		for i, id := range providerIDs {
			errs[i] = classifyError(ctx, "terminate", id, err)
		}
		return errs
	}
	if len(providerIDs) == 0 {
		return errs
	}
	if ctx.Err() != nil {
		return all(ctx.Err())
	}
	groups, err := p.instances.groupNamesOf(ctx, providerIDs)
	if err != nil {
		return all(err)
	}
	by := map[string][]int{}
	for i, id := range providerIDs {
		key := groups[i]
		if strings.HasPrefix(id, placeholderPrefix) {
			key = id
		}
		by[key] = append(by[key], i)
	}
	var wg sync.WaitGroup
	for key, list := range by {
		wg.Go(func() {
			ids := make([]string, len(list))
			for n, i := range list {
				ids[n] = instanceID(providerIDs[i])
			}
			var answers []error
			ok := true
			switch {
			case strings.HasPrefix(key, placeholderPrefix):
				answers = make([]error, len(ids))
				answers[0] = p.groups.Cancel(ctx, ids[0])
			case key != "":
				answers, ok = p.groups.Terminate(ctx, key, ids)
			default:
				answers, ok = p.instances.terminate(ctx, ids)
			}
			for n, i := range list {
				err := ctx.Err()
				if ok {
					err = answers[n]
				}
				errs[i] = classifyError(ctx, "terminate", providerIDs[i], err)
			}
		})
	}
	wg.Wait()
	return errs
}

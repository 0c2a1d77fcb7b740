// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"context"
	"slices"
	"strings"
	"sync"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instances"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// List implements cloud.Provider. It includes machines that another autoscaler launched for a NodeClaim, without a claim
// UID, because Dovetail does not terminate them on its own.
func (p *Provider) List(ctx context.Context) ([]model.Instance, error) {
	if ctx.Err() != nil {
		return nil, awsapi.ClassifyError(ctx, "list", "", ctx.Err())
	}
	l, err := p.instances.List(ctx, p.aws.Clock.Now())
	if err != nil {
		return nil, awsapi.ClassifyError(ctx, "list", "", err)
	}
	if !cloud.LooksOnly(ctx) {
		p.groups.CleanUp(ctx, l)
	}
	now := p.aws.Clock.Now()
	adoptables := p.groups.Adoptables(ctx, l)
	out := make([]model.Instance, 0, len(l.All))
	for _, m := range l.All {
		in := model.Instance{ProviderID: instances.ProviderID(m.Zone, m.ID), ClaimUID: m.ClaimUID, ClaimName: m.ClaimName, Launched: m.Launched, Gone: m.Gone}
		if m.CapacityType == model.OnDemand && now.Sub(m.Launched) > instances.ListDelay {
			in.Unreserved = unreservedLabels
		}
		if a, is := adoptables[m.ID]; is {
			in.ClassKind, in.Class, in.Labels, in.Replacing, in.GivenUp = dovetailv1alpha1.KindNodeGroupClass, a.Class, a.Labels, a.Replacing, a.GivenUp
		}
		out = append(out, in)
	}
	out = append(out, p.groups.Placeholders()...)
	slices.SortFunc(out, func(a, b model.Instance) int { return strings.Compare(a.ProviderID, b.ProviderID) })
	return out, nil
}

// unreservedLabels are the labels of an on-demand machine. EC2 does not report the reservation of a machine after the
// reservation has ended.
var unreservedLabels = model.Labels{
	model.LabelCapacityType: model.OnDemand, awsv1.LabelCapacityReservationID: "", awsv1.LabelCapacityReservationType: "", awsv1.LabelCapacityReservationInterruptible: "",
}

// Terminate implements cloud.Provider. Concurrent calls share one request.
func (p *Provider) Terminate(ctx context.Context, providerIDs []string) []error {
	errs := make([]error, len(providerIDs))
	all := func(err error) []error {
		for i, id := range providerIDs {
			errs[i] = awsapi.ClassifyError(ctx, "terminate", id, err)
		}
		return errs
	}
	if len(providerIDs) == 0 {
		return errs
	}
	if ctx.Err() != nil {
		return all(ctx.Err())
	}
	groups, err := p.instances.GroupNamesOf(ctx, providerIDs)
	if err != nil {
		return all(err)
	}
	by := map[string][]int{}
	for i, id := range providerIDs {
		key := groups[i]
		if strings.HasPrefix(id, instances.PlaceholderPrefix) {
			key = id
		}
		by[key] = append(by[key], i)
	}
	var wg sync.WaitGroup
	for key, list := range by {
		wg.Go(func() {
			ids := make([]string, len(list))
			for n, i := range list {
				ids[n] = instances.InstanceID(providerIDs[i])
			}
			var answers []error
			ok := true
			switch {
			case strings.HasPrefix(key, instances.PlaceholderPrefix):
				answers = make([]error, len(ids))
				answers[0] = p.groups.Cancel(ctx, ids[0])
			case key != "":
				answers, ok = p.groups.Terminate(ctx, key, ids)
			default:
				answers, ok = p.instances.Terminate(ctx, ids)
			}
			for n, i := range list {
				err := ctx.Err()
				if ok {
					err = answers[n]
				}
				errs[i] = awsapi.ClassifyError(ctx, "terminate", providerIDs[i], err)
			}
		})
	}
	wg.Wait()
	return errs
}

// Reboot implements cloud.Rebooter. EC2 has no idempotency token for reboots: a second call is a second reboot.
func (p *Provider) Reboot(ctx context.Context, providerID string) error {
	return awsapi.ClassifyError(ctx, "reboot", providerID, p.instances.Reboot(ctx, instances.InstanceID(providerID)))
}

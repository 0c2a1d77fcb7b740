// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package asg

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/catalogue"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instances"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/launch"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/offering"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/quota"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// New returns a Provider. It makes no requests. registry is the Registry whose groups instances lists, quotas are the
// quotas of the account.
func New(a *awsapi.Account, store *catalogue.Store, types *offering.TypeBuilder, instances *instances.Index, registry *Registry, quotas *quota.Tracker) *Provider {
	reader := newReader(a, instances, registry)
	return &Provider{
		aws: a, catalogue: store, types: types, instances: instances, registry: registry, reader: reader,
		scaler:    &scaler{aws: a, reader: reader, instances: instances, registry: registry, started: a.Clock.Now()},
		offerings: offering.NewCache(), launches: launch.NewRegistry[claimLaunch](a.Clock), quotas: quotas,
	}
}

// Offerings implements cloud.Provider.
func (p *Provider) Offerings(ctx context.Context, pool *model.NodePool, nc cloud.NodeClass) ([]*model.InstanceType, error) {
	const op = "offerings"
	c, err := readNodeClass(op, nc)
	if err != nil {
		return nil, err
	}
	o, _, err := p.offeringsOf(ctx, pool, c)
	if err != nil {
		return nil, awsapi.ClassifyError(ctx, op, c.name, err)
	}
	return o.Types, nil
}

// CleanUp removes temporary scale-in protection that was left behind, and desired capacity without a claim. It raises
// groups to the minimum size of their class, if set. Failures are logged, and retried at the next call.
func (p *Provider) CleanUp(ctx context.Context, list *instances.List) {
	p.scaler.removeStaleProtection(ctx, list)
	p.scaler.trimExcess(ctx)
	p.scaler.fillToMinimum(ctx)
}

// Adoptable describes a member without a NodeClaim: the class for which a NodeClaim may be created, the machine, and
// whether the group replaces its members, or may. Class is empty if no NodeClaim may be created now, for example because
// the member arrived too late and no class selects the group.
type Adoptable struct {
	Class     string
	Labels    model.Labels
	Replacing bool
	GivenUp   time.Time // when it was found that its claim had been given up before it arrived; zero: not so
}

// Adoptables returns the members without a NodeClaim in a list, by instance ID. It reads the membership and instance
// refreshes of all their groups in one batch.
func (p *Provider) Adoptables(ctx context.Context, list *instances.List) map[string]Adoptable {
	out, groupOf, of := map[string]Adoptable{}, map[string]string{}, map[string]groupMembers{}
	for i := range list.All {
		m := &list.All[i]
		if m.AutoScalingGroup == "" || m.ClaimUID != "" || m.Gone {
			continue
		}
		class, labels := p.scaler.adoptableAs(m)
		if late := p.scaler.lateSince(m); class != "" || !late.IsZero() {
			out[m.ID], groupOf[m.ID], of[m.AutoScalingGroup] = Adoptable{Class: class, Labels: labels, GivenUp: late}, m.AutoScalingGroup, groupMembers{}
		}
	}
	groups := slices.Sorted(maps.Keys(of))
	read := make([]groupMembers, len(groups))
	cloud.RunConcurrently(len(groups), func(i int) { read[i] = p.scaler.readMembers(ctx, groups[i]) })
	for i, g := range groups {
		of[g] = read[i]
	}
	for id, a := range out {
		if g := of[groupOf[id]]; g.ids[id] {
			a.Replacing = g.replacing
			out[id] = a
		} else {
			delete(out, id)
		}
	}
	return out
}

// Placeholders returns the requested machines that do not exist yet.
func (p *Provider) Placeholders() []model.Instance { return p.scaler.placeholders() }

// Terminate terminates members of a group. Concurrent calls share one read of the group. Errors are in the order of the
// IDs; false: the context ended first.
func (p *Provider) Terminate(ctx context.Context, group string, ids []string) ([]error, bool) {
	return p.scaler.stateOf(group).terminations.Ask(ctx, ids)
}

// Cancel cancels the launch of a claim's machine.
func (p *Provider) Cancel(ctx context.Context, claimUID string) error {
	return p.scaler.cancelClaim(ctx, claimUID)
}

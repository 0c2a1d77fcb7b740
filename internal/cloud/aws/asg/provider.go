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

// New makes a Provider. It calls nothing. registry is the one whose groups instances lists, quotas are those of
// the account.
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

// CleanUp takes back what was to be for a moment, or was left behind: protection from scale-in, and capacity that
// groups want and nobody asks for. It fills groups up to the minimum of their class, where that says so. What fails is logged, and tried again the next time.
func (p *Provider) CleanUp(ctx context.Context, list *instances.List) {
	p.scaler.removeStaleProtection(ctx, list)
	p.scaler.trimExcess(ctx)
	p.scaler.fillToMinimum(ctx)
}

// Adoptable says of a member that is nobody's for which class a claim may be made, what the machine is, and whether the
// members of its group are being replaced, or may be. Class is empty where no claim is to be made now, as for one that came too late and that no class
// selects.
type Adoptable struct {
	Class     string
	Labels    model.Labels
	Replacing bool
	GivenUp   time.Time // when it was seen that it had come for a claim that was given up before; zero: it has not
}

// Adoptables says so of the members of a list that are nobody's, by instance id. Of all their groups at once it is asked
// which instances are members, and whether members are being replaced.
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

// Placeholders are the machines that groups were asked for and that have not come.
func (p *Provider) Placeholders() []model.Instance { return p.scaler.placeholders() }

// Terminate ends members of a group. What several callers ask for at once is one look at the group. Errors are in the
// order of the ids; false: the context ended first.
func (p *Provider) Terminate(ctx context.Context, group string, ids []string) ([]error, bool) {
	return p.scaler.stateOf(group).terminations.Ask(ctx, ids)
}

// Cancel gives up the machine that a claim has asked a group for.
func (p *Provider) Cancel(ctx context.Context, claimUID string) error {
	return p.scaler.cancelClaim(ctx, claimUID)
}

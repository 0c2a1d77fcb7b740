// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"context"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// groupProvider has Auto Scaling groups launch machines, for node classes of kind NodeGroupClass.
type groupProvider struct {
	aws       *account
	catalogue *catalogueStore
	types     *typeBuilder
	instances *instanceIndex
	registry  *groupRegistry
	reader    *groupReader
	scaler    *groupScaler
	offerings *offeringCache // by class and the taints of the pool
	launches  *launchRegistry[groupLaunch]
}

func newGroupProvider(a *account, store *catalogueStore, types *typeBuilder, instances *instanceIndex, registry *groupRegistry) *groupProvider {
	reader := newGroupReader(a)
	return &groupProvider{
		aws: a, catalogue: store, types: types, instances: instances, registry: registry, reader: reader,
		scaler:    &groupScaler{aws: a, reader: reader, instances: instances, registry: registry, started: a.clock.Now()},
		offerings: newOfferingCache(), launches: newLaunchRegistry[groupLaunch](a.clock),
	}
}

// Offerings implements cloud.Provider.
func (p *groupProvider) Offerings(ctx context.Context, pool *model.NodePool, nc cloud.NodeClass) ([]*model.InstanceType, error) {
	const op = "offerings"
	c, err := readNodeGroupClass(op, nc)
	if err != nil {
		return nil, err
	}
	o, _, err := p.offeringsOf(ctx, pool, c)
	if err != nil {
		return nil, classifyError(ctx, op, c.name, err)
	}
	return o.types, nil
}

// CleanUp takes back what was to be for a moment, or was left behind: protection from scale-in, and capacity that groups want and nobody asks
// for. What fails is logged, and tried again the next time.
func (p *groupProvider) CleanUp(ctx context.Context, list *instanceList) {
	p.scaler.removeStaleProtection(ctx, list)
	p.scaler.trimExcess(ctx)
}

// AdoptableAs says for which class a claim may be made for a member that is nobody's, and what the machine is; empty: not now.
func (p *groupProvider) AdoptableAs(m *instance) (class string, labels model.Labels) {
	return p.scaler.adoptableAs(m)
}

// Placeholders are the machines that groups were asked for and that have not come.
func (p *groupProvider) Placeholders() []model.Instance { return p.scaler.placeholders() }

// Terminate ends members of a group. What several callers ask for at once is one look at the group. Errors are in the order of the ids;
// false: the context ended first.
func (p *groupProvider) Terminate(ctx context.Context, group string, ids []string) ([]error, bool) {
	return p.scaler.stateOf(group).terminations.ask(ctx, ids)
}

// Cancel gives up the machine that a claim has asked a group for.
func (p *groupProvider) Cancel(ctx context.Context, claimUID string) error {
	return p.scaler.cancelClaim(ctx, claimUID)
}

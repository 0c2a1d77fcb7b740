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
	memory    *nodeMemory
	instances *instanceIndex
	registry  *groupRegistry
	reader    *groupReader
	scaler    *groupScaler
	offerings *offeringCache // by class and the taints of the pool
	launches  *launchRegistry[groupLaunch]
}

func newGroupProvider(a *account, store *catalogueStore, memory *nodeMemory, instances *instanceIndex, registry *groupRegistry) *groupProvider {
	reader := newGroupReader(a)
	return &groupProvider{
		aws: a, catalogue: store, memory: memory, instances: instances, registry: registry, reader: reader,
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

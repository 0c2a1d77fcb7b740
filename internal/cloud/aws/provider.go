// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"context"
	"log/slog"
	"sync"
	"time"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Provider implements cloud.Provider, and the optional interfaces beside it, for one cluster in one AWS account and region. It is a
// router: what is asked about a node class or a machine goes to the provider that buys such machines, fleet or groups.
type Provider struct {
	aws       *account
	catalogue *catalogueStore
	memory    *nodeMemory
	instances *instanceIndex
	fleet     *fleetProvider
	groups    *groupProvider
	queue     *interruptionQueue
}

// New makes a provider. Nothing is called before it is used; Run keeps what it knows fresh.
func New(c *Clients, config Config, resources Resources, clock cloud.Clock, log *slog.Logger) (*Provider, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	a := &account{Clients: c, config: config, resources: resources, clock: clock, log: log}
	store, err := newCatalogueStore(a)
	if err != nil {
		return nil, err
	}
	memory, registry := &nodeMemory{}, newGroupRegistry()
	types, index := &typeBuilder{aws: a, memory: memory}, newInstanceIndex(a, registry.groupNames)
	return &Provider{
		aws: a, catalogue: store, memory: memory, instances: index,
		fleet:  newFleetProvider(a, store, types, index),
		groups: newGroupProvider(a, store, types, index, registry),
		queue:  &interruptionQueue{aws: a, instances: index},
	}, nil
}

// classProvider buys machines for one kind of node class.
type classProvider interface {
	Offerings(ctx context.Context, pool *model.NodePool, class cloud.NodeClass) ([]*model.InstanceType, error)
	Launch(ctx context.Context, req cloud.LaunchRequest) cloud.LaunchResult
	ClassStatus(ctx context.Context, class cloud.NodeClass) (cloud.ClassStatus, error)
}

// providerFor is the provider of a node class. A class of no kind that is served goes to fleet, which refuses it.
func (p *Provider) providerFor(class cloud.NodeClass) classProvider {
	if isNodeGroupClass(class) {
		return p.groups
	}
	return p.fleet
}

// Traits implements cloud.Provider.
func (p *Provider) Traits() cloud.Traits {
	return cloud.Traits{Name: "aws", Classes: []cloud.ClassKind{
		{Group: awsv1.Group, Kind: awsv1.KindEC2NodeClass}, {Group: dovetailv1alpha1.Group, Kind: dovetailv1alpha1.KindNodeGroupClass},
	}, ListDelay: ListDelay}
}

// Offerings implements cloud.Provider.
func (p *Provider) Offerings(ctx context.Context, pool *model.NodePool, class cloud.NodeClass) ([]*model.InstanceType, error) {
	return p.providerFor(class).Offerings(ctx, pool, class)
}

// Launch implements cloud.Provider. The requests are served side by side, each by itself.
func (p *Provider) Launch(ctx context.Context, requests []cloud.LaunchRequest) []cloud.LaunchResult {
	results := make([]cloud.LaunchResult, len(requests))
	var wg sync.WaitGroup
	for i, r := range requests {
		wg.Go(func() {
			if ctx.Err() != nil {
				results[i].Err = classifyError(ctx, "launch", r.ClaimName, ctx.Err())
			} else {
				results[i] = p.providerFor(r.Class).Launch(ctx, r)
			}
			results[i].ClaimUID = r.ClaimUID
		})
	}
	wg.Wait()
	return results
}

// ClassStatus implements cloud.ClassStatuser.
func (p *Provider) ClassStatus(ctx context.Context, class cloud.NodeClass) (cloud.ClassStatus, error) {
	return p.providerFor(class).ClassStatus(ctx, class)
}

// EndsClasses implements cloud.ClassEnder: an EC2NodeClass has an instance profile, if it has a role, and launch templates.
func (p *Provider) EndsClasses(group, kind string) bool { return p.fleet.EndsClasses(group, kind) }

// EndClass implements cloud.ClassEnder.
func (p *Provider) EndClass(ctx context.Context, class cloud.NodeClass) error {
	return p.fleet.EndClass(ctx, class)
}

// Drifted implements cloud.Drifter. Members of groups do not drift: a group's own instance refresh replaces them.
func (p *Provider) Drifted(ctx context.Context, queries []cloud.DriftQuery) ([]string, error) {
	return p.fleet.Drifted(ctx, queries)
}

// Interruptions implements cloud.Interrupter.
func (p *Provider) Interruptions(ctx context.Context, handle func(context.Context, cloud.Interruption) error) error {
	return p.queue.watch(ctx, handle)
}

// KeepNodeMemory says where what is learned of nodes' memory outlives the process. It comes before the provider is used.
func (p *Provider) KeepNodeMemory(store MemoryStore) { p.memory.store = store }

// Learn implements cloud.Learner.
func (p *Provider) Learn(ctx context.Context, instanceType, image string, bytes int64) error {
	return p.memory.learn(ctx, instanceType, image, bytes)
}

// RepairPolicies implements cloud.Repairer: what EKS's node monitoring agent reports, and for how long it is waited.
func (p *Provider) RepairPolicies() []cloud.RepairPolicy {
	return []cloud.RepairPolicy{
		{Condition: "Ready", Status: "False", After: 30 * time.Minute},
		{Condition: "Ready", Status: "Unknown", After: 30 * time.Minute},
		{Condition: "AcceleratedHardwareReady", Status: "False", After: 10 * time.Minute},
		{Condition: "StorageReady", Status: "False", After: 30 * time.Minute},
		{Condition: "NetworkingReady", Status: "False", After: 30 * time.Minute},
		{Condition: "KernelReady", Status: "False", After: 30 * time.Minute},
		{Condition: "ContainerRuntimeReady", Status: "False", After: 30 * time.Minute},
	}
}

// Run keeps instance types and prices fresh, and deletes launch templates that are not used any more, until the context ends.
func (p *Provider) Run(ctx context.Context) {
	swept := p.aws.clock.Now()
	for ctx.Err() == nil {
		next := p.catalogue.nextRefresh()
		wait := time.Minute
		if !next.IsZero() {
			wait = min(max(next.Sub(p.aws.clock.Now()), time.Second), 10*time.Minute)
		}
		if p.aws.clock.Wait(ctx, wait) != nil {
			return
		}
		if _, err := p.catalogue.load(ctx, true); err != nil && ctx.Err() == nil {
			p.aws.log.Warn("instance types and prices not refreshed, those known stay in use", "error", err)
		}
		if now := p.aws.clock.Now(); now.Sub(swept) >= time.Hour {
			swept = now
			if err := p.fleet.DeleteUnusedTemplates(ctx); err != nil && ctx.Err() == nil {
				p.aws.log.Warn("unused launch templates not deleted, trying again in an hour", "error", err)
			}
		}
	}
}

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
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/asg"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/catalogue"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/fleet"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instances"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/interruption"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/offering"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/quota"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/zonalshift"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Provider implements cloud.Provider and the optional interfaces for one cluster in one AWS account and region. It
// routes requests about a node class or a machine to the provider that launches such machines: fleet or groups.
type Provider struct {
	aws       *awsapi.Account
	catalogue *catalogue.Store
	memory    *catalogue.NodeMemory
	instances *instances.Index
	fleet     *fleet.Provider
	groups    *asg.Provider
	queue     *interruption.Queue
	checks    *interruption.StatusChecks
	quotas    *quota.Tracker
	shifts    *zonalshift.Watcher
}

// New returns a provider. It makes no requests. Run keeps its caches up to date.
func New(c *awsapi.Clients, config awsapi.Config, resources awsapi.Resources, clock cloud.Clock, log *slog.Logger) (*Provider, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	a := &awsapi.Account{Clients: c, Config: config, Resources: resources, Clock: clock, Log: log}
	store, err := catalogue.NewStore(a)
	if err != nil {
		return nil, err
	}
	memory, registry, quotas, shifts := &catalogue.NodeMemory{}, asg.NewRegistry(), quota.NewTracker(clock), zonalshift.NewWatcher(a)
	types, index := offering.NewTypeBuilder(a, memory), instances.NewIndex(a, registry.GroupNames, shifts.IsShifted)
	groups := asg.New(a, store, types, index, registry, quotas)
	return &Provider{
		aws: a, catalogue: store, memory: memory, instances: index,
		fleet:  fleet.New(a, store, types, index, quotas),
		groups: groups,
		queue:  interruption.NewQueue(a, index, groups.NoteStarted),
		checks: interruption.NewStatusChecks(a, index),
		quotas: quotas, shifts: shifts,
	}, nil
}

// classProvider launches machines for one kind of node class.
type classProvider interface {
	Offerings(ctx context.Context, pool *model.NodePool, class cloud.NodeClass) ([]*model.InstanceType, error)
	Launch(ctx context.Context, req cloud.LaunchRequest) cloud.LaunchResult
	ClassStatus(ctx context.Context, class cloud.NodeClass) (cloud.ClassStatus, error)
}

// providerFor returns the provider of a node class. Unsupported kinds are passed to fleet, which rejects them.
func (p *Provider) providerFor(class cloud.NodeClass) classProvider {
	if asg.Serves(class) {
		return p.groups
	}
	return p.fleet
}

// Traits implements cloud.Provider.
func (p *Provider) Traits() cloud.Traits {
	return cloud.Traits{Name: "aws", Classes: []cloud.ClassKind{
		{Group: awsv1.Group, Kind: awsv1.KindEC2NodeClass}, {Group: dovetailv1alpha1.Group, Kind: dovetailv1alpha1.KindNodeGroupClass},
	}, ListDelay: instances.ListDelay, NodeLabels: []string{
		awsv1.LabelCapacityReservationID, awsv1.LabelCapacityReservationType, awsv1.LabelCapacityReservationInterruptible, awsv1.LabelInstanceHypervisor,
		awsv1.LabelInstanceEncryptionInTransitSupported, awsv1.LabelInstanceCategory, awsv1.LabelInstanceCapabilityFlex, awsv1.LabelInstanceFamily,
		awsv1.LabelInstanceGeneration, awsv1.LabelInstanceSize, awsv1.LabelInstanceLocalNVMe, awsv1.LabelInstanceCPU, awsv1.LabelInstanceCPUManufacturer,
		awsv1.LabelInstanceCPUSustainedClockSpeedMhz, awsv1.LabelInstanceMemory, awsv1.LabelInstanceEBSBandwidth, awsv1.LabelInstanceNetworkBandwidth,
		awsv1.LabelInstanceGPUName, awsv1.LabelInstanceGPUManufacturer, awsv1.LabelInstanceGPUCount, awsv1.LabelInstanceGPUMemory,
		awsv1.LabelInstanceAcceleratorName, awsv1.LabelInstanceAcceleratorManufacturer, awsv1.LabelInstanceAcceleratorCount, awsv1.LabelZoneID,
		awsv1.LabelInstanceTenancy, awsv1.LabelPlacementGroupID, awsv1.Group + "/placement-group-partition",
	}}
}

// Offerings implements cloud.Provider.
func (p *Provider) Offerings(ctx context.Context, pool *model.NodePool, class cloud.NodeClass) ([]*model.InstanceType, error) {
	if err := p.shifts.EnsureRead(ctx); err != nil {
		return nil, awsapi.ClassifyError(ctx, "offerings", class.Name, err)
	}
	return p.providerFor(class).Offerings(ctx, pool, class)
}

// ZonalShifts implements cloud.ZoneShifter.
func (p *Provider) ZonalShifts() (shifts []model.ZonalShift, read bool) {
	return p.shifts.Shifts(), p.shifts.IsKnown()
}

// WatchZonalShifts implements cloud.ZoneShifter.
func (p *Provider) WatchZonalShifts(ctx context.Context, changed func()) {
	p.shifts.Watch(ctx, changed)
}

// Launch implements cloud.Provider. The requests are processed concurrently and independently.
func (p *Provider) Launch(ctx context.Context, requests []cloud.LaunchRequest) []cloud.LaunchResult {
	results := make([]cloud.LaunchResult, len(requests))
	var wg sync.WaitGroup
	for i, r := range requests {
		wg.Go(func() {
			if ctx.Err() != nil {
				results[i].Err = awsapi.ClassifyError(ctx, "launch", r.ClaimName, ctx.Err())
			} else {
				results[i] = p.providerFor(r.Class).Launch(ctx, r)
			}
			results[i].ClaimUID = r.ClaimUID
		})
	}
	wg.Wait()
	return results
}

// ReachedQuota implements cloud.QuotaTeller.
func (p *Provider) ReachedQuota(t *model.InstanceType, capacityType string) string {
	const milli = 1000
	return p.quotas.Find(capacityType, t.Name, t.Capacity.At(model.CPU)/milli)
}

// ClassStatus implements cloud.ClassStatuser.
func (p *Provider) ClassStatus(ctx context.Context, class cloud.NodeClass) (cloud.ClassStatus, error) {
	return p.providerFor(class).ClassStatus(ctx, class)
}

// EndsClasses implements cloud.ClassEnder: an EC2NodeClass has launch templates and, if it has a role, an instance
// profile.
func (p *Provider) EndsClasses(group, kind string) bool { return p.fleet.EndsClasses(group, kind) }

// EndClass implements cloud.ClassEnder.
func (p *Provider) EndClass(ctx context.Context, class cloud.NodeClass) error {
	return p.fleet.EndClass(ctx, class)
}

// Drifted implements cloud.Drifter. Members of groups do not drift: a group's own instance refresh replaces them.
func (p *Provider) Drifted(ctx context.Context, queries []cloud.DriftQuery) ([]string, error) {
	return p.fleet.Drifted(ctx, queries)
}

// Interruptions implements cloud.Interrupter, from the queue and from EC2 status checks.
func (p *Provider) Interruptions(ctx context.Context, handle func(context.Context, cloud.Interruption) error) error {
	ctx, stop := context.WithCancel(ctx)
	var checks sync.WaitGroup
	checks.Go(func() { p.checks.Watch(ctx, handle) })
	defer checks.Wait()
	defer stop()
	return p.queue.Watch(ctx, handle)
}

// KeepNodeMemory sets the store for the observed memory of nodes. Call it before the provider is used.
func (p *Provider) KeepNodeMemory(store catalogue.MemoryStore) { p.memory.KeepIn(store) }

// Learn implements cloud.Learner.
func (p *Provider) Learn(ctx context.Context, instanceType, image string, bytes int64) error {
	return p.memory.Learn(ctx, instanceType, image, bytes)
}

// Run refreshes instance types and prices, deletes unused launch templates, and names instances after their nodes, until
// the context ends.
func (p *Provider) Run(ctx context.Context) {
	var names sync.WaitGroup
	if !cloud.LooksOnly(ctx) {
		names.Go(func() { p.instances.WatchNames(ctx) })
	}
	defer names.Wait()
	swept := p.aws.Clock.Now()
	for ctx.Err() == nil {
		next := p.catalogue.NextRefresh()
		wait := time.Minute
		if !next.IsZero() {
			wait = min(max(next.Sub(p.aws.Clock.Now()), time.Second), 10*time.Minute)
		}
		if p.aws.Clock.Wait(ctx, wait) != nil {
			return
		}
		if _, err := p.catalogue.Load(ctx, true); err != nil && ctx.Err() == nil {
			p.aws.Log.Warn("instance types and prices not refreshed; the last known stay in use", "error", err)
		}
		if now := p.aws.Clock.Now(); now.Sub(swept) >= time.Hour && !cloud.LooksOnly(ctx) {
			swept = now
			if err := p.fleet.DeleteUnusedTemplates(ctx); err != nil && ctx.Err() == nil {
				p.aws.Log.Warn("unused launch templates not deleted, trying again in an hour", "error", err)
			}
		}
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// reservedDiscount is how much cheaper than on-demand a reserved machine counts: it is paid for already, and not nothing.
const reservedDiscount = 10_000_000

// offeringCache remembers what was made of each class, so that the same comes out as long as nothing has changed.
type offeringCache struct {
	mu   sync.Mutex
	sets map[string]*offeringSet // by class name
}

type offeringSet struct {
	builtFrom string // all that it depends on
	types     []*model.InstanceType
	byName    map[string]*offeredType
}

// offeredType is a type as a class buys it.
type offeredType struct {
	*typeInfo
	image        *image
	instanceType *model.InstanceType
	maxPods      int64
}

func sortByKey[T any](list []T, key func(T) string) {
	slices.SortFunc(list, func(a, b T) int { return strings.Compare(key(a), key(b)) })
}

// Offerings implements cloud.Provider. Pools with the same class share one slice.
func (p *Provider) Offerings(ctx context.Context, pool *model.NodePool, nc cloud.NodeClass) ([]*model.InstanceType, error) {
	const op = "offerings"
	if isNodeGroupClass(nc) {
		c, err := readNodeGroupClass(op, nc)
		if err != nil {
			return nil, err
		}
		o, _, err := p.groupOfferings(ctx, pool, c)
		if err != nil {
			return nil, classifyError(ctx, op, c.name, err)
		}
		return o.types, nil
	}
	c, err := readNodeClass(op, nc)
	if err != nil {
		return nil, err
	}
	r, err := p.resolveClass(ctx, c)
	if err != nil {
		return nil, classifyError(ctx, op, c.name, err)
	}
	if err := r.readyError(op); err != nil {
		return nil, err
	}
	o, err := p.fleetOfferings(ctx, r)
	if err != nil {
		return nil, classifyError(ctx, op, c.name, err)
	}
	return o.types, nil
}

// fleetOfferings makes the types of a class that is ready.
func (p *Provider) fleetOfferings(ctx context.Context, r *resolvedClass) (*offeringSet, error) {
	g, err := p.loadCatalogue(ctx, false)
	if err != nil {
		return nil, err
	}
	if err := p.nodeMemory.loadOnce(ctx); err != nil {
		p.log.Warn("what was learned of nodes' memory can't be read, estimates are used", "error", err)
	}
	var of strings.Builder
	fmt.Fprintf(&of, "%s %d %d %v", r.generationKey, g.version, p.nodeMemory.changeCount(), r.subnetZones())
	for _, im := range r.images {
		fmt.Fprintf(&of, " %s %s", im.id, im.requirements)
	}
	for _, res := range r.reservations {
		fmt.Fprintf(&of, " %s %d %s", res.ID, res.remaining(), res.State)
	}
	if r.placement != nil {
		fmt.Fprintf(&of, " %s", deref(r.placement.GroupId))
	}
	p.offeringCache.mu.Lock()
	have := p.offeringCache.sets[r.name]
	p.offeringCache.mu.Unlock()
	if have != nil && have.builtFrom == of.String() {
		return have, nil
	}
	out := &offeringSet{builtFrom: of.String(), byName: map[string]*offeredType{}}
	for _, t := range g.types {
		if o := p.buildFleetType(r, g, t); o != nil {
			out.types = append(out.types, o.instanceType)
			out.byName[t.name] = o
		}
	}
	p.offeringCache.mu.Lock()
	defer p.offeringCache.mu.Unlock()
	if now := p.offeringCache.sets[r.name]; now != nil && now.builtFrom == out.builtFrom {
		return now, nil
	}
	p.offeringCache.sets[r.name] = out
	return out, nil
}

func (r *reservation) remaining() int64 { return max(0, r.free-r.taken.Load()) }

// buildFleetType is a type as a class buys it; nil where no subnet, image or price is there for it.
func (p *Provider) buildFleetType(r *resolvedClass, g *catalogue, t *typeInfo) *offeredType {
	im := r.imageForType(t)
	if im == nil {
		return nil
	}
	if e := r.spec.EnclaveOptions; e != nil && e.Enabled && !t.enclaves {
		return nil
	}
	out := &offeredType{typeInfo: t, image: im, maxPods: r.kubeletConfig.maxPodsOn(t, r.family, int64(p.config.ReservedENIs))}
	it := &model.InstanceType{Name: t.name, Labels: maps.Clone(t.labels), Boots: im.id}
	it.Labels[model.LabelOS] = r.osLabel()
	it.Labels[awsv1.LabelInstanceTenancy] = "default" // hardware of one's own is not asked for
	memory, ok := p.nodeMemory.bytesOf(t.name, im.id)
	if !ok {
		memory = estimateMemory(t, p.config.VMMemoryOverhead)
	}
	it.Capacity = model.Resources{model.CPU: t.cpus * 1000, model.Memory: memory, model.EphemeralStorage: r.ephemeralStorage(t), model.Pods: out.maxPods}
	for _, name := range slices.Sorted(maps.Keys(t.extendedResources)) {
		it.Capacity = it.Capacity.With(p.resources.Dim(name), t.extendedResources[name])
	}
	it.Allocatable = it.Capacity.Sub(r.kubeletConfig.reservedResources(it.Capacity))
	for d, v := range it.Allocatable {
		it.Allocatable[d] = max(0, v)
	}
	if it.Allocatable.At(model.CPU) == 0 || it.Allocatable.At(model.Memory) == 0 || out.maxPods == 0 {
		return nil
	}
	zones := r.subnetZones()
	onDemand := g.onDemandMicro[t.name]
	for _, z := range g.zones[t.name] {
		if !slices.Contains(zones, z) {
			continue
		}
		labels := model.Labels{}
		if s := r.bestSubnet(z); s.zoneID != "" {
			labels[awsv1.LabelZoneID] = s.zoneID
		}
		if r.placement != nil {
			labels[awsv1.LabelPlacementGroupID] = deref(r.placement.GroupId)
		}
		if onDemand > 0 && t.onDemand {
			it.Offerings = append(it.Offerings, model.Offering{
				Zone: z, CapacityType: model.OnDemand, PriceMicro: onDemand, Available: true, Labels: labels, Remaining: -1, Modelled: !g.onDemandPublished,
			})
		}
		if res := r.bestReservation(t.name, z); res != nil {
			l := maps.Clone(labels)
			l[awsv1.LabelCapacityReservationID], l[awsv1.LabelCapacityReservationType] = res.ID, res.ReservationType
			l[awsv1.LabelCapacityReservationInterruptible] = strconv.FormatBool(res.Interruptible)
			it.Offerings = append(it.Offerings, model.Offering{
				Zone: z, CapacityType: model.Reserved, PriceMicro: max(1, onDemand/reservedDiscount), Available: res.remaining() > 0, Labels: l, Remaining: res.remaining(),
			})
		}
		if price := g.spotMicro[t.name+"/"+z]; price > 0 && t.spot {
			it.Offerings = append(it.Offerings, model.Offering{
				Zone: z, CapacityType: model.Spot, PriceMicro: price, Available: true, Labels: labels, Remaining: -1, Modelled: g.spotModelled,
			})
		}
	}
	if len(it.Offerings) == 0 {
		return nil
	}
	slices.SortFunc(it.Offerings, func(a, b model.Offering) int {
		return cmp.Or(strings.Compare(a.Zone, b.Zone), strings.Compare(a.CapacityType, b.CapacityType))
	})
	out.instanceType = it
	return out
}

// bestReservation is the reservation of a type and zone that has the most left; nil if there is none.
func (r *resolvedClass) bestReservation(instanceType, zone string) *reservation {
	var best *reservation
	for i := range r.reservations {
		res := &r.reservations[i]
		if res.InstanceType == instanceType && res.AvailabilityZone == zone && res.State == "active" && (best == nil || res.remaining() > best.remaining()) {
			best = res
		}
	}
	return best
}

// estimateMemory is what a node is expected to have of a machine's memory before one was seen: what the hypervisor and the kernel
// keep is nowhere published.
func estimateMemory(t *typeInfo, overhead float64) int64 {
	total := t.memoryMiB
	if t.arch == "arm64" {
		total -= 64 // contiguous memory that the kernel sets aside
	}
	total *= mib
	kept := int64(float64(total)*overhead+float64(mib)-1) / mib * mib
	return total - kept
}

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

// offers remembers what was made of each class, so that the same comes out as long as nothing has changed.
type offers struct {
	mu sync.Mutex
	m  map[string]*offer // by class name
}

type offer struct {
	of    string // all that it depends on
	types []*model.InstanceType
	by    map[string]*offered
}

// offered is a type as a class buys it.
type offered struct {
	*machineType
	image *image
	it    *model.InstanceType
	pods  int64
}

func sortBy[T any](list []T, key func(T) string) {
	slices.SortFunc(list, func(a, b T) int { return strings.Compare(key(a), key(b)) })
}

// Offerings implements cloud.Provider. Pools with the same class share one slice.
func (p *Provider) Offerings(ctx context.Context, pool *model.NodePool, nc cloud.NodeClass) ([]*model.InstanceType, error) {
	const op = "offerings"
	if ofGroups(nc) {
		c, err := readGroupClass(op, nc)
		if err != nil {
			return nil, err
		}
		o, _, err := p.groupOffers(ctx, pool, c)
		if err != nil {
			return nil, failed(ctx, op, c.name, err)
		}
		return o.types, nil
	}
	c, err := readClass(op, nc)
	if err != nil {
		return nil, err
	}
	r, err := p.resolve(ctx, c)
	if err != nil {
		return nil, failed(ctx, op, c.name, err)
	}
	if err := r.ready(op); err != nil {
		return nil, err
	}
	o, err := p.offer(ctx, r)
	if err != nil {
		return nil, failed(ctx, op, c.name, err)
	}
	return o.types, nil
}

// offer makes the types of a class that is ready.
func (p *Provider) offer(ctx context.Context, r *resolved) (*offer, error) {
	g, err := p.goods(ctx, false)
	if err != nil {
		return nil, err
	}
	if err := p.learned.load(ctx); err != nil {
		p.log.Warn("what was learned of nodes' memory can't be read, estimates are used", "error", err)
	}
	var of strings.Builder
	fmt.Fprintf(&of, "%s %d %d %v", r.id, g.version, p.learned.version(), r.zones())
	for _, im := range r.images {
		fmt.Fprintf(&of, " %s %s", im.id, im.wants)
	}
	for _, res := range r.reservations {
		fmt.Fprintf(&of, " %s %d %s", res.ID, res.left(), res.State)
	}
	if r.placement != nil {
		fmt.Fprintf(&of, " %s", deref(r.placement.GroupId))
	}
	p.offers.mu.Lock()
	have := p.offers.m[r.name]
	p.offers.mu.Unlock()
	if have != nil && have.of == of.String() {
		return have, nil
	}
	out := &offer{of: of.String(), by: map[string]*offered{}}
	for _, t := range g.types {
		if o := p.offerType(r, g, t); o != nil {
			out.types = append(out.types, o.it)
			out.by[t.name] = o
		}
	}
	p.offers.mu.Lock()
	defer p.offers.mu.Unlock()
	if now := p.offers.m[r.name]; now != nil && now.of == out.of {
		return now, nil
	}
	p.offers.m[r.name] = out
	return out, nil
}

func (r *reservation) left() int64 { return max(0, r.free-r.taken.Load()) }

// offerType is a type as a class buys it; nil where no subnet, image or price is there for it.
func (p *Provider) offerType(r *resolved, g *goods, t *machineType) *offered {
	im := r.imageFor(t)
	if im == nil {
		return nil
	}
	if e := r.spec.EnclaveOptions; e != nil && e.Enabled && !t.enclaves {
		return nil
	}
	out := &offered{machineType: t, image: im, pods: r.kubelet.pods(t, r.family, int64(p.config.ReservedENIs))}
	it := &model.InstanceType{Name: t.name, Labels: maps.Clone(t.labels), Boots: im.id}
	it.Labels[model.LabelOS] = r.os()
	it.Labels[awsv1.LabelInstanceTenancy] = "default" // hardware of one's own is not asked for
	memory, ok := p.learned.memory(t.name, im.id)
	if !ok {
		memory = guessMemory(t, p.config.VMMemoryOverhead)
	}
	it.Capacity = model.Resources{model.CPU: t.cpus * 1000, model.Memory: memory, model.EphemeralStorage: r.ephemeral(t), model.Pods: out.pods}
	for _, name := range slices.Sorted(maps.Keys(t.extended)) {
		it.Capacity = it.Capacity.With(p.resources.Dim(name), t.extended[name])
	}
	it.Allocatable = it.Capacity.Sub(r.kubelet.overhead(it.Capacity))
	for d, v := range it.Allocatable {
		it.Allocatable[d] = max(0, v)
	}
	if it.Allocatable.At(model.CPU) == 0 || it.Allocatable.At(model.Memory) == 0 || out.pods == 0 {
		return nil
	}
	zones := r.zones()
	onDemand := g.onDemand[t.name]
	for _, z := range g.zones[t.name] {
		if !slices.Contains(zones, z) {
			continue
		}
		labels := model.Labels{}
		if s := r.best(z); s.zoneID != "" {
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
		if res := r.reserved(t.name, z); res != nil {
			l := maps.Clone(labels)
			l[awsv1.LabelCapacityReservationID], l[awsv1.LabelCapacityReservationType] = res.ID, res.ReservationType
			l[awsv1.LabelCapacityReservationInterruptible] = strconv.FormatBool(res.Interruptible)
			it.Offerings = append(it.Offerings, model.Offering{
				Zone: z, CapacityType: model.Reserved, PriceMicro: max(1, onDemand/reservedDiscount), Available: res.left() > 0, Labels: l, Remaining: res.left(),
			})
		}
		if price := g.spot[t.name+"/"+z]; price > 0 && t.spot {
			it.Offerings = append(it.Offerings, model.Offering{
				Zone: z, CapacityType: model.Spot, PriceMicro: price, Available: true, Labels: labels, Remaining: -1, Modelled: g.spotMade,
			})
		}
	}
	if len(it.Offerings) == 0 {
		return nil
	}
	slices.SortFunc(it.Offerings, func(a, b model.Offering) int {
		return cmp.Or(strings.Compare(a.Zone, b.Zone), strings.Compare(a.CapacityType, b.CapacityType))
	})
	out.it = it
	return out
}

// reserved is the reservation of a type and zone that has the most left; nil if there is none.
func (r *resolved) reserved(instanceType, zone string) *reservation {
	var best *reservation
	for i := range r.reservations {
		res := &r.reservations[i]
		if res.InstanceType == instanceType && res.AvailabilityZone == zone && res.State == "active" && (best == nil || res.left() > best.left()) {
			best = res
		}
	}
	return best
}

// guessMemory is what a node is expected to have of a machine's memory before one was seen: what the hypervisor and the kernel
// keep is nowhere published.
func guessMemory(t *machineType, overhead float64) int64 {
	total := t.memoryMiB
	if t.arch == "arm64" {
		total -= 64 // contiguous memory that the kernel sets aside
	}
	total *= mib
	kept := int64(float64(total)*overhead+float64(mib)-1) / mib * mib
	return total - kept
}

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

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// reservedDiscount is how much cheaper than on-demand a reserved machine counts: it is paid for already, and not nothing.
const reservedDiscount = 10_000_000

// offeringsOf makes the types of a class that is ready.
func (p *fleetProvider) offeringsOf(ctx context.Context, r *resolvedClass) (*offeringSet, error) {
	g, err := p.catalogue.load(ctx, false)
	if err != nil {
		return nil, err
	}
	p.types.loadMemory(ctx)
	var of strings.Builder
	fmt.Fprintf(&of, "%s %d %d %v", r.generationKey, g.version, p.types.memory.changeCount(), r.subnetZones())
	for _, im := range r.images {
		fmt.Fprintf(&of, " %s %s", im.id, im.requirements)
	}
	for _, res := range r.reservations {
		fmt.Fprintf(&of, " %s %d %s", res.ID, res.remaining(), res.State)
	}
	if r.placement != nil {
		fmt.Fprintf(&of, " %s", deref(r.placement.GroupId))
	}
	if have := p.offerings.get(r.name, of.String()); have != nil {
		return have, nil
	}
	out := &offeringSet{builtFrom: of.String(), byName: map[string]*offeredType{}}
	for _, t := range g.types {
		if o := p.buildType(r, g, t); o != nil {
			out.types = append(out.types, o.instanceType)
			out.byName[t.name] = o
		}
	}
	return p.offerings.put(r.name, out), nil
}

// buildType is a type as a class buys it; nil where no subnet, image or price is there for it.
func (p *fleetProvider) buildType(r *resolvedClass, g *catalogue, t *typeInfo) *offeredType {
	im := r.imageForType(t)
	if im == nil {
		return nil
	}
	if e := r.spec.EnclaveOptions; e != nil && e.Enabled && !t.enclaves {
		return nil
	}
	out := p.types.build(t, nodeSpec{imageID: im.id, os: r.osLabel(), family: r.family, kubelet: r.kubeletConfig, storage: r.ephemeralStorage(t)})
	if out == nil {
		return nil
	}
	it := out.instanceType
	it.Labels[awsv1.LabelInstanceTenancy] = "default" // hardware of one's own is not asked for
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
	return out
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package fleet

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/catalogue"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/nodeclass"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/offering"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// reservedDiscount is how many times cheaper than on-demand a reserved machine counts: it is paid for already, and
// its price must not be zero.
const reservedDiscount = 10_000_000

// offeringsOf is what a class that is ready has to offer. As long as nothing has changed it is the same set.
func (p *Provider) offeringsOf(ctx context.Context, r *nodeclass.Resolved) (*offering.Set, error) {
	cat, err := p.catalogue.Load(ctx, false)
	if err != nil {
		return nil, err
	}
	p.types.LoadMemory(ctx)
	var builtFrom strings.Builder
	fmt.Fprintf(&builtFrom, "%s %d %d %v", r.GenerationKey, cat.Version, p.types.Version(), r.SubnetZones())
	for _, im := range r.Images {
		fmt.Fprintf(&builtFrom, " %s %s", im.ID, im.Requirements)
	}
	for _, res := range r.Reservations {
		fmt.Fprintf(&builtFrom, " %s %d %s", res.ID, res.Remaining(), res.State)
	}
	if r.Placement != nil {
		fmt.Fprintf(&builtFrom, " %s", awsapi.Deref(r.Placement.GroupId))
	}
	if have := p.offerings.Get(r.Name, builtFrom.String()); have != nil {
		return have, nil
	}
	out := &offering.Set{BuiltFrom: builtFrom.String(), ByName: map[string]*offering.Type{}}
	for _, t := range cat.Types {
		if o := p.buildType(r, cat, t); o != nil {
			out.Types = append(out.Types, o.InstanceType)
			out.ByName[t.Name] = o
		}
	}
	return p.offerings.Put(r.Name, out), nil
}

// buildType is an instance type as a class buys it, with its offerings by zone and capacity type; nil where no
// subnet, image or price is there for it.
func (p *Provider) buildType(r *nodeclass.Resolved, cat *catalogue.Catalogue, t *catalogue.TypeInfo) *offering.Type {
	im := r.ImageForType(t)
	if im == nil {
		return nil
	}
	if e := r.Spec.EnclaveOptions; e != nil && e.Enabled && !t.Enclaves {
		return nil
	}
	out := p.types.Build(t, offering.NodeSpec{ImageID: im.ID, OS: r.OSLabel(), Family: r.Family, Kubelet: r.KubeletConfig, Storage: r.EphemeralStorage(t)})
	if out == nil {
		return nil
	}
	it := out.InstanceType
	it.Labels[awsv1.LabelInstanceTenancy] = "default" // hardware of one's own is not asked for
	zones := r.SubnetZones()
	onDemand := cat.OnDemandMicro[t.Name]
	for _, z := range cat.Zones[t.Name] {
		if !slices.Contains(zones, z) {
			continue
		}
		labels := model.Labels{}
		if s := r.BestSubnet(z); s.ZoneID != "" {
			labels[awsv1.LabelZoneID] = s.ZoneID
		}
		if r.Placement != nil {
			labels[awsv1.LabelPlacementGroupID] = awsapi.Deref(r.Placement.GroupId)
		}
		if onDemand > 0 && t.OnDemand {
			it.Offerings = append(it.Offerings, model.Offering{
				Zone: z, CapacityType: model.OnDemand, PriceMicro: onDemand, Available: true, Labels: labels, Remaining: -1, Modelled: !cat.OnDemandPublished,
			})
		}
		if res := r.BestReservation(t.Name, z); res != nil {
			l := maps.Clone(labels)
			l[awsv1.LabelCapacityReservationID], l[awsv1.LabelCapacityReservationType] = res.ID, res.ReservationType
			l[awsv1.LabelCapacityReservationInterruptible] = strconv.FormatBool(res.Interruptible)
			it.Offerings = append(it.Offerings, model.Offering{
				Zone: z, CapacityType: model.Reserved, PriceMicro: max(1, onDemand/reservedDiscount), Available: res.Remaining() > 0, Labels: l, Remaining: res.Remaining(),
			})
		}
		if price := cat.SpotMicro[t.Name+"/"+z]; price > 0 && t.Spot {
			it.Offerings = append(it.Offerings, model.Offering{
				Zone: z, CapacityType: model.Spot, PriceMicro: price, Available: true, Labels: labels, Remaining: -1, Modelled: cat.SpotModelled,
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

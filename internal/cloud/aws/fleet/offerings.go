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

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

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

// Tenancies of machines: on hardware that others use too, or that one account has for itself.
const (
	tenancyDefault   = string(types.TenancyDefault)
	tenancyDedicated = string(types.TenancyDedicated)
)

// tenanciesAllowed are the tenancies that requirements allow, which offerings are then made for. Where nothing is said
// of tenancy it is the default alone: dedicated hardware is for those who ask for it.
func tenanciesAllowed(rs model.Requirements) []string {
	i := slices.IndexFunc(rs, func(r model.Requirement) bool { return r.Key == awsv1.LabelInstanceTenancy })
	if i < 0 {
		return []string{tenancyDefault}
	}
	var out []string
	for _, t := range []string{tenancyDefault, tenancyDedicated} {
		if rs[i].Matches(t, true) {
			out = append(out, t)
		}
	}
	return out
}

// offeringsOf is what a class that is ready has to offer in these tenancies. As long as nothing has changed it is the
// same set.
func (p *Provider) offeringsOf(ctx context.Context, r *nodeclass.Resolved, tenancies []string) (*offering.Set, error) {
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
		fmt.Fprintf(&builtFrom, " %s %d", awsapi.Deref(r.Placement.GroupId), awsapi.Deref(r.Placement.PartitionCount))
	}
	key := r.Name + " " + strings.Join(tenancies, " ")
	if have := p.offerings.Get(key, builtFrom.String()); have != nil {
		return have, nil
	}
	out := &offering.Set{BuiltFrom: builtFrom.String(), ByName: map[string]*offering.Type{}}
	for _, t := range cat.Types {
		if o := p.buildType(r, cat, t, tenancies); o != nil {
			out.Types = append(out.Types, o.InstanceType)
			out.ByName[t.Name] = o
		}
	}
	return p.offerings.Put(key, out), nil
}

// buildType is an instance type as a class buys it, with its offerings by zone and capacity type, one for each of the
// tenancies and for each partition of a placement group that has some; nil where no subnet, image or price is there
// for it.
func (p *Provider) buildType(r *nodeclass.Resolved, cat *catalogue.Catalogue, t *catalogue.TypeInfo, tenancies []string) *offering.Type {
	im := r.ImageForType(t)
	if im == nil {
		return nil
	}
	if e := r.Spec.EnclaveOptions; e != nil && e.Enabled && !t.Enclaves {
		return nil
	}
	spec := offering.NodeSpec{ImageID: im.ID, OS: r.OSLabel(), Family: r.Family, Kubelet: r.KubeletConfig, Storage: r.EphemeralStorage(t)}
	build := r.WindowsBuild()
	if build != "" && t.Addresses > 1 {
		spec.Resources = map[string]int64{catalogue.ResourcePrivateIPv4Address: t.Addresses - 1} // one is the node's own
	}
	out := p.types.Build(t, spec)
	if out == nil {
		return nil
	}
	it := out.InstanceType
	it.Labels[awsv1.LabelInstanceTenancy] = tenancyDefault
	if build != "" {
		it.Labels[labelWindowsBuild] = build
	}
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
	it.Offerings = withLabel(it.Offerings, awsv1.LabelPlacementGroupPartition, partitionsOf(r))
	if !slices.Equal(tenancies, []string{tenancyDefault}) {
		it.Offerings = withLabel(it.Offerings, awsv1.LabelInstanceTenancy, tenancies)
	}
	if len(it.Offerings) == 0 {
		return nil
	}
	slices.SortStableFunc(it.Offerings, func(a, b model.Offering) int {
		return cmp.Or(strings.Compare(a.Zone, b.Zone), strings.Compare(a.CapacityType, b.CapacityType))
	})
	return out
}

// labelWindowsBuild is the label by which Kubernetes tells the versions of Windows apart.
const labelWindowsBuild = "node.kubernetes.io/windows-build"

// partitionsOf are the numbers of the partitions of a class's placement group; none where it has no partitions.
func partitionsOf(r *nodeclass.Resolved) []string {
	if r.Placement == nil || r.Placement.Strategy != types.PlacementStrategyPartition {
		return nil
	}
	var out []string
	for n := range awsapi.Deref(r.Placement.PartitionCount) {
		out = append(out, strconv.Itoa(int(n)+1))
	}
	return out
}

// withLabel is each of the offerings once for each value of a label. Without values they stay as they are.
func withLabel(list []model.Offering, key string, values []string) []model.Offering {
	if len(values) == 0 {
		return list
	}
	var out []model.Offering
	for _, o := range list {
		for _, v := range values {
			of := o
			of.Labels = maps.Clone(o.Labels)
			of.Labels[key] = v
			out = append(out, of)
		}
	}
	return out
}

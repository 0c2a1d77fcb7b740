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
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/catalogue"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/launch"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/nodeclass"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/offering"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// reservedDiscount is how many times cheaper than on-demand a reserved machine counts: it is paid for already, and
// its price must not be zero.
const reservedDiscount = 10_000_000

// Tenancies of machines: shared or dedicated hardware.
const (
	tenancyDefault   = string(types.TenancyDefault)
	tenancyDedicated = string(types.TenancyDedicated)
)

// placementRules are the requirements on the placement of machines in EC2.
type placementRules struct {
	tenancy   string
	partition string // number of a partition of the class's placement group; empty: none is asked for
}

// placementRulesOf reads the requirements of a pool or of a claim. Of several tenancies that they allow the default is
// taken, of several partitions the first: a claim does not say which of them its pods want. Where nothing is said of
// tenancy it is the default, and of partitions EC2 chooses one.
func placementRulesOf(rs model.Requirements, r *nodeclass.Resolved) placementRules {
	out := placementRules{tenancy: tenancyDefault}
	for i := range rs {
		switch rs[i].Key {
		case awsv1.LabelInstanceTenancy:
			if !rs[i].Matches(tenancyDefault, true) && rs[i].Matches(tenancyDedicated, true) {
				out.tenancy = tenancyDedicated
			}
		case awsv1.LabelPlacementGroupPartition:
			if n := slices.IndexFunc(partitionsOf(r), func(p string) bool { return rs[i].Matches(p, true) }); n >= 0 {
				out.partition = partitionsOf(r)[n]
			}
		}
	}
	return out
}

// offeringsOf returns the offerings of a ready class with the placement rules of these requirements. While nothing
// changes, it returns the same set.
func (p *Provider) offeringsOf(ctx context.Context, r *nodeclass.Resolved, rs model.Requirements) (*offering.Set, error) {
	cat, err := p.catalogue.Load(ctx, false)
	if err != nil {
		return nil, err
	}
	p.types.LoadMemory(ctx)
	var builtFrom strings.Builder
	fmt.Fprintf(&builtFrom, "%s %d %d %d %v", r.GenerationKey, cat.Version, r.Kubelets.Version, p.types.Version(), r.SubnetZones())
	for _, im := range r.Images {
		fmt.Fprintf(&builtFrom, " %s %s", im.ID, im.Requirements)
	}
	for _, res := range r.Reservations {
		fmt.Fprintf(&builtFrom, " %s %d %s", res.ID, res.Remaining(), res.State)
	}
	if r.Placement != nil {
		fmt.Fprintf(&builtFrom, " %s %d", awsapi.Deref(r.Placement.GroupId), awsapi.Deref(r.Placement.PartitionCount))
	}
	rules := placementRulesOf(rs, r)
	key := r.Name + " " + rules.tenancy + " " + rules.partition
	if have := p.offerings.Get(key, builtFrom.String()); have != nil {
		return have, nil
	}
	out := &offering.Set{BuiltFrom: builtFrom.String(), ByName: map[string]*offering.Type{}}
	for _, t := range cat.Types {
		if o := p.buildType(r, cat, t, rules); o != nil {
			out.Types = append(out.Types, o.InstanceType)
			out.ByName[t.Name] = o
		}
	}
	return p.offerings.Put(key, out), nil
}

// buildType is an instance type as a class buys it under rules of placement, with its offerings by zone and capacity
// type; nil where no subnet, image or price is there for it, it does not support the class's settings, or its kubelet's configuration is not known yet.
func (p *Provider) buildType(r *nodeclass.Resolved, cat *catalogue.Catalogue, t *catalogue.TypeInfo, rules placementRules) *offering.Type {
	im := r.ImageForType(t)
	kubelet := r.KubeletOn(t.Name)
	if im == nil || kubelet == nil || !r.Supports(t) {
		return nil
	}
	spec := offering.NodeSpec{ImageID: im.ID, OS: r.OSLabel(), Family: r.Family, Kubelet: kubelet, Podless: r.PodlessENIs(p.aws.Config.ReservedENIs), Storage: r.EphemeralStorage(t), Volumes: r.BootVolumes()}
	build := r.WindowsBuild()
	spec.Resources = map[string]int64{}
	if build != "" && t.Addresses > 1 {
		spec.Resources[catalogue.ResourcePrivateIPv4Address] = t.Addresses - 1 // one is the node's own
	}
	if t.ExtendedResources[catalogue.ResourceEFA] > 0 && len(r.Spec.NetworkInterfaces) > 0 { // it has the interfaces that the class names, and no others
		spec.Resources[catalogue.ResourceEFA] = r.EFAInterfaces()
	}
	out := p.types.Build(t, spec)
	if out == nil {
		return nil
	}
	it := out.InstanceType
	it.Labels[awsv1.LabelInstanceTenancy] = rules.tenancy
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
		if rules.partition != "" {
			labels[awsv1.LabelPlacementGroupPartition] = rules.partition
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

// labelWindowsBuild is the label by which Kubernetes tells the versions of Windows apart.
const labelWindowsBuild = "node.kubernetes.io/windows-build"

// partitionsOf returns the partition numbers of a class's placement group; nil if it has no partitions.
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

// claimLaunch is the state of a claim's launch with CreateFleet.
type claimLaunch struct {
	launch.Claim
	attempt           int       // tokens before this one are used up
	failedAttempts    int       // of these bought nothing, but for those that were throttled
	pending           *request  // sent, and not answered
	templateRecreated bool      // a missing launch template was made again
	tokenReusedSince  time.Time // when a token was first found used by other parameters; zero: never
}

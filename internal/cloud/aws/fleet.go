// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Limits of CreateFleet, and how many types a request names at most: more make no fleet more flexible.
const (
	maxConfigs   = 50
	maxOverrides = 300
	maxTypes     = 60
)

// candidate is an offering that a request allows.
type candidate struct {
	*offered
	o *model.Offering
}

func (c candidate) key() cloud.OfferingKey {
	return cloud.OfferingKey{InstanceType: c.name, Zone: c.o.Zone, CapacityType: c.o.CapacityType}
}

// label is a label that a node of an offering will have from it.
func (c candidate) label(key string) (string, bool) {
	switch key {
	case model.LabelZone:
		return c.o.Zone, true
	case model.LabelCapacityType:
		return c.o.CapacityType, true
	}
	if v, ok := c.o.Labels[key]; ok {
		return v, true
	}
	v, ok := c.it.Labels[key]
	return v, ok
}

// known are labels that offerings have or may have; a requirement on any other is about the node, and left to its labels.
func known(key string) bool {
	switch key {
	case model.LabelZone, model.LabelCapacityType, model.LabelInstanceType, model.LabelArch, model.LabelOS, model.LabelRegion, awsv1.LabelZoneID:
		return true
	}
	return strings.HasPrefix(key, awsv1.Group+"/") && key != awsv1.LabelNodeClass
}

// candidates are the offerings that a request allows, cheapest first; equal prices by type, zone, capacity type.
func (o *offer) candidates(r cloud.LaunchRequest) []candidate {
	allowed := func(list []string, v string) bool { return len(list) == 0 || slices.Contains(list, v) }
	var out []candidate
	for _, it := range o.types {
		if !allowed(r.Types, it.Name) || !r.Requests.Fits(it.Allocatable) {
			continue
		}
		for i := range it.Offerings {
			c := candidate{o.by[it.Name], &it.Offerings[i]}
			if !allowed(r.Zones, c.o.Zone) || !allowed(r.CapacityTypes, c.o.CapacityType) {
				continue
			}
			if slices.ContainsFunc(r.Requirements, func(q model.Requirement) bool {
				v, ok := c.label(q.Key)
				return known(q.Key) && !q.Matches(v, ok)
			}) {
				continue
			}
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b candidate) int {
		x, y := a.key(), b.key()
		return cmp.Or(cmp.Compare(a.o.PriceMicro, b.o.PriceMicro), strings.Compare(x.InstanceType, y.InstanceType),
			strings.Compare(x.Zone, y.Zone), strings.Compare(x.CapacityType, y.CapacityType))
	})
	return out
}

// steps are the capacity types to try one after the other, each with its offerings: the one with the cheapest offering first. Spot
// that costs more than on-demand is no bargain and stays out.
func steps(all []candidate) [][]candidate {
	var order []string
	by := map[string][]candidate{}
	cheapestOnDemand := int64(0)
	for _, c := range all {
		if c.o.CapacityType == model.OnDemand && cheapestOnDemand == 0 {
			cheapestOnDemand = c.o.PriceMicro
		}
	}
	for _, c := range all {
		if !c.o.Available || c.o.CapacityType == model.Spot && cheapestOnDemand > 0 && c.o.PriceMicro > cheapestOnDemand {
			continue
		}
		k := c.o.CapacityType
		if by[k] == nil {
			order = append(order, k)
		}
		by[k] = append(by[k], c)
	}
	var out [][]candidate
	for _, k := range order {
		out = append(out, by[k])
	}
	return out
}

// purchase is a CreateFleet request and what it needs and takes.
type purchase struct {
	input     *ec2.CreateFleetInput
	templates []*template
	offers    map[cloud.OfferingKey]candidate
	subnets   map[string]*subnet // by zone
}

// purchase writes the request for one claim in one capacity type. Equal arguments give equal requests.
func (p *Provider) purchase(r *resolved, req cloud.LaunchRequest, list []candidate, token string) (*purchase, error) {
	capacityType := list[0].o.CapacityType
	out := &purchase{offers: map[cloud.OfferingKey]candidate{}, subnets: map[string]*subnet{}}
	configs := map[string]*types.FleetLaunchTemplateConfigRequest{}
	var order []string
	named := map[string]bool{}
	efaDim := p.resources.Dim(resourceEFA)
	overrides, block := 0, false
	for _, c := range list {
		if overrides == maxOverrides || len(named) == maxTypes && !named[c.name] {
			continue
		}
		if out.subnets[c.o.Zone] == nil {
			out.subnets[c.o.Zone] = r.best(c.o.Zone)
		}
		s := out.subnets[c.o.Zone]
		if s == nil {
			continue // the class has no subnet there any more
		}
		if overrides > 0 && capacityType == model.Reserved && block != (c.o.Labels[awsv1.LabelCapacityReservationType] == "capacity-block") {
			continue // a request is for the one or the other
		}
		v := variation{image: c.image.id, pods: c.pods, spot: capacityType == model.Spot}
		if req.Requests.At(efaDim) > 0 {
			v.efa = c.extended[resourceEFA]
		}
		if capacityType == model.Reserved {
			v.reservation = c.o.Labels[awsv1.LabelCapacityReservationID]
			v.block = c.o.Labels[awsv1.LabelCapacityReservationType] == "capacity-block"
			block = block || v.block
		}
		t, err := p.template(r, req.Pool, join(req, c.pods), v)
		if err != nil {
			return nil, err
		}
		config := configs[t.name]
		if config == nil {
			if len(order) == maxConfigs {
				continue
			}
			config = &types.FleetLaunchTemplateConfigRequest{LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{
				LaunchTemplateName: &t.name, Version: sdk.String("$Latest"),
			}}
			configs[t.name] = config
			order = append(order, t.name)
			out.templates = append(out.templates, t)
		}
		// The zone follows from the subnet; it is named so that the answer names it, too.
		config.Overrides = append(config.Overrides, types.FleetLaunchTemplateOverridesRequest{
			InstanceType: types.InstanceType(c.name), SubnetId: sdk.String(s.id), AvailabilityZone: sdk.String(s.zone), ImageId: sdk.String(v.image),
		})
		overrides++
		named[c.name] = true
		out.offers[c.key()] = c
	}
	if overrides == 0 {
		return nil, fmt.Errorf("no offering of capacity type %s is left", capacityType)
	}
	tags := p.tags(r, req.Pool)
	mine := append(slices.Clone(tags), types.Tag{Key: sdk.String(awsv1.TagNodeClaim), Value: &req.ClaimName}, types.Tag{Key: sdk.String(awsv1.TagClaimUID), Value: &req.ClaimUID})
	sortBy(mine, func(t types.Tag) string { return *t.Key })
	in := &ec2.CreateFleetInput{
		Type: types.FleetTypeInstant, ClientToken: &token, Context: r.spec.Context,
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{
			TotalTargetCapacity: sdk.Int32(1), DefaultTargetCapacityType: types.DefaultTargetCapacityTypeOnDemand,
		},
		TagSpecifications: []types.TagSpecification{
			{ResourceType: types.ResourceTypeFleet, Tags: tags}, {ResourceType: types.ResourceTypeInstance, Tags: mine}, {ResourceType: types.ResourceTypeVolume, Tags: mine},
		},
	}
	switch capacityType {
	case model.Spot:
		in.TargetCapacitySpecification.DefaultTargetCapacityType = types.DefaultTargetCapacityTypeSpot
		in.SpotOptions = &types.SpotOptionsRequest{AllocationStrategy: types.SpotAllocationStrategyPriceCapacityOptimized}
	case model.Reserved:
		if block {
			in.TargetCapacitySpecification.DefaultTargetCapacityType = types.DefaultTargetCapacityTypeCapacityBlock
			break
		}
		in.OnDemandOptions = &types.OnDemandOptionsRequest{AllocationStrategy: types.FleetOnDemandAllocationStrategyLowestPrice,
			CapacityReservationOptions: &types.CapacityReservationOptionsRequest{UsageStrategy: types.FleetCapacityReservationUsageStrategyUseCapacityReservationsFirst}}
	default:
		in.OnDemandOptions = &types.OnDemandOptionsRequest{AllocationStrategy: types.FleetOnDemandAllocationStrategyLowestPrice}
	}
	for _, name := range order {
		in.LaunchTemplateConfigs = append(in.LaunchTemplateConfigs, *configs[name])
	}
	out.input = in
	return out, nil
}

// take counts what the purchase takes, so that the next one looks elsewhere.
func (p *purchase) take(c candidate, r *resolved) {
	if s := p.subnets[c.o.Zone]; s != nil {
		s.taken.Add(1 + c.pods)
	}
	if id := c.o.Labels[awsv1.LabelCapacityReservationID]; id != "" && c.o.CapacityType == model.Reserved {
		for i := range r.reservations {
			if r.reservations[i].ID == id {
				r.reservations[i].taken.Add(1)
			}
		}
	}
}

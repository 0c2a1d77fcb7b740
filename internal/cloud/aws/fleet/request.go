// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package fleet

import (
	"fmt"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/catalogue"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instances"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/launch"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/nodeclass"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/offering"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/quota"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Limits of CreateFleet, and the maximum number of types per request; more types do not make a fleet more flexible.
const (
	maxTemplateConfigs = 50
	maxOverrides       = 300
	maxTypes           = 60
)

// splitByCapacityType are the available options by capacity type, in the order in which to try them: the capacity
// type of the cheapest option first. Spot that costs more than the cheapest on-demand option is left out. The order
// within each is that of the argument.
func splitByCapacityType(all []offering.Option) [][]offering.Option {
	var order []string
	by := map[string][]offering.Option{}
	cheapestOnDemand := int64(0)
	for _, c := range all {
		if c.Offering.CapacityType == model.OnDemand && cheapestOnDemand == 0 {
			cheapestOnDemand = c.PriceMicro
		}
	}
	for _, c := range all {
		if !c.Offering.Available || c.Offering.CapacityType == model.Spot && cheapestOnDemand > 0 && c.PriceMicro > cheapestOnDemand {
			continue
		}
		k := c.Offering.CapacityType
		if by[k] == nil {
			order = append(order, k)
		}
		by[k] = append(by[k], c)
	}
	var out [][]offering.Option
	for _, k := range order {
		out = append(out, by[k])
	}
	return out
}

// withoutBareMetal are the options of one capacity type but for bare metal, which takes ten minutes and more to boot. All of them where there are no others,
// where a requirement has minValues, and of reserved capacity, which is paid for anyway.
func withoutBareMetal(list []offering.Option, requirements model.Requirements) []offering.Option {
	if list[0].Offering.CapacityType == model.Reserved || slices.ContainsFunc(requirements, func(q model.Requirement) bool { return q.MinValues > 0 }) {
		return list
	}
	isMetal := func(c offering.Option) bool { return strings.Contains(c.Name, ".metal") }
	if rest := slices.DeleteFunc(slices.Clone(list), isMetal); len(rest) > 0 {
		return rest
	}
	return list
}

// request is a CreateFleet request, with the resources that it needs and uses.
type request struct {
	input     *ec2.CreateFleetInput
	templates []*launchTemplate
	options   map[cloud.OfferingKey]offering.Option
	subnets   map[string]*nodeclass.Subnet // by zone
}

// buildRequest writes the request for one machine, among options of one capacity type, cheapest first. Equal
// arguments give equal requests. An error: none of the options can be asked for any more, or a launch template can't
// be written.
func (p *Provider) buildRequest(r *nodeclass.Resolved, req cloud.LaunchRequest, list []offering.Option, token string) (*request, error) {
	capacityType := list[0].Offering.CapacityType
	out := &request{options: map[cloud.OfferingKey]offering.Option{}, subnets: map[string]*nodeclass.Subnet{}}
	configs := map[string]*types.FleetLaunchTemplateConfigRequest{}
	var order []string
	named := map[string]bool{}
	efaDim := p.aws.Resources.Dim(catalogue.ResourceEFA)
	overrides, kind := 0, noReservation
	// EC2 knows nothing of prices that NodeOverlays set: it is told an order instead, the lowest number first.
	var priority float64
	var before cloud.OfferingKey
	for _, c := range list {
		if overrides == maxOverrides || len(named) == maxTypes && !named[c.Name] {
			continue
		}
		if out.subnets[c.Offering.Zone] == nil {
			out.subnets[c.Offering.Zone] = r.BestSubnet(c.Offering.Zone)
		}
		s := out.subnets[c.Offering.Zone]
		if s == nil {
			continue // the class has no subnet there any more
		}
		v := templateVariant{imageID: c.ImageID, openReservations: p.aws.Config.NoReservedCapacity, spot: capacityType == model.Spot, kind: reservationKindOf(capacityType, c.Offering.Labels),
			tenancy: c.InstanceType.Labels[awsv1.LabelInstanceTenancy], partition: c.Offering.Labels[awsv1.LabelPlacementGroupPartition]}
		if overrides > 0 && v.kind != kind {
			continue // a request is for one kind of reservation
		}
		kind = v.kind
		if req.Requests.At(efaDim) > 0 {
			v.efaInterfaces = c.ExtendedResources[catalogue.ResourceEFA]
		}
		if capacityType == model.Reserved {
			v.reservationID = c.Offering.Labels[awsv1.LabelCapacityReservationID]
		}
		t, err := buildTemplate(p.aws.Config.ClusterName, r, req.Pool, nodeclass.RegistrationOf(req, c.Kubelet, c.MaxPods), v)
		if err != nil {
			return nil, err
		}
		config := configs[t.name]
		if config == nil {
			if len(order) == maxTemplateConfigs {
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
		override := types.FleetLaunchTemplateOverridesRequest{
			InstanceType: types.InstanceType(c.Name), SubnetId: sdk.String(s.ID), AvailabilityZone: sdk.String(s.Zone), ImageId: sdk.String(v.imageID),
		}
		if len(req.Prices) > 0 && capacityType != model.Reserved {
			if last := out.options[before]; overrides > 0 && c.PriceMicro > last.PriceMicro {
				priority++
			}
			before, override.Priority = c.Key(), sdk.Float64(priority)
		}
		config.Overrides = append(config.Overrides, override)
		overrides++
		named[c.Name] = true
		out.options[c.Key()] = c
	}
	if overrides == 0 {
		return nil, fmt.Errorf("no offering of capacity type %s is left", capacityType)
	}
	out.input = newFleetInput(r, p.aws.Config.ClusterName, req, capacityType, kind, token)
	for _, name := range order {
		out.input.LaunchTemplateConfigs = append(out.input.LaunchTemplateConfigs, *configs[name])
	}
	return out, nil
}

// Kinds of reservation. noReservation is the zero value.
const (
	noReservation reservationKind = iota
	plainReservation
	interruptibleReservation // whose owner may take it back
	capacityBlock
)

// reservationKindOf is the kind of reservation that an offering of a capacity type draws on, by its labels.
func reservationKindOf(capacityType string, labels model.Labels) reservationKind {
	switch {
	case capacityType != model.Reserved:
		return noReservation
	case labels[awsv1.LabelCapacityReservationType] == "capacity-block":
		return capacityBlock
	case labels[awsv1.LabelCapacityReservationInterruptible] == "true":
		return interruptibleReservation
	}
	return plainReservation
}

// newFleetInput returns a CreateFleet request for one machine of a capacity type, without launch templates. kind is the
// kind of the reservation used.
func newFleetInput(r *nodeclass.Resolved, cluster string, req cloud.LaunchRequest, capacityType string, kind reservationKind, token string) *ec2.CreateFleetInput {
	tags := r.ResourceTags(cluster, req.Pool)
	mine := append(slices.Clone(tags), types.Tag{Key: sdk.String(awsv1.TagNodeClaim), Value: &req.ClaimName}, types.Tag{Key: sdk.String(awsv1.TagClaimUID), Value: &req.ClaimUID})
	awsapi.SortByKey(mine, func(t types.Tag) string { return *t.Key })
	in := &ec2.CreateFleetInput{
		Type: types.FleetTypeInstant, ClientToken: &token, Context: r.Spec.Context,
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
		if len(req.Prices) > 0 {
			in.SpotOptions.AllocationStrategy = types.SpotAllocationStrategyCapacityOptimizedPrioritized
		}
	case model.Reserved:
		switch kind {
		case capacityBlock:
			in.TargetCapacitySpecification.DefaultTargetCapacityType = types.DefaultTargetCapacityTypeCapacityBlock
		case interruptibleReservation:
			in.TargetCapacitySpecification.DefaultTargetCapacityType = types.DefaultTargetCapacityTypeReservedCapacity
			in.ReservedCapacityOptions = &types.ReservedCapacityOptionsRequest{
				ReservationTypes: []types.FleetReservationType{types.FleetReservationTypeInterruptibleCapacityReservation},
			}
		default:
			in.OnDemandOptions = &types.OnDemandOptionsRequest{AllocationStrategy: types.FleetOnDemandAllocationStrategyLowestPrice,
				CapacityReservationOptions: &types.CapacityReservationOptionsRequest{UsageStrategy: types.FleetCapacityReservationUsageStrategyUseCapacityReservationsFirst}}
		}
	default:
		in.OnDemandOptions = &types.OnDemandOptionsRequest{AllocationStrategy: types.FleetOnDemandAllocationStrategyLowestPrice}
		if len(req.Prices) > 0 {
			in.OnDemandOptions.AllocationStrategy = types.FleetOnDemandAllocationStrategyPrioritized
		}
	}
	return in
}

// recordTaken subtracts what a launched option uses of its subnet and reservation, so that the next request considers
// it.
func (p *request) recordTaken(c offering.Option, r *nodeclass.Resolved) {
	if s := p.subnets[c.Offering.Zone]; s != nil {
		s.Take(1 + c.MaxPods)
	}
	if id := c.Offering.Labels[awsv1.LabelCapacityReservationID]; id != "" && c.Offering.CapacityType == model.Reserved {
		r.TakeReservation(id)
	}
}

// capacityType is that of all options of the request.
func (b *request) capacityType() string {
	for k := range b.options {
		return k.CapacityType // all have the same
	}
	return ""
}

// errorTarget returns the instance type and the zone of a CreateFleet error, each empty if unknown.
func (b *request) errorTarget(e *types.CreateFleetError) (name, zone string) {
	a := e.LaunchTemplateAndOverrides
	if a == nil || a.Overrides == nil {
		return "", ""
	}
	zone = awsapi.Deref(a.Overrides.AvailabilityZone)
	for z, s := range b.subnets {
		if s.ID == awsapi.Deref(a.Overrides.SubnetId) {
			zone = z
		}
	}
	return string(a.Overrides.InstanceType), zone
}

// Provider launches machines with CreateFleet, for node classes of kind EC2NodeClass.
type Provider struct {
	aws         *awsapi.Account
	classes     *nodeclass.Resolver
	catalogue   *catalogue.Store
	types       *offering.TypeBuilder
	instances   *instances.Index
	templates   *templateStore
	offerings   *offering.Cache // by class name
	launches    *launch.Registry[claimLaunch]
	permissions *awsapi.Cache[model.Condition]
	quotas      *quota.Tracker
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/shapes"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/wire"
)

func (t *tx) describeSubnets(in *shapes.EC2DescribeSubnetsRequest) (*shapes.EC2DescribeSubnetsResult, error) {
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	for _, id := range in.SubnetIds {
		if t.subnet(id) == nil {
			return nil, wire.Refuse("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", id)
		}
	}
	used := map[string]int{}
	for _, i := range t.alive() {
		used[i.Subnet]++
	}
	var all []shapes.EC2Subnet
	for _, s := range t.world.subnets {
		if len(in.SubnetIds) > 0 && !slices.Contains(in.SubnetIds, s.SubnetId) {
			continue
		}
		s.AvailableIpAddressCount = new(int64(hosts(&s) - used[s.SubnetId]))
		pass, err := filtered(in.Filters, tagMap(s.Tags), func(name string) ([]string, bool) {
			switch name {
			case "subnet-id":
				return []string{s.SubnetId}, true
			case "vpc-id":
				return []string{s.VpcId}, true
			case "availability-zone", "availabilityZone":
				return []string{s.AvailabilityZone}, true
			case "availability-zone-id":
				return []string{s.AvailabilityZoneId}, true
			case "state":
				return []string{s.State}, true
			case "owner-id":
				return []string{s.OwnerId}, true
			case "cidr-block":
				return []string{s.CidrBlock}, true
			case "default-for-az", "defaultForAz":
				return []string{strconv.FormatBool(*s.DefaultForAz)}, true
			case "map-public-ip-on-launch":
				return []string{strconv.FormatBool(*s.MapPublicIpOnLaunch)}, true
			case "available-ip-address-count":
				return []string{strconv.FormatInt(*s.AvailableIpAddressCount, 10)}, true
			}
			return nil, false
		})
		if err != nil {
			return nil, err
		}
		if pass {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b shapes.EC2Subnet) int { return strings.Compare(a.SubnetId, b.SubnetId) })
	some, next := page(all, func(s shapes.EC2Subnet) string { return s.SubnetId }, in.NextToken, in.MaxResults, 1000)
	return &shapes.EC2DescribeSubnetsResult{Subnets: some, NextToken: next}, nil
}

func (t *tx) describeSecurityGroups(in *shapes.EC2DescribeSecurityGroupsRequest) (*shapes.EC2DescribeSecurityGroupsResult, error) {
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	for _, id := range in.GroupIds {
		if t.securityGroup(id) == nil {
			return nil, wire.Refuse("InvalidGroup.NotFound", "The security group '%s' does not exist", id)
		}
	}
	var all []shapes.EC2SecurityGroup
	for _, g := range t.world.groups {
		if len(in.GroupIds)+len(in.GroupNames) > 0 && !slices.Contains(in.GroupIds, g.GroupId) && !slices.Contains(in.GroupNames, g.GroupName) {
			continue
		}
		pass, err := filtered(in.Filters, tagMap(g.Tags), func(name string) ([]string, bool) {
			switch name {
			case "group-id":
				return []string{g.GroupId}, true
			case "group-name":
				return []string{g.GroupName}, true
			case "vpc-id":
				return []string{g.VpcId}, true
			case "owner-id":
				return []string{g.OwnerId}, true
			case "description":
				return []string{g.Description}, true
			}
			return nil, false
		})
		if err != nil {
			return nil, err
		}
		if pass {
			all = append(all, g)
		}
	}
	slices.SortFunc(all, func(a, b shapes.EC2SecurityGroup) int { return strings.Compare(a.GroupId, b.GroupId) })
	some, next := page(all, func(g shapes.EC2SecurityGroup) string { return g.GroupId }, in.NextToken, in.MaxResults, 1000)
	return &shapes.EC2DescribeSecurityGroupsResult{SecurityGroups: some, NextToken: next}, nil
}

func (c *Cloud) securityGroup(id string) *shapes.EC2SecurityGroup {
	for i := range c.world.groups {
		if c.world.groups[i].GroupId == id {
			return &c.world.groups[i]
		}
	}
	return nil
}

func (t *tx) describeVpcs(in *shapes.EC2DescribeVpcsRequest) (*shapes.EC2DescribeVpcsResult, error) {
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	v := t.world.vpc
	for _, id := range in.VpcIds {
		if id != v.VpcId {
			return nil, wire.Refuse("InvalidVpcID.NotFound", "The vpc ID '%s' does not exist", id)
		}
	}
	pass, err := filtered(in.Filters, tagMap(v.Tags), func(name string) ([]string, bool) {
		switch name {
		case "vpc-id":
			return []string{v.VpcId}, true
		case "state":
			return []string{v.State}, true
		case "owner-id":
			return []string{v.OwnerId}, true
		}
		return nil, false
	})
	if err != nil || !pass {
		return &shapes.EC2DescribeVpcsResult{}, err
	}
	return &shapes.EC2DescribeVpcsResult{Vpcs: []shapes.EC2Vpc{v}}, nil
}

func (t *tx) describeAvailabilityZones(in *shapes.EC2DescribeAvailabilityZonesRequest) (*shapes.EC2DescribeAvailabilityZonesResult, error) {
	out := &shapes.EC2DescribeAvailabilityZonesResult{}
	for _, z := range t.world.zones {
		if len(in.ZoneNames) > 0 && !slices.Contains(in.ZoneNames, z.ZoneName) || len(in.ZoneIds) > 0 && !slices.Contains(in.ZoneIds, z.ZoneId) {
			continue
		}
		pass, err := filtered(in.Filters, nil, func(name string) ([]string, bool) {
			switch name {
			case "zone-name":
				return []string{z.ZoneName}, true
			case "zone-id":
				return []string{z.ZoneId}, true
			case "zone-type":
				return []string{z.ZoneType}, true
			case "region-name":
				return []string{z.RegionName}, true
			case "state":
				return []string{z.State}, true
			case "opt-in-status":
				return []string{z.OptInStatus}, true
			case "group-name":
				return []string{z.GroupName}, true
			}
			return nil, false
		})
		if err != nil {
			return nil, err
		}
		if pass {
			out.AvailabilityZones = append(out.AvailabilityZones, z)
		}
	}
	return out, nil
}

// describePlacementGroups: the account has none.
func (t *tx) describePlacementGroups(in *shapes.EC2DescribePlacementGroupsRequest) (*shapes.EC2DescribePlacementGroupsResult, error) {
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	if len(in.GroupNames)+len(in.GroupIds) > 0 {
		return nil, wire.Refuse("InvalidPlacementGroup.Unknown", "The placement group %v is unknown", append(in.GroupNames, in.GroupIds...))
	}
	return &shapes.EC2DescribePlacementGroupsResult{}, nil
}

func (t *tx) describeCapacityReservations(in *shapes.EC2DescribeCapacityReservationsRequest) (*shapes.EC2DescribeCapacityReservationsResult, error) {
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	for _, id := range in.CapacityReservationIds {
		if t.reserved.items[id] == nil {
			return nil, wire.Refuse("InvalidCapacityReservationId.NotFound", "The capacity reservation '%s' does not exist", id)
		}
	}
	var all []shapes.EC2CapacityReservation
	for _, r := range t.reserved.sorted() {
		if len(in.CapacityReservationIds) > 0 && !slices.Contains(in.CapacityReservationIds, r.ID) {
			continue
		}
		d := t.describedReservation(r)
		pass, err := filtered(in.Filters, r.Tags, func(name string) ([]string, bool) {
			switch name {
			case "state":
				return []string{d.State}, true
			case "instance-type":
				return []string{d.InstanceType}, true
			case "availability-zone":
				return []string{d.AvailabilityZone}, true
			case "instance-match-criteria":
				return []string{d.InstanceMatchCriteria}, true
			case "owner-id":
				return []string{d.OwnerId}, true
			case "reservation-type":
				return []string{d.ReservationType}, true
			}
			return nil, false
		})
		if err != nil {
			return nil, err
		}
		if pass {
			all = append(all, d)
		}
	}
	some, next := page(all, func(r shapes.EC2CapacityReservation) string { return r.CapacityReservationId }, in.NextToken, in.MaxResults, 1000)
	return &shapes.EC2DescribeCapacityReservationsResult{CapacityReservations: some, NextToken: next}, nil
}

func (t *tx) describedReservation(r *reservation) shapes.EC2CapacityReservation {
	d := shapes.EC2CapacityReservation{
		CapacityReservationId: r.ID, OwnerId: t.settings.Account, CapacityReservationArn: t.arn("ec2", "capacity-reservation/"+r.ID),
		AvailabilityZoneId: zoneID(t.catalog.Region, r.Zone), AvailabilityZone: r.Zone, InstanceType: r.InstanceType, InstancePlatform: "Linux/UNIX", Tenancy: "default",
		TotalInstanceCount: new(int64(r.Count)), AvailableInstanceCount: new(int64(t.unused(r))), State: "active", StartDate: pointer(r.Created),
		CreateDate: pointer(r.Created), EndDate: pointer(r.End), EndDateType: "unlimited", InstanceMatchCriteria: r.Criteria, Tags: tagList(r.Tags), ReservationType: r.Type,
	}
	if !r.End.IsZero() {
		d.EndDateType = "limited"
		if t.over(r) {
			d.State = "expired"
		}
	}
	if r.Cancelled {
		d.State = "cancelled"
	}
	return d
}

// over reports whether a reservation has ended. Its instances run on, as any others do.
func (t *tx) over(r *reservation) bool {
	return r.Cancelled || !r.End.IsZero() && !t.now.Before(r.End)
}

// reservedIn is the reservation that an instance runs in; empty: in none.
func (t *tx) reservedIn(i *instance) string {
	if r := t.reserved.items[i.Reserved]; r == nil || t.over(r) {
		return ""
	}
	return i.Reserved
}

// unused is how many more instances a reservation holds.
func (t *tx) unused(r *reservation) int {
	n := r.Count
	for _, in := range t.alive() {
		if in.Reserved == r.ID {
			n--
		}
	}
	if t.over(r) {
		return 0
	}
	return max(n, 0)
}

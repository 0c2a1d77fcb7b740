// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodeclass

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
)

// findSubnets are the subnets that any of the terms chooses, by id; none is an UnresolvedError.
func (cr *Resolver) findSubnets(ctx context.Context, terms []awsv1.SubnetSelectorTerm) ([]*Subnet, error) {
	found := map[string]*Subnet{}
	ask := func(filters []types.Filter) error {
		pages := ec2.NewDescribeSubnetsPaginator(cr.aws.EC2, &ec2.DescribeSubnetsInput{Filters: filters})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return err
			}
			for _, s := range page.Subnets {
				found[awsapi.Deref(s.SubnetId)] = &Subnet{
					ID: awsapi.Deref(s.SubnetId), Zone: awsapi.Deref(s.AvailabilityZone), ZoneID: awsapi.Deref(s.AvailabilityZoneId), Free: int64(awsapi.Deref(s.AvailableIpAddressCount)),
				}
			}
		}
		return nil
	}
	var ids []string
	for _, t := range terms {
		if t.ID != "" {
			ids = append(ids, t.ID)
		} else if err := ask(awsapi.TagFilters(t.Tags)); err != nil {
			return nil, err
		}
	}
	if len(ids) > 0 {
		if err := ask([]types.Filter{awsapi.NewFilter("subnet-id", ids...)}); err != nil {
			return nil, err
		}
	}
	if len(found) == 0 {
		return nil, awsapi.NewUnresolvedError(awsv1.ReasonSubnetsNotFound, "spec.subnetSelectorTerms: no subnet in region %s matches %s; correct the terms or tag a subnet", cr.aws.Region, awsapi.SelectorKey(terms))
	}
	out := make([]*Subnet, 0, len(found))
	for _, id := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[id])
	}
	return out, nil
}

// findSecurityGroups are the security groups that any of the terms chooses, by id; none is an UnresolvedError.
func (cr *Resolver) findSecurityGroups(ctx context.Context, terms []awsv1.SecurityGroupSelectorTerm) ([]SecurityGroup, error) {
	found := map[string]string{}
	ask := func(filters []types.Filter) error {
		pages := ec2.NewDescribeSecurityGroupsPaginator(cr.aws.EC2, &ec2.DescribeSecurityGroupsInput{Filters: filters})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return err
			}
			for _, g := range page.SecurityGroups {
				found[awsapi.Deref(g.GroupId)] = awsapi.Deref(g.GroupName)
			}
		}
		return nil
	}
	var ids, names []string
	for _, t := range terms {
		switch {
		case t.ID != "":
			ids = append(ids, t.ID)
		case t.Name != "":
			names = append(names, t.Name)
		default:
			if err := ask(awsapi.TagFilters(t.Tags)); err != nil {
				return nil, err
			}
		}
	}
	for _, f := range []struct {
		name   string
		values []string
	}{{"group-id", ids}, {"group-name", names}} {
		if len(f.values) > 0 {
			if err := ask([]types.Filter{awsapi.NewFilter(f.name, f.values...)}); err != nil {
				return nil, err
			}
		}
	}
	if len(found) == 0 {
		return nil, awsapi.NewUnresolvedError(awsv1.ReasonSecurityGroupsNotFound, "spec.securityGroupSelectorTerms: no security group in region %s matches %s; correct the terms or tag a security group", cr.aws.Region, awsapi.SelectorKey(terms))
	}
	var out []SecurityGroup
	for _, id := range slices.Sorted(maps.Keys(found)) {
		out = append(out, SecurityGroup{id, found[id]})
	}
	return out, nil
}

// findPlacementGroup is the placement group that a selector chooses; none is an UnresolvedError.
func (cr *Resolver) findPlacementGroup(ctx context.Context, s *awsv1.PlacementGroupSelector) (*types.PlacementGroup, error) {
	in := &ec2.DescribePlacementGroupsInput{}
	if s.Name != "" {
		in.GroupNames = []string{s.Name}
	} else {
		in.GroupIds = []string{s.ID}
	}
	res, err := cr.aws.EC2.DescribePlacementGroups(ctx, in)
	if err != nil && !strings.HasPrefix(awsapi.ErrorCode(err), "InvalidPlacementGroup") {
		return nil, err
	}
	if err != nil || len(res.PlacementGroups) == 0 {
		return nil, awsapi.NewUnresolvedError(awsv1.ReasonPlacementGroupNotFound, "spec.placementGroupSelector: no placement group in region %s matches %s; create it or select another", cr.aws.Region, awsapi.SelectorKey(s))
	}
	return &res.PlacementGroups[0], nil
}

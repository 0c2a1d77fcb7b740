// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
)

func (cr *classResolver) findSubnets(ctx context.Context, terms []awsv1.SubnetSelectorTerm) ([]*subnet, error) {
	found := map[string]*subnet{}
	ask := func(filters []types.Filter) error {
		pages := ec2.NewDescribeSubnetsPaginator(cr.aws.EC2, &ec2.DescribeSubnetsInput{Filters: filters})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return err
			}
			for _, s := range page.Subnets {
				found[deref(s.SubnetId)] = &subnet{
					id: deref(s.SubnetId), zone: deref(s.AvailabilityZone), zoneID: deref(s.AvailabilityZoneId), free: int64(deref(s.AvailableIpAddressCount)),
				}
			}
		}
		return nil
	}
	var ids []string
	for _, t := range terms {
		if t.ID != "" {
			ids = append(ids, t.ID)
		} else if err := ask(tagFilters(t.Tags)); err != nil {
			return nil, err
		}
	}
	if len(ids) > 0 {
		if err := ask([]types.Filter{newFilter("subnet-id", ids...)}); err != nil {
			return nil, err
		}
	}
	if len(found) == 0 {
		return nil, newUnresolvedError(awsv1.ReasonSubnetsNotFound, "spec.subnetSelectorTerms: no subnet of region %s matches %s; tag one so or choose others", cr.aws.Region, selectorKey(terms))
	}
	out := make([]*subnet, 0, len(found))
	for _, id := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[id])
	}
	return out, nil
}

func (cr *classResolver) findSecurityGroups(ctx context.Context, terms []awsv1.SecurityGroupSelectorTerm) ([]securityGroup, error) {
	found := map[string]string{}
	ask := func(filters []types.Filter) error {
		pages := ec2.NewDescribeSecurityGroupsPaginator(cr.aws.EC2, &ec2.DescribeSecurityGroupsInput{Filters: filters})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return err
			}
			for _, g := range page.SecurityGroups {
				found[deref(g.GroupId)] = deref(g.GroupName)
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
			if err := ask(tagFilters(t.Tags)); err != nil {
				return nil, err
			}
		}
	}
	for _, f := range []struct {
		name   string
		values []string
	}{{"group-id", ids}, {"group-name", names}} {
		if len(f.values) > 0 {
			if err := ask([]types.Filter{newFilter(f.name, f.values...)}); err != nil {
				return nil, err
			}
		}
	}
	if len(found) == 0 {
		return nil, newUnresolvedError(awsv1.ReasonSecurityGroupsNotFound, "spec.securityGroupSelectorTerms: no security group of region %s matches %s; tag one so or choose others", cr.aws.Region, selectorKey(terms))
	}
	var out []securityGroup
	for _, id := range slices.Sorted(maps.Keys(found)) {
		out = append(out, securityGroup{id, found[id]})
	}
	return out, nil
}

func (cr *classResolver) findPlacementGroup(ctx context.Context, s *awsv1.PlacementGroupSelector) (*types.PlacementGroup, error) {
	in := &ec2.DescribePlacementGroupsInput{}
	if s.Name != "" {
		in.GroupNames = []string{s.Name}
	} else {
		in.GroupIds = []string{s.ID}
	}
	res, err := cr.aws.EC2.DescribePlacementGroups(ctx, in)
	if err != nil && !strings.HasPrefix(errorCode(err), "InvalidPlacementGroup") {
		return nil, err
	}
	if err != nil || len(res.PlacementGroups) == 0 {
		return nil, newUnresolvedError(awsv1.ReasonPlacementGroupNotFound, "spec.placementGroupSelector: no placement group of region %s is %s; create it or choose another", cr.aws.Region, selectorKey(s))
	}
	return &res.PlacementGroups[0], nil
}

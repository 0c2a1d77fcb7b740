// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package asg

import (
	"context"
	"fmt"
	"slices"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
)

// DiscoveredGroup is an Auto Scaling group as returned by Discover.
type DiscoveredGroup struct {
	Name string
	Tags map[string]string
}

// groupsPerCall is how many groups AWS describes in one answer, and how many names it takes at once.
const groupsPerCall = 100

// Discover returns the Auto Scaling groups with these names and the groups with all tags of one of the sets, sorted by
// name. Names without a group are ignored; a tag with an empty value matches any value. The labels and taints of an EKS
// managed node group are added as equivalent tags. If EKS cannot be queried, Discover returns an error, so that the
// nodes are not assumed to have no taints.
func Discover(ctx context.Context, c *awsapi.Clients, names []string, sets []map[string]string) ([]DiscoveredGroup, error) {
	found := map[string]DiscoveredGroup{}
	ask := func(in *autoscaling.DescribeAutoScalingGroupsInput) error {
		in.MaxRecords = sdk.Int32(groupsPerCall)
		pages := autoscaling.NewDescribeAutoScalingGroupsPaginator(c.AutoScaling, in)
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return fmt.Errorf("describe Auto Scaling groups: %w", awsapi.ReadableError(err))
			}
			for i := range page.AutoScalingGroups {
				g := DiscoveredGroup{Name: awsapi.Deref(page.AutoScalingGroups[i].AutoScalingGroupName), Tags: map[string]string{}}
				for _, t := range page.AutoScalingGroups[i].Tags {
					g.Tags[awsapi.Deref(t.Key)] = awsapi.Deref(t.Value)
				}
				found[g.Name] = g
			}
		}
		return nil
	}
	for some := range slices.Chunk(names, groupsPerCall) {
		if err := ask(&autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: some}); err != nil {
			return nil, err
		}
	}
	for _, tags := range sets {
		in := &autoscaling.DescribeAutoScalingGroupsInput{}
		any := map[string]string{}
		for k, v := range tags {
			if v == "" {
				v = "*"
			}
			any[k] = v
		}
		for _, f := range awsapi.TagFilters(any) {
			in.Filters = append(in.Filters, astypes.Filter{Name: f.Name, Values: f.Values})
		}
		if err := ask(in); err != nil {
			return nil, err
		}
	}
	out := make([]DiscoveredGroup, 0, len(found))
	for _, g := range found {
		if err := addManagedTags(ctx, c, g.Tags); err != nil {
			return nil, err
		}
		out = append(out, g)
	}
	awsapi.SortByKey(out, func(g DiscoveredGroup) string { return g.Name })
	return out, nil
}

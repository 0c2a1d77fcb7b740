// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package asg

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
)

// Handover reads and changes Auto Scaling groups in AWS during a takeover.
type Handover struct{ Clients *awsapi.Clients }

// DescribeGroup returns the tags of a group and the instance IDs of its members, sorted. found is false if no group has
// the name.
func (h Handover) DescribeGroup(ctx context.Context, name string) (tags map[string]string, members []string, found bool, err error) {
	res, err := h.Clients.AutoScaling.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{name}})
	if err != nil {
		return nil, nil, false, fmt.Errorf("describe Auto Scaling group %s: %w", name, awsapi.ReadableError(err))
	}
	if len(res.AutoScalingGroups) == 0 {
		return nil, nil, false, nil
	}
	g := readGroup(&res.AutoScalingGroups[0])
	for _, m := range g.members {
		members = append(members, m.id)
	}
	slices.Sort(members)
	return g.tags, members, true, nil
}

// ForgetClaims removes the tags that assign instances to NodeClaims.
func (h Handover) ForgetClaims(ctx context.Context, instanceIDs []string) error {
	var tags []types.Tag
	for _, key := range []string{awsv1.TagClaimUID, awsv1.TagNodeClaim, awsv1.TagNodePool} {
		tags = append(tags, types.Tag{Key: &key})
	}
	for some := range slices.Chunk(instanceIDs, 500) {
		if _, err := h.Clients.EC2.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: some, Tags: tags}); err != nil {
			return fmt.Errorf("remove the NodeClaim tags from %d instances: %w; allow ec2:DeleteTags", len(some), awsapi.ReadableError(err))
		}
	}
	return nil
}

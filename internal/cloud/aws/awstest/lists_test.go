// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import (
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
)

// TestLists: what clients list to find their way, and the volumes and interfaces of an instance.
func TestLists(t *testing.T) {
	a := newAccount(t)
	ctx := t.Context()
	lt := a.template("nodes", nodeadmData)
	one := ids(check[*ec2.CreateFleetOutput](t)(a.ec2.CreateFleet(ctx, a.fleetOf(lt, "t", "c1", 1, types.DefaultTargetCapacityTypeOnDemand, "m5.large"))))[0]
	of := func(name string) []types.Filter { return []types.Filter{{Name: &name, Values: []string{one}}} }
	i := check[*ec2.DescribeInstancesOutput](t)(a.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{one}})).Reservations[0].Instances[0]
	vols := check[*ec2.DescribeVolumesOutput](t)(a.ec2.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{Filters: of("attachment.instance-id")})).Volumes
	if len(vols) == 0 || len(vols) != len(i.BlockDeviceMappings) || *vols[0].Size < 1 || *vols[0].VolumeId != *i.BlockDeviceMappings[0].Ebs.VolumeId {
		t.Errorf("have volumes %+v, block devices %+v", vols, i.BlockDeviceMappings)
	}
	nics := check[*ec2.DescribeNetworkInterfacesOutput](t)(a.ec2.DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{Filters: of("attachment.instance-id")})).NetworkInterfaces
	if len(nics) != 1 || *nics[0].NetworkInterfaceId != *i.NetworkInterfaces[0].NetworkInterfaceId || i.Monitoring == nil {
		t.Errorf("have interfaces %+v, the instance %+v", nics, i.NetworkInterfaces)
	}
	tags := check[*ec2.DescribeTagsOutput](t)(a.ec2.DescribeTags(ctx, &ec2.DescribeTagsInput{Filters: of("resource-id")})).Tags
	if len(tags) != len(i.Tags) || len(tags) == 0 || tags[0].ResourceType != types.ResourceTypeInstance {
		t.Errorf("have tags %+v, want %+v", tags, i.Tags)
	}
	if r := check[*ec2.DescribeRegionsOutput](t)(a.ec2.DescribeRegions(ctx, &ec2.DescribeRegionsInput{})).Regions; len(r) != 1 || *r[0].RegionName != "us-east-1" {
		t.Errorf("have regions %+v", r)
	}
	if q := check[*sqs.ListQueuesOutput](t)(a.sqs.ListQueues(ctx, &sqs.ListQueuesInput{})).QueueUrls; len(q) != 1 || q[0] != *a.queue() {
		t.Errorf("have queues %v", q)
	}
	if c := check[*eks.ListClustersOutput](t)(a.eks.ListClusters(ctx, &eks.ListClustersInput{MaxResults: aws.Int32(10)})).Clusters; !slices.Equal(c, []string{"sandbox"}) {
		t.Errorf("have clusters %v", c)
	}
	if s := check[*pricing.DescribeServicesOutput](t)(a.pricing.DescribeServices(ctx, &pricing.DescribeServicesInput{})).Services; len(s) != 1 || !slices.Contains(s[0].AttributeNames, "instanceType") {
		t.Errorf("have services %+v", s)
	}
	seen := 0
	for p := ssm.NewGetParametersByPathPaginator(a.ssm, &ssm.GetParametersByPathInput{Path: aws.String("/aws/service/eks/optimized-ami/1.36"), Recursive: aws.Bool(true)}); p.HasMorePages(); {
		seen += len(check[*ssm.GetParametersByPathOutput](t)(p.NextPage(ctx)).Parameters)
	}
	if seen < 10 {
		t.Errorf("have %d parameters", seen)
	}
	if l := check[*autoscaling.DescribeAccountLimitsOutput](t)(a.asg.DescribeAccountLimits(ctx, &autoscaling.DescribeAccountLimitsInput{})); *l.MaxNumberOfAutoScalingGroups == 0 {
		t.Errorf("have limits %+v", l)
	}
	if _, err := a.asg.DescribeWarmPool(ctx, &autoscaling.DescribeWarmPoolInput{AutoScalingGroupName: aws.String("none")}); code(err) != "ValidationError" {
		t.Errorf("the warm pool of no group: have %v", err)
	}
	if p := check[*autoscaling.DescribePoliciesOutput](t)(a.asg.DescribePolicies(ctx, &autoscaling.DescribePoliciesInput{})); len(p.ScalingPolicies) != 0 {
		t.Errorf("have policies %+v", p)
	}
}

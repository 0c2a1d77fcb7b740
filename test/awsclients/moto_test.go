// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awsclients

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
)

// side is one AWS and what was found in it.
type side struct {
	*awsapi.Clients
	subnet, group, image, template, instance, queue string
}

// request is one that both are asked. What it finds it may note in the side.
type request struct {
	name string
	do   func(context.Context, *side) (any, error)
}

var requests = []request{
	{"DescribeSubnets", func(ctx context.Context, s *side) (any, error) {
		out, err := s.EC2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{})
		if err == nil {
			s.subnet = *out.Subnets[0].SubnetId
		}
		return out, err
	}},
	{"DescribeSubnets of none", func(ctx context.Context, s *side) (any, error) {
		return s.EC2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{SubnetIds: []string{"subnet-0123456789abcdef0"}})
	}},
	{"DescribeSecurityGroups", func(ctx context.Context, s *side) (any, error) {
		out, err := s.EC2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{})
		if err == nil {
			s.group = *out.SecurityGroups[0].GroupId
		}
		return out, err
	}},
	{"DescribeImages of Amazon", func(ctx context.Context, s *side) (any, error) {
		out, err := s.EC2.DescribeImages(ctx, &ec2.DescribeImagesInput{Owners: []string{"amazon"}, Filters: []types.Filter{awsapi.NewFilter("architecture", "x86_64")}})
		if err == nil {
			s.image = *out.Images[0].ImageId
		}
		return out, err
	}},
	{"DescribeVpcs", func(ctx context.Context, s *side) (any, error) {
		return s.EC2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{})
	}},
	{"DescribeAvailabilityZones", func(ctx context.Context, s *side) (any, error) {
		return s.EC2.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{})
	}},
	{"DescribeRegions", func(ctx context.Context, s *side) (any, error) {
		return s.EC2.DescribeRegions(ctx, &ec2.DescribeRegionsInput{})
	}},
	{"DescribeInstanceTypes of m5.large", func(ctx context.Context, s *side) (any, error) {
		return s.EC2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{"m5.large"}})
	}},
	{"DescribeInstanceTypes of none", func(ctx context.Context, s *side) (any, error) {
		return s.EC2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{InstanceTypes: []types.InstanceType{"m99.large"}})
	}},
	{"DescribeInstanceTypes, first page", func(ctx context.Context, s *side) (any, error) {
		out, err := s.EC2.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{MaxResults: sdk.Int32(5)})
		if err != nil {
			return nil, err
		}
		return struct {
			N     int
			Token *string
		}{len(out.InstanceTypes), out.NextToken}, nil
	}},
	{"DescribeInstanceTypeOfferings", func(ctx context.Context, s *side) (any, error) {
		return s.EC2.DescribeInstanceTypeOfferings(ctx, &ec2.DescribeInstanceTypeOfferingsInput{LocationType: types.LocationTypeAvailabilityZone, Filters: []types.Filter{awsapi.NewFilter("instance-type", "m5.large")}})
	}},
	{"CreateLaunchTemplate", func(ctx context.Context, s *side) (any, error) {
		out, err := s.EC2.CreateLaunchTemplate(ctx, templateOf(s))
		if err == nil {
			s.template = *out.LaunchTemplate.LaunchTemplateId
		}
		return out, err
	}},
	{"CreateLaunchTemplate again", func(ctx context.Context, s *side) (any, error) {
		in := templateOf(s)
		in.ClientToken = nil
		return s.EC2.CreateLaunchTemplate(ctx, in)
	}},
	{"DescribeLaunchTemplates", func(ctx context.Context, s *side) (any, error) {
		return s.EC2.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{"nodes"}})
	}},
	{"DescribeLaunchTemplates of none", func(ctx context.Context, s *side) (any, error) {
		return s.EC2.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{"none"}})
	}},
	{"DescribeLaunchTemplateVersions", func(ctx context.Context, s *side) (any, error) {
		return s.EC2.DescribeLaunchTemplateVersions(ctx, &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: &s.template, Versions: []string{"$Latest"}})
	}},
	{"CreateFleet", func(ctx context.Context, s *side) (any, error) {
		out, err := s.EC2.CreateFleet(ctx, fleetOf(s))
		if err == nil {
			s.instance = out.Instances[0].InstanceIds[0]
		}
		return out, err
	}},
	{"CreateFleet, dry run", func(ctx context.Context, s *side) (any, error) {
		in := fleetOf(s)
		in.DryRun = sdk.Bool(true)
		return s.EC2.CreateFleet(ctx, in)
	}},
	{"DescribeInstances", func(ctx context.Context, s *side) (any, error) {
		return s.EC2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{s.instance}})
	}},
	{"DescribeInstances of none", func(ctx context.Context, s *side) (any, error) {
		return s.EC2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{"i-0123456789abcdef0"}})
	}},
	{"DescribeInstanceStatus", func(ctx context.Context, s *side) (any, error) {
		return s.EC2.DescribeInstanceStatus(ctx, &ec2.DescribeInstanceStatusInput{InstanceIds: []string{s.instance}, IncludeAllInstances: sdk.Bool(true)})
	}},
	{"DescribeVolumes", func(ctx context.Context, s *side) (any, error) {
		return s.EC2.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{Filters: []types.Filter{awsapi.NewFilter("attachment.instance-id", s.instance)}})
	}},
	{"DescribeNetworkInterfaces", func(ctx context.Context, s *side) (any, error) {
		return s.EC2.DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{Filters: []types.Filter{awsapi.NewFilter("attachment.instance-id", s.instance)}})
	}},
	{"CreateTags", func(ctx context.Context, s *side) (any, error) {
		return s.EC2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{s.instance}, Tags: awsapi.EC2Tags(map[string]string{"a": "b"})})
	}},
	{"DescribeTags", func(ctx context.Context, s *side) (any, error) {
		return s.EC2.DescribeTags(ctx, &ec2.DescribeTagsInput{Filters: []types.Filter{awsapi.NewFilter("resource-id", s.instance)}})
	}},
	{"CreateTags of none", func(ctx context.Context, s *side) (any, error) {
		return s.EC2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{"i-0123456789abcdef0"}, Tags: awsapi.EC2Tags(map[string]string{"a": "b"})})
	}},
	{"TerminateInstances", func(ctx context.Context, s *side) (any, error) {
		return s.EC2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{s.instance}})
	}},
	{"TerminateInstances of none", func(ctx context.Context, s *side) (any, error) {
		return s.EC2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{"i-0123456789abcdef0"}})
	}},
	{"DeleteLaunchTemplate", func(ctx context.Context, s *side) (any, error) {
		return s.EC2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: &s.template})
	}},
	{"SetDesiredCapacity of no group", func(ctx context.Context, s *side) (any, error) {
		return s.AutoScaling.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: sdk.String("none"), DesiredCapacity: sdk.Int32(1)})
	}},
	{"DescribeAutoScalingGroups of none", func(ctx context.Context, s *side) (any, error) {
		return s.AutoScaling.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{"none"}})
	}},
	{"GetInstanceProfile of none", func(ctx context.Context, s *side) (any, error) {
		return s.IAM.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: sdk.String("none")})
	}},
	{"CreateInstanceProfile", func(ctx context.Context, s *side) (any, error) {
		return s.IAM.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: sdk.String("p"), Path: sdk.String("/x/")})
	}},
	{"CreateInstanceProfile again", func(ctx context.Context, s *side) (any, error) {
		return s.IAM.CreateInstanceProfile(ctx, &iam.CreateInstanceProfileInput{InstanceProfileName: sdk.String("p")})
	}},
	{"GetQueueUrl", func(ctx context.Context, s *side) (any, error) {
		out, err := s.SQS.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: sdk.String("sandbox")})
		if err == nil {
			s.queue = *out.QueueUrl
		}
		return out, err
	}},
	{"GetQueueUrl of none", func(ctx context.Context, s *side) (any, error) {
		return s.SQS.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: sdk.String("none")})
	}},
	{"ReceiveMessage", func(ctx context.Context, s *side) (any, error) {
		if _, err := s.SQS.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &s.queue, MessageBody: sdk.String("{}")}); err != nil {
			return nil, err
		}
		return s.SQS.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &s.queue, MaxNumberOfMessages: 10, WaitTimeSeconds: 1})
	}},
}

func templateOf(s *side) *ec2.CreateLaunchTemplateInput {
	return &ec2.CreateLaunchTemplateInput{LaunchTemplateName: sdk.String("nodes"), ClientToken: sdk.String("token"), LaunchTemplateData: &types.RequestLaunchTemplateData{
		ImageId: &s.image, InstanceType: "m5.large", SecurityGroupIds: []string{s.group}, UserData: sdk.String("IyEvYmluL3NoCg=="),
		BlockDeviceMappings: []types.LaunchTemplateBlockDeviceMappingRequest{{DeviceName: sdk.String("/dev/xvda"), Ebs: &types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: sdk.Int32(20), VolumeType: "gp3"}}},
	}}
}

func fleetOf(s *side) *ec2.CreateFleetInput {
	return &ec2.CreateFleetInput{Type: types.FleetTypeInstant, TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{TotalTargetCapacity: sdk.Int32(1), DefaultTargetCapacityType: "on-demand"},
		LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateId: &s.template, Version: sdk.String("$Latest")},
			Overrides: []types.FleetLaunchTemplateOverridesRequest{{InstanceType: "m5.large", SubnetId: &s.subnet}}}},
		TagSpecifications: []types.TagSpecification{{ResourceType: "instance", Tags: awsapi.EC2Tags(map[string]string{"karpenter.sh/nodeclaim": "c"})}}}
}

// explained are differences that are not the simulated AWS's to mend: by AWS's API reference, or because moto leaves out or invents what its world has not.
var explained = []struct{ pattern, why string }{
	{`only the simulated AWS has .*Tags\[\]`, "moto's network has no tags"},
	{`^DescribeSubnets: only moto has Subnets\[\]\.(Ipv6Native|PrivateDnsNameOptionsOnLaunch)`, "left out: no client here reads it"},
	{`SecurityGroupArn`, "came to EC2 after the service model that test/awsmodels compares with"},
	{`^DescribeImages.*only moto has Images\[\]\.Platform$`, "moto's first image is one of Windows"},
	{`^DescribeImages.*only the simulated AWS has Images\[\]\.(DeprecationTime|EnaSupport|PlatformDetails)`, "moto leaves it out; EC2's API reference lists it under Image"},
	{`^DescribeAvailabilityZones: only the simulated AWS has`, "moto leaves it out; EC2's API reference lists it under AvailabilityZone"},
	{`^DescribeInstanceTypes of m5.large: only moto has`, "left out: the catalog does not have it, and no client here reads it except MaximumEbsAttachments, without which Dovetail takes EC2's published limits"},
	{`^DescribeInstanceTypes, first page: only the simulated AWS has Token`, "moto gives all types, whatever MaxResults says"},
	{`^CreateFleet: only the simulated AWS has .*AvailabilityZone`, "moto leaves it out; EC2's API reference lists it under FleetLaunchTemplateOverrides"},
	{`^DescribeInstances: only moto has .*\.Platform$`, "moto's first image is one of Windows"},
	{`^DescribeInstances: only moto has .*NetworkInterfaces\[\]\.Association`, "moto's subnets give public addresses"},
	{`^DescribeInstances: only moto has .*\.(SriovNetSupport|StateReason)`, "EC2 has the one for types with the Intel interface only, the other for instances that do not run"},
	{`^DescribeInstances: only the simulated AWS has`, "moto leaves it out; EC2's API reference lists it under Instance"},
	{`^DescribeVolumes: only the simulated AWS has`, "moto leaves it out; EC2's API reference lists it under Volume"},
	{`^Describe(Instances|NetworkInterfaces): only .* has .*PrivateDnsName`, "moto has the name in one of the two answers"},
	{`RequesterId`, "EC2 has it for interfaces that a service made"},
	{`^CreateTags of none: moto answers success`, "EC2 answers InvalidID, or the code of the kind of resource"},
	{`^DeleteLaunchTemplate: only the simulated AWS has`, "moto leaves it out; EC2's API reference lists it under LaunchTemplate"},
	{`^SetDesiredCapacity of no group: moto answers https response error StatusCode: 500`, "moto breaks off; Auto Scaling answers ValidationError"},
	{`NetworkInterfaces\[\]\.Description`, "EC2 gives the interface that it makes at a launch an empty one"},
}

// TestMoto asks moto's server and the simulated AWS the same, through the SDK, and compares members, error codes and tokens.
func TestMoto(t *testing.T) {
	theirs, ours := &side{Clients: connect(t, moto(t))}, &side{Clients: connect(t, simulatedAWS(t))}
	if _, err := theirs.SQS.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: sdk.String("sandbox")}); err != nil {
		t.Fatal(err)
	}
	used := make([]bool, len(explained))
	differences := 0
	for _, r := range requests {
		a, errA := r.do(t.Context(), theirs)
		b, errB := r.do(t.Context(), ours)
		for _, d := range compare(a, errA, b, errB) {
			differences++
			known := false
			for i, x := range explained {
				if regexp.MustCompile(x.pattern).MatchString(r.name + ": " + d) {
					known, used[i] = true, true
				}
			}
			if !known {
				t.Errorf("%s: %s", r.name, d)
			}
		}
	}
	for i, x := range explained {
		if !used[i] {
			t.Errorf("nothing differs any more as %q explains", x.pattern)
		}
	}
	t.Logf("%d requests, %d differences", len(requests), differences)
}

// compare returns how the answers of moto and of the simulated AWS differ in structure.
func compare(theirs any, errTheirs error, ours any, errOurs error) (out []string) {
	if a, b := codeOf(errTheirs), codeOf(errOurs); a != b {
		return []string{fmt.Sprintf("moto answers %s, the simulated AWS %s", cmp.Or(a, "success"), cmp.Or(b, "success"))}
	}
	a, b := map[string]bool{}, map[string]bool{}
	members(reflect.ValueOf(theirs), "", a)
	members(reflect.ValueOf(ours), "", b)
	for _, path := range slices.Sorted(maps.Keys(a)) {
		if !b[path] {
			out = append(out, "only moto has "+path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(b)) {
		if !a[path] {
			out = append(out, "only the simulated AWS has "+path)
		}
	}
	return out
}

func codeOf(err error) string {
	if err == nil {
		return ""
	}
	return cmp.Or(awsapi.ErrorCode(err), errors.Unwrap(err).Error())
}

// members notes the members of an answer that are there.
func members(v reflect.Value, path string, into map[string]bool) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			members(v.Elem(), path, into)
		}
	case reflect.Struct:
		if path != "" {
			into[path] = true
		}
		if v.Type().PkgPath() == "time" {
			return
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Name != "ResultMetadata" {
				members(v.Field(i), strings.TrimPrefix(path+"."+f.Name, "."), into)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			members(v.Index(i), path+"[]", into)
		}
	case reflect.String:
		if v.Len() > 0 {
			into[path] = true
		}
	case reflect.Map:
		if v.Len() > 0 {
			into[path] = true
		}
	default:
		into[path] = true
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package asg

import (
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// TestNotCountedInInstances: nothing can be had from a group whose sizes count anything but instances: one more would be a
// vCPU more, or half an instance.
func TestNotCountedInInstances(t *testing.T) {
	template := &astypes.LaunchTemplateSpecification{LaunchTemplateName: sdk.String("x")}
	mixed := func(o astypes.LaunchTemplateOverrides) *astypes.AutoScalingGroup {
		return &astypes.AutoScalingGroup{AutoScalingGroupName: sdk.String("g"), MaxSize: sdk.Int32(100), MixedInstancesPolicy: &astypes.MixedInstancesPolicy{
			LaunchTemplate: &astypes.LaunchTemplate{LaunchTemplateSpecification: template, Overrides: []astypes.LaunchTemplateOverrides{o}},
		}}
	}
	byAttributes := astypes.LaunchTemplateOverrides{InstanceRequirements: &astypes.InstanceRequirements{}}
	for _, c := range []struct {
		counts   string // DesiredCapacityType; empty: not said
		override astypes.LaunchTemplateOverrides
		problem  string
	}{
		{"", byAttributes, ""},
		{"units", byAttributes, ""},
		{"vcpu", byAttributes, "its desired capacity is counted as vcpu, not in instances; set its DesiredCapacityType to units"},
		{"memory-mib", byAttributes, "its desired capacity is counted as memory-mib, not in instances; set its DesiredCapacityType to units"},
		{"", astypes.LaunchTemplateOverrides{InstanceType: sdk.String("m5.large"), WeightedCapacity: sdk.String("1")}, ""},
		{"", astypes.LaunchTemplateOverrides{InstanceType: sdk.String("m5.large"), WeightedCapacity: sdk.String("2")}, "its mixed instances policy weighs m5.large as 2 machines; take the weights away"},
	} {
		in := mixed(c.override)
		if c.counts != "" {
			in.DesiredCapacityType = &c.counts
		}
		if g := readGroup(in); g.problem != c.problem {
			t.Errorf("%s, %v: problem %q, want %q", c.counts, sdk.ToString(c.override.WeightedCapacity), g.problem, c.problem)
		}
	}
}

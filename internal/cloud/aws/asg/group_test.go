// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package asg

import (
	"maps"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
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
		{"", astypes.LaunchTemplateOverrides{InstanceType: sdk.String("m5.large"), WeightedCapacity: sdk.String("2")}, "its mixed instances policy gives m5.large weight 2; remove the weights"},
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

// TestUnreadableTags: nothing can be had from a group whose tags say of its nodes what can't be read, and its problem names the
// tag, the value and a valid one. What can be read counts, in whole units. A tag about how it is scaled is no such problem.
func TestUnreadableTags(t *testing.T) {
	const taint, resource, option = dovetailv1alpha1.TagNodeTemplateTaint, dovetailv1alpha1.TagNodeTemplateResource, dovetailv1alpha1.TagNodeTemplateOption
	const effects = "need value:effect with the effect NoSchedule, NoExecute or PreferNoSchedule, such as true:NoSchedule"
	for _, c := range []struct {
		key, value, problem string
		taints              int
		resources           map[string]int64
	}{
		{taint + "dedicated", "gpu", effects, 0, nil},
		{taint + "dedicated", "NoSchedule", effects, 0, nil},
		{taint + "dedicated", "true:Noschedule", effects, 0, nil},
		{taint + "dedicated", "gpu:NoSchedule", "", 1, nil},
		{resource + "example.com/seats", "lots", "", 0, nil},
		{resource + "example.com/seats", "-1", "", 0, nil},
		{resource + "memory", "5Ei", "", 0, nil},
		{resource + "example.com/seats", "1e3", "", 0, map[string]int64{"example.com/seats": 1000}},
		{resource + "example.com/seats", "1500m", "", 0, map[string]int64{"example.com/seats": 1}},
		{resource + "cpu", "1500m", "", 0, map[string]int64{"cpu": 1500}},
		{resource + "ephemeral-storage", "100Gi", "", 0, map[string]int64{"ephemeral-storage": 100 << 30}},
		{option + dovetailv1alpha1.OptionUnneededTime, "soon", "", 0, nil},
	} {
		g := readGroup(&astypes.AutoScalingGroup{
			AutoScalingGroupName: sdk.String("g"), LaunchTemplate: &astypes.LaunchTemplateSpecification{LaunchTemplateName: sdk.String("x")},
			Tags: []astypes.TagDescription{{Key: &c.key, Value: &c.value}},
		})
		want := c.problem
		if want != "" {
			want = "tag " + c.key + "=\"" + c.value + "\": " + want
		}
		if g.problem != want || len(g.taints) != c.taints || !maps.Equal(g.resources, c.resources) {
			t.Errorf("%s=%s: problem %q, want %q; taints %v; resources %v, want %v", c.key, c.value, g.problem, want, g.taints, g.resources, c.resources)
		}
		if said := strings.HasPrefix(c.key, resource) && c.resources == nil; said != (len(g.nodeProblems) == 1) {
			t.Errorf("%s=%s: problems that leave it in use: %q", c.key, c.value, g.nodeProblems)
		}
		if c.key == option+dovetailv1alpha1.OptionUnneededTime && len(g.optionProblems) != 1 {
			t.Errorf("options %q", g.optionProblems)
		}
	}
}

// TestDiscoveredClass: a class that was made for groups that were found is known by its annotation.
func TestDiscoveredClass(t *testing.T) {
	for groups, want := range map[string]bool{"": false, "a,b": true} {
		c, err := readNodeClass("test", cloud.NodeClass{Name: "c", Spec: []byte(`{"selectorTerms":[{"name":"a"}]}`), Annotations: map[string]string{dovetailv1alpha1.AnnotationGroups: groups}})
		if err != nil || c.discovered != want {
			t.Errorf("%q: %+v, %v", groups, c, err)
		}
	}
}

// TestReusingWarmPool: nothing can be had from a group whose warm pool takes instances back on scale-in, for these bear the tags of NodeClaims that have ended.
func TestReusingWarmPool(t *testing.T) {
	for _, c := range []struct {
		pool   *astypes.WarmPoolConfiguration
		usable bool
	}{
		{nil, true},
		{&astypes.WarmPoolConfiguration{}, true},
		{&astypes.WarmPoolConfiguration{InstanceReusePolicy: &astypes.InstanceReusePolicy{ReuseOnScaleIn: sdk.Bool(false)}}, true},
		{&astypes.WarmPoolConfiguration{InstanceReusePolicy: &astypes.InstanceReusePolicy{ReuseOnScaleIn: sdk.Bool(true)}}, false},
	} {
		g := readGroup(&astypes.AutoScalingGroup{AutoScalingGroupName: sdk.String("g"), LaunchTemplate: &astypes.LaunchTemplateSpecification{LaunchTemplateName: sdk.String("x")}, WarmPoolConfiguration: c.pool})
		if g.problem == "" != c.usable || !c.usable && !strings.Contains(g.problem, "ReuseOnScaleIn") {
			t.Errorf("%+v: problem %q", c.pool, g.problem)
		}
	}
}

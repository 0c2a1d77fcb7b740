// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	asgtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
)

// define makes a group over a launch template with nodeadm's user data.
func (a *account) define(g Group) {
	a.t.Helper()
	if a.cloudTemplate == "" {
		a.cloudTemplate = a.template("nodes", nodeadmData)
	}
	g.LaunchTemplate = a.cloudTemplate
	if err := a.control("PUT", "groups", g, nil); err != nil {
		a.t.Fatal(err)
	}
}

func (a *account) group(name string) asgtypes.AutoScalingGroup {
	a.t.Helper()
	out := check[*autoscaling.DescribeAutoScalingGroupsOutput](a.t)(a.asg.DescribeAutoScalingGroups(a.t.Context(), &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{name}}))
	if len(out.AutoScalingGroups) != 1 {
		a.t.Fatalf("have %d groups %s", len(out.AutoScalingGroups), name)
	}
	return out.AutoScalingGroups[0]
}

func (a *account) setDesired(name string, n int32) {
	a.t.Helper()
	if _, err := a.asg.SetDesiredCapacity(a.t.Context(), &autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: &name, DesiredCapacity: &n, HonorCooldown: aws.Bool(false)}); err != nil {
		a.t.Fatal(err)
	}
}

// until waits for a condition of a group, moving the clock as long as it does not hold.
func (a *account) until(name string, ok func(asgtypes.AutoScalingGroup) bool) asgtypes.AutoScalingGroup {
	a.t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		if g := a.group(name); ok(g) {
			return g
		}
		a.clock.forward(100 * time.Millisecond)
	}
	a.t.Fatalf("group %s never was as expected: %+v", name, a.group(name).Instances)
	panic("unreachable")
}

func inService(n int) func(asgtypes.AutoScalingGroup) bool {
	return func(g asgtypes.AutoScalingGroup) bool {
		have := 0
		for _, i := range g.Instances {
			if i.LifecycleState == asgtypes.LifecycleStateInService {
				have++
			}
		}
		return have == n && len(g.Instances) == n
	}
}

func (a *account) activities(name string) []asgtypes.Activity {
	a.t.Helper()
	return check[*autoscaling.DescribeScalingActivitiesOutput](a.t)(a.asg.DescribeScalingActivities(a.t.Context(), &autoscaling.DescribeScalingActivitiesInput{AutoScalingGroupName: &name})).Activities
}

// TestGroup: desired capacity becomes nodes, in all zones; a member ended with decrement is not replaced, one ended otherwise is;
// all of it over a restart.
func TestGroup(t *testing.T) {
	a := newAccount(t)
	ctx := t.Context()
	a.define(Group{Name: "workers", Max: 6, InstanceTypes: []string{"m5.large"}, OnDemandAbovePercent: 100, Tags: []GroupTag{
		{Key: "k8s.io/cluster-autoscaler/enabled", Value: "true"}, {Key: "team", Value: "x", PropagateAtLaunch: true},
	}})
	found := check[*autoscaling.DescribeAutoScalingGroupsOutput](t)(a.asg.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{
		Filters: []asgtypes.Filter{{Name: aws.String("tag-key"), Values: []string{"k8s.io/cluster-autoscaler/enabled"}}},
	})).AutoScalingGroups
	if len(found) != 1 || *found[0].MixedInstancesPolicy.LaunchTemplate.Overrides[0].InstanceType != "m5.large" || len(strings.Split(*found[0].VPCZoneIdentifier, ",")) != 3 {
		t.Fatalf("have %+v", found)
	}
	if tags := check[*autoscaling.DescribeTagsOutput](t)(a.asg.DescribeTags(ctx, &autoscaling.DescribeTagsInput{Filters: []asgtypes.Filter{{Name: aws.String("key"), Values: []string{"team"}}}})).Tags; len(tags) != 1 || *tags[0].ResourceId != "workers" {
		t.Errorf("have tags %+v", tags)
	}
	a.setDesired("workers", 3)
	if g := a.group("workers"); len(g.Instances) != 0 || *g.DesiredCapacity != 3 {
		t.Errorf("at once: %d instances, desired %d", len(g.Instances), *g.DesiredCapacity)
	}
	g := a.until("workers", inService(3))
	a.cluster.until(t, func(n map[string]machines.NodeSpec) bool { return len(n) == 3 })
	zones := map[string]bool{}
	for _, i := range g.Instances {
		zones[*i.AvailabilityZone] = true
	}
	if len(zones) != 3 {
		t.Errorf("three members in %d zones", len(zones))
	}
	tagged := check[*ec2.DescribeInstancesOutput](t)(a.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{Filters: []types.Filter{
		{Name: aws.String("tag:team"), Values: []string{"x"}}, {Name: aws.String("tag:aws:autoscaling:groupName"), Values: []string{"workers"}},
	}}))
	if len(tagged.Reservations) != 3 {
		t.Errorf("%d members bear the group's tags", len(tagged.Reservations))
	}

	first := g.Instances[0].InstanceId
	end := func(id *string, decrement bool) error {
		_, err := a.asg.TerminateInstanceInAutoScalingGroup(ctx, &autoscaling.TerminateInstanceInAutoScalingGroupInput{InstanceId: id, ShouldDecrementDesiredCapacity: &decrement})
		return err
	}
	if err := end(first, true); err != nil {
		t.Fatal(err)
	}
	if err := end(first, true); code(err) != "ValidationError" {
		t.Errorf("ended twice: have %v", err)
	}
	a.restart()
	if g := a.until("workers", inService(2)); *g.DesiredCapacity != 2 {
		t.Errorf("have desired %d", *g.DesiredCapacity)
	}
	second := g.Instances[1].InstanceId
	if _, err := a.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{*second}}); err != nil {
		t.Fatal(err)
	}
	g = a.until("workers", func(g asgtypes.AutoScalingGroup) bool {
		return inService(2)(g) && !slices.ContainsFunc(g.Instances, func(i asgtypes.Instance) bool { return *i.InstanceId == *second })
	})
	if d := check[*autoscaling.DescribeAutoScalingInstancesOutput](t)(a.asg.DescribeAutoScalingInstances(ctx, &autoscaling.DescribeAutoScalingInstancesInput{InstanceIds: []string{*g.Instances[0].InstanceId}})); len(d.AutoScalingInstances) != 1 || *d.AutoScalingInstances[0].AutoScalingGroupName != "workers" {
		t.Errorf("have %+v", d.AutoScalingInstances)
	}

	for _, c := range []struct {
		n    int32
		want string
	}{{7, "above max value 6"}, {-1, "below min value 0"}} {
		_, err := a.asg.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: aws.String("workers"), DesiredCapacity: &c.n})
		if code(err) != "ValidationError" || !strings.Contains(err.Error(), c.want) {
			t.Errorf("desired %d: have %v", c.n, err)
		}
	}
	if _, err := a.asg.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: aws.String("nobody"), DesiredCapacity: aws.Int32(1)}); code(err) != "ValidationError" {
		t.Errorf("an unknown group: have %v", err)
	}
	if _, err := a.asg.UpdateAutoScalingGroup(ctx, &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: aws.String("workers"), MinSize: aws.Int32(2)}); err != nil {
		t.Fatal(err)
	}
	if err := end(g.Instances[0].InstanceId, true); code(err) != "ValidationError" || !strings.Contains(err.Error(), "minSize") {
		t.Errorf("below the minimum: have %v", err)
	}
}

// TestGroupTags: tags of a group are added, replaced and removed by key, and nothing changes if one of the groups does not exist.
func TestGroupTags(t *testing.T) {
	a := newAccount(t)
	a.define(Group{Name: "workers", Max: 6, InstanceTypes: []string{"m5.large"}, Tags: []GroupTag{{Key: "team", Value: "x", PropagateAtLaunch: true}}})
	tag := func(group, key, value string) asgtypes.Tag {
		return asgtypes.Tag{ResourceId: &group, ResourceType: aws.String("auto-scaling-group"), Key: &key, Value: &value, PropagateAtLaunch: aws.Bool(false)}
	}
	have := func() string {
		var out []string
		for _, d := range a.group("workers").Tags {
			out = append(out, fmt.Sprintf("%s=%s %t", *d.Key, aws.ToString(d.Value), *d.PropagateAtLaunch))
		}
		slices.Sort(out)
		return strings.Join(out, ", ")
	}
	put := func(tags ...asgtypes.Tag) error {
		_, err := a.asg.CreateOrUpdateTags(t.Context(), &autoscaling.CreateOrUpdateTagsInput{Tags: tags})
		return err
	}
	remove := func(tags ...asgtypes.Tag) error {
		_, err := a.asg.DeleteTags(t.Context(), &autoscaling.DeleteTagsInput{Tags: tags})
		return err
	}
	enabled, other := tag("workers", "k8s.io/cluster-autoscaler/enabled", "true"), tag("nobody", "team", "y")
	for _, step := range []struct {
		do         func() error
		code, want string
	}{
		{func() error { return put(enabled, tag("workers", "team", "y")) }, "", "k8s.io/cluster-autoscaler/enabled=true false, team=y false"},
		{func() error { return put(tag("workers", "team", "z"), other) }, "ValidationError", "k8s.io/cluster-autoscaler/enabled=true false, team=y false"},
		{func() error { return remove(enabled, other) }, "ValidationError", "k8s.io/cluster-autoscaler/enabled=true false, team=y false"},
	} {
		if err := step.do(); (err != nil || step.code != "") && code(err) != step.code || have() != step.want {
			t.Errorf("have %v and tags %s, want code %q and tags %s", err, have(), step.code, step.want)
		}
	}
	a.restart()
	for range 2 { // the second finds nothing
		if err := remove(enabled); err != nil || have() != "team=y false" {
			t.Errorf("have %v and tags %s", err, have())
		}
	}
}

// TestGroupScaleIn: a group that is told to shrink ends whom it likes, but nobody who is protected.
func TestGroupScaleIn(t *testing.T) {
	a := newAccount(t)
	a.define(Group{Name: "g", Max: 5, InstanceTypes: []string{"m5.large"}, OnDemandAbovePercent: 100})
	a.setDesired("g", 4)
	g := a.until("g", inService(4))
	var keep []string
	for _, i := range g.Instances[:3] {
		keep = append(keep, *i.InstanceId)
	}
	protect := func(on bool, ids ...string) error {
		_, err := a.asg.SetInstanceProtection(t.Context(), &autoscaling.SetInstanceProtectionInput{AutoScalingGroupName: aws.String("g"), InstanceIds: ids, ProtectedFromScaleIn: &on})
		return err
	}
	if err := protect(true, keep...); err != nil {
		t.Fatal(err)
	}
	if err := protect(true, "i-0"); code(err) != "ValidationError" {
		t.Errorf("an unknown instance: have %v", err)
	}
	a.setDesired("g", 2)
	left := a.until("g", inService(3))
	for _, i := range left.Instances {
		if !slices.Contains(keep, *i.InstanceId) || !*i.ProtectedFromScaleIn {
			t.Errorf("%s is left, protected are %v", *i.InstanceId, keep)
		}
	}
	if err := protect(false, keep[0]); err != nil {
		t.Fatal(err)
	}
	left = a.until("g", inService(2))
	if slices.ContainsFunc(left.Instances, func(i asgtypes.Instance) bool { return *i.InstanceId == keep[0] }) {
		t.Error("the one that is no longer protected is left")
	}
}

// TestGroupWithoutCapacity: desired stays above the members, a failed activity says why, and it goes on when there is capacity.
func TestGroupWithoutCapacity(t *testing.T) {
	a := newAccount(t)
	a.define(Group{Name: "g", Max: 3, InstanceTypes: []string{"m5.large", "m5a.large"}, SpotAllocationStrategy: "capacity-optimized"})
	a.fault(Fault{Kind: machines.OutOfCapacity, CapacityType: "spot"})
	a.setDesired("g", 1)
	a.until("g", func(asgtypes.AutoScalingGroup) bool {
		return slices.ContainsFunc(a.activities("g"), func(x asgtypes.Activity) bool {
			return x.StatusCode == asgtypes.ScalingActivityStatusCodeFailed && strings.Contains(*x.StatusMessage, "do not have sufficient")
		})
	})
	if g := a.group("g"); len(g.Instances) != 0 || *g.DesiredCapacity != 1 {
		t.Errorf("have %d instances and desired %d", len(g.Instances), *g.DesiredCapacity)
	}
	if err := a.control("DELETE", "faults", nil, nil); err != nil {
		t.Fatal(err)
	}
	a.until("g", inService(1))
	if b := a.books(); b.Alive[0].CapacityType != "spot" || b.Alive[0].Group != "g" {
		t.Errorf("have %+v", b.Alive)
	}
	if newest := a.activities("g")[0]; newest.StatusCode != asgtypes.ScalingActivityStatusCodeSuccessful {
		t.Errorf("the newest activity is %s", newest.StatusCode)
	}
}

// TestGroupMix: base and percentage on demand, the rest spot.
func TestGroupMix(t *testing.T) {
	a := newAccount(t)
	a.define(Group{Name: "g", Max: 10, InstanceTypes: []string{"m5.large", "m5a.large"}, OnDemandBase: 2, OnDemandAbovePercent: 25, SpotAllocationStrategy: "lowest-price"})
	a.setDesired("g", 10)
	a.until("g", inService(10))
	have := map[string]int{}
	for _, i := range a.books().Alive {
		have[i.CapacityType]++
	}
	if have["on-demand"] != 4 || have["spot"] != 6 {
		t.Errorf("have %v, want 2 and a quarter of the other 8 on demand", have)
	}
}

// TestRebalance: AZRebalance starts one in another zone and ends one without asking; not where it is suspended. An instance refresh shows.
func TestRebalance(t *testing.T) {
	a := newAccount(t)
	a.define(Group{Name: "g", Max: 3, InstanceTypes: []string{"m5.large"}, OnDemandAbovePercent: 100, InstanceRefreshStatuses: []string{"InProgress"}})
	a.setDesired("g", 1)
	before := *a.until("g", inService(1)).Instances[0].InstanceId
	var moved Interrupted
	if err := a.control("POST", "rebalance", GroupName{"g"}, &moved); err != nil {
		t.Fatal(err)
	}
	g := a.until("g", inService(1))
	if *g.Instances[0].InstanceId != moved.Instances[0] || moved.Instances[1] != before {
		t.Errorf("have %s, moved %v", *g.Instances[0].InstanceId, moved.Instances)
	}
	refreshes := check[*autoscaling.DescribeInstanceRefreshesOutput](t)(a.asg.DescribeInstanceRefreshes(t.Context(), &autoscaling.DescribeInstanceRefreshesInput{AutoScalingGroupName: aws.String("g")})).InstanceRefreshes
	if len(refreshes) != 1 || refreshes[0].Status != asgtypes.InstanceRefreshStatusInProgress {
		t.Errorf("have %+v", refreshes)
	}
	a.define(Group{Name: "g", Max: 3, InstanceTypes: []string{"m5.large"}, OnDemandAbovePercent: 100, DesiredLeftAsItIs: true, Suspended: []string{"AZRebalance"}})
	if err := a.control("POST", "rebalance", GroupName{"g"}, nil); err == nil {
		t.Error("rebalanced though suspended")
	}
	if s := a.group("g").SuspendedProcesses; len(s) != 1 || *s[0].ProcessName != "AZRebalance" {
		t.Errorf("have %+v", s)
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/asg"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// managed is an EKS managed node group whose label and taint no tag tells, and its Auto Scaling group.
func managed(desired int) awstest.Group {
	return awstest.Group{Name: "eks-web-1a", Min: 0, Desired: desired, Max: 4, InstanceTypes: []string{"m5.large"}, Zones: []string{"us-east-1a"}, Managed: &awstest.ManagedGroup{
		Name: "web", Labels: map[string]string{"team": "blue"}, Taints: []awstest.ManagedTaint{{Key: "dedicated", Value: "web", Effect: "NO_SCHEDULE"}},
	}}
}

// managedStatus is the conditions of the class of the groups, and the status of its only group.
func managedStatus(t *testing.T, p *aws.Provider) (map[string]model.Condition, dovetailv1alpha1.NodeGroupStatus) {
	t.Helper()
	conditions, st := groupStatus(t, p, groupClass(tagged))
	if len(st.Groups) != 1 {
		t.Fatalf("groups: %+v", st.Groups)
	}
	return conditions, st.Groups[0]
}

// eventually asks until something holds that the simulated AWS does on its own.
func eventually(t *testing.T, what string, holds func() error) {
	t.Helper()
	(&account{t: t}).soon(what, holds)
}

// TestManagedGroup: what EKS says of a managed node group's nodes is planned with, though no tag says it; the group
// grows and shrinks through its Auto Scaling group, and EKS's own configuration is left alone.
func TestManagedGroup(t *testing.T) {
	clock := &shifted{}
	a := open(t, some(t, "m5.large"), clock, func(s *awstest.Settings) { s.GroupDelay = 10 * time.Millisecond })
	a.define(managed(0))
	p := a.provider()
	pool := &model.NodePool{Name: "workers"}
	if _, err := p.Offerings(t.Context(), pool, groupClass(tagged)); err == nil || !strings.Contains(err.Error(), "dedicated=web:NoSchedule") || !strings.Contains(err.Error(), "EKS managed node group web") {
		t.Errorf("a pool without the taint: %v", err)
	}
	pool.Taints = []model.Taint{{Key: "dedicated", Value: "web", Effect: model.NoSchedule}}
	types, err := p.Offerings(t.Context(), pool, groupClass(tagged))
	if err != nil || len(types) != 1 || len(types[0].Offerings) != 1 {
		t.Fatal(types, err)
	}
	for key, want := range map[string]string{"team": "blue", "eks.amazonaws.com/nodegroup": "web", "eks.amazonaws.com/capacityType": "ON_DEMAND"} {
		if got := types[0].Offerings[0].Labels[key]; got != want {
			t.Errorf("label %s is %q, want %q", key, got, want)
		}
	}
	ids := getAll(t, p, clock, "a", "b")
	if got := *a.group("eks-web-1a").DesiredCapacity; got != 2 {
		t.Errorf("the group should have %d nodes, want 2", got)
	}
	if err := p.Terminate(t.Context(), ids[:1])[0]; err != nil {
		t.Error(err)
	}
	if got := *a.group("eks-web-1a").DesiredCapacity; got != 1 {
		t.Errorf("the group should have %d nodes after one has ended, want 1", got)
	}
	for call, n := range a.books().Calls {
		if strings.Contains(call, "UpdateNodegroup") {
			t.Errorf("%s was called: %+v", call, n)
		}
	}
}

// TestManagedGroupUpgraded: while EKS upgrades a managed node group the room above its own maximum is EKS's, the class
// says that its nodes are being replaced, and nobody takes away the nodes that EKS has started; then all is as before.
func TestManagedGroupUpgraded(t *testing.T) {
	clock := &shifted{}
	a := open(t, some(t, "m5.large"), clock, func(s *awstest.Settings) { s.GroupDelay = 300 * time.Millisecond })
	a.define(managed(3))
	p := a.provider()
	eventually(t, "members", func() error {
		if n := len(a.group("eks-web-1a").Instances); n != 3 {
			return fmt.Errorf("%d of 3", n)
		}
		return nil
	})
	var old []string
	for _, m := range a.group("eks-web-1a").Instances {
		old = append(old, *m.InstanceId)
	}
	a.fault(awstest.Fault{Kind: awstest.SlowGroup, Delay: machines.Duration(10 * time.Millisecond)}) // until the upgrade has been looked at
	a.control("POST", "upgrade", awstest.Upgrade{Group: "eks-web-1a", Surge: 1}, nil)
	st, g := managedStatus(t, p)
	if cond := st[dovetailv1alpha1.ConditionUndisturbed]; g.Refresh != "UPDATING" || g.Max != 4 || cond.Reason != "NodegroupUpdate" || !strings.Contains(cond.Message, "EKS is updating managed node group web") {
		t.Errorf("during the upgrade: %+v, %+v", g, cond)
	}
	if got := *a.group("eks-web-1a").MaxSize; got != 5 {
		t.Fatalf("the simulated EKS has not raised the maximum: %d", got)
	}
	before := a.books().Calls["autoscaling:SetDesiredCapacity"].Count
	a.control("DELETE", "faults", nil, nil)
	eventually(t, "the upgrade", func() error {
		if _, err := p.List(t.Context()); err != nil {
			t.Fatal(err)
		}
		now := a.group("eks-web-1a")
		left := slices.ContainsFunc(now.Instances, func(m astypes.Instance) bool {
			return m.LifecycleState == astypes.LifecycleStateInService && slices.Contains(old, *m.InstanceId)
		})
		if left || *now.MaxSize != 4 || *now.DesiredCapacity != 3 {
			return fmt.Errorf("max %d, desired %d, %d members", *now.MaxSize, *now.DesiredCapacity, len(now.Instances))
		}
		return nil
	})
	if after := a.books().Calls["autoscaling:SetDesiredCapacity"].Count; after != before {
		t.Errorf("the desired capacity was changed %d times during the upgrade, before %d", after, before)
	}
	clock.ahead.Store(int64(time.Minute)) // what was said of it is old by then
	if st, g := managedStatus(t, p); g.Refresh != "" || !st[dovetailv1alpha1.ConditionUndisturbed].True() {
		t.Errorf("after the upgrade: %+v, %+v", g, st)
	}
}

// TestManagedGroupAdoption: a node that EKS has started for an upgrade counts as one of its group, and is known to be of one
// whose members are replaced, until the upgrade is over; so is one of a group of which nobody can tell now.
func TestManagedGroupAdoption(t *testing.T) {
	clock := &shifted{}
	a := open(t, some(t, "m5.large"), clock, func(s *awstest.Settings) { s.GroupDelay = 10 * time.Millisecond })
	a.define(managed(1))
	calls := &recording{by: a, lines: map[string]bool{}}
	p := a.providerOf(a.through(calls))
	managedStatus(t, p)
	members := func(replacing bool) (out int) {
		t.Helper()
		list, err := p.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range list {
			if i.Class != "" && i.Labels[model.LabelNodeGroup] == "eks-web-1a" && i.Replacing == replacing {
				out++
			}
		}
		return out
	}
	later := func() { clock.ahead.Add(int64(31 * time.Second)) }
	eventually(t, "a member", func() error {
		if n := len(a.group("eks-web-1a").Instances); n != 1 {
			return fmt.Errorf("%d of 1", n)
		}
		return nil
	})
	later()
	if n := members(false); n != 1 {
		t.Errorf("%d members may be adopted before the upgrade, want 1", n)
	}
	// EKS has said that it is ACTIVE, and says nothing when the upgrade has begun.
	a.fault(awstest.Fault{Kind: awstest.Throttle, Action: "DescribeNodegroup", Percent: 100})
	old := *a.group("eks-web-1a").Instances[0].InstanceId // asked for later it may be the new one
	a.control("POST", "upgrade", awstest.Upgrade{Group: "eks-web-1a", Surge: 1, Drains: true}, nil)
	eventually(t, "the new node", func() error {
		if n := len(a.group("eks-web-1a").Instances); n != 2 {
			return fmt.Errorf("%d of 2", n)
		}
		return nil
	})
	later()
	if n := members(true); n != 2 {
		t.Errorf("%d members may be of a group that is replaced while EKS says nothing, want 2", n)
	}
	a.control("DELETE", "faults", nil, nil)
	clear(calls.lines)
	for range 3 {
		later()
		if n := members(true); n != 2 {
			t.Errorf("%d members are known to be of a group that is replaced amid the upgrade, want 2", n)
		}
	}
	if n := len(calls.lines); n != 2 { // a list asks EKS, and which instances are members
		t.Errorf("%d kinds of calls to list the members: %v", n, calls.lines)
	}
	a.control("POST", "drained", awstest.Drain{Instance: old}, nil)
	eventually(t, "the upgrade", func() error {
		later()
		if g := a.group("eks-web-1a"); *g.MaxSize != 4 || *g.DesiredCapacity != 1 {
			return fmt.Errorf("max %d, desired %d", *g.MaxSize, *g.DesiredCapacity)
		}
		return nil
	})
	a.fault(awstest.Fault{Kind: awstest.Throttle, Action: "DescribeNodegroup", Percent: 100})
	later()
	if n := members(false); n != 0 {
		t.Errorf("%d members may be adopted while nobody can tell whether EKS replaces them", n)
	}
	a.control("DELETE", "faults", nil, nil)
	eventually(t, "the new node may be adopted", func() error {
		later()
		if n := members(false); n != 1 {
			return fmt.Errorf("%d may", n)
		}
		return nil
	})
}

// TestManagedGroupBounds: EKS refuses a second update while one is under way; bounds that it was given hold.
func TestManagedGroupBounds(t *testing.T) {
	clock := &shifted{}
	a := open(t, some(t, "m5.large"), clock, func(s *awstest.Settings) { s.GroupDelay = time.Minute })
	a.define(managed(1))
	update := func(most int32) error {
		_, err := a.clients().EKS.UpdateNodegroupConfig(t.Context(), &eks.UpdateNodegroupConfigInput{ClusterName: sdk.String("sandbox"), NodegroupName: sdk.String("web"),
			ScalingConfig: &ekstypes.NodegroupScalingConfig{MaxSize: &most}, Labels: &ekstypes.UpdateLabelsPayload{AddOrUpdateLabels: map[string]string{"team": "green"}}})
		return err
	}
	if err := update(2); err != nil {
		t.Fatal(err)
	}
	if err := update(3); err == nil || !strings.Contains(err.Error(), "ResourceInUseException") {
		t.Errorf("a second update: %v", err)
	}
	p := a.provider()
	if _, g := managedStatus(t, p); g.Max != 2 || g.Refresh != "UPDATING" {
		t.Errorf("%+v", g)
	}
	found, err := asg.Discover(t.Context(), a.clients(), []string{"eks-web-1a"}, nil)
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	for key, want := range map[string]string{dovetailv1alpha1.TagNodeTemplateLabel + "team": "green", dovetailv1alpha1.TagNodeTemplateTaint + "dedicated": "web:NoSchedule"} {
		if got := found[0].Tags[key]; got != want {
			t.Errorf("discovered with %s=%q, want %q", key, got, want)
		}
	}
}

// TestManagedGroupDenied: without the right to ask EKS a group is as its tags say, and the class says which right is
// missing; groups that are to be found are not found with half of what they are.
func TestManagedGroupDenied(t *testing.T) {
	a := open(t, some(t, "m5.large"), &shifted{})
	a.define(managed(0))
	a.fault(awstest.Fault{Kind: awstest.Deny, Action: "DescribeNodegroup"})
	st, g := managedStatus(t, a.provider())
	if cond := st[dovetailv1alpha1.ConditionPermitted]; cond.True() || !strings.Contains(cond.Message, "allow eks:DescribeNodegroup") || g.Problem != "" || !st["Ready"].True() {
		t.Errorf("%+v, %+v", cond, g)
	}
	if found, err := asg.Discover(t.Context(), a.clients(), []string{"eks-web-1a"}, nil); err == nil || !strings.Contains(err.Error(), "EKS managed node group web of cluster sandbox") || !strings.Contains(err.Error(), "allow eks:DescribeNodegroup") {
		t.Errorf("found %+v, %v", found, err)
	}
}

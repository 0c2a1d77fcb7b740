// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// groupType is an instance type of a node group with room for so many machines more.
func groupType(group string, cpu, left, most int64) *model.InstanceType {
	t := instanceType("type-of-"+group, cpu, 100_000)
	t.Offerings[0].Remaining, t.Offerings[0].Most, t.Offerings[0].Labels = left, most, model.Labels{model.LabelNodeGroup: group}
	return t
}

// driveGroups has the pool of the bench be one of node groups small and large.
func driveGroups(b *bench, types ...*model.InstanceType) {
	var names []string
	for _, t := range types {
		names = append(names, t.Name)
	}
	b.offerings = func() ([]*model.InstanceType, error) { return types, nil }
	b.emit(func(s *state.State) {
		s.Pools.SetNodeClass(state.NodeClass{Group: "g", Kind: "K", Name: "c", UID: "class", Generation: 1,
			Groups: []model.NodeGroup{{Name: "large", Max: 10, Desired: 1}, {Name: "small", Min: 1, Max: 3, Desired: 2}}})
		s.Pools.SetPool(&model.NodePool{Name: "p", UID: "uid-p", Replicas: -1, NodeLimit: -1, ExpireAfter: -1, TerminationGracePeriod: -1, ConsolidateAfter: -1,
			Labels: model.Labels{}, Requirements: model.NewRequirements(model.OneOf(model.LabelNodePool, "p"), model.OneOf(model.LabelInstanceType, names...)), ClassGroup: "g", ClassKind: "K", ClassName: "c"})
	})
}

// events are what was told of one kind of object by one of these reasons.
func events(b *bench, kind string, reasons ...string) (out []string) {
	for _, e := range b.made("event") {
		if words := strings.SplitN(e.what, " ", 3); words[0] == kind && slices.ContainsFunc(reasons, func(r string) bool { return strings.HasPrefix(words[2], r+":") }) {
			out = append(out, e.what)
		}
	}
	return out
}

// A pod is told once which group grows for it; one that none grows for is told once why not, while that stands.
func TestScaleUpEvents(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		driveGroups(b, groupType("large", 4000, 9, 10), groupType("small", 2000, 0, 3))
		b.lead()
		for i := range 5 {
			b.pod(fmt.Sprint("web-", i), "web")
		}
		b.emit(func(s *state.State) {
			now := time.Now()
			s.SetPod(&model.Pod{Namespace: "default", Name: "huge", UID: "uid-huge", Created: now, Unschedulable: now,
				Class: &model.Class{Key: "huge", Namespace: "default", Requests: model.Resources{64000, 1 << 30, 0, 1}, Scheduler: "default-scheduler"}})
		})
		time.Sleep(10 * time.Minute)
		up := events(b, "Pod", "TriggeredScaleUp")
		if len(up) != 5 {
			t.Errorf("%d events TriggeredScaleUp for 5 pods: %v", len(up), up)
		}
		for _, e := range up {
			if !strings.HasSuffix(e, "TriggeredScaleUp: pod triggered scale-up: [{large 0->2 (max: 10)}]") {
				t.Error(e)
			}
		}
		not := events(b, "Pod", "NotTriggerScaleUp")
		if len(not) != 1 || !strings.HasPrefix(not[0], "Pod huge NotTriggerScaleUp: pod didn't trigger scale-up: 2 Insufficient cpu. ") {
			t.Errorf("for a pod that fits no group: %q", not)
		}
	})
}

// Where no NodeGroupClass has groups, nobody is told in Cluster Autoscaler's words.
func TestNoGroupsNoEvents(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.lead()
		b.pod("web", "web")
		time.Sleep(time.Minute)
		if len(b.made("create")) == 0 {
			t.Fatal("nothing was launched")
		}
		if told := events(b, "Pod", "TriggeredScaleUp", "NotTriggerScaleUp"); len(told) > 0 {
			t.Error(told)
		}
	})
}

// A node of a group that goes because it is not needed is told so, as are its pods; one that goes for another reason is not.
func TestScaleDownEvents(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		driveGroups(b, groupType("large", 4000, 9, 10))
		for i, why := range []plan.Code{plan.Empty, plan.Underutilized, plan.Drifted} {
			name := fmt.Sprint("c", i)
			b.c.Emit(func(s *state.State) {
				s.SetNode(&model.Node{Name: "n" + name, UID: "uid-n" + name, ProviderID: "m-" + name, Ready: true}, 1)
				s.SetClaim(&model.Claim{Name: name, UID: "uid-" + name, NodeName: "n" + name, ProviderID: "m-" + name, Pool: "p", Labels: model.Labels{model.LabelNodeGroup: "large"},
					Conditions: map[string]model.Condition{lifecycle.Disrupted: {Status: "True", Reason: string(why)}}}, 1)
				rec, now := b.c.recorder, time.Now()
				rec.Output(now, &model.Snapshot{}, &decide.Output{Plan: plan.Plan{Actions: []plan.Action{plan.DeleteClaim{Claim: name, UID: "uid-" + name, Why: plan.Reason{Code: why, Command: "m"}}}}})
				b.c.answers.answerEvict(plan.Evict{Namespace: "default", Pod: "web-" + name, Node: "n" + name})(s, nil)
				rec.Output(now, &model.Snapshot{}, &decide.Output{Plan: plan.Plan{Actions: []plan.Action{plan.UpdateClaim{Claim: name, UID: "uid-" + name,
					Conditions: map[string]model.Condition{lifecycle.Disrupted: {}}, Why: plan.Reason{Code: plan.Aborted, Detail: plan.OfAborted{Cause: why, Said: "a pod came"}}}}}})
			})
		}
		time.Sleep(time.Second)
		got := append(events(b, "Node", "ScaleDown", "ScaleDownFailed"), events(b, "Pod", "ScaleDown")...)
		want := []string{
			"Node nc0 ScaleDown: Scale-down: removing node nc0 from group large, since it is empty",
			"Node nc0 ScaleDownFailed: Scale-down of node nc0 was cancelled: a pod came",
			"Node nc1 ScaleDown: Scale-down: removing node nc1 from group large, since it is underutilized",
			"Node nc1 ScaleDownFailed: Scale-down of node nc1 was cancelled: a pod came",
			"Pod web-c0 ScaleDown: Evicted: node nc0 of group large is scaled down",
			"Pod web-c1 ScaleDown: Evicted: node nc1 of group large is scaled down",
		}
		if !slices.Equal(got, want) {
			t.Errorf("told\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// A pod that the limit on all nodes of the cluster keeps from its node is told so, and the status ConfigMap once a step.
func TestTotalNodesReached(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		driveGroups(b, groupType("large", 4000, 9, 10), groupType("small", 2000, 3, 3))
		b.emit(func(s *state.State) {
			s.SetLimit(&model.CapacityLimit{Name: model.ClusterLimits, Nodes: 1, MicroPerHour: -1})
		})
		b.lead()
		time.Sleep(time.Minute) // by then the ConfigMap is there
		for i := range 9 {
			b.pod(fmt.Sprint("web-", i), "web")
		}
		time.Sleep(10 * time.Minute)
		if up := b.made("create"); len(up) != 1 {
			t.Fatalf("%d nodes are launched within a limit of 1: %v", len(up), up)
		}
		not := events(b, "Pod", "NotTriggerScaleUp")
		if len(not) == 0 {
			t.Fatal("no pod was told that it waits")
		}
		for _, e := range not {
			if !strings.Contains(e, "pod didn't trigger scale-up: 2 max total nodes in cluster reached. ") || !strings.Contains(e, "--max-nodes-total") {
				t.Error(e)
			}
		}
		told := events(b, "ConfigMap", "MaxNodesTotalReached")
		if len(told) == 0 || len(told) >= len(not) || told[0] != "ConfigMap status MaxNodesTotalReached: Max total nodes in cluster reached: 1" {
			t.Errorf("%d pods wait; told on the ConfigMap: %q", len(not), told)
		}
	}, func(b *bench, c *Controller) { c.GroupStatus = &statusMap{b: b} })
}

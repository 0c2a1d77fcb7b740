// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// addPool adds a NodePool with the instance types of the first one, and with a label unless its key is empty.
func addPool(s *model.Snapshot, name, key, value string) *model.NodePool {
	p := &model.NodePool{Name: name, UID: name, NodeLimit: -1, Replicas: -1, Ready: true, Types: s.Pools[0].Types,
		Requirements: model.NewRequirements(model.OneOf(model.LabelNodePool, name))}
	if key != "" {
		p.Labels = model.Labels{key: value}
		p.Requirements = p.Requirements.With(model.OneOf(key, value))
	}
	s.Pools = append(s.Pools, p)
	return p
}

// selecting makes a pod select labels.
func selecting(p *model.Pod, labels ...string) *model.Pod {
	var rs []model.Requirement
	for i := 0; i < len(labels); i += 2 {
		rs = append(rs, model.OneOf(labels[i], labels[i+1]))
	}
	p.Class.Terms = []model.NodeTerm{{Requirements: model.NewRequirements(rs...)}}
	return p
}

// whyPod is the answer about a pod.
func whyPod(t *testing.T, s *model.Snapshot, p *model.Pod) plan.Answer {
	t.Helper()
	a, err := Why(s, decide.Memory{}, epoch, decide.DefaultPolicy(), "pod/"+p.Key())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// A NodePool that only a taint keeps a pod off comes nearer than one without the label that the pod selects, and not than one whose limit is reached;
// a taint for devices that the pod doesn't use does not come nearer.
func TestNearestPool(t *testing.T) {
	taints := []model.Taint{{Key: "gpu", Effect: "NoSchedule"}}
	for _, c := range []struct {
		name  string
		pools func(s *model.Snapshot)
		want  string // the NodePool of the first reason
		code  plan.Code
	}{
		{"only a taint", func(s *model.Snapshot) { addPool(s, "tainted", "team", "ml").Taints = taints }, "tainted", plan.Taint},
		{"a taint and another label", func(s *model.Snapshot) { addPool(s, "tainted", "team", "db").Taints = taints }, "batch", plan.Requirement},
		{"a limit", func(s *model.Snapshot) {
			addPool(s, "tainted", "team", "ml").Taints = taints
			p := addPool(s, "full", "team", "ml")
			p.HasLimit, p.Limits = []bool{true}, model.Resources{1000}
		}, "full", plan.Limit},
		{"a taint for devices", func(s *model.Snapshot) {
			p := addPool(s, "tainted", "team", "ml")
			p.Taints = taints
			gpu := *p.Types[0]
			gpu.Name, gpu.Labels = "g", model.Labels{model.LabelInstanceType: "g"}
			gpu.Capacity, gpu.Allocatable = gpu.Capacity.With(model.FirstExtended, 1), gpu.Allocatable.With(model.FirstExtended, 1)
			p.Types = []*model.InstanceType{&gpu}
			s.ResourceNames = append(model.FixedNames(), "nvidia.com/gpu")
		}, "batch", plan.Requirement},
	} {
		s := waitingCluster()
		addPool(s, "batch", "team", "batch")
		c.pools(s)
		pod := selecting(addPending(s, "r", 1000, true), "team", "ml")
		if d := decide.WhatIf(s, epoch, decide.DefaultPolicy()).Pods[0]; d.Reasons[0].Pool != c.want || d.Reasons[0].Code != c.code {
			t.Errorf("%s: the plan says %v first, want %s of NodePool %s", c.name, d.Reasons, c.code, c.want)
		}
		a := whyPod(t, s, pod)
		if len(a.Ways) == 0 {
			t.Errorf("%s: no way of %+v", c.name, a.Findings)
		} else if a.Findings[0].Reason.Pool != a.Ways[0].Pool {
			t.Errorf("%s: the first reason is of NodePool %s, the first change is for NodePool %s", c.name, a.Findings[0].Reason.Pool, a.Ways[0].Pool)
		}
	}
}

// addNodes adds nodes of a NodePool, each with so many pods and one of a DaemonSet. The NodePool's template has a hash, which their claims record.
func addNodes(s *model.Snapshot, pool *model.NodePool, nodes, pods int) {
	pool.Hash = "1"
	for i := range nodes {
		name := fmt.Sprintf("%s-%d", pool.Name, i)
		labels := model.Labels{model.LabelNodePool: pool.Name, model.LabelInstanceType: "t", model.LabelZone: "z", model.LabelCapacityType: model.OnDemand, model.LabelHostname: name, model.LabelRegistered: "true", model.LabelInitialized: "true"}
		maps.Copy(labels, pool.Labels)
		size := pool.Types[0].Capacity
		n := &model.Node{Name: name, UID: name, Claim: name, ProviderID: name, Ready: true, Labels: labels, Capacity: size, Allocatable: size}
		for j := range pods + 1 {
			pod := &model.Pod{Namespace: "n", Name: fmt.Sprint(name, "-", j), UID: fmt.Sprint(name, "-", j), Node: name, Owner: model.Owner{Kind: "ReplicaSet", Name: "s", UID: "s"},
				Class: &model.Class{Key: "s", Namespace: "n", Requests: model.Resources{10, 0, 0, 1}}}
			if j == pods {
				pod.Owner, pod.Class = model.Owner{Kind: "DaemonSet", Name: "d", UID: "d"}, &model.Class{Key: "d", Namespace: "n", Daemon: true, Requests: model.Resources{10, 0, 0, 1}}
			}
			n.Pods = append(n.Pods, pod)
		}
		conditions := map[string]model.Condition{}
		for _, step := range []string{lifecycle.Launched, lifecycle.Registered, lifecycle.Initialized, "ConsistentStateFound", "Consolidatable"} {
			conditions[step] = model.Condition{Status: "True", Since: epoch}
		}
		s.Nodes = append(s.Nodes, n)
		s.Claims = append(s.Claims, &model.Claim{Name: name, UID: name, Pool: pool.Name, ProviderID: name, NodeName: name, Created: epoch, HasFinalizer: true, Labels: labels, Conditions: conditions,
			Annotations: model.Labels{model.AnnotationPoolHash: "1", model.AnnotationPoolHashVersion: model.PoolHashVersion}})
	}
}

// A change of what drift compares says how many nodes it makes drift and how many pods are rescheduled, as the next step finds, and comes behind those that
// replace none. Nodes that disruption budgets never let go drift and are not replaced.
func TestChangesTellDrift(t *testing.T) {
	for _, of := range []struct {
		budgets []model.Budget
		blocked bool
	}{
		{nil, false}, {[]model.Budget{{Nodes: 0, Reasons: []string{string(plan.Empty)}}}, false}, {[]model.Budget{{Nodes: 0, Reasons: []string{string(plan.Drifted)}}}, true},
		{[]model.Budget{{Nodes: 1}, {Nodes: 0, Percent: true}}, true}, {[]model.Budget{{Nodes: 0, Schedule: "@daily", Duration: 23 * time.Hour}}, false},
		{[]model.Budget{{Nodes: 0, Schedule: "@daily", Duration: 24 * time.Hour}}, true},
	} {
		tellDrift(t, of.budgets, of.blocked)
	}
}

func tellDrift(t *testing.T, budgets []model.Budget, blocked bool) {
	s := waitingCluster()
	s.Pools[0].Budgets = budgets
	addNodes(s, s.Pools[0], 3, 2)
	tainted := addPool(s, "tainted", "disk", "nvme")
	tainted.Taints = []model.Taint{{Key: "gpu", Effect: "NoSchedule"}}
	pod := selecting(addPending(s, "r", 1000, true), "disk", "nvme")
	a := whyPod(t, s, pod)
	withDrift := WithDrift(s, epoch, decide.DefaultPolicy())
	drifting := 0
	for i, w := range a.Ways {
		after := s
		for _, ch := range w.Changes {
			var err error
			if after, err = Apply(after, ch); err != nil {
				t.Fatal(err)
			}
		}
		out, _ := decide.Step(after, decide.Memory{}, epoch, decide.DefaultPolicy(), decide.Request{Solve: true})
		drifted := 0
		for _, x := range out.Actions {
			if u, ok := x.(plan.UpdateClaim); ok && u.Conditions[lifecycle.Drifted].True() {
				drifted++
			}
		}
		told, evicted := 0, 0
		for _, ch := range w.Changes {
			told, evicted = told+ch.Drifts, evicted+ch.Evicts
			if by := withDrift(plan.Change{Object: ch.Object, Field: ch.Field, Op: ch.Op, Value: ch.Value}); by != ch {
				t.Errorf("alone it is %+v, in the answer %+v", by, ch)
			}
		}
		pods := 2 * drifted
		if blocked {
			pods = 0
		}
		if told != drifted || evicted != pods {
			t.Errorf("%v: %v is said to drift %d nodes and to evict %d pods; it drifts %d, want %d pods", budgets, w.Changes, told, evicted, drifted, pods)
		}
		if drifted > 0 {
			drifting++
		} else if drifting > 0 && !blocked {
			t.Errorf("way %d, %v, drifts no node and comes behind one that does", i+1, w.Changes)
		}
	}
	if drifting == 0 || drifting == len(a.Ways) {
		t.Errorf("%d of %d ways drift nodes: %+v", drifting, len(a.Ways), a.Ways)
	}
}

// A way that starts several pods tells all nodes that are launched for them and what they cost together, as the plan with its changes has them.
func TestWaysTellAllNodes(t *testing.T) {
	for _, milliCPU := range []int64{1000, 1500, 3000} {
		for pods := 1; pods <= 5; pods++ {
			s := waitingCluster()
			s.Pools[0].Taints = []model.Taint{{Key: "team", Effect: "NoSchedule"}}
			first := addPending(s, "r", milliCPU, true)
			for range pods - 1 {
				addPending(s, "r", milliCPU, true).Class = first.Class
			}
			a := whyPod(t, s, first)
			if len(a.Ways) != 1 || a.Ways[0].Starts != pods {
				t.Fatalf("%d pods of %dm: %+v, want one way that starts all", pods, milliCPU, a.Ways)
			}
			after, err := Apply(s, a.Ways[0].Changes[0])
			if err != nil {
				t.Fatal(err)
			}
			nodes, micro := 0, int64(0)
			for _, x := range decide.WhatIf(after, epoch, decide.DefaultPolicy()).Actions {
				nodes++
				micro += x.(plan.CreateClaim).PriceMicro
			}
			told := 0
			for _, m := range a.Ways[0].Then.Machines {
				told += m.Count
			}
			if told != nodes || a.Ways[0].Then.NewMicro != micro {
				t.Errorf("%d pods of %dm: %d nodes for %d micro-dollars an hour are told, %d for %d are launched", pods, milliCPU, told, a.Ways[0].Then.NewMicro, nodes, micro)
			}
		}
	}
}

// During a shortage of an instance type, a pod that selects it is offered to accept others, and no change after which it still waits for capacity.
func TestShortageIsSeen(t *testing.T) {
	s := waitingCluster()
	short, other := *s.Pools[0].Types[0], *s.Pools[0].Types[0]
	short.Offerings = slices.Clone(short.Offerings)
	short.Offerings[0].Available = false
	other.Name, other.Labels = "u", model.Labels{model.LabelInstanceType: "u"}
	s.Pools[0].Types = []*model.InstanceType{&short, &other}
	addPool(s, "tainted", "", "").Taints = []model.Taint{{Key: "gpu", Effect: "NoSchedule"}}
	addPool(s, "q", "", "")
	pod := selecting(addPending(s, "r", 1000, true), model.LabelNodePool, "p", model.LabelInstanceType, "t")
	a := whyPod(t, s, pod)
	editable := 0
	for _, w := range a.Ways {
		if !w.IsEditable() {
			continue
		}
		if editable++; len(w.Changes) == 1 && w.Changes[0].Field != "spec.template.spec.nodeSelector["+model.LabelInstanceType+"]" && w.Changes[0].Field != "spec.template.spec.affinity.nodeAffinity["+model.LabelInstanceType+"]" {
			t.Errorf("%v is offered, which leaves the shortage", w.Changes)
		}
	}
	if editable == 0 || a.Findings[0].Reason.Code != plan.OutOfCapacity {
		t.Errorf("%d ways that people can take, and %+v first", editable, a.Findings)
	}
}

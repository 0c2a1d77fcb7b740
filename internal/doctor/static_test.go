// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package doctor

import (
	"fmt"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// TestStaticAlone: without another NodePool nothing takes the pods of a static NodePool's nodes, so a lower number is no advice and nothing is
// promised for it. What is above spec.replicas goes.
func TestStaticAlone(t *testing.T) {
	for _, x := range []struct{ nodes, occupied, replicas, left int }{{1, 1, 1, 1}, {3, 3, 3, 3}, {2, 1, 1, 1}, {2, 2, 1, 1}, {3, 1, 2, 2}, {2, 1, 0, 1}} {
		c := newCluster(t, 1)
		c.pools, c.nodes, c.claim, c.pods = nil, nil, nil, nil
		p := c.addPool("static", model.OneOf(model.LabelCapacityType, model.OnDemand))
		p.Replicas = int64(x.replicas)
		for i := range x.nodes {
			name := fmt.Sprintf("still%d", i)
			n := c.addNode(name, "r.16", "a", model.OnDemand, p)
			if i < x.occupied {
				c.bind(n, c.addWorkload(name, 2, 250, 1<<30)...)
			}
		}
		r := c.examine()
		if want := int64(x.left) * 16 * 63_000; r.ConsolidatedMicro != want || r.NowMicro-r.ConsolidatedMicro != int64(r.Moves.Removed)*16*63_000 || len(r.Moves.Launched) > 0 || x.occupied < x.nodes && r.Moves.Pods > 0 {
			t.Errorf("%+v: consolidated $%s, want $%s; moves %+v", x, model.Dollars(r.ConsolidatedMicro), model.Dollars(want), r.Moves)
		}
		if f := find(r, StaticPool, "nodepool/static"); x.replicas > 0 && f == nil || f != nil && x.occupied == x.nodes && x.nodes == 1 && (f.SavingMicro != 0 || len(f.Changes) > 0) {
			t.Errorf("%+v: %+v, want no change and nothing promised", x, f)
		}
		for _, f := range r.Findings {
			if f.Code == StaticPool && len(f.Changes) > 0 {
				t.Errorf("%+v: %+v, want no change", x, f)
			}
		}
	}
}

// TestSoleVolume: a second pod is no advice where the volume of the first one lets none run elsewhere.
func TestSoleVolume(t *testing.T) {
	for _, x := range []struct {
		kind, claim string
		pod, node   bool // the volume is for one pod, for one node
		shared      bool
	}{
		{"ReplicaSet", "shop/data", false, true, true},
		{"ReplicaSet", "shop/data", true, false, true},
		{"ReplicaSet", "shop/data", false, false, false},
		{"ReplicaSet", "shop/alone-00-scratch", false, true, false},
		{"StatefulSet", "shop/data-alone-00", false, true, false},
		{"StatefulSet", "shop/data-alone-00", true, false, false},
		{"StatefulSet", "shop/data", true, false, true},
		{"ReplicaSet", "", true, false, false},
	} {
		c := newCluster(t, 1)
		pods := c.addWorkload("alone", 1, 1, 1<<20)
		subject := "deployment/shop/alone"
		if x.kind == "StatefulSet" {
			pods[0].Owner, pods[0].Deployment, subject = model.Owner{Kind: "StatefulSet", Name: "alone", UID: "alone"}, "", "statefulset/shop/alone"
		}
		pods[0].Class.Volumes = []model.Volume{{Claim: x.claim, Handle: "h", Exclusive: x.pod, OneNode: x.node}}
		c.bind(c.nodes[0], pods...)
		f := find(c.examine(), SingleReplica, subject)
		if f == nil || x.shared != (len(f.Changes) == 0) || x.shared != (f.Have == "persistentvolumeclaim/"+x.claim) {
			t.Errorf("%+v: %+v", x, f)
		}
	}
}

// TestNodeThatTakesNothing: an empty node that is smaller than its instance type promises is not the new node of that type that takes the pod.
func TestNodeThatTakesNothing(t *testing.T) {
	c := newCluster(t, 1)
	c.nodes, c.claim, c.pods = nil, nil, nil
	n := c.addNode("small", "r.16", "a", model.OnDemand, c.pools[0])
	n.Allocatable = n.Allocatable.With(model.Memory, 1<<30)
	c.pools[0].Requirements = replaceRequirement(c.pools[0].Requirements, model.OneOf(model.LabelInstanceType, "r.16"))
	c.pools[0].Requirements = replaceRequirement(c.pools[0].Requirements, model.OneOf(model.LabelCapacityType, model.OnDemand))
	c.pools[0].Requirements = replaceRequirement(c.pools[0].Requirements, model.OneOf(model.LabelZone, "a"))
	c.addWorkload("big", 1, 2000, 110<<30)
	r := c.examine()
	if r.PendingMicro == 0 || r.ConsolidatedMicro != r.NowMicro || r.Moves.Removed != 1 || r.Moves.LaunchedNodes() != 1 {
		t.Errorf("%+v, want the node replaced", r.Compared)
	}
	if f := find(r, NodeEmpty, "node/small"); f == nil || f.Have != "" {
		t.Errorf("%+v, want a node without any pod", f)
	}
	c.pods = append(c.pods, &model.Pod{Namespace: "kube-system", Name: "agent", UID: "agent", Node: "small", Class: &model.Class{Key: "agent", Namespace: "kube-system", Daemon: true}})
	if f := find(c.examine(), NodeEmpty, "node/small"); f == nil || f.Have != "DaemonSet" {
		t.Errorf("%+v, want a node with a DaemonSet's pod alone", f)
	}
}

// TestControlPlane: nothing is saved by a node of the control plane, and no finding says that it goes. Another node without a NodePool is one.
func TestControlPlane(t *testing.T) {
	for role, found := range map[string]bool{"node-role.kubernetes.io/control-plane": false, "node-role.kubernetes.io/master": false, "node-role.kubernetes.io/worker": true} {
		c := newCluster(t, 1)
		before := c.examine()
		c.addNode("cp", "r.16", "a", model.OnDemand, nil).Labels[role] = ""
		r := c.examine()
		if got := find(r, NodeWithoutPool, "node/cp") != nil; got != found {
			t.Errorf("%s: finding %t, want %t", role, got, found)
		}
		if !found && (r.NowMicro != before.NowMicro || r.Unpriced != before.Unpriced) {
			t.Errorf("%s: costs $%s with it and $%s without, %d and %d nodes of unknown price", role, model.Dollars(r.NowMicro), model.Dollars(before.NowMicro), r.Unpriced, before.Unpriced)
		}
	}
}

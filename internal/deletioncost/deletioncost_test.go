// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package deletioncost_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/deletioncost"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// town is a cluster whose pods take what is written, but for those that refuse.
type town struct {
	*rapid.T
	*model.Snapshot
	planner deletioncost.Planner
	now     time.Time
	off     bool
	refuse  map[string]bool // uids of pods
	pods    map[string]*model.Pod
	users   map[string]string // deletion costs of users by uid of a pod
}

// newTown draws a cluster of so many nodes with pods of five workloads that have costs, or costs of users, or the costs of another time already.
func newTown(t *rapid.T, nodes int) *town {
	w := &town{T: t, Snapshot: &model.Snapshot{Pools: []*model.NodePool{{Name: "p"}}}, now: time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC), refuse: map[string]bool{},
		pods: map[string]*model.Pod{}, users: map[string]string{}}
	rnd := rapid.Uint64().Draw(t, "seed")
	random := func(n uint64) uint64 { // of so many numbers one; drawing each would take minutes
		rnd = rnd*6364136223846793005 + 1442695040888963407
		return rnd >> 33 % n
	}
	for i := range nodes {
		n := &model.Node{Name: fmt.Sprintf("n%04d", i), Claim: fmt.Sprint("c", i)}
		w.Nodes = append(w.Nodes, n)
		w.Claims = append(w.Claims, &model.Claim{Name: n.Claim, Pool: "p", NodeName: n.Name, Conditions: map[string]model.Condition{}})
		for range random(6) {
			p := w.add(n, fmt.Sprint("w", random(5)))
			switch random(12) {
			case 0:
				p.DeletionCost = fmt.Sprint(random(9)) // a user's
				w.users[p.UID] = p.DeletionCost
			case 1, 2, 3:
				p.DeletionCost = fmt.Sprint(-1 - int(random(900))) // ours
				p.OwnDeletionCost = p.DeletionCost
			case 4:
				p.OwnDeletionCost, p.DeletionCost = "-3", fmt.Sprint(random(9)) // a user has replaced ours
				w.users[p.UID] = p.DeletionCost
			case 5:
				p.Owner.Kind = "StatefulSet"
			}
		}
		w.change(i, int(random(20)))
	}
	return w
}

// add starts a pod of a workload on a node.
func (w *town) add(n *model.Node, owner string) *model.Pod {
	uid := fmt.Sprint("u", len(w.pods))
	p := &model.Pod{Namespace: "default", Name: uid, UID: uid, Node: n.Name, Class: &model.Class{Namespace: "default"}, Owner: model.Owner{Kind: "ReplicaSet", Name: owner, UID: owner}}
	n.Pods, w.pods[uid] = append(n.Pods, p), p
	return p
}

// change has a node change its place in the order.
func (w *town) change(node, how int) {
	c := w.Claims[node]
	switch how {
	case 0:
		c.Conditions = map[string]model.Condition{lifecycle.Drifted: {Status: "True"}}
	case 1:
		c.Conditions = map[string]model.Condition{lifecycle.Disrupted: {Status: "True"}}
	case 2:
		c.Conditions = map[string]model.Condition{}
	case 3:
		w.add(w.Nodes[node], "w0")
	case 4:
		c.Pool = map[string]string{"p": "gone", "gone": "p"}[c.Pool]
	}
}

// step has written what is to be written now, and a minute pass. It returns the names of the nodes whose pods something was to be written to.
func (w *town) step() []string {
	on := map[string]bool{}
	for _, x := range w.planner.Plan(w.now, w.Snapshot, w.off) {
		p := w.pods[x.UID]
		on[p.Node] = true
		if w.refuse[x.UID] {
			w.planner.Answer(w.now, x.UID, true)
			continue
		}
		w.planner.Answer(w.now, x.UID, false)
		switch {
		case w.users[x.UID] != "" && x.Cost != "":
			w.Fatalf("%s is written to pod %s, which has a cost of its user", x.Cost, x.UID)
		case w.users[x.UID] == "":
			p.DeletionCost = x.Cost
		}
		p.OwnDeletionCost = x.Cost
	}
	w.now = w.now.Add(time.Minute)
	if len(on) > deletioncost.MostNodes {
		w.Fatalf("pods of %d nodes are written to in one step", len(on))
	}
	return slices.Sorted(maps.Keys(on))
}

// settle lets so many minutes pass as writing to all pods takes, and returns an error if something is written after them.
func (w *town) settle() error {
	for range len(w.Nodes)/deletioncost.MostNodes + 2 {
		w.step()
	}
	for range 3 {
		if on := w.step(); len(on) > 0 {
			return fmt.Errorf("%d nodes are written to though nothing changes: %v", len(on), on)
		}
	}
	return nil
}

// TestSettles: over a thousand nodes, nothing is written once the cluster stands still, and when a node changes its place, only the pods of that node are
// written to.
func TestSettles(t *testing.T) {
	changed := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newTown(t, rapid.SampledFrom([]int{1, 49, 120, 1000}).Draw(t, "nodes"))
		if err := w.settle(); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			node := rapid.IntRange(0, len(w.Nodes)-1).Draw(t, "node")
			w.change(node, rapid.IntRange(0, 4).Draw(t, "how"))
			for _, name := range w.step() {
				if changed++; name != w.Nodes[node].Name {
					t.Fatalf("node %s is written to when %s changes", name, w.Nodes[node].Name)
				}
			}
			if on := w.step(); len(on) > 0 {
				t.Fatalf("nodes %v are written to again", on)
			}
		}
		w.off = true
		if err := w.settle(); err != nil {
			t.Fatal(err)
		}
		for uid, p := range w.pods {
			if p.OwnDeletionCost != "" || p.DeletionCost != w.users[uid] {
				t.Fatalf("pod %s has deletion costs %q and %q of ours when they are turned off, its user's is %q", uid, p.DeletionCost, p.OwnDeletionCost, w.users[uid])
			}
		}
	})
	if changed == 0 {
		t.Error("no change of a node has cost a write")
	}
}

// TestNobodyStarves: while most nodes change all the time and the pods of others refuse every write, a cost that is to be removed is removed, and one that is to be
// written is written, to nodes that are leaving, drifted or neither, within as many steps as writing to all nodes takes twice.
func TestNobodyStarves(t *testing.T) {
	const remove, leaving, drifted, staying = 1, 5, 9, 13 // of 40 nodes
	written := map[int]int{}
	rapid.Check(t, func(t *rapid.T) {
		w := newTown(t, 400)
		waiting := map[string]int{} // by uid of a pod: what its node is
		for i, n := range w.Nodes {
			what := i % 40
			if i%4 == 0 {
				for _, p := range n.Pods {
					w.refuse[p.UID] = true
				}
				continue
			}
			switch what {
			case remove:
				w.Claims[i].Pool = "gone"
			case leaving, drifted, staying:
				w.Claims[i].Pool = "p"
				w.change(i, map[int]int{drifted: 0, leaving: 1, staying: 2}[what])
			default:
				continue
			}
			for _, p := range n.Pods {
				if what != remove { // nothing keeps the node from being emptied, and nothing is written yet
					delete(w.users, p.UID)
					p.Owner.Kind, p.DeletionCost, p.OwnDeletionCost = "ReplicaSet", "", ""
				} else if w.users[p.UID] != "" {
					continue
				} else {
					p.DeletionCost, p.OwnDeletionCost = "-7", "-7"
				}
				waiting[p.UID] = what
			}
		}
		for range 2 * len(w.Nodes) / deletioncost.MostNodes {
			w.step()
			for i := range w.Nodes {
				if i%4 > 1 {
					w.change(i, rapid.IntRange(0, 2).Draw(t, "how"))
				}
			}
		}
		for uid, what := range waiting {
			if p := w.pods[uid]; (p.OwnDeletionCost == "") != (what == remove) {
				t.Fatalf("pod %s of node %s has deletion cost %q of ours", uid, p.Node, p.OwnDeletionCost)
			}
			written[what]++
		}
	})
	for _, what := range []int{remove, leaving, drifted, staying} {
		if written[what] == 0 {
			t.Errorf("no pod of a node of kind %d waited for a write", what)
		}
	}
}

// TestOrder: pods of nodes that are leaving go before those of drifted nodes, these before those of nodes that stay, and of these the lighter first. No two nodes have the same
// cost but those that are leaving.
func TestOrder(t *testing.T) {
	w := &town{Snapshot: &model.Snapshot{Pools: []*model.NodePool{{Name: "p"}}}, pods: map[string]*model.Pod{}, now: time.Now()}
	for i := range 40 {
		n := &model.Node{Name: fmt.Sprintf("n%04d", i), Claim: fmt.Sprint("c", i)}
		w.Nodes, w.Claims = append(w.Nodes, n), append(w.Claims, &model.Claim{Name: n.Claim, Pool: "p"})
		for range 1 << (i % 10 / 2) {
			w.add(n, "w0")
		}
		switch i / 10 {
		case 0:
			w.change(i, 1)
		case 1:
			w.change(i, 0)
		}
	}
	costs := map[int32]string{}
	place := func(p *model.Pod) int { // in the order
		i := slices.IndexFunc(w.Nodes, func(n *model.Node) bool { return n.Name == p.Node })
		if i < 10 {
			return 0
		}
		return min(i/10, 2)*10 + i%10/2
	}
	w.step()
	for _, p := range w.pods {
		if p.DeletionCost == "" {
			t.Fatalf("pod %s has no cost", p.UID)
		}
		if have := costs[p.DeletionCostValue()]; have != "" && have != p.Node && place(p) > 0 {
			t.Errorf("nodes %s and %s have the same cost", have, p.Node)
		}
		costs[p.DeletionCostValue()] = p.Node
		for _, o := range w.pods {
			if place(p) < place(o) && p.DeletionCostValue() >= o.DeletionCostValue() {
				t.Fatalf("pod %s of node %s has cost %s, pod %s of node %s, which goes later, has %s", p.UID, p.Node, p.DeletionCost, o.UID, o.Node, o.DeletionCost)
			}
		}
	}
}

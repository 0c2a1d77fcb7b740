// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package deletioncost computes pod deletion costs (controller.kubernetes.io/pod-deletion-cost), by which a ReplicaSet that is scaled down chooses the
// pods to delete: those of nodes that are leaving first, then those of drifted nodes, then those of the nodes that are emptied with the fewest pods.
//
// It writes nothing, and it has no memory: what was written earlier is read from the pods. Every value of ours is repeated in
// model.AnnotationDeletionCost; a pod whose value differs from that has one of its user's, which is never changed. Start reading at Plan.
package deletioncost

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// MostNodes is on how many nodes pods are written to at a time.
const MostNodes = 50

// Write sets the deletion cost of one pod.
type Write struct {
	Namespace, Pod, UID string
	Cost                string // a 32-bit integer; empty: ours is removed
}

// order is what a node's pods are deleted before another's by, the least first.
type order int

const (
	leaving order = iota // the node is being removed
	drifted              // it is to be replaced
	staying              // it is saved if it is emptied
)

// ranked is a node whose pods are to have a cost.
type ranked struct {
	node   *model.Node
	order  order
	weight int64 // of its pods by disrupt.EvictionWeight
}

// Plan returns what to write to the pods of at most MostNodes nodes, in the order in which nodes should be emptied; when nothing is left to write there, what is
// to be removed. A node that stays gets costs only if scale-downs can empty it: all its pods are those of ReplicaSets that have pods on other nodes too. Without a NodePool it
// gets none.
func Plan(s *model.Snapshot) []Write {
	list := rank(s)
	costs := make(map[*model.Node]string, len(list))
	nodes := make([]*model.Node, 0, len(s.Nodes))
	for i, r := range list {
		cost := int64(i - len(list))
		if r.order == leaving {
			cost = math.MinInt32
		}
		costs[r.node] = strconv.FormatInt(cost, 10)
		nodes = append(nodes, r.node)
	}
	for _, n := range s.Nodes {
		if costs[n] == "" {
			nodes = append(nodes, n)
		}
	}
	return writes(nodes, func(n *model.Node) string { return costs[n] })
}

// Removal returns what removes the costs that were written to the pods of at most MostNodes nodes.
func Removal(s *model.Snapshot) []Write {
	return writes(s.Nodes, func(*model.Node) string { return "" })
}

// writes returns what gives the pods of nodes their cost.
func writes(nodes []*model.Node, costOf func(*model.Node) string) (out []Write) {
	changed := 0
	for _, n := range nodes {
		before, want := len(out), costOf(n)
		for _, p := range n.Pods {
			have := p.OwnDeletionCost
			switch {
			case p.IsVirtual() || !p.Deleting.IsZero() || p.Terminal:
			case want != "" && isOurs(p) && have != want:
				out = append(out, Write{p.Namespace, p.Name, p.UID, want})
			case have != "" && (want == "" || !isOurs(p)):
				out = append(out, Write{Namespace: p.Namespace, Pod: p.Name, UID: p.UID})
			}
		}
		if len(out) > before {
			if changed++; changed == MostNodes {
				break
			}
		}
	}
	return out
}

// isOurs reports whether the deletion cost of a pod is for us to write: its ReplicaSet goes by it, and its user has set none.
func isOurs(p *model.Pod) bool {
	return p.Owner.Kind == "ReplicaSet" && p.DeletionCost == p.OwnDeletionCost
}

// rank returns the nodes whose pods are to have a cost, those to be emptied first at the beginning.
func rank(s *model.Snapshot) []ranked {
	claims := make(map[string]*model.Claim, len(s.Claims))
	for _, c := range s.Claims {
		claims[c.Name] = c
	}
	pools := make(map[string]bool, len(s.Pools))
	for _, p := range s.Pools {
		pools[p.Name] = true
	}
	replicas := map[string]int{} // by uid of a ReplicaSet
	for _, n := range s.Nodes {
		for _, p := range n.Pods {
			if isCounted(p) {
				replicas[p.Owner.UID]++
			}
		}
	}
	var out []ranked
	for _, n := range s.Nodes {
		c := claims[n.Claim]
		if c == nil || !pools[c.Pool] {
			continue
		}
		r := ranked{node: n, order: staying}
		switch {
		case !c.Deleting.IsZero() || !n.Deleting.IsZero() || c.Is(lifecycle.Disrupted):
			r.order = leaving
		case c.Is(lifecycle.Drifted):
			r.order = drifted
		}
		here := map[string]int{}
		canBeEmptied := true
		for _, p := range n.Pods {
			if !p.IsWorkload() || p.Terminal || !p.Deleting.IsZero() {
				continue
			}
			r.weight += disrupt.EvictionWeight(p)
			here[p.Owner.UID]++
			canBeEmptied = canBeEmptied && isCounted(p)
		}
		for uid, n := range here {
			canBeEmptied = canBeEmptied && n < replicas[uid]
		}
		if len(here) > 0 && (r.order != staying || canBeEmptied) {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.weight, b.weight), cmp.Compare(a.node.Name, b.node.Name))
	})
	return out
}

// isCounted reports whether a scale-down of its ReplicaSet goes by our cost of a pod.
func isCounted(p *model.Pod) bool {
	return isOurs(p) && !p.IsVirtual() && p.Deleting.IsZero() && !p.Terminal
}

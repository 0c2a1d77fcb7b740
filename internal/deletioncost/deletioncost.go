// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package deletioncost computes pod deletion costs (controller.kubernetes.io/pod-deletion-cost), by which a
// ReplicaSet that is scaled down selects the pods to delete: first pods on nodes that are being removed, then pods on
// drifted nodes, then pods on the nodes that become empty with the fewest deletions.
//
// It writes nothing. Earlier values are read from the pods: Dovetail repeats each value in
// model.AnnotationDeletionCost, and a pod whose value differs from that annotation has a value set by its user, which
// is never changed.
//
// Invariants:
//
//   - The cost of a node's pods depends on that node, not on its rank, so a change of one node writes only its own
//     pods. Other nodes only determine whether it has costs at all: a scale-down can empty it only if each of its
//     ReplicaSets has pods elsewhere too.
//   - While nothing changes, all nodes have their costs after a bounded number of steps, and nothing more is written.
//   - No node waits for other nodes that change repeatedly, or whose pods cannot be written.
//
// Start reading at Planner.Plan.
package deletioncost

import (
	"cmp"
	"hash/fnv"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"time"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
)

const (
	// MostNodes is the maximum number of nodes whose pods are written in one step.
	MostNodes = 50

	firstPause, mostPause = time.Minute, 10 * time.Minute // after which a refused write is repeated
)

// Write sets the deletion cost of one pod.
type Write struct {
	Namespace, Pod, UID string
	Node                string // node of the pod
	Cost                string // a 32-bit integer; empty: remove Dovetail's value
}

// Planner plans writes step by step. The zero value is ready to use. If its state is lost, it starts again at the first node and
// repeats refused writes.
type Planner struct {
	lastLeaving, last string             // names of the nodes that the last step ended with
	refused           map[string]refusal // by uid of a pod
}

// refusal is a write that was refused, so many times in a row.
type refusal struct {
	times int
	until time.Time // when it is repeated
}

// pending is a node with what is to be written to its pods.
type pending struct {
	node   string
	writes []Write
}

// Plan returns the writes for the pods of at most MostNodes nodes: first for nodes that are being removed, then for the others in
// turn; if necessary, half of the step is reserved for the others. A node that stays has costs only if scale-downs can empty it:
// all its pods belong to ReplicaSets that have pods on other nodes too. Nodes without a NodePool have none. If off is set,
// Dovetail's costs are removed.
func (l *Planner) Plan(now time.Time, s *model.Snapshot, off bool) (out []Write) {
	var costs map[*model.Node]int64
	if !off {
		costs = costsOf(s)
	}
	refused := map[string]refusal{}
	var leaving, others []pending
	for _, n := range s.Nodes { // by name
		want := ""
		cost, ok := costs[n]
		if ok {
			want = strconv.FormatInt(cost, 10)
		}
		x := pending{node: n.Name}
		for _, p := range n.Pods {
			w, ok := write(p, want)
			if !ok {
				continue
			}
			if r, was := l.refused[p.UID]; was {
				refused[p.UID] = r
				if now.Before(r.until) {
					continue
				}
			}
			x.writes = append(x.writes, w)
		}
		switch {
		case len(x.writes) == 0:
		case ok && cost == costLeaving:
			leaving = append(leaving, x)
		default:
			others = append(others, x)
		}
	}
	l.refused = refused
	first := min(len(leaving), max(MostNodes/2, MostNodes-len(others)))
	return append(take(leaving, &l.lastLeaving, first), take(others, &l.last, min(len(others), MostNodes-first))...)
}

// take returns the writes of so many nodes of a list by name, those after the last one of the step before first.
func take(list []pending, last *string, nodes int) (out []Write) {
	at, found := slices.BinarySearchFunc(list, *last, func(x pending, name string) int { return cmp.Compare(x.node, name) })
	if found {
		at++
	}
	for i := range nodes {
		x := list[(at+i)%len(list)]
		out, *last = append(out, x.writes...), x.node
	}
	return out
}

// Answer records the result of a write. A refused write is repeated with increasing delay.
func (l *Planner) Answer(now time.Time, uid string, refused bool) {
	if !refused {
		delete(l.refused, uid)
		return
	}
	if l.refused == nil {
		l.refused = map[string]refusal{}
	}
	r := l.refused[uid]
	r.until = now.Add(model.Backoff(firstPause, r.times, mostPause))
	r.times++
	l.refused[uid] = r
}

// write returns what gives a pod its node's cost; ok is false if there is nothing to write.
func write(p *model.Pod, want string) (w Write, ok bool) {
	w = Write{Namespace: p.Namespace, Pod: p.Name, UID: p.UID, Node: p.Node}
	have := p.OwnDeletionCost
	switch {
	case p.IsVirtual() || !p.Deleting.IsZero() || p.Terminal:
		return w, false
	case want != "" && isOurs(p):
		w.Cost = want
		return w, have != want
	}
	return w, have != ""
}

// isOurs reports whether the deletion cost of a pod is for us to write: its ReplicaSet goes by it, and its user has set none.
func isOurs(p *model.Pod) bool {
	return p.Owner.Kind == "ReplicaSet" && p.DeletionCost == p.OwnDeletionCost
}

const (
	costLeaving = math.MinInt32 // of the pods of nodes that are being removed

	hashBits  = 24 // of the name
	classBits = 6  // a class is a length in bits
)

// cost computes the deletion cost of the pods of a node that stays. It is lowest for drifted nodes, then ascends with the power
// of two of the node's weight (the sum of disrupt.EvictionWeight), then with a hash of the name, so that a scale-down empties one
// node after the other.
func cost(n *model.Node, drifted bool, weight int64) int64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(n.Name)) // never fails
	c := int64(bits.Len64(uint64(weight)))<<hashBits + int64(h.Sum32()>>(32-hashBits)) - 1<<(hashBits+classBits)
	if drifted {
		c = max(c-1<<(hashBits+classBits), costLeaving+1)
	}
	return c
}

// costsOf returns the deletion cost of the pods of each node whose pods get one.
func costsOf(s *model.Snapshot) map[*model.Node]int64 {
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
	out := make(map[*model.Node]int64, len(s.Nodes))
	for _, n := range s.Nodes {
		c := claims[n.Claim]
		if c == nil || !pools[c.Pool] {
			continue
		}
		leaving, drifted := !c.Deleting.IsZero() || !n.Deleting.IsZero() || c.Is(lifecycle.Disrupted), c.Is(lifecycle.Drifted)
		here, weight := map[string]int{}, int64(0)
		canBeEmptied := true
		for _, p := range n.Pods {
			if !p.IsWorkload() || p.Terminal || !p.Deleting.IsZero() {
				continue
			}
			weight += disrupt.EvictionWeight(p)
			here[p.Owner.UID]++
			canBeEmptied = canBeEmptied && isCounted(p)
		}
		for uid, n := range here {
			canBeEmptied = canBeEmptied && n < replicas[uid]
		}
		switch {
		case len(here) == 0:
		case leaving:
			out[n] = costLeaving
		case drifted || canBeEmptied:
			out[n] = cost(n, drifted, weight)
		}
	}
	return out
}

// isCounted reports whether a scale-down of its ReplicaSet goes by our cost of a pod.
func isCounted(p *model.Pod) bool {
	return isOurs(p) && !p.IsVirtual() && p.Deleting.IsZero() && !p.Terminal
}

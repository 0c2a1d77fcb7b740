// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// buffers are the virtual pods of CapacityBuffers, and where capacity is held for them.
type buffers struct {
	*draft
	mem        *bufferMemory
	nodes      *solverView
	placements *placements

	counts     map[model.Workload]podCount     // see countPods; nil before it is asked for
	sharedWith map[*model.Buffer]*model.Buffer // buffers that hold nothing, and the one of their group that does
	dear       map[*model.Pod]bool             // found too dear in this step
	waiting    bool                            // lost places are not sought for in this step: see hostWaitEnd
	byNode     map[string][]*model.Pod         // by target: the virtual pods whose capacity is held there, by buffer and number
}

// bufferMemory is what buffers remembers from step to step.
type bufferMemory struct {
	byUID     map[string]virtualPods // by uid of the buffer
	lostFirst time.Time              // when the first and the last virtual pod lost its place that none has been sought for yet; zero: none did
	lostLast  time.Time
	triedAt   time.Time // when no place was found last; zero: every pod has one, or was not tried
}

// virtualPods are those of one buffer. They are never written to.
type virtualPods struct {
	model *model.Pod // what they look like
	pods  []*model.Pod
	at    []target      // by pod
	why   []plan.Reason // why the first of those that have found no place has none
}

// target is where capacity is held for a virtual pod: the name of a NodeClaim, or nodePrefix and the name of a node that
// has none. Before a place is found it is notSought, and where there was none noPlace.
type target string

const (
	notSought  target = ""
	noPlace    target = "/"
	nodePrefix        = "node/"
)

func (t target) isPlace() bool { return t != notSought && t != noPlace && t != tooDear }

// mostWaits is how many times Policy.SchedulerWait a lost place is not sought for while others are still being lost.
const mostWaits = 4

// like returns the virtual pods of a buffer as they are while its pods look as they did; else none.
func (v virtualPods) like(b *model.Buffer) virtualPods {
	if v.model == nil || v.model.Class != b.Like.Class {
		v = virtualPods{}
	}
	v.model = b.Like
	return v
}

// resized returns the virtual pods of a buffer when there are as many of them as have a place, but so many at least and
// at most. Those that have a place stay before others.
func (v virtualPods) resized(b *model.Buffer, least, most int) virtualPods {
	count := 0
	for _, t := range v.at {
		if t.isPlace() {
			count++
		}
	}
	count = max(0, min(max(count, least), most))
	if len(v.pods) > count {
		v.at = slices.Clone(v.at)
		for i := count; i < len(v.at); i++ { // places of pods that are no more go to those that have none
			if j := slices.IndexFunc(v.at[:count], func(t target) bool { return !t.isPlace() }); j >= 0 && v.at[i].isPlace() {
				v.at[j] = v.at[i]
			}
		}
		v.pods, v.at = v.pods[:count:count], v.at[:count:count]
	}
	if more := count - len(v.pods); more > 0 {
		all := make([]model.Pod, more)
		v.pods = slices.Grow(slices.Clip(v.pods), more)
		for i := range all {
			p, n := &all[i], len(v.pods)
			*p = *b.Like
			p.Name, p.UID = fmt.Sprintf("capacity-buffer-%s-%d", b.Name, n), fmt.Sprintf("%s/%d", b.UID, n)
			v.pods = append(v.pods, p)
		}
		v.at = append(slices.Clip(v.at), make([]target, more)...)
	}
	return v
}

// listByNode sorts the virtual pods by where their capacity is held.
func (bu *buffers) listByNode() {
	bu.byNode = map[string][]*model.Pod{}
	for _, b := range bu.Snapshot.Buffers {
		v := bu.mem.byUID[b.UID]
		for i, t := range v.at {
			if t.isPlace() {
				bu.byNode[string(t)] = append(bu.byNode[string(t)], v.pods[i])
			}
		}
	}
}

// targetOf is the target that a standing node, by name, is.
func (bu *buffers) targetOf(node string) target {
	if p := bu.FindNode(node); p >= 0 {
		if at := bu.ClaimOf(p); at >= 0 {
			return target(bu.Snapshot.Claims[at].Name)
		}
	}
	if bu.FindClaim(node) >= 0 {
		return target(node)
	}
	return target(nodePrefix + node)
}

// bounds are how many virtual pods a buffer has now: least need a place, and others, most in all, keep the place that
// they have. A buffer with a Total gives way to its workload's pods: one that is on a node has no virtual pod beside it.
// For one that waits no place is sought, but a place that is there is kept until the pod is on a node or is expected in
// that very place. Given up before, the node would be empty, and be removed, just when pods come to it.
func (bu *buffers) bounds(b *model.Buffer) (least, most int) {
	switch {
	case bu.sharedWith[b] != nil:
		return 0, 0
	case b.Total < 0:
		return b.Replicas, b.Replicas
	}
	n := bu.countPods()[b.Workload]
	return min(b.Replicas, max(0, b.Total-n.onNode-n.waiting)), min(b.Replicas, max(0, b.Total-n.onNode))
}

// podCount is how many pods a workload has.
type podCount struct {
	onNode  int
	waiting int // those that this step finds a place for or an earlier one has found one for, anticipated ones included
}

// countPods counts the pods of the workloads that buffers with a Total are for. Pending pods that are no demand are not
// counted: kube-scheduler may be about to bind them, and until then their room is held.
func (bu *buffers) countPods() map[model.Workload]podCount {
	if bu.counts != nil {
		return bu.counts
	}
	bu.counts = map[model.Workload]podCount{}
	for _, b := range bu.Snapshot.Buffers {
		if b.Total >= 0 {
			bu.counts[b.Workload] = podCount{}
		}
	}
	count := func(p *model.Pod, onNode, waiting int) {
		w, _ := p.Workload()
		if n, ok := bu.counts[w]; ok && p.Deleting.IsZero() && !p.Terminal {
			bu.counts[w] = podCount{n.onNode + onNode, n.waiting + waiting}
		}
	}
	for _, n := range bu.Snapshot.Nodes {
		for _, p := range n.Pods {
			count(p, 1, 0)
		}
	}
	for _, p := range bu.Snapshot.Pending {
		if bu.heed(bu.pods.IsDemand(p)) {
			count(p, 0, 1)
		}
	}
	for _, p := range bu.anticipated {
		count(p, 0, 1)
	}
	return bu.counts
}

// findShared finds the buffers that hold nothing because a larger one of their group does.
func (bu *buffers) findShared() {
	bu.sharedWith = map[*model.Buffer]*model.Buffer{}
	groups := map[string][]*model.Buffer{}
	for _, b := range bu.Snapshot.Buffers {
		if b.Group != "" && b.Like != nil && b.Replicas > 0 {
			groups[b.Group] = append(groups[b.Group], b)
		}
	}
	for _, list := range groups {
		largest := largestBuffer(list)
		for _, b := range list {
			if b != largest {
				bu.sharedWith[b] = largest
			}
		}
	}
}

// largestBuffer is the one that asks for most, summed over resources, each beside the most that one of them asks for of
// it; of equals the first.
func largestBuffer(list []*model.Buffer) (largest *model.Buffer) {
	var most model.Resources
	asks := make([]model.Resources, len(list))
	for i, b := range list {
		asks[i] = model.Resources{}.AddInto(b.Like.Class.Requests, int64(b.Replicas))
		most = most.Max(asks[i])
	}
	best := -1.0
	for i, b := range list {
		size := 0.0
		for d, n := range asks[i] {
			if most[d] > 0 {
				size += float64(n) / float64(most[d])
			}
		}
		if size > best {
			best, largest = size, b
		}
	}
	return largest
}

// newFreeCapacity returns the free capacity before any virtual pod has been looked at.
func (bu *buffers) newFreeCapacity() *freeForBuffers {
	f := &freeForBuffers{buffers: bu, expected: map[string]model.Resources{}, byTarget: map[target]*solve.ExistingNode{}}
	if len(bu.placements.mem.byPod) > 0 {
		for _, p := range bu.Snapshot.Pending {
			if was, ok := bu.placements.mem.byPod[p.UID]; ok {
				f.expect(was.Node, p)
			}
		}
	}
	return f
}

// freeForBuffers is what nodes have free, as far as virtual pods have been looked at.
type freeForBuffers struct {
	*buffers
	expected map[string]model.Resources // by the solver's name: what pending pods that are expected there ask for
	byTarget map[target]*solve.ExistingNode
}

// expect takes a pod to come to a node, by the solver's name.
func (f *freeForBuffers) expect(node string, p *model.Pod) {
	f.expected[node] = f.expected[node].AddInto(p.Class.Requests, 1)
}

// take takes the capacity of a virtual pod at its target, and reports whether there is enough.
func (f *freeForBuffers) take(t target, p *model.Pod) bool {
	r, known := f.byTarget[t]
	if !known {
		x, until, ok := f.nodes.atTarget(t)
		if f.nodes.wakeAt(until); ok && !x.Closed {
			x.Free = x.Free.Sub(f.expected[x.Name])
			r = &x
		}
		f.byTarget[t] = r
	}
	if r == nil || !p.Class.Requests.Fits(r.Free) || slices.ContainsFunc(r.Taints, func(x model.Taint) bool {
		return x.Effect != model.PreferNoSchedule && !lifecycle.IsEphemeral(x) && !model.Tolerated(x, p.Class.Tolerations)
	}) {
		return false
	}
	r.Free = r.Free.Sub(p.Class.Requests)
	return true
}

// isReady reports whether pods could start at a target now.
func (bu *buffers) isReady(t target) bool {
	if strings.HasPrefix(string(t), nodePrefix) {
		return true
	}
	c := bu.Claim(string(t))
	return c != nil && c.Is(lifecycle.Initialized)
}

// tooDear is the target of a virtual pod that is left out because of its buffer's price.
const tooDear target = "$"

// atTarget returns the node, there or coming, at which capacity is held, and until when it is so; false: it is gone.
func (sv *solverView) atTarget(t target) (r solve.ExistingNode, until time.Time, ok bool) {
	p := cluster.None
	if name, ok := strings.CutPrefix(string(t), nodePrefix); ok {
		if p = sv.FindNode(name); p < 0 {
			return r, until, false
		}
	} else {
		at := sv.FindClaim(string(t))
		if at < 0 {
			return r, until, false
		}
		c := sv.Snapshot.Claims[at]
		if p = sv.NodeOf(at); p == cluster.Several || p == cluster.None && (c.Is(lifecycle.Registered) || !c.Deleting.IsZero() || sv.Interruptions[c.Name] != nil) {
			return r, until, false
		}
		if p == cluster.None {
			r, ok = sv.inFlightNode(c)
			return r, until, ok
		}
	}
	if sv.memo.unchanged.state[p] != dirty {
		return sv.memo.unchanged.solverNodes[p], until, true
	}
	c, h := sv.reservations.OfNode(p)
	r, until = sv.standingNode(sv.Snapshot.Nodes[p], c, h)
	return r, until, true
}

// subtract takes what is held for virtual pods off the free capacity of nodes, for searches that must leave it.
func (bu *buffers) subtract(nodes []solve.ExistingNode) []solve.ExistingNode {
	own := false
	for i := range nodes {
		pods := bu.byNode[string(bu.targetOf(nodes[i].Name))]
		if len(pods) == 0 {
			continue
		}
		if !own {
			nodes, own = slices.Clone(nodes), true
		}
		r := &nodes[i]
		r.Free = r.Free.Clone()
		for _, p := range pods {
			r.Free = r.Free.AddInto(p.Class.Requests, -1)
		}
		for _, p := range pods {
			if p.Class.DependsOnOtherPods() { // the others are nobody's business
				r.Pods, r.NoAnti = append(r.Pods[:len(r.Pods):len(r.Pods)], p), r.NoAnti && len(p.Class.AntiAffinity) == 0
			}
		}
	}
	return nodes
}

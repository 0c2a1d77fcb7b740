// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/decide/unused"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// A CapacityBuffer asks for capacity that is free when real pods come. It is held by virtual pods: demand of the lowest
// priority that is packed with the real pods, in one solve, and never made. Each has a node, there or coming, on which
// its capacity is held, and that is only remembered here: to kube-scheduler the capacity is free, so a real pod takes it
// at once and nobody is evicted. The virtual pod then has no place any more, and is demand again.
//
// Towards disruption they are pods like others, which cost nothing to move: a node that holds them goes only when they
// have a place elsewhere. Towards real pods they are nothing: no slot is kept for them, and a machine that is bought for
// them alone is not reserved.

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

// BufferState is how a CapacityBuffer stands at the end of a step.
type BufferState struct {
	Buffer *model.Buffer
	Wanted int           // for how many pods it holds capacity, or would
	Ready  int           // pods whose capacity is free on an initialized node
	Coming int           // pods whose capacity is on a node that is coming
	Sought int           // pods for which a place has still to be sought
	None   int           // pods for which there is none
	Why    []plan.Reason // why there is none for the first of these
	Shared string        // namespace/name of the buffer whose capacity it shares; empty: it has its own
	Priced int           // pods that are left out because the capacity would cost more than Buffer.MaxHourMicro
}

// read makes the virtual pods and finds those that have lost their place.
func (bu *buffers) read() {
	bu.byNode = map[string][]*model.Pod{}
	if len(bu.Snapshot.Buffers) == 0 {
		*bu.mem = bufferMemory{}
		return
	}
	bu.findShared()
	next := make(map[string]virtualPods, len(bu.Snapshot.Buffers))
	free := bu.newFreeCapacity()
	for _, b := range bu.Snapshot.Buffers {
		if b.Like == nil {
			continue
		}
		v, lost := bu.mem.byUID[b.UID].like(b), false
		for i, t := range v.at {
			if !t.isPlace() || free.take(t, v.pods[i]) {
				continue
			}
			if !lost {
				v.at, lost = slices.Clone(v.at), true
			}
			v.at[i] = notSought
		}
		least, most := bu.bounds(b)
		v = v.resized(b, least, most) // after that: a pod that is no more leaves its place to one that has lost its own
		if lost && slices.Contains(v.at, notSought) {
			if bu.mem.lostLast = bu.Now; bu.mem.lostFirst.IsZero() {
				bu.mem.lostFirst = bu.Now
			}
		}
		next[b.UID] = v
	}
	bu.mem.byUID = next
	bu.listByNode()
	bu.dropTooDear()
}

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
	count = min(max(count, least), most)
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

// besideDemand returns the virtual pods that a place is to be sought for together with real demand. Real pods come
// first: a virtual pod whose capacity they take on standing nodes is sought another place; and where pods of its class
// look at where others are, so is every one of the class, for real pods must not be placed by virtual ones. The others
// stay where they are: packed anew, they might need a node more than now.
func (bu *buffers) besideDemand(real []*model.Pod, nodes []solve.ExistingNode) (out []*model.Pod) {
	if len(bu.mem.byUID) == 0 {
		return nil
	}
	free := bu.newFreeCapacity()
	if len(real) > 0 {
		first, _ := solve.Solve(&solve.Problem{ResourceNames: bu.Snapshot.ResourceNames, Demand: real, Nodes: nodes, Daemons: bu.Snapshot.Daemons, Namespaces: bu.Snapshot.Namespaces},
			solve.Memory{}, bu.pol.Solve)
		for _, a := range first.OnNodes {
			for _, p := range a.Pods {
				free.expect(a.Node, p)
			}
		}
	}
	next := make(map[string]virtualPods, len(bu.mem.byUID))
	bu.waiting = bu.Now.Before(bu.hostWaitEnd())
	for _, b := range bu.Snapshot.Buffers {
		v, ok := bu.mem.byUID[b.UID]
		if !ok {
			continue
		}
		v.at = slices.Clone(v.at)
		moves := len(real) > 0 && b.Like.Class.DependsOnOtherPods()
		for i, t := range v.at {
			if t.isPlace() && (moves || !free.take(t, v.pods[i])) {
				v.at[i] = noPlace
			}
		}
		least, most := bu.bounds(b)
		v = v.resized(b, least, most)
		for i, t := range v.at {
			if t.isPlace() || t == notSought && bu.waiting {
				continue
			}
			v.at[i], out = notSought, append(out, v.pods[i])
		}
		next[b.UID] = v
	}
	bu.mem.byUID = next
	bu.listByNode()
	return out
}

// releaseAll gives up all places, and returns the virtual pods that need one.
func (bu *buffers) releaseAll() (out []*model.Pod) {
	next := make(map[string]virtualPods, len(bu.mem.byUID))
	for _, b := range bu.Snapshot.Buffers {
		if v, ok := bu.mem.byUID[b.UID]; ok {
			v.at = make([]target, len(v.pods))
			least, most := bu.bounds(b)
			v = v.resized(b, least, most)
			next[b.UID], out = v, append(out, v.pods...)
		}
	}
	bu.mem.byUID = next
	bu.listByNode()
	return out
}

// virtualPods returns the virtual pods of all buffers.
func (bu *buffers) virtualPods() (out []*model.Pod) {
	for _, b := range bu.Snapshot.Buffers {
		out = append(out, bu.mem.byUID[b.UID].pods...)
	}
	return out
}

// isUnsettled reports whether a place has still to be sought for some virtual pod: until then it is not known which nodes
// are empty.
func (bu *buffers) isUnsettled() bool {
	for _, v := range bu.mem.byUID {
		if slices.Contains(v.at, notSought) {
			return true
		}
	}
	return false
}

// mostWaits is how many times Policy.SchedulerWait a lost place is not sought for while others are still being lost.
const mostWaits = 4

// areDue reports whether demand is to be solved because of virtual pods alone, and when it will be. A new one is sought a place at once. Places
// that real pods took are bought again together, when no more have been taken for Policy.SchedulerWait: pods come in
// batches. What found none is tried again every Policy.BufferRetry.
func (bu *buffers) areDue() (bool, time.Time) {
	if bu.isUnsettled() {
		due := bu.Now
		if !bu.mem.lostLast.IsZero() {
			due = bu.mem.lostLast.Add(bu.pol.SchedulerWait)
			if last := bu.mem.lostFirst.Add(mostWaits * bu.pol.SchedulerWait); last.Before(due) {
				due = last
			}
			if end := bu.hostWaitEnd(); due.Before(end) {
				due = end
			}
		}
		return bu.IsDue(due)
	}
	if bu.mem.triedAt.IsZero() {
		return false, time.Time{}
	}
	return bu.IsDue(bu.mem.triedAt.Add(bu.pol.BufferRetry))
}

// record takes down where the pods of this step's decisions have their capacity.
func (bu *buffers) record() {
	if len(bu.mem.byUID) == 0 {
		return
	}
	where, why := map[*model.Pod]target{}, map[*model.Pod][]plan.Reason{}
	for _, d := range bu.out.Pods {
		if !d.Pod.IsVirtual() {
			continue
		}
		switch d.Outcome {
		case plan.OnNode:
			where[d.Pod] = bu.targetOf(d.Target)
		case plan.OnClaim, plan.OnNew:
			where[d.Pod] = target(d.Target)
		default:
			where[d.Pod], why[d.Pod] = noPlace, d.Reasons
		}
	}
	for p := range bu.dear {
		where[p] = tooDear
	}
	if len(where) == 0 {
		return
	}
	next := make(map[string]virtualPods, len(bu.mem.byUID))
	failed := false
	for uid, v := range bu.mem.byUID {
		v.at, v.why = slices.Clone(v.at), nil
		for i, p := range v.pods {
			if t, ok := where[p]; ok {
				v.at[i] = t
			}
			failed = failed || v.at[i] == noPlace || v.at[i] == tooDear
			if v.at[i] == noPlace {
				if v.why == nil {
					v.why = why[p]
				}
			}
		}
		next[uid] = v
	}
	bu.mem.byUID = next
	if bu.out.Solved && !bu.waiting {
		bu.mem.lostFirst, bu.mem.lostLast, bu.mem.triedAt = time.Time{}, time.Time{}, time.Time{}
		if failed {
			bu.mem.triedAt = bu.Now
			bu.wakeAt(bu.Now.Add(bu.pol.BufferRetry))
		}
	}
	bu.listByNode()
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

// report says how every buffer stands.
func (bu *buffers) report() {
	for _, b := range bu.Snapshot.Buffers {
		x := BufferState{Buffer: b, Wanted: b.Replicas}
		v := bu.mem.byUID[b.UID]
		if b.Total >= 0 {
			x.Wanted = len(v.pods)
		}
		for _, t := range v.at {
			switch {
			case t == notSought:
				x.Sought++
			case t == noPlace:
				x.None++
			case t == tooDear:
				x.Priced++
			case bu.isReady(t):
				x.Ready++
			default:
				x.Coming++
			}
		}
		x.Why = v.why
		if by := bu.sharedWith[b]; by != nil {
			x.Shared = by.Key()
		}
		bu.out.Buffers = append(bu.out.Buffers, x)
	}
}

// isReady reports whether pods could start at a target now.
func (bu *buffers) isReady(t target) bool {
	if strings.HasPrefix(string(t), nodePrefix) {
		return true
	}
	c := bu.Claim(string(t))
	return c != nil && c.Is(lifecycle.Initialized)
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

// heldByClaim returns the CapacityBuffers, by unused.KeyOfBuffer, whose capacity was held on each claim's node after the last step, by
// claim name.
func (bu *buffers) heldByClaim() map[string][]cluster.SlotKey {
	out := map[string][]cluster.SlotKey{}
	for _, b := range bu.Snapshot.Buffers {
		if b.Like == nil {
			continue
		}
		k := unused.KeyOfBuffer(b)
		for _, t := range bu.mem.byUID[b.UID].at {
			if t.isPlace() && !slices.Contains(out[string(t)], k) {
				out[string(t)] = append(out[string(t)], k)
			}
		}
	}
	return out
}

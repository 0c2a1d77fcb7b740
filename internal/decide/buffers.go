// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/decide/unused"
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

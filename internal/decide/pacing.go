// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// The successors of evicted pods come one by one: kube-scheduler binds some hundred a second, fewer where it shares a
// machine, and none that waits for it runs. So only so many evictions are under way at a time as it binds in a second
// or two, however many nodes are drained; the other pods run on until it is their turn.

// evictionPacing lets only so many pods go at a time.
type evictionPacing struct {
	*draft
	evictions *evictions
	pods      *podTable
	slots     *slotAssignment
}

const (
	evictionRetryAfter = time.Second     // a pod evicted this long ago that is still there is not kept by the scheduler
	pendingTimeout     = 5 * time.Second // nor is one kept by it that is pending for longer
)

// evictionsAllowed returns how many pods may be evicted now, beside those evicted before that have not gone: those are
// evicted again, since it is not the scheduler that keeps them. Under way are pods about to go, pods whose successor is
// pending, and all pending pods. Controllers may pause for a second and then make all successors at once, so pods are
// counted and not their age.
func (ep *evictionPacing) evictionsAllowed() int {
	under := 0
	for _, p := range ep.Snapshot.Pending {
		if !p.Gated && !p.Class.Daemon && p.Nominated == "" && ep.Now.Before(p.Created.Add(pendingTimeout)) {
			under++
		}
	}
	there := ep.evictions.remainingEvicted()
	for uid, a := range ep.evictions.mem.byPod {
		if there[uid] && ep.Now.Before(a.at.Add(evictionRetryAfter)) {
			under++
		}
	}
	for _, n := range ep.evictions.pendingSuccessors(there, true) {
		under += n
	}
	return ep.pol.EvictionConcurrency - under
}

// pace leaves out the evictions whose turn has not come.
func (ep *evictionPacing) pace() {
	draining := false
	for _, a := range ep.out.Actions {
		_, is := a.(plan.Evict)
		draining = draining || is
	}
	if !draining && len(ep.evictions.mem.byPod) == 0 {
		return
	}
	left, rounds, last := ep.evictionsAllowed(), ep.pol.EvictionRetries, ep.LastSeenPod()
	next := map[string]eviction{}
	for uid, a := range ep.evictions.mem.byPod {
		if a.slow || ep.Now.Before(a.at.Add(successorTimeout)) {
			next[uid] = a
		}
	}
	pods := map[string]*model.Pod{}
	for _, p := range ep.pods.leavingPods() {
		pods[p.UID] = p
	}
	urgent := map[string]bool{} // nodes that their cloud takes away soon
	for _, x := range ep.Interruptions {
		if x.Node != nil && !ep.Now.Before(x.Drain) {
			urgent[x.Node.Name] = true
		}
	}
	kept := ep.out.Actions[:0]
	for _, a := range ep.out.Actions {
		e, ok := a.(plan.Evict)
		if !ok {
			kept = append(kept, a)
			continue
		}
		first, again := ep.evictions.mem.byPod[e.UID]
		if again {
			next[e.UID] = first
		}
		switch _, inFlight := ep.Snapshot.InFlight[a.Key()]; {
		case inFlight:
			kept = append(kept, a) // drop sees to it
		case again && rounds > 0:
			rounds--
			kept = append(kept, a)
		case !again && (left > 0 || urgent[e.Node]):
			left--
			x := eviction{at: ep.Now, pod: pods[e.UID], slot: ep.slots.covered[e.UID], last: last}
			if x.pod != nil {
				x.owner = cluster.SlotOwner(x.pod)
			}
			next[e.UID] = x
			kept = append(kept, a)
		default:
			ep.wakeAt(ep.Now.Add(evictionRetryAfter / 4))
		}
	}
	ep.out.Actions, ep.evictions.mem.byPod = kept, next
}

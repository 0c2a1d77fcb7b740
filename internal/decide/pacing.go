// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"math"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// The successors of evicted pods come one by one: kube-scheduler binds some hundred a second, fewer where it shares a
// machine, and none that waits for it runs. So only so many evictions are under way at a time as it binds in a second
// or two, however many nodes are drained; the other pods run on until it is their turn.

// evictionPacing lets only so many pods go at a time.
type evictionPacing struct {
	*draft
	mem           *pacingMemory
	interruptions *interruptions
	pods          *podTable
}

// pacingMemory is what evictionPacing remembers from step to step.
type pacingMemory struct {
	evictions map[string]eviction // by uid: the pods that were asked to go and have not, or have just now
}

const (
	evictionRetryAfter = time.Second     // a pod evicted this long ago that is still there is not kept by the scheduler
	pendingTimeout     = 5 * time.Second // nor is one kept by it that is pending for longer
)

// successorTimeout is how long the successor of an evicted pod may be unseen.
const successorTimeout = 3 * time.Second

// eviction is when a pod was first evicted, whether a slot was kept for its successor then, and how the successor is
// told: by its owner (empty where none will be made) and by being seen later than any pod then.
type eviction struct {
	at    time.Time
	pod   *model.Pod
	slot  bool
	owner string
	last  uint64
	slow  bool // it is on its way out, and its successor is made when it is gone: at and last are of then
}

// successorFollowsEnd says whether a pod's successor is made only when it is wholly gone, as a StatefulSet does, where
// the others do not wait for its end. Of owners that nobody knows it is taken to be so.
func successorFollowsEnd(p *model.Pod) bool {
	return p.Owner.Kind != "ReplicaSet" && p.Owner.Kind != "ReplicationController"
}

// followSlowEvictions follows evicted pods whose successor is made only when they have ended: it is awaited from then
// on.
func (ep *evictionPacing) followSlowEvictions() {
	if len(ep.mem.evictions) == 0 {
		return
	}
	slow, some := map[string]bool{}, false
	for _, p := range ep.pods.terminatingPods() {
		slow[p.UID] = successorFollowsEnd(p)
		some = some || slow[p.UID]
	}
	for _, a := range ep.mem.evictions {
		some = some || a.slow
	}
	if !some {
		return
	}
	last, next := ep.lastSeenPod(), make(map[string]eviction, len(ep.mem.evictions))
	for uid, a := range ep.mem.evictions {
		switch {
		case slow[uid]:
			a.slow, a.last = true, last
		case a.slow:
			a.slow, a.at = false, ep.now
		}
		next[uid] = a
	}
	ep.mem.evictions = next
}

// evictionsAllowed returns how many pods may be evicted now, beside those evicted before that have not gone: those are
// evicted again, since it is not the scheduler that keeps them. Under way are pods about to go, pods whose successor is
// pending, and all pending pods. Controllers may pause for a second and then make all successors at once, so pods are
// counted and not their age.
func (ep *evictionPacing) evictionsAllowed() int {
	under := 0
	for _, p := range ep.s.Pending {
		if !p.Gated && !p.Class.Daemon && p.Nominated == "" && ep.now.Before(p.Created.Add(pendingTimeout)) {
			under++
		}
	}
	there := ep.remainingEvicted()
	for uid, a := range ep.mem.evictions {
		if there[uid] && ep.now.Before(a.at.Add(evictionRetryAfter)) {
			under++
		}
	}
	for _, n := range ep.pendingSuccessors(there, true) {
		under += n
	}
	return ep.pol.EvictionConcurrency - under
}

// remainingEvicted returns, by uid, the pods on nodes being drained: evicted and not gone, or to be evicted.
func (ep *evictionPacing) remainingEvicted() map[string]bool {
	there := map[string]bool{}
	if len(ep.mem.evictions) > 0 {
		for _, p := range ep.pods.leavingPods() {
			there[p.UID] = true
		}
	}
	return there
}

// pendingSuccessors is by owner how many pods have gone a moment ago, with successors that have not been seen yet; with
// slow, those too that have begun to.
func (ep *evictionPacing) pendingSuccessors(there map[string]bool, slow bool) map[string]int {
	gone, since, first := map[string]int{}, map[string]uint64{}, uint64(math.MaxUint64) // by owner
	for uid, a := range ep.mem.evictions {
		if !there[uid] && (slow || !a.slow) && a.owner != "" && ep.now.Before(a.at.Add(successorTimeout)) {
			if gone[a.owner]++; gone[a.owner] == 1 || a.last < since[a.owner] {
				since[a.owner] = a.last
			}
			first = min(first, a.last)
		}
	}
	if len(gone) > 0 {
		ep.eachPod(func(p *model.Pod) {
			if p.Seen > first {
				if o := slotOwner(p); gone[o] > 0 && p.Seen > since[o] {
					gone[o]--
				}
			}
		})
	}
	return gone
}

// podsPendingSuccessor are the pods that have gone a moment ago without a slot, and whose successors have not been seen
// yet.
func (ep *evictionPacing) podsPendingSuccessor() (out []*model.Pod) {
	there := ep.remainingEvicted()
	left := ep.pendingSuccessors(there, false)
	for _, uid := range sortedKeys(ep.mem.evictions) {
		if a := ep.mem.evictions[uid]; !a.slot && !a.slow && !there[uid] && left[a.owner] > 0 {
			left[a.owner]--
			out = append(out, a.pod)
		}
	}
	return out
}

// pace leaves out the evictions whose turn has not come.
func (ep *evictionPacing) pace() {
	draining := false
	for _, a := range ep.out.Actions {
		_, is := a.(plan.Evict)
		draining = draining || is
	}
	if !draining && len(ep.mem.evictions) == 0 {
		return
	}
	left, rounds, last := ep.evictionsAllowed(), ep.pol.EvictionRetries, ep.lastSeenPod()
	next := map[string]eviction{}
	for uid, a := range ep.mem.evictions {
		if a.slow || ep.now.Before(a.at.Add(successorTimeout)) {
			next[uid] = a
		}
	}
	pods := map[string]*model.Pod{}
	for _, p := range ep.pods.leavingPods() {
		pods[p.UID] = p
	}
	urgent := map[string]bool{} // nodes that their cloud takes away soon
	for _, x := range ep.interruptions.byClaim {
		if x.node != nil && !ep.now.Before(x.drain) {
			urgent[x.node.Name] = true
		}
	}
	kept := ep.out.Actions[:0]
	for _, a := range ep.out.Actions {
		e, ok := a.(plan.Evict)
		if !ok {
			kept = append(kept, a)
			continue
		}
		first, again := ep.mem.evictions[e.UID]
		if again {
			next[e.UID] = first
		}
		switch _, inFlight := ep.s.InFlight[a.Key()]; {
		case inFlight:
			kept = append(kept, a) // drop sees to it
		case again && rounds > 0:
			rounds--
			kept = append(kept, a)
		case !again && (left > 0 || urgent[e.Node]):
			left--
			x := eviction{at: ep.now, pod: pods[e.UID], slot: ep.pods.covered[e.UID], last: last}
			if x.pod != nil {
				x.owner = slotOwner(x.pod)
			}
			next[e.UID] = x
			kept = append(kept, a)
		default:
			ep.wakeAt(ep.now.Add(evictionRetryAfter / 4))
		}
	}
	ep.out.Actions, ep.mem.evictions = kept, next
}

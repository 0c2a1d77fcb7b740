// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pods

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Evictions are the evicted pods that still exist, or have just been deleted.
type Evictions struct {
	*cluster.View
	mem  EvictionMemory
	pods *Table
}

// EvictionMemory is the state that Evictions keeps between steps.
type EvictionMemory struct {
	byPod map[string]eviction // by uid
}

// HasBegun reports whether the eviction of a pod, by UID, has started.
func (ev *Evictions) HasBegun(uid string) bool {
	_, begun := ev.mem.byPod[uid]
	return begun
}

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

// FollowEvictions returns the evictions of earlier steps. If the successor of a pod is created only after the pod has terminated,
// it is expected from then on.
func FollowEvictions(v *cluster.View, pods *Table, mem EvictionMemory) (*Evictions, EvictionMemory) {
	ev := &Evictions{View: v, mem: mem, pods: pods}
	ev.followSlow()
	return ev, ev.mem
}

// followSlow follows evicted pods whose successor is made only when they have ended.
func (ev *Evictions) followSlow() {
	if len(ev.mem.byPod) == 0 {
		return
	}
	slow, some := map[string]bool{}, false
	for _, p := range ev.pods.terminating() {
		slow[p.UID] = p.SuccessorFollowsEnd()
		some = some || slow[p.UID]
	}
	for _, a := range ev.mem.byPod {
		some = some || a.slow
	}
	if !some {
		return
	}
	last, next := ev.LastSeenPod(), make(map[string]eviction, len(ev.mem.byPod))
	for uid, a := range ev.mem.byPod {
		switch {
		case slow[uid]:
			a.slow, a.last = true, last
		case a.slow:
			a.slow, a.at = false, ev.Now
		}
		next[uid] = a
	}
	ev.mem.byPod = next
}

// remainingEvicted returns, by uid, the pods on nodes being drained: evicted and not gone, or to be evicted.
func (ev *Evictions) remainingEvicted() map[string]bool {
	there := map[string]bool{}
	if len(ev.mem.byPod) > 0 {
		for _, p := range ev.pods.Leaving() {
			there[p.UID] = true
		}
	}
	return there
}

// pendingSuccessors is by owner how many pods have gone a moment ago, with successors that have not been seen yet; with
// slow, those too that have begun to.
func (ev *Evictions) pendingSuccessors(there map[string]bool, slow bool) map[string]int {
	gone, since, first := map[string]int{}, map[string]uint64{}, uint64(math.MaxUint64) // by owner
	for uid, a := range ev.mem.byPod {
		if !there[uid] && (slow || !a.slow) && a.owner != "" && ev.Now.Before(a.at.Add(successorTimeout)) {
			if gone[a.owner]++; gone[a.owner] == 1 || a.last < since[a.owner] {
				since[a.owner] = a.last
			}
			first = min(first, a.last)
		}
	}
	if len(gone) > 0 {
		ev.EachPod(func(p *model.Pod) {
			if p.Seen > first {
				if o := cluster.SlotOwner(p); gone[o] > 0 && p.Seen > since[o] {
					gone[o]--
				}
			}
		})
	}
	return gone
}

// podsPendingSuccessor are the pods that have gone a moment ago without a slot, and whose successors have not been seen
// yet.
func (ev *Evictions) podsPendingSuccessor() (out []*model.Pod) {
	there := ev.remainingEvicted()
	left := ev.pendingSuccessors(there, false)
	for _, uid := range slices.Sorted(maps.Keys(ev.mem.byPod)) {
		if a := ev.mem.byPod[uid]; !a.slot && !a.slow && !there[uid] && left[a.owner] > 0 {
			left[a.owner]--
			out = append(out, a.pod)
		}
	}
	return out
}

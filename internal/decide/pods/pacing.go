// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pods

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// The successors of evicted pods come one by one: kube-scheduler binds some hundred a second, fewer where it shares a
// machine, and none that waits for it runs. So only so many evictions are under way at a time as it binds in a second
// or two, however many nodes are drained; the other pods run on until it is their turn.

// Pace limits the number of pods that are evicted at a time.
type Pace struct {
	Concurrency int // maximum number of evicted pods that have not been rescheduled yet
	Retries     int // maximum number of evictions per step that are retried
}

const (
	evictionRetryAfter = time.Second     // a pod evicted this long ago that is still there is not kept by the scheduler
	pendingTimeout     = 5 * time.Second // nor is one kept by it that is pending for longer
)

// Allowed returns how many more pods may be evicted now, so that at most Pace.Concurrency evictions are concurrent. Concurrent
// are evicted pods that have not terminated yet, evicted pods whose successor is pending, and all other pending pods. An eviction
// older than evictionRetryAfter does not count, because kube-scheduler is not what delays it. Controllers may pause for a second
// and then create all successors at once, so pods are counted, not their age.
func (ev *Evictions) Allowed(pace Pace) int {
	under := 0
	for _, p := range ev.Snapshot.Pending {
		if !p.Gated && !p.Class.Daemon && p.Nominated == "" && ev.Now.Before(p.Created.Add(pendingTimeout)) {
			under++
		}
	}
	there := ev.remainingEvicted()
	for uid, a := range ev.mem.byPod {
		if there[uid] && ev.Now.Before(a.at.Add(evictionRetryAfter)) {
			under++
		}
	}
	for _, n := range ev.pendingSuccessors(there, true) {
		under += n
	}
	return pace.Concurrency - under
}

// Pace returns the actions without the evictions that must wait, and when some of those may start. covered are the UIDs of pods
// with a slot.
func (ev *Evictions) Pace(actions []plan.Action, covered map[string]bool, pace Pace) (kept []plan.Action, again time.Time, mem EvictionMemory) {
	draining := slices.ContainsFunc(actions, func(a plan.Action) bool { _, is := a.(plan.Evict); return is })
	if !draining && len(ev.mem.byPod) == 0 {
		return actions, again, ev.mem
	}
	left, rounds, last := ev.Allowed(pace), pace.Retries, ev.LastSeenPod()
	next := map[string]eviction{}
	for uid, a := range ev.mem.byPod {
		if a.slow || ev.Now.Before(a.at.Add(successorTimeout)) {
			next[uid] = a
		}
	}
	pods := map[string]*model.Pod{}
	for _, p := range ev.pods.Leaving() {
		pods[p.UID] = p
	}
	urgent := map[string]bool{} // nodes that their cloud takes away soon
	for _, x := range ev.Interruptions {
		if x.Node != nil && !ev.Now.Before(x.Drain) {
			urgent[x.Node.Name] = true
		}
	}
	kept = actions[:0]
	for _, a := range actions {
		e, ok := a.(plan.Evict)
		if !ok {
			kept = append(kept, a)
			continue
		}
		first, before := ev.mem.byPod[e.UID]
		if before {
			next[e.UID] = first
		}
		switch _, inFlight := ev.Snapshot.InFlight[a.Key()]; {
		case inFlight:
			kept = append(kept, a) // drop sees to it
		case before && rounds > 0:
			rounds--
			kept = append(kept, a)
		case !before && (left > 0 || urgent[e.Node]):
			left--
			x := eviction{at: ev.Now, pod: pods[e.UID], slot: covered[e.UID], last: last}
			if x.pod != nil {
				x.owner = cluster.SlotOwner(x.pod)
			}
			next[e.UID] = x
			kept = append(kept, a)
		default:
			again = ev.Now.Add(evictionRetryAfter / 4)
		}
	}
	return kept, again, EvictionMemory{next}
}

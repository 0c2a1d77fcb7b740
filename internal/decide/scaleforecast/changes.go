// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package scaleforecast

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// A number of pods that a workload never came back to has no forecast by what happened before. But one that changes
// each minute does not last an hour either: how often the workload has changed lately says how long.

const (
	// recentChanges is how many of a workload's latest changes say how often it changes: down and up again, twice. With
	// fewer nothing is said.
	recentChanges = 4

	// oneChangeWithin is how soon after one another changes are one change: pods are made and deleted one by one, and an
	// autoscaler looks every 15 seconds.
	oneChangeWithin = 10 * time.Second
)

// changeRate is what a workload's latest changes say of the next one.
type changeRate struct {
	next time.Duration // until then the number of pods is taken to stay
	pods int           // of the largest: so many it may rise or fall by
}

// changeRate is how often the number of pods has changed lately; ok is false where it has not often enough. The next
// change is expected after the mean time between the latest changes, the time since the last counted in, and not
// before the number has stayed once more as long as it has so far: what has not changed for an hour is no longer
// expected to change within one.
func (h *replicaHistory) changeRate(now time.Time) (r changeRate, ok bool) {
	last := len(h.changes) - 1 // of the change that is looked at; 0 is how the workload was first seen
	for n := 0; last > 0; {
		first := last
		for first > 0 && h.changes[first].at.Sub(h.changes[first-1].at) < oneChangeWithin {
			first--
		}
		if first == 0 { // its pods were still being made
			break
		}
		by, at := h.changes[last].pods-h.changes[first-1].pods, h.changes[last].at
		if last = first - 1; by == 0 { // of a rollout, say
			continue
		}
		r.pods = max(r.pods, by, -by)
		if n++; n == recentChanges {
			r.next = max(now.Sub(h.changedAt()), now.Sub(at)/(recentChanges-1))
			return r, true
		}
	}
	return changeRate{}, false
}

// withNextChange adds to what is expected by what happened before, soonest first, a change of so many pods at the rate
// of the latest changes, where that is more pods. More pods are not expected sooner than fewer.
func (r changeRate) withNextChange(expected []crossing, pods int) []crossing {
	in := r.next
	for _, c := range expected {
		if c.pods >= pods {
			return expected
		}
		in = max(in, c.in)
	}
	if pods == 0 {
		return expected
	}
	return append(expected, crossing{in: in, pods: pods, irregular: true})
}

// replicaHistory is how many pods a workload had: the number from each time on, oldest first.
type replicaHistory struct {
	changes  []replicaChange
	requests model.Resources // of one of its pods, the last that was seen
}

type replicaChange struct {
	at   time.Time
	pods int
}

// changedAt is when the number changed last.
func (h *replicaHistory) changedAt() time.Time { return h.changes[len(h.changes)-1].at }

// crossing says that so many pods more, or fewer, than now are expected after so long.
type crossing struct {
	in        time.Duration
	pods      int
	irregular bool // by how often the workload changes, see changeRate
}

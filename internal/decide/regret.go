// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// A move that was to save money, and whose pods then had to be bought for again, has saved nothing: the check of where they would land
// did not foresee what kube-scheduler did. Such a move is regretted: the workloads whose pods it moved are left where they are for a
// while, twice as long each time, so that no such mistake can come round for ever (contract 8).

const (
	regretWithin = 15 * time.Minute // a purchase this soon after its workload's pods were moved is the move's doing
	regretRest   = 2 * time.Hour    // the first rest
)

// remorse remembers whose pods were moved, and whose are left alone. The zero value remembers nothing.
type remorse struct {
	moved map[string]time.Time // by owner: when its pods were last moved to save money
	rest  map[string]shunning  // by owner: until when its pods are not moved so
}

// movedFor records whose pods a move that saves money asks to go.
func (st *step) movedFor(m *disrupt.Move) {
	next := make(map[string]time.Time, len(st.mem.remorse.moved)+len(m.Units))
	for owner, at := range st.mem.remorse.moved {
		if st.now.Before(at.Add(regretWithin)) {
			next[owner] = at
		}
	}
	for _, u := range m.Units {
		for _, p := range u.Pods {
			next[slotOwner(p)] = st.now
		}
	}
	st.mem.remorse.moved = next
}

// regret looks at what demand has bought: a workload that was moved just before is left alone from now on.
func (st *step) regret(bought []solve.NewNode) {
	var rest map[string]shunning
	for i := range bought {
		for _, p := range bought[i].Pods {
			owner := slotOwner(p)
			at, ok := st.mem.remorse.moved[owner]
			old := st.mem.remorse.rest[owner]
			if !ok || !st.now.Before(at.Add(regretWithin)) || st.now.Before(old.until) {
				continue
			}
			if rest == nil {
				rest = make(map[string]shunning, len(st.mem.remorse.rest)+1)
				for k, v := range st.mem.remorse.rest {
					if st.now.Before(v.until.Add(7 * 24 * time.Hour)) {
						rest[k] = v
					}
				}
			}
			rest[owner] = shunning{until: st.now.Add(regretRest << min(old.times, 6)), times: old.times + 1}
		}
	}
	if rest != nil {
		st.mem.remorse.rest = rest
	}
}

// resting says whether a machine holds a pod of a workload that is left alone.
func (st *step) resting(pods []*model.Pod) bool {
	if len(st.mem.remorse.rest) == 0 {
		return false
	}
	for _, p := range pods {
		if s, ok := st.mem.remorse.rest[slotOwner(p)]; ok && st.now.Before(s.until) {
			st.at(s.until)
			return true
		}
	}
	return false
}

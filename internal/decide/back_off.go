// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"fmt"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
)

// backOff is until when a claim is not disrupted, and how often in a row that was so.
type backOff struct {
	until time.Time
	times int
	begun int    // of these times, how often a disruption command had begun and was taken back
	rules string // where no command was found: what pods and NodePools were then, see searchRules; another search is due when they change
}

// backOffs are the claims that no disruption command is to take for a while.
type backOffs struct {
	*draft
	mem *backOffMemory
}

// backOffMemory is what backOffs remembers from step to step.
type backOffMemory struct {
	byClaim map[string]backOff // by uid
}

// backOffRefused keeps claims from new commands for a while that were to go in one that verify refused.
func (bo *backOffs) backOffRefused() {
	for _, uid := range bo.req.Refused {
		bo.backOffClaim(uid, bo.pol.BackOff)
	}
}

// backOffClaim keeps a claim from new disruption commands for a while after one failed: for d the first time, twice as
// long each time after, two hours at most.
func (bo *backOffs) backOffClaim(uid string, d time.Duration) {
	bo.add(uid, d, backOff{begun: 1})
}

// backOffSearch keeps a candidate from being looked at again for a while after no command was found for it: as long as
// backOffClaim does, or until what decides that changes.
func (bo *backOffs) backOffSearch(u *disrupt.Candidate, d time.Duration) {
	bo.add(u.Claim.UID, d, backOff{rules: bo.searchRules(u)})
}

func (bo *backOffs) add(uid string, d time.Duration, now backOff) {
	old := bo.mem.byClaim[uid]
	if bo.Now.Before(old.until) {
		return // the same failure, told again
	}
	m := make(map[string]backOff, len(bo.mem.byClaim)+1)
	for k, v := range bo.mem.byClaim {
		if bo.ClaimWithUID(k) != nil {
			m[k] = v
		}
	}
	m[uid] = backOff{until: bo.Now.Add(min(d<<min(old.times, 10), 2*time.Hour)), times: old.times + 1, begun: old.begun + now.begun, rules: now.rules}
	bo.mem.byClaim = m
	bo.wakeAt(m[uid].until)
}

// holds returns the back-off that a candidate is in; false: it is in none. One of a search that found nothing ends when
// the candidate's pods or the NodePools change.
func (bo *backOffs) holds(u *disrupt.Candidate) (backOff, bool) {
	s, ok := bo.mem.byClaim[u.Claim.UID]
	return s, ok && bo.Now.Before(s.until) && (s.rules == "" || s.rules == bo.searchRules(u))
}

// isHeld reports whether a candidate is in a back-off, and until when.
func (bo *backOffs) isHeld(u *disrupt.Candidate) (bool, time.Time) {
	if s, held := bo.holds(u); held {
		return true, s.until
	}
	return false, time.Time{}
}

// searchRules returns a short text that changes when a candidate's pods change, or what NodePools launch.
func (bo *backOffs) searchRules(u *disrupt.Candidate) string {
	var parts []string
	for _, p := range u.Pods {
		parts = append(parts, p.Class.Key)
	}
	slices.Sort(parts)
	for _, p := range bo.Snapshot.Pools {
		parts = append(parts, p.Name, p.Requirements.Key(), fmt.Sprint(p.Taints, p.Limits, p.HasLimit, p.NodeLimit, p.Ready, p.Deleting, len(p.Types)))
	}
	return cluster.HashName(10, parts...)
}

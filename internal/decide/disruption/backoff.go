// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disruption

import (
	"fmt"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// BackOff is until when a claim is not disrupted, and how often in a row that was so.
type BackOff struct {
	Until time.Time
	Times int    // how often in a row it was kept so
	Begun int    // of these times, how often a disruption command had begun and was taken back
	rules string // where no command was found: what pods and NodePools were then, see searchRules; another search is due when they change
}

// BackOffs are the claims that no disruption command is to take for a while.
type BackOffs struct {
	*cluster.View
	mem BackOffMemory
	out plan.Part
}

// NewBackOffs returns the back-offs that are remembered.
func NewBackOffs(v *cluster.View, mem BackOffMemory) *BackOffs { return &BackOffs{View: v, mem: mem} }

// Result returns when to look again, and what to remember.
func (bo *BackOffs) Result() (plan.Part, BackOffMemory) { return bo.out, bo.mem }

// BackOffMemory is what BackOffs remember from step to step.
type BackOffMemory struct {
	byClaim map[string]BackOff // by uid
}

// Until returns until when a claim, by uid, backs off, or did last; zero: never since it is remembered.
func (m *BackOffMemory) Until(uid string) time.Time { return m.byClaim[uid].Until }

// Hold keeps a claim, by uid, from new disruption commands for a while after one failed: for d the first time, twice as
// long each time after, two hours at most.
func (bo *BackOffs) Hold(uid string, d time.Duration) {
	bo.add(uid, d, BackOff{Begun: 1})
}

// HoldCandidate keeps a candidate from being looked at again for a while after no command was found for it: as long as
// Hold does, or until what decides that changes.
func (bo *BackOffs) HoldCandidate(u *disrupt.Candidate, d time.Duration) {
	bo.add(u.Claim.UID, d, BackOff{rules: bo.searchRules(u)})
}

func (bo *BackOffs) add(uid string, d time.Duration, now BackOff) {
	old := bo.mem.byClaim[uid]
	if bo.Now.Before(old.Until) {
		return // the same failure, told again
	}
	m := make(map[string]BackOff, len(bo.mem.byClaim)+1)
	for k, v := range bo.mem.byClaim {
		if bo.ClaimWithUID(k) != nil {
			m[k] = v
		}
	}
	m[uid] = BackOff{Until: bo.Now.Add(model.Backoff(d, old.Times, 2*time.Hour)), Times: old.Times + 1, Begun: old.Begun + now.Begun, rules: now.rules}
	bo.mem.byClaim = m
	bo.out.WakeAt(m[uid].Until)
}

// Holds returns the back-off that a candidate is in; false: it is in none. One of a search that found nothing ends when
// the candidate's pods or the NodePools change.
func (bo *BackOffs) Holds(u *disrupt.Candidate) (BackOff, bool) {
	s, ok := bo.mem.byClaim[u.Claim.UID]
	return s, ok && bo.Now.Before(s.Until) && (s.rules == "" || s.rules == bo.searchRules(u))
}

// IsHeld reports whether a candidate is in a back-off, and until when.
func (bo *BackOffs) IsHeld(u *disrupt.Candidate) (bool, time.Time) {
	if s, held := bo.Holds(u); held {
		return true, s.Until
	}
	return false, time.Time{}
}

// searchRules returns a short text that changes when a candidate's pods change, or what NodePools launch.
func (bo *BackOffs) searchRules(u *disrupt.Candidate) string {
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

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

// BackOff is the back-off of a NodeClaim: until when it is not disrupted, and how many times in a row.
type BackOff struct {
	Until time.Time
	Times int    // number of consecutive back-offs
	Begun int    // number of these after a disruption command had begun and was cancelled
	rules string // where no command was found: what pods and NodePools were then, see searchRules; another search is due when they change
}

// BackOffs are the back-offs of NodeClaims, which disruption commands skip.
type BackOffs struct {
	*cluster.View
	mem BackOffMemory
	out plan.Part
}

// NewBackOffs returns the BackOffs in a memory.
func NewBackOffs(v *cluster.View, mem BackOffMemory) *BackOffs { return &BackOffs{View: v, mem: mem} }

// Result returns when to decide again, and the state to keep for the next step.
func (bo *BackOffs) Result() (plan.Part, BackOffMemory) { return bo.out, bo.mem }

// BackOffMemory is the state that BackOffs keeps between steps.
type BackOffMemory struct {
	byClaim map[string]BackOff // by uid
}

// Until returns when the current or last back-off of the NodeClaim with the given UID ends, or the zero time if there
// was none.
func (m *BackOffMemory) Until(uid string) time.Time { return m.byClaim[uid].Until }

// Hold starts a back-off of a NodeClaim, by UID, after a failed disruption command: d the first time, twice as long each further
// time, at most two hours.
func (bo *BackOffs) Hold(uid string, d time.Duration) {
	bo.add(uid, d, BackOff{Begun: 1})
}

// HoldCandidate starts a back-off of a candidate for which no command was found. It lasts as long as that of Hold, or until a
// relevant change.
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

// Holds returns the back-off of a candidate; false if there is none. A back-off after a search without a result ends when the
// candidate's pods or the NodePools change.
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

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import "time"

// backOff is until when a claim is not disrupted, and how often disruption commands of it have failed.
type backOff struct {
	until time.Time
	times int
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
func (bo *backOffs) backOffRefused(uids []string) {
	for _, uid := range uids {
		bo.backOffClaim(uid, bo.pol.BackOff)
	}
}

// backOffClaim keeps a claim from new disruption commands for a while after one failed: for d the first time, twice as
// long each time after, two hours at most.
func (bo *backOffs) backOffClaim(uid string, d time.Duration) {
	old := bo.mem.byClaim[uid]
	if bo.now.Before(old.until) {
		return // the same failure, told again
	}
	m := make(map[string]backOff, len(bo.mem.byClaim)+1)
	for k, v := range bo.mem.byClaim {
		if bo.claimWithUID(k) != nil {
			m[k] = v
		}
	}
	m[uid] = backOff{until: bo.now.Add(min(d<<min(old.times, 10), 2*time.Hour)), times: old.times + 1}
	bo.mem.byClaim = m
	bo.wakeAt(m[uid].until)
}

// isInBackOff says whether a claim, by uid, is not to be disrupted yet, and has the step come again when it may be.
func (bo *backOffs) isInBackOff(uid string) bool {
	s, ok := bo.mem.byClaim[uid]
	if ok && bo.now.Before(s.until) {
		bo.wakeAt(s.until)
		return true
	}
	return false
}

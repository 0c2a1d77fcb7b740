// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import "time"

// backOff is until when a claim is not disrupted, and how often disruption commands of it have failed.
type backOff struct {
	until time.Time
	times int
}

// backOffRefused keeps claims from new commands for a while that were to go in one that verify refused.
func (dc *disruptionCommands) backOffRefused(uids []string) {
	for _, uid := range uids {
		dc.backOffClaim(uid, dc.pol.BackOff)
	}
}

// backOffClaim keeps a claim from new disruption commands for a while after one failed: for d the first time, twice as
// long each time after, two hours at most.
func (dc *disruptionCommands) backOffClaim(uid string, d time.Duration) {
	old := dc.mem.backOffs[uid]
	if dc.now.Before(old.until) {
		return // the same failure, told again
	}
	m := make(map[string]backOff, len(dc.mem.backOffs)+1)
	for k, v := range dc.mem.backOffs {
		if dc.claimWithUID(k) != nil {
			m[k] = v
		}
	}
	m[uid] = backOff{until: dc.now.Add(min(d<<min(old.times, 10), 2*time.Hour)), times: old.times + 1}
	dc.mem.backOffs = m
	dc.wakeAt(m[uid].until)
}

// isInBackOff says whether a claim, by uid, is not to be disrupted yet, and has the step come again when it may be.
func (dc *disruptionCommands) isInBackOff(uid string) bool {
	s, ok := dc.mem.backOffs[uid]
	if ok && dc.now.Before(s.until) {
		dc.wakeAt(s.until)
		return true
	}
	return false
}

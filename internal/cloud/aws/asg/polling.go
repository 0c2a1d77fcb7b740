// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package asg

import "time"

// A group with open claims is read again after half of the time since its desired capacity last counted one of them, but
// at least every pollMost. It is never read more often than every pollLeast, even if the queue reports that an instance
// has started.
const (
	pollLeast = 250 * time.Millisecond
	pollMost  = 5 * time.Second
)

// pollNow makes the next request of an open claim read the group again.
func (s *groupState) pollNow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) > 0 {
		s.pollAt = s.polledAt.Add(pollLeast)
	}
}

// isPolled reports whether a claim waits for a requested machine, and the group need not be read again yet.
func (s *groupState) isPolled(uid string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.open[uid]
	return a != nil && !a.countedAt.IsZero() && now.Before(s.pollAt)
}

// NoteStarted schedules an early read of all groups with open claims, after an instance has started that may be a member
// of one of them.
func (p *Provider) NoteStarted() {
	for _, name := range p.registry.GroupNames() {
		p.scaler.stateOf(name).pollNow()
	}
}

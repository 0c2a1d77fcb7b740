// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package asg

import "time"

// A group that open claims wait for is read again when half the time has passed again since its desired capacity counted the last of them, at least
// every pollMost. It is read pollLeast after the read before at the earliest, also if the queue tells that an instance has started.
const (
	pollLeast = 250 * time.Millisecond
	pollMost  = 5 * time.Second
)

// pollNow has a group with open claims be read the next time that one of them asks.
func (s *groupState) pollNow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) > 0 {
		s.pollAt = s.polledAt.Add(pollLeast)
	}
}

// isPolled reports whether a claim waits for a machine that the group was asked for, and the group need not be read again yet.
func (s *groupState) isPolled(uid string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.open[uid]
	return a != nil && !a.countedAt.IsZero() && now.Before(s.pollAt)
}

// NoteStarted has the groups that claims wait for be read soon: an instance has started, which may be a member of one of them.
func (p *Provider) NoteStarted() {
	for _, name := range p.registry.GroupNames() {
		p.scaler.stateOf(name).pollNow()
	}
}

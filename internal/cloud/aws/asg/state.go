// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package asg

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// desiredCapacity is a group's desired capacity as it is known best: what this process left it at after it was
// described, or what was described.
func (s *groupState) desiredCapacity(g *group, described time.Time) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.desiredAt.After(described) {
		return s.desired
	}
	return g.desired
}

// noteDesired records the desired capacity of a group after a write or read, with its time.
func (s *groupState) noteDesired(desired int64, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.desired, s.desiredAt = desired, now
}

// noteExcess notes since when a group has wanted more members than it has and open claims ask for; patience is how
// long AWS has to give them. With fill it notes too that the group is to be filled up to its class's minimum.
func (s *groupState) noteExcess(g *group, described time.Time, patience time.Duration, fill bool) {
	asked := int64(len(s.openClaims()))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.provisionTime, s.minSize, s.fillTo = patience, g.min, 0
	if fill && g.problem == "" && g.desired < g.min {
		s.fillTo = g.min
	}
	if g.problem != "" || g.desired <= max(g.min, int64(len(g.members))+asked) {
		s.excessSince = time.Time{}
	} else if s.excessSince.IsZero() {
		s.excessSince = described
	}
}

// takeOverdueExcess reports whether a group has wanted more than it has and is asked for, for as long as AWS has to give
// it. If so the time is counted anew, and least is how many members its class would have it keep.
func (s *groupState) takeOverdueExcess(now time.Time) (least int64, is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.excessSince.IsZero() || now.Sub(s.excessSince) < s.provisionTime {
		return 0, false
	}
	s.excessSince = time.Time{}
	return s.minSize, true
}

// takeFill is up to how many members a group is to be filled, once for each time it was described; 0: it is not.
func (s *groupState) takeFill() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.fillTo
	s.fillTo = 0
	return n
}

// markCounted notes that a group's desired capacity counts these claims from now on.
func (s *groupState) markCounted(open []*openClaim, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range open {
		if a.countedAt.IsZero() {
			a.countedAt = now
		}
	}
}

// openClaims are the open claims of a group, oldest first.
func (s *groupState) openClaims() []*openClaim {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*openClaim, 0, len(s.open))
	for _, a := range s.open {
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b *openClaim) int {
		return cmp.Or(a.created.Compare(b.created), compareCounted(a.countedAt, b.countedAt), strings.Compare(a.name, b.name), strings.Compare(a.uid, b.uid))
	})
	return out
}

// compareCounted orders times, the zero time last: a claim that no capacity counts yet is younger than one that is
// counted.
func compareCounted(a, b time.Time) int {
	if a.IsZero() != b.IsZero() {
		if a.IsZero() {
			return 1
		}
		return -1
	}
	return a.Compare(b)
}

// closeClaim ends the wait of a claim with an outcome, and keeps it for the claim's next call: its own may be over.
func (s *groupState) closeClaim(registry *Registry, a *openClaim, with claimOutcome) {
	s.mu.Lock()
	delete(s.open, a.uid)
	s.mu.Unlock()
	registry.noteClosed(a.uid)
	with.group = s.name
	registry.keepOutcome(a.uid, with)
}

// noteInitialMembers records the members of a group when it was first read.
func (s *groupState) noteInitialMembers(g *group, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.initialMembers != nil {
		return
	}
	s.initialMembers, s.firstViewedAt = map[string]bool{}, at
	for _, m := range g.members {
		s.initialMembers[m.id] = true
	}
}

// notePolled notes that a group was read, and from that when it is to be read again for its open claims. settled is false if what was read could not be
// acted on yet.
func (s *groupState) notePolled(now time.Time, settled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var counted time.Time
	for _, a := range s.open {
		if a.countedAt.After(counted) {
			counted = a.countedAt
		}
	}
	s.polledAt, s.pollAt = now, now.Add(pollLeast)
	if settled {
		s.pollAt = now.Add(min(max(now.Sub(counted)/2, pollLeast), pollMost))
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package asg

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instances"
)

// groupState is what this process knows of a group beside what AWS says: what is under way in it. Only who has the
// turn may read the group for a change, and change it.
type groupState struct {
	name string
	turn awsapi.Lock

	reconciles   *awsapi.Batcher[*openClaim, claimOutcome]
	terminations *awsapi.Batcher[string, error]

	// Below: whoever has the turn.
	matched map[string]string // claim uid by instance: tagged by this process, whatever Describe says
	surplus int64             // by how much its desired capacity is to be lowered, for claims that were given up

	mu             sync.Mutex
	initialMembers map[string]bool       // members that were there when the group was first looked at
	firstViewedAt  time.Time             // when that was
	open           map[string]*openClaim // by claim uid: claims that a member is to come for
	batch          *batch                // claims of a plan that have come so far; nil: none
	desired        int64                 // as this process last left it, or saw it
	desiredAt      time.Time             // when; zero: never
	excessSince    time.Time             // since when it wants more than it has and is asked for; zero: it does not
	provisionTime  time.Duration         // how long AWS has to give it that
	minSize        int64                 // how many it is to have at least, by its class
	polledAt       time.Time             // when the group was last read for its open claims
	pollAt         time.Time             // when it is to be read again for them
	fillTo         int64                 // up to how many it is filled though nobody asks for them; 0: it is not
}

// openClaim is a claim for which a group was asked, or is to be asked, for a machine.
type openClaim struct {
	uid, name, pool string
	created         time.Time
	fits            func(*instances.Instance) bool // whether a machine is one that the claim allows
	countedAt       time.Time                      // when the group's desired capacity first counted it; zero: not yet
	class           string
	cancelled       bool // it is given up
}

// claimOutcome is what reconciling a group has come to for one claim. All zero: a machine is to come.
type claimOutcome struct {
	member     *instances.Instance
	group      string
	full       bool // the group has as many as it may
	noCapacity bool // AWS had none
	err        error
}

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

// noteDesired notes what a group's desired capacity was left at, or seen to be, and when.
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
func (s *groupState) closeClaim(registry *Registry, a *openClaim, answers map[string]claimOutcome, with claimOutcome) {
	s.mu.Lock()
	delete(s.open, a.uid)
	s.mu.Unlock()
	registry.noteClosed(a.uid)
	with.group = s.name
	answers[a.uid] = with
	registry.keepOutcome(a.uid, with)
}

// noteInitialMembers remembers which members a group had when it was first looked at.
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

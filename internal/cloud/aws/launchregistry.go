// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"context"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// launchRetention is how long a launch is remembered after it was last looked at, also one whose request had no answer: its claim is gone by then. One
// that is not is found by its tag.
const launchRetention = 30 * time.Minute

// launchRegistry remembers the launches of this process by claim: what was asked for, so that a repetition asks for the same, and what came
// of it. L is what a way of launching has to remember.
type launchRegistry[L any] struct {
	clock cloud.Clock

	mu      sync.Mutex
	byClaim map[string]*launchEntry[L] // by claim uid
}

type launchEntry[L any] struct {
	turn   contextLock // who has it may use launch
	usedAt time.Time
	launch L
}

func newLaunchRegistry[L any](clock cloud.Clock) *launchRegistry[L] {
	return &launchRegistry[L]{clock: clock, byClaim: map[string]*launchEntry[L]{}}
}

// claimLaunch is what is remembered of a claim's launch, whichever way it is bought.
type claimLaunch struct {
	options     []launchOption      // all that the request allowed, when it was first made; nil: it was not made, or is to be made anew
	unavailable []cloud.OfferingKey // those of them that had no capacity
	result      *cloud.LaunchResult // what was bought; nil: nothing yet
	launchedAt  time.Time           // when it was
}

// acquire waits until nobody else is at a claim's launch, and returns what is remembered of it. The caller may change that, and calls
// release when it is done. An error is the context's.
func (s *launchRegistry[L]) acquire(ctx context.Context, uid string) (launch *L, release func(), err error) {
	e := s.entry(uid)
	if err := e.turn.lock(ctx); err != nil {
		return nil, nil, err
	}
	e.usedAt = s.clock.Now()
	return &e.launch, e.turn.unlock, nil
}

// entry is a claim's, made if there is none. From time to time those are dropped that nobody has used for launchRetention.
func (s *launchRegistry[L]) entry(uid string) *launchEntry[L] {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byClaim[uid]
	if e != nil {
		return e
	}
	if len(s.byClaim)%64 == 63 {
		for k, old := range s.byClaim {
			if !old.turn.tryLock() {
				continue // somebody is at it
			}
			if now.Sub(old.usedAt) > launchRetention {
				delete(s.byClaim, k)
			}
			old.turn.unlock()
		}
	}
	e = &launchEntry[L]{turn: newContextLock(), usedAt: now}
	s.byClaim[uid] = e
	return e
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package launch

import (
	"context"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/offering"
)

// launchRetention is how long a launch is remembered after it was last looked at, also one whose request had no
// answer: its claim is gone by then. The machine of one that is not is found by its tag.
const launchRetention = 30 * time.Minute

// Registry remembers the launches of this process by claim, so that a repeated request asks for the same and answers
// the same. L is what a way of launching has to remember.
type Registry[L any] struct {
	clock cloud.Clock

	mu      sync.Mutex
	byClaim map[string]*entry[L] // by claim uid
}

// entry is one claim's launch, and who may use it.
type entry[L any] struct {
	turn   cloud.Lock // who has it may use launch
	usedAt time.Time
	launch L
}

// NewRegistry makes a Registry that remembers nothing.
func NewRegistry[L any](clock cloud.Clock) *Registry[L] {
	return &Registry[L]{clock: clock, byClaim: map[string]*entry[L]{}}
}

// Claim is what is remembered of a claim's launch, whichever way its machine is bought.
type Claim struct {
	Options     []offering.Option   // all that the request allowed when it was made; nil: none is made
	Unavailable []cloud.OfferingKey // those of them that had no capacity
	Result      *cloud.LaunchResult // what was bought; nil: nothing yet
	LaunchedAt  time.Time           // when it was
}

// Acquire waits until nobody else is at a claim's launch, and returns what is remembered of it, the zero value at
// first. The caller may change that, and calls release when it is done. An error is the context's.
func (s *Registry[L]) Acquire(ctx context.Context, uid string) (launch *L, release func(), err error) {
	e := s.entry(uid)
	if err := e.turn.Acquire(ctx); err != nil {
		return nil, nil, err
	}
	e.usedAt = s.clock.Now()
	return &e.launch, e.turn.Release, nil
}

// entry is a claim's entry, made if there is none. From time to time those are dropped that nobody has used for
// launchRetention.
func (s *Registry[L]) entry(uid string) *entry[L] {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byClaim[uid]
	if e != nil {
		return e
	}
	if len(s.byClaim)%64 == 63 {
		for k, old := range s.byClaim {
			if !old.turn.TryAcquire() {
				continue // somebody is at it
			}
			if now.Sub(old.usedAt) > launchRetention {
				delete(s.byClaim, k)
			}
			old.turn.Release()
		}
	}
	e = &entry[L]{turn: cloud.NewLock(), usedAt: now}
	s.byClaim[uid] = e
	return e
}

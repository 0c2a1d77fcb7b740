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

// Registry stores the launches of this process by claim, so that a repeated request has the same content and result. L
// is the launch state of a provider.
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

// NewRegistry returns an empty Registry.
func NewRegistry[L any](clock cloud.Clock) *Registry[L] {
	return &Registry[L]{clock: clock, byClaim: map[string]*entry[L]{}}
}

// Claim is the launch state of a claim, common to all providers.
type Claim struct {
	Options     []offering.Option   // all options that the request allowed when it was made; nil: no request
	Unavailable []cloud.OfferingKey // options without capacity
	Result      *cloud.LaunchResult // result of the launch; nil: not launched yet
	LaunchedAt  time.Time           // time of the launch
}

// Acquire waits until no other caller uses the launch of a claim, and returns its state, initially the zero value. The
// caller may change it, and calls release when done. Errors are those of the context.
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

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cloud

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Rate is a token bucket: Burst calls at once, PerSecond in the long run. A batch is one call.
type Rate struct {
	PerSecond float64
	Burst     int
}

// Validate says what is wrong with the rate.
func (r Rate) Validate() error {
	if r.PerSecond <= 0 || r.Burst < 1 {
		return fmt.Errorf("rate limit: perSecond %g and burst %d, need more than 0 and at least 1", r.PerSecond, r.Burst)
	}
	return nil
}

// RateLimit keeps the calls to a provider under a rate by making callers wait their turn, so that the cloud need not throttle.
func RateLimit(p Provider, clock Clock, rate Rate) Provider {
	return &rateLimit{Provider: p, clock: clock, rate: rate, tokens: float64(rate.Burst), at: clock.Now()}
}

type rateLimit struct {
	Provider
	clock Clock
	rate  Rate

	mu     sync.Mutex
	tokens float64 // below zero: turns already given away
	at     time.Time
}

func (l *rateLimit) Unwrap() Provider { return l.Provider }

func (l *rateLimit) turn(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	now := l.clock.Now()
	l.tokens = min(float64(l.rate.Burst), l.tokens+now.Sub(l.at).Seconds()*l.rate.PerSecond)
	l.at = now
	l.tokens--
	var d time.Duration
	if l.tokens < 0 {
		d = time.Duration(-l.tokens / l.rate.PerSecond * float64(time.Second))
	}
	l.mu.Unlock()
	if d == 0 {
		return nil
	}
	if err := l.clock.Wait(ctx, d); err != nil {
		l.mu.Lock()
		l.tokens++ // the turn was not used
		l.mu.Unlock()
		return err
	}
	return nil
}

// Offerings implements Provider.
func (l *rateLimit) Offerings(ctx context.Context, pool *model.NodePool, class NodeClass) ([]*model.InstanceType, error) {
	if err := l.turn(ctx); err != nil {
		return nil, &Error{Kind: Unknown, Op: "offerings", Object: class.Name, Err: err}
	}
	return l.Provider.Offerings(ctx, pool, class)
}

// Launch implements Provider.
func (l *rateLimit) Launch(ctx context.Context, requests []LaunchRequest) []LaunchResult {
	if err := l.turn(ctx); err != nil {
		results := make([]LaunchResult, len(requests))
		for i, r := range requests {
			results[i] = LaunchResult{ClaimUID: r.ClaimUID, Err: &Error{Kind: Unknown, Op: "launch", Object: r.ClaimName, Err: err}}
		}
		return results
	}
	return l.Provider.Launch(ctx, requests)
}

// List implements Provider.
func (l *rateLimit) List(ctx context.Context) ([]model.Instance, error) {
	if err := l.turn(ctx); err != nil {
		return nil, &Error{Kind: Unknown, Op: "list", Err: err}
	}
	return l.Provider.List(ctx)
}

// Terminate implements Provider.
func (l *rateLimit) Terminate(ctx context.Context, ids []string) []error {
	if err := l.turn(ctx); err != nil {
		errs := make([]error, len(ids))
		for i, id := range ids {
			errs[i] = &Error{Kind: Unknown, Op: "terminate", Object: id, Err: err}
		}
		return errs
	}
	return l.Provider.Terminate(ctx, ids)
}

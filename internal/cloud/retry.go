// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cloud

import (
	"context"
	"fmt"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// RetryPolicy limits the retries within one call. A batch returns when its last item does, so every item pays for a retry
// (contract 5): keep it short, and leave longer waits to the caller.
type RetryPolicy struct {
	Attempts int           // maximum number of calls, including the first; at least 1
	Base     time.Duration // delay before the second attempt after an Unknown error; doubles each time
	MaxWait  time.Duration // maximum total delay; if more is required, the error is returned
}

// DefaultRetry returns a policy that covers a lost connection and short throttling.
func DefaultRetry() RetryPolicy {
	return RetryPolicy{Attempts: 4, Base: 50 * time.Millisecond, MaxWait: 2 * time.Second}
}

// Validate returns an error that names an invalid field.
func (p RetryPolicy) Validate() error {
	switch {
	case p.Attempts < 1:
		return fmt.Errorf("retry policy: attempts is %d, need at least 1", p.Attempts)
	case p.Base <= 0:
		return fmt.Errorf("retry policy: base is %s, need more than 0", p.Base)
	case p.MaxWait < 0:
		return fmt.Errorf("retry policy: maxWait is %s, need at least 0", p.MaxWait)
	}
	return nil
}

// Retry repeats what was throttled, after the delay asked for, and what failed for an unknown reason, after a growing one. Only
// the items that failed so are repeated. It may, because launching is idempotent by claim UID and terminating in effect: a
// repeated termination whose first reply was lost ends as NotFound, which its caller takes for done.
func Retry(p Provider, clock Clock, policy RetryPolicy) Provider {
	return &retry{Provider: p, clock: clock, policy: policy}
}

type retry struct {
	Provider
	clock  Clock
	policy RetryPolicy
}

func (r *retry) Unwrap() Provider { return r.Provider }

// patience is what is left of a policy during one call.
type patience struct {
	policy  RetryPolicy
	attempt int
	waited  time.Duration
}

// again reports whether to repeat after this error and how long to wait first.
func (p *patience) again(err error) (time.Duration, bool) {
	var d time.Duration
	switch KindOf(err) {
	case Throttled:
		d = max(AfterOf(err), p.policy.Base)
	case Unknown:
		d = p.policy.Base << min(p.attempt, 16)
	default:
		return 0, false
	}
	return d, p.attempt+1 < p.policy.Attempts && p.waited+d <= p.policy.MaxWait
}

func (p *patience) spend(d time.Duration) { p.attempt++; p.waited += d }

// items repeats a batch: call gets the indexes still open and returns their errors in that order.
func (r *retry) items(ctx context.Context, n int, call func(open []int) []error) {
	open := make([]int, n)
	for i := range open {
		open[i] = i
	}
	p := patience{policy: r.policy}
	for len(open) > 0 {
		errs := call(open)
		var wait time.Duration
		var next []int
		for i, err := range errs {
			if d, ok := p.again(err); ok {
				wait = max(wait, d)
				next = append(next, open[i])
			}
		}
		if len(next) == 0 || ctx.Err() != nil || r.clock.Wait(ctx, wait) != nil {
			return
		}
		p.spend(wait)
		open = next
	}
}

func (r *retry) one(ctx context.Context, call func() error) {
	r.items(ctx, 1, func([]int) []error { return []error{call()} })
}

// Offerings implements Provider.
func (r *retry) Offerings(ctx context.Context, pool *model.NodePool, class NodeClass) (types []*model.InstanceType, err error) {
	r.one(ctx, func() error { types, err = r.Provider.Offerings(ctx, pool, class); return err })
	return types, err
}

// Launch implements Provider.
func (r *retry) Launch(ctx context.Context, requests []LaunchRequest) []LaunchResult {
	results := make([]LaunchResult, len(requests))
	r.items(ctx, len(requests), func(open []int) []error {
		batch := make([]LaunchRequest, len(open))
		for i, at := range open {
			batch[i] = requests[at]
		}
		errs := make([]error, len(open))
		for i, res := range r.Provider.Launch(ctx, batch) {
			results[open[i]], errs[i] = res, res.Err
		}
		return errs
	})
	return results
}

// List implements Provider.
func (r *retry) List(ctx context.Context) (instances []model.Instance, err error) {
	r.one(ctx, func() error { instances, err = r.Provider.List(ctx); return err })
	return instances, err
}

// Terminate implements Provider.
func (r *retry) Terminate(ctx context.Context, ids []string) []error {
	errs := make([]error, len(ids))
	r.items(ctx, len(ids), func(open []int) []error {
		batch := make([]string, len(open))
		for i, at := range open {
			batch[i] = ids[at]
		}
		out := r.Provider.Terminate(ctx, batch)
		for i, err := range out {
			errs[open[i]] = err
		}
		return out
	})
	return errs
}

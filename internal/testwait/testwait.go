// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package testwait helps tests to wait for a named event, with a deadline that only ends tests that hang.
//
// A deadline is scaled by the current speed of the machine (Factor), is never shorter than written, and never exceeds
// `go test -timeout`, so a test whose event never occurs fails with that event and the last state it saw,
// instead of a goroutine dump. No assertion may depend on how long something took. In-process code with its own
// timers uses testing/synctest instead.
//
// Only tests import it. Start reading at Until.
package testwait

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"
)

const (
	// Limit is the timeout of Until, Receive and Context on an idle machine. It is no statement about speed.
	Limit = time.Minute
	// Every is the polling interval.
	Every = 20 * time.Millisecond

	// spare is what is left of `go test -timeout` when a wait gives up: time for the test to say what it saw, and to clean up.
	spare = 20 * time.Second
)

// FactorVariable is the environment variable that overrides the measured factor, for a machine with varying load.
const FactorVariable = "DOVETAIL_TEST_FACTOR"

// Factor returns how many times longer a fixed piece of work takes than on the reference machine of the deadlines: 1 to 20. It is
// measured once per process, on all processors at once, so it covers slow and busy machines.
func Factor() float64 { return factor() }

var factor = sync.OnceValue(func() float64 {
	if text := os.Getenv(FactorVariable); text != "" {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || f < 1 {
			panic(fmt.Sprintf("%s is %q, want a number of 1 or more", FactorVariable, text))
		}
		return f
	}
	return min(max(1, measure().Seconds()/quiet.Seconds()), 20)
})

// Scale returns d multiplied by Factor.
func Scale(d time.Duration) time.Duration { return time.Duration(float64(d) * Factor()) }

// Until calls ask until it returns nil. If that takes longer than Limit, the test fails with what and the last error, which should
// describe the last state.
func Until(t testing.TB, what string, ask func() error) {
	t.Helper()
	UntilFor(t, Limit, what, ask)
}

// UntilFor is Until with another limit, which is scaled by Factor.
func UntilFor(t testing.TB, limit time.Duration, what string, ask func() error) {
	t.Helper()
	if err := Poll(parent(t), Left(t, limit), Every, func(context.Context) error { return ask() }); err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

// parent returns the context of a test, or one without an end in a cleanup, by which that of the test has ended.
func parent(t testing.TB) context.Context {
	if t.Context().Err() != nil {
		return context.Background()
	}
	return t.Context()
}

// ErrLimit is wrapped in the error of a Poll that has reached its limit.
var ErrLimit = errors.New("not within the limit")

// Poll calls ask until it returns nil, at least once. It fails if the context ends, or after limit, which is not scaled. The error
// contains the last error of ask. The context of ask also ends at the limit.
func Poll(ctx context.Context, limit, every time.Duration, ask func(context.Context) error) error {
	limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w of %s", ErrLimit, limit.Round(time.Second)))
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	var last error
	for {
		// An answer that was cut off says less than the one before it.
		if err := ask(limited); err == nil || limited.Err() == nil || last == nil {
			last = err
		}
		if last == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-limited.Done():
			return fmt.Errorf("%w: %w", context.Cause(limited), last)
		}
	}
}

// Receive returns the next value of a channel, or the zero value if the channel is closed.
func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	limit := Left(t, Limit)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case v := <-from:
		return v
	case <-timer.C:
		t.Fatalf("waiting for %s: nothing within %s", what, limit.Round(time.Second))
		panic("unreachable")
	}
}

// Context returns a context that ends with the test or after Limit, with a cause that names which.
func Context(t testing.TB) context.Context {
	t.Helper()
	return ContextFor(t, Limit)
}

// ContextFor is like Context, but with the given limit, scaled by Factor, instead of Limit.
func ContextFor(t testing.TB, limit time.Duration) context.Context {
	t.Helper()
	limit = Left(t, limit)
	ctx, cancel := context.WithTimeoutCause(parent(t), limit, fmt.Errorf("%s: %w of %s", t.Name(), ErrLimit, limit.Round(time.Second)))
	t.Cleanup(cancel)
	return ctx
}

// Left returns a limit scaled by Factor, but at most the time that `go test -timeout` leaves for the test.
func Left(t testing.TB, limit time.Duration) time.Duration {
	limit = Scale(limit)
	if d, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if end, ok := d.Deadline(); ok {
			limit = max(time.Second, min(limit, time.Until(end)-spare))
		}
	}
	return limit
}

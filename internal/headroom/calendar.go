// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package headroom

import (
	"time"

	"github.com/robfig/cron/v3"

	"github.com/dovetail-sh/dovetail/internal/forecast"
)

// Window is a compiled calendar window.
type Window struct {
	WindowSpec
	schedule cron.Schedule // asked about times of the clock, written as if they were UTC
	zone     *time.Location
	period   time.Duration // the least time from one opening to the next, by the clock
}

// Opening is one period in which a window is open.
type Opening struct{ Opens, Closes time.Time }

// opening returns the opening at an instant that the window opens.
func (w *Window) opening(at time.Time) Opening { return Opening{at, at.Add(w.Duration)} }

// Next returns the first instant after t at which the window opens, in UTC.
//
// The schedule follows the clock of its zone. If the clock skips the time of an opening, the window opens at the instant of the
// skip; if the clock shows the time twice, it opens at the first. Compile has verified that an opening exists.
func (w *Window) Next(t time.Time) time.Time {
	clock := forecast.WallClock(t, w.zone).Add(-clockChange)
	for {
		clock = w.schedule.Next(clock)
		if at := forecast.InstantOf(clock, w.zone); at.After(t) || clock.IsZero() {
			return at
		}
	}
}

// clockChange is longer than any clock is put forward or back.
const clockChange = 3 * time.Hour

// Current returns the opening that closes first after now: an open one, otherwise the next.
func (w *Window) Current(now time.Time) Opening { return w.opening(w.Next(now.Add(-w.Duration))) }

// Last returns at most n openings before o, latest first.
func (w *Window) Last(o Opening, n int) []Opening {
	var all []Opening
	for back := 2 * w.period; back < 5*366*24*time.Hour; back *= 4 {
		all = all[:0]
		for at := w.Next(o.Opens.Add(-back)); at.Before(o.Opens); at = w.Next(at) {
			all = append(all, w.opening(at))
		}
		if len(all) >= n {
			break
		}
	}
	var out []Opening
	for i := len(all) - 1; i >= 0 && len(out) < n; i-- {
		out = append(out, all[i])
	}
	return out
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package headroom

import (
	"time"

	"github.com/robfig/cron/v3"

	"github.com/dovetail-sh/dovetail/internal/forecast"
)

// Window is a compiled window of the calendar.
type Window struct {
	WindowSpec
	schedule cron.Schedule // asked about times of the clock, written as if they were UTC
	zone     *time.Location
	period   time.Duration // the least time from one opening to the next, by the clock
}

// Opening is one time that a window is open.
type Opening struct{ Opens, Closes time.Time }

// opening returns the opening at an instant that the window opens.
func (w *Window) opening(at time.Time) Opening { return Opening{at, at.Add(w.Duration)} }

// Next returns the first instant after t at which the window opens, in UTC.
//
// The schedule is read by the clock of its zone. An opening in the hour that a clock skips is at the instant it skips
// that hour; one in an hour that a clock goes through twice is in the first of them. Compile has seen that there is
// one.
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

// Current returns the opening that is the first to close after now: one that is open, or the next.
func (w *Window) Current(now time.Time) Opening { return w.opening(w.Next(now.Add(-w.Duration))) }

// Last returns the latest openings before one, the latest first, at most n.
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

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package forecast

import "time"

// WallClock returns the local time at t in a zone, expressed as UTC.
func WallClock(t time.Time, zone *time.Location) time.Time {
	l := t.In(zone)
	return time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), l.Second(), l.Nanosecond(), time.UTC)
}

// InstantOf returns the first instant, in UTC, at which a clock in a zone shows a local time. If the clock skips that time, it
// returns the instant of the skip.
func InstantOf(clock time.Time, zone *time.Location) time.Time {
	t := time.Date(clock.Year(), clock.Month(), clock.Day(), clock.Hour(), clock.Minute(), clock.Second(), clock.Nanosecond(), zone)
	start, end := t.ZoneBounds()
	switch shown := WallClock(t, zone); {
	case shown.After(clock):
		return start.UTC()
	case shown.Before(clock):
		return end.UTC()
	}
	if !start.IsZero() {
		_, offset := t.Zone()
		_, before := start.Add(-time.Second).In(zone).Zone()
		if earlier := t.Add(time.Duration(offset-before) * time.Second); earlier.Before(start) {
			return earlier.UTC()
		}
	}
	return t.UTC()
}

// localMinute returns the minute that a clock in a zone shows at a minute, both counted since 1970; nil is UTC.
func localMinute(minute int64, zone *time.Location) int64 {
	if zone == nil || zone == time.UTC {
		return minute
	}
	_, offset := time.Unix(60*minute, 0).In(zone).Zone()
	return minute + int64(offset)/60
}

// minuteOfLocal returns the first minute at which a clock in a zone shows a minute, or skips it.
func minuteOfLocal(local int64, zone *time.Location) int64 {
	if zone == nil || zone == time.UTC {
		return local
	}
	return InstantOf(time.Unix(60*local, 0).UTC(), zone).Unix() / 60
}

// workday reports whether a minute lies in Monday to Friday. 1 January 1970 was a Thursday.
func workday(minute int64) bool {
	d := (minute/day + 4) % 7
	return d >= 1 && d <= 5
}

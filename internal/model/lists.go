// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

import (
	"strings"
	"time"
)

// CompareLists walks two lists in the same order by key and hands over what is not the same in both. Equal lists of a Snapshot
// are the same slice, and equal objects the same pointer, so the cost follows what has changed.
func CompareLists[T any](was, is []*T, key func(*T) string, changed func(was, is *T)) {
	if len(was) == len(is) && (len(is) == 0 || &was[0] == &is[0]) {
		return
	}
	i, j := 0, 0
	for i < len(was) || j < len(is) {
		order := 0
		switch {
		case i == len(was):
			order = 1
		case j == len(is):
			order = -1
		case was[i] != is[j]:
			order = strings.Compare(key(was[i]), key(is[j]))
		}
		switch {
		case order < 0:
			changed(was[i], nil)
			i++
		case order > 0:
			changed(nil, is[j])
			j++
		default:
			if was[i] != is[j] {
				changed(was[i], is[j])
			}
			i, j = i+1, j+1
		}
	}
}

// CompareBools has false come before true, as cmp.Compare has the smaller one.
func CompareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// LaterOf returns the later of two instants.
func LaterOf(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Backoff returns how long to wait after so many waits before: first, doubled for each of ten at most, and no longer than most.
func Backoff(first time.Duration, before int, most time.Duration) time.Duration {
	return min(first<<min(before, 10), most)
}

// EarlierOf returns the earlier of two instants; zero is never.
func EarlierOf(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

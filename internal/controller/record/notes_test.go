// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package record

import (
	"strconv"
	"testing"
	"time"
)

// Notes that are still not to be told again can't be forgotten, however many there are: all of them are looked through now and then, not for
// each that comes. When they are old they go.
func TestManyNotesAreLookedThroughSeldom(t *testing.T) {
	c := New(Config{})
	now := time.Now()
	looked := 0
	note := func(key string) {
		t.Helper()
		before := c.noteSweepAt
		if !c.IsNews(now, key, "text") {
			t.Fatalf("%s is not fresh", key)
		}
		if c.noteSweepAt != before {
			looked++
		}
	}
	const many = 4 * fewNotes
	for i := range many {
		note(strconv.Itoa(i))
	}
	if len(c.notes) != many || looked == 0 || looked > 3 {
		t.Errorf("%d notes of %d are kept, looked through %d times; want all, and 3 times at most", len(c.notes), many, looked)
	}
	if c.IsNews(now.Add(noteAgain-1), "7", "text") {
		t.Error("told again too soon")
	}
	now = now.Add(noteAgain)
	for i := range many {
		note("later " + strconv.Itoa(i))
	}
	if n := len(c.notes); n > many {
		t.Errorf("%d notes are kept of %d that are not old", n, many)
	}
}

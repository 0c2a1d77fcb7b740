// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// Notes that are still not to be told again can't be forgotten, however many there are: all of them are looked through now and then, not for
// each that comes. When they are old they go.
func TestManyNotesAreLookedThroughSeldom(t *testing.T) {
	c := newRecorder(&Controller{})
	now := time.Now()
	looked := 0
	note := func(key string) {
		t.Helper()
		before := c.noteSweepAt
		if !c.isNews(now, key, "text") {
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
	if c.isNews(now.Add(noteAgain-1), "7", "text") {
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

// A termination time that is written is told of, one that is taken back is not.
func TestATerminationTimeIsTold(t *testing.T) {
	for at, want := range map[string]bool{"2000-01-01T00:10:00Z": true, plan.Unset: false} {
		run(t, func(t *testing.T, b *bench) {
			b.stand(1)
			b.lead()
			b.c.Emit(func(*state.State) {
				b.c.recorder.recordUpdate(plan.UpdateClaim{Claim: "old-00", Annotations: map[string]string{lifecycle.TerminationTime: at}})
			})
			time.Sleep(time.Second)
			told := false
			for _, e := range b.made("event") {
				told = told || strings.Contains(e.what, "TerminationGracePeriodExpiring")
			}
			if told != want {
				t.Errorf("%q: told %t, want %t", at, told, want)
			}
		})
	}
}

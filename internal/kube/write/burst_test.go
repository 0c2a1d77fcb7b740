// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package write

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"
)

// TestABurstOfEventsTakesNoLonger: the loop waits while an event is taken in, and ten thousand pods may be refused at once. What an event costs does
// not grow with how many are known: of those, few are looked at for each that is taken in, while they are young and once they may be forgotten.
func TestABurstOfEventsTakesNoLonger(t *testing.T) {
	now := time.Unix(1000, 0)
	r := &recorder{now: func() time.Time { return now }, last: map[[sha256.Size]byte]time.Time{}, queue: fairEvents{most: eventQueue}, filled: now, writing: true}
	a := &Actor{events: r}
	taken := 0
	for burst := range 4 {
		for i := range eventQueue {
			a.Event("Pod", "default", fmt.Sprint("pod-", burst, "-", i), "", true, "FailedScheduling", "no room for it")
		}
		taken += r.queue.count
		if r.queue.count != eventQueue || r.looked > 4*taken {
			t.Errorf("burst %d: %d events wait, want %d; known ones were looked at %d times for %d that were taken in", burst, r.queue.count, eventQueue, r.looked, taken)
		}
		for e, _ := r.next(); e != nil; e, _ = r.next() { // all are written
		}
		r.writing = true // no goroutine of its own
		now = now.Add(time.Duration(burst%2) * 2 * eventRepeat)
	}
	if r.looked == 0 {
		t.Error("known events were never looked at, so this proves nothing")
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"crypto/sha256"
	"fmt"
	"testing"
	"time"
)

// TestABurstOfEventsTakesNoLonger: the loop waits while an event is taken in, and ten thousand pods may be refused at once.
func TestABurstOfEventsTakesNoLonger(t *testing.T) {
	fastest := func(events int) time.Duration {
		least := time.Hour
		for range 5 {
			a := &Actor{events: &recorder{now: time.Now, last: map[[sha256.Size]byte]time.Time{}, queue: fairEvents{most: eventQueue}, filled: time.Now(), writing: true}}
			begin := time.Now()
			for i := range events {
				a.Event("Pod", "default", fmt.Sprint("pod-", i), "", true, "FailedScheduling", "no room for it")
			}
			least = min(least, time.Since(begin))
		}
		return least
	}
	few, many := fastest(2000), fastest(10000)
	if many > 25*few {
		t.Errorf("2,000 events take %s, 10,000 take %s", few, many)
	}
}

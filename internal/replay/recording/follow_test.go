// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package recording_test

import (
	"os"
	"testing"
	"time"
)

// TestFollow: on what was recorded of a controller whose calls take time, Dovetail decides the same. Nine in ten are asked for: a lab records all that
// happens at one look at once, so that an action and what it was decided on may have the same time.
func TestFollow(t *testing.T) {
	seeds, long := uint64(2), 3*time.Hour
	if os.Getenv("DOVETAIL_SOAK") != "" {
		seeds, long = 12, 12*time.Hour
	}
	for seed := range seeds {
		l := newLab(t, seed, 6)
		l.addSets()
		l.calls = true
		r, v := recorded(t, l, long)
		f, err := r.Follow(v, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("seed %d: of %d decisions %d are the same, %d more, %d steps", seed, f.Recorded, f.Same, f.Added, f.Steps)
		v.Progress = func(at time.Time) bool { return at.Before(start.Add(time.Hour)) }
		part, err := r.Follow(v, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !part.Partial || part.Steps == 0 || part.Steps > f.Steps/2 {
			t.Errorf("seed %d: interrupted after an hour of %s: partial=%t, %d of %d steps", seed, long, part.Partial, part.Steps, f.Steps)
		}
		if f.Recorded < 20 || f.Same < f.Recorded*9/10 || f.Added > f.Recorded/100 {
			t.Errorf("seed %d: %d of %d decisions are the same, want 90 %%; %d are more; others: %v", seed, f.Same, f.Recorded, f.Added, f.Differing)
		}
	}
}

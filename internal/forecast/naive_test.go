// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package forecast

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// naiveRises is PastRises done slowly: from all demand there ever was (unknown: -1), with a list of observations
// instead of counts. It returns the least rises within lead minutes, in units of the scale at their beginning, of which
// a share q is no larger: the edges of the bucket that it lies in. An observation weighs 8, and one less, or an eighth
// less, at the end of each day of observations.
func naiveRises(demand []int, lead int, q float64) (lower, upper float64) {
	type observed struct{ rise, weight float64 }
	var all []observed
	level, noise, known := 0.0, 0.0, 0
	var scales []float64
	lastKnown := -1
	for m, d := range demand {
		scales = append(scales, 0)
		if d < 0 {
			continue
		}
		x := float64(d)
		if lastKnown < 0 || m-lastKnown-1 >= resetAfter {
			level = x
		}
		lastKnown = m
		known++
		if from := m - lead; from >= 0 && slices.Index(demand[from:m+1], -1) < 0 {
			rise := float64(max(0, slices.Max(demand[from+1:m+1])-demand[from]))
			all = append(all, observed{rise / scales[from], sample})
		}
		if known%day == 0 {
			// What weighs an eighth less is the bucket, not the observation: all of a bucket lose the same share.
			sums := map[int]float64{}
			for _, o := range all {
				sums[bucketOf(o.rise)] += o.weight
			}
			for i, o := range all {
				sum := sums[bucketOf(o.rise)]
				all[i].weight *= (sum - math.Ceil(sum/8-1e-9)) / sum
			}
		}
		root := math.Sqrt(level + 1)
		noise += (min(math.Abs(x-level)/root, noiseClip*max(noise, noiseLeast)) - noise) / float64(min(known, noiseMinutes))
		level += (x - level) / levelMinutes
		scales[m] = max(1, noise*math.Sqrt(level+1))
	}
	slices.SortFunc(all, func(a, b observed) int { return bucketOf(a.rise) - bucketOf(b.rise) })
	total := 0.0
	for _, o := range all {
		total += o.weight
	}
	left := q * total
	for _, o := range all {
		if left -= o.weight; left <= 1e-6*total {
			b := bucketOf(o.rise)
			return bucketEdge(b - 1), bucketEdge(b)
		}
	}
	return 0, 0
}

// TestNaive holds the quantiles of PastRises to those of the slow way.
func TestNaive(t *testing.T) {
	compared := 0
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "noise")
		level, spread := rapid.IntRange(0, 200).Draw(t, "level"), rapid.IntRange(1, 40).Draw(t, "spread")
		gap := rapid.IntRange(0, 2*day).Draw(t, "gap")
		demand := make([]int, rapid.IntRange(1, 2*day).Draw(t, "minutes"))
		h := New()
		for i := range demand {
			seed = seed*6364136223846793005 + 1442695040888963407
			demand[i] = level + int(seed>>33)%spread
			if i >= gap && i < gap+20 {
				demand[i] = -1
			}
		}
		observe(t, h, monday, demand)
		if h.known == 0 || len(h.spikes) > 0 { // what is expected of spikes is no method's
			return
		}
		i := rapid.IntRange(0, leadCount-1).Draw(t, "lead")
		q := levelOf(rapid.IntRange(0, levelCount-1).Draw(t, "level of"))
		w, _ := h.distribution(&origin{}, i, PastRises)
		got := w.quantile(q)
		lower, upper := naiveRises(demand, int(leadOf(i)), q)
		if w.total == 0 && upper == 0 {
			return
		}
		compared++
		if got < lower-1e-9 || got > upper+1e-9 {
			t.Fatalf("within %d minutes at %g: %g, not from %g to %g", leadOf(i), q, got, lower, upper)
		}
	})
	if compared == 0 {
		t.Fatal("nothing was compared")
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package topology

import (
	"math/rand/v2"
	"testing"
)

// Counts are those of a plain map, whether they are in the list or in the array, and come back by a reset.
func TestDomainCounts(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 0))
		domains := 1 + r.IntN(4*mostInList)
		var x domainCounts
		have := map[int]int32{}
		change := func(n int) {
			for range n {
				d, by := r.IntN(domains), int32(r.IntN(5)-2)
				x.add(d, by)
				have[d] += by
			}
		}
		same := func(when string, want map[int]int32) {
			t.Helper()
			for d := range domains + 5 {
				if got := x.at(d); got != want[d] {
					t.Fatalf("seed %d, %s: domain %d has %d pods, want %d", seed, when, d, got, want[d])
				}
			}
		}
		change(r.IntN(30))
		same("at first", have)
		initial, before := x.clone(), map[int]int32{}
		for d, n := range have {
			before[d] = n
		}
		for range 2 {
			change(r.IntN(60))
			same("after changes", have)
			x.resetTo(&initial)
			clear(have)
			for d, n := range before {
				have[d] = n
			}
			same("after a reset", have)
		}
	}
}

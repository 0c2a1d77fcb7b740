// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"slices"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/solve/pack"
)

// TestRemadeFillsCountPodsOnce remembers a fill that names a class twice, for it was two demands then, where it is
// one now: a fill that lists a demand twice would be bought for pods that are not there.
func TestRemadeFillsCountPodsOnce(t *testing.T) {
	p := parseProblem(t, "pool default\ntype large cpu=8 mem=16Gi price=0.20\npod web x4 cpu=1 mem=1Gi\n")
	s := planOf(p, DefaultPolicy())
	d := &pack.Demand{Class: s.Classes[0], Offers: s.Classes[0].Offers, Unbought: 4}
	mixtures := s.NewPacking(s.Levels[0], []*pack.Demand{d})
	f := &pack.RememberedColumn{Pool: "default", InstanceType: "large", Classes: []string{d.Class.Spec.Key, d.Class.Spec.Key}, Counts: []int64{1, 2}}
	c, ok := mixtures.RebuildColumn(f, 0, map[string][]int{d.Class.Spec.Key: {0}})
	if want := []pack.Item{{Demand: 0, Count: 3}}; !ok || !slices.Equal(c.Items, want) {
		t.Errorf("the fill is made of %v (%v), want %v", c.Items, ok, want)
	}
}

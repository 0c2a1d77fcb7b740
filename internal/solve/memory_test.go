// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"slices"
	"testing"
)

// TestRemadeFillsCountPodsOnce remembers a fill that names a class twice, for it was two demands then, where it is
// one now: a fill that lists a demand twice would be bought for pods that are not there.
func TestRemadeFillsCountPodsOnce(t *testing.T) {
	p := parseProblem(t, "pool default\ntype large cpu=8 mem=16Gi price=0.20\npod web x4 cpu=1 mem=1Gi\n")
	s := solveAssuming(p, Memory{}, DefaultPolicy(), alternative{})
	d := &demand{class: s.classes[0], offers: s.classes[0].offers, unbought: 4}
	mixtures := s.newPacking(s.levels[0], []*demand{d})
	f := &rememberedColumn{pool: "default", instanceType: "large", classes: []string{d.class.spec.Key, d.class.spec.Key}, counts: []int64{1, 2}}
	c, ok := mixtures.rebuildColumn(f, 0, map[string][]int{d.class.spec.Key: {0}})
	if want := []item{{demand: 0, count: 3}}; !ok || !slices.Equal(c.items, want) {
		t.Errorf("the fill is made of %v (%v), want %v", c.items, ok, want)
	}
}

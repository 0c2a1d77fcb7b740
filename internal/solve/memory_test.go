// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"weak"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve/pack"
)

// TestRemadeFillsCountPodsOnce remembers a fill that names a class twice, for it was two demands then, where it is
// one now: a fill that lists a demand twice would be bought for pods that are not there.
func TestRemadeFillsCountPodsOnce(t *testing.T) {
	p := parseProblem(t, "pool default\ntype large cpu=8 mem=16Gi price=0.20\npod web x4 cpu=1 mem=1Gi\n")
	s := planOf(p, DefaultPolicy())
	d := &pack.Demand{Class: s.Inst.Classes[0], Offers: s.Inst.Classes[0].Offers, Unbought: 4}
	mixtures := s.Purchases.NewPacking(s.Catalog.Levels[0], []*pack.Demand{d})
	f := &pack.RememberedColumn{Pool: "default", InstanceType: "large", Classes: []string{d.Class.Spec.Key, d.Class.Spec.Key}, Counts: []int64{1, 2}}
	c, ok := mixtures.Market.RebuildColumn(f, 0, map[string][]int{d.Class.Spec.Key: {0}})
	if want := []pack.Item{{Demand: 0, Count: 3}}; !ok || !slices.Equal(c.Items, want) {
		t.Errorf("the fill is made of %v (%v), want %v", c.Items, ok, want)
	}
}

// TestMemoryKeepsNoProblem: a Memory goes from solve to solve for as long as the process runs, so it must not keep what
// any of them was about.
func TestMemoryKeepsNoProblem(t *testing.T) {
	var text strings.Builder
	text.WriteString("pool default\n")
	for i := range 6 {
		fmt.Fprintf(&text, "type t%d cpu=%d mem=%dGi price=0.%03d\n", i, 2+3*i, 5+7*i, 50+61*i)
	}
	for i := range 5 {
		fmt.Fprintf(&text, "pod web%d x%d cpu=%d mem=%dGi\n", i, 7+i, 1+i, 7-i)
	}
	var mem Memory
	var problems []weak.Pointer[model.Pod]
	for range 3 {
		p := parseProblem(t, text.String())
		problems = append(problems, weak.Make(p.Demand[0]))
		_, mem = Solve(p, mem, DefaultPolicy())
	}
	if mem.columns == nil {
		t.Fatal("nothing is remembered: the test shows nothing")
	}
	runtime.GC()
	for i, p := range problems {
		if p.Value() != nil {
			t.Errorf("the memory keeps problem %d of %d", i+1, len(problems))
		}
	}
	runtime.KeepAlive(mem)
}

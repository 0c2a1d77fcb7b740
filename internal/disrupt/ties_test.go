// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// TestChoiceOfTwo: two machines score the same for a small pod, and only on one of them is room for a large one. Where the bound lets no choice be
// followed, chance is drawn and meets the one that takes the room; where the large pod comes first there is none to meet. All is put back after.
func TestChoiceOfTwo(t *testing.T) {
	x := newScript(t)
	for _, l := range []string{"pool p", "type t cpu=4 mem=4Gi price=0.1", "node a pool=p type=t", "node b pool=p type=t", "node c pool=p type=t",
		"pods x cpu=2 mem=3Gi on=a", "pods y cpu=3 mem=2Gi on=b", "pods small cpu=1 mem=1Gi on=c", "pods large cpu=2 mem=1Gi on=c"} {
		x.line(strings.Fields(l))
	}
	rooms := x.input().Rooms
	f := newFloor(rooms, 4)
	f.close("c")
	small, large := x.pods["small"][0], x.pods["large"][0]
	if p, _, _, _ := Homes(rooms, 4, []string{"c"}, []*model.Pod{small, large}, nil); p != large {
		t.Errorf("%v has no home, want the large one", p)
	}
	if p, _, _, _ := Homes(rooms, 4, []string{"c"}, []*model.Pod{large}, []*model.Pod{small}); p != large {
		t.Errorf("%v has no home beside one on its way, want the large one", p)
	}
	was := slices.Clone(f.free)
	for _, points := range []int64{0, 1000} {
		for _, lost := range []bool{true, false} {
			order := []*model.Pod{small, large}
			if !lost {
				slices.Reverse(order)
			}
			w := newChances(f, courses[0], order, pending{}, nil, false, inTime, map[kin]int{})
			w.same = newAlikes(f, order, nil)
			w.walk(points)
			if w.over != (points == 0) || (w.lost == large) != lost || (w.short[kinOf(large)] == 1) != lost {
				t.Errorf("with %d points, beyond the bound: %t, lost: %v, short of %v; want the large one lost: %t", points, w.over, w.lost, w.short, lost)
			}
			if !slices.Equal(f.free, was) {
				t.Errorf("with %d points room is left taken", points)
			}
		}
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/sim"
)

// TestGangsSettle lets everything go wrong for a while in a world of gangs under a limit, of which some are made of two workloads.
// Each plan is verified: a gang is placed and moved together or not at all. When nothing goes wrong any more and the limit is lifted,
// every pod runs, and nothing is left behind.
func TestGangsSettle(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, false)
		if rapid.Bool().Draw(t, "consolidates") {
			w.pool().ConsolidateAfter, w.pool().ConsolidationPolicy = 10*time.Second, "WhenEmptyOrUnderutilized"
		}
		w.pool().NodeLimit = int64(rapid.IntRange(1, 8).Draw(t, "limit"))
		w.SetPool(w.pool())
		for i, l := range w.Workloads {
			if l.Want == 0 {
				continue
			}
			l.Gang = model.Gang{Name: "podgroup/default/" + l.Name, Least: rapid.IntRange(1, l.Want).Draw(t, "least"), Staged: rapid.IntRange(0, 3).Draw(t, "staged") == 3,
				LeftToScheduler: rapid.IntRange(0, 2).Draw(t, "bound by its scheduler") == 2}
			if first := w.Workloads[0]; i > 0 && first.Want > 0 && rapid.IntRange(0, 2).Draw(t, "with the first") == 2 {
				first.Gang.Least = first.Want + l.Want
				l.Gang = first.Gang
			}
		}
		isFree := func(l *sim.Workload) bool { return len(l.Class.Spread) == 0 && len(l.Class.Terms) == 0 }
		for _, l := range w.Workloads {
			if l.Want == 0 || rapid.IntRange(0, 2).Draw(t, "in one zone") < 2 {
				continue
			}
			// kube-scheduler knows no domains: it may put pods where the rest of their gang must not run
			if slices.ContainsFunc(w.Workloads, func(o *sim.Workload) bool { return o.Gang.Name == l.Gang.Name && !isFree(o) }) {
				continue
			}
			l.Gang.Domain = model.LabelZone
			c := *l.Class
			c.StayTogether(l.Gang)
			l.Class = classOf(c)
		}
		want := make([]int, len(w.Workloads))
		for i, l := range w.Workloads {
			want[i] = l.Want
		}
		w.wild()
		w.rush(10, 80, 50, 200, 1000, 5000)
		w.say("from here on nothing goes wrong")
		for i, l := range w.Workloads { // or a gang may have too few pods for ever
			l.Want = want[i]
		}
		w.editPool(func(p *model.NodePool) { p.NodeLimit = -1 })
		w.settle(3000)
		w.clean()
	})
}

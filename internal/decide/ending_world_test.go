// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/decide/landing"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/sim"
)

// TestWaitsForEndingPodsAreBounded scales workloads up and down whose pods end late, some by minutes: no pod waits for others to end longer than a
// node boots, and all pods run in the end.
func TestWaitsForEndingPodsAreBounded(t *testing.T) {
	t.Parallel()
	waited := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, false)
		w.pol.Landing.Mode = landing.Bind
		w.Boot = time.Duration(rapid.IntRange(1, 30).Draw(t, "boot")) * time.Second
		for _, l := range w.Workloads {
			l.Grace = time.Duration(rapid.IntRange(1, 20).Draw(t, "grace")) * time.Second
		}
		w.judge = func(s *model.Snapshot, _ *Output) {
			boot := cluster.New(s, w.Now, nil, nil).BootTime()
			for _, p := range s.Pending {
				if w.mem.placements.byPod[p.UID].Ends.IsZero() || p.Unschedulable.IsZero() {
					continue
				}
				if waited++; !w.Now.Before(p.Unschedulable.Add(boot)) && w.mem.demand.waits.Until.Before(w.Now) {
					w.fatalf("pod %s waits for pods to end since %s, and a node boots in %s", p.Name, p.Unschedulable.Sub(epoch), boot)
				}
			}
		}
		w.wild(sim.Scaled, sim.PodDeleted, sim.WatchLags, sim.SlowCall, sim.PodsOneByOne, sim.SchedulerIsSlow, sim.Crash)
		w.Faults.Odds[sim.Scaled], w.Faults.Odds[sim.PodEndsLate] = 10, 40
		w.rush(20, 100, 200, 1000, 3000)
		w.settle(3000)
		w.clean()
	})
	if waited == 0 {
		untested(t, "no pod waited for others to end")
	}
}

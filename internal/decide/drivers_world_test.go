// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/decide/landing"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/sim"
)

// TestLateDriversCostNothing has CSI drivers register on nodes up to four minutes after these are Ready: no node is launched besides those of the first
// plans, however pods come to their nodes, and every pod runs in the end.
func TestLateDriversCostNothing(t *testing.T) {
	t.Parallel()
	waited := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, false)
		if w.pol.Landing.Mode == landing.Off { // pods of different sizes come to other nodes than planned, and then may not all fit
			w.Workloads = w.Workloads[:1]
		}
		for _, l := range w.Workloads {
			c := *l.Class
			c.Spread, c.AntiAffinity = nil, nil
			c.Volumes = w.drawVolumes(l.Name)
			l.Class, l.Want = classOf(c), rapid.IntRange(1, 8).Draw(t, "replicas")
		}
		w.Drivers[0].After = time.Duration(rapid.IntRange(0, 240).Draw(t, "seconds until drivers register")) * time.Second
		w.Packs = rapid.Bool().Draw(t, "packs")
		w.wild(sim.WatchLags, sim.SlowCall, sim.SchedulerIsSlow, sim.SchedulerLags)
		w.did = func(a plan.Action) {
			if a, ok := a.(plan.CreateClaim); ok && len(w.Nodes) > 0 {
				w.fatalf("%s is launched once nodes are there, for pods that had a node each", a.Name)
			}
		}
		for range 500 {
			w.Tick()
			w.pause(50, 200, 500)
			for _, p := range w.Pods {
				if p.Node == "" && len(w.Nodes) == len(w.Claims) {
					waited++
				}
			}
			if pods := w.Cluster.PodCount(""); pods == 0 && len(w.Pods) > 0 {
				break
			}
		}
		w.settle(3000)
		w.clean()
	})
	if waited == 0 {
		untested(t, "no pod waited for a driver")
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/decide/claims"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/sim"
)

// TestRepairStorm breaks a fifth of a pool's nodes at once, while another fifth flaps: each of these is not Ready for less time than
// makes a node broken, again and again. Calls fail and the controller is killed. At no moment are more nodes being replaced than the
// budget for Unhealthy allows, those not counted whose instance is being terminated; each broken node is replaced, and no other one. In half of the
// worlds a broken node is rebooted, no machine twice: it is back then, or was replaced because it was not back or the cloud was never asked. Nothing
// counts as an unused launch, though the pods of a node that is rebooted are elsewhere.
func TestRepairStorm(t *testing.T) {
	t.Parallel()
	repaired, mostAtOnce, back, inVain := 0, 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, false)
		w.pol.BackOff = 20 * time.Second
		w.pol.Lifecycle.RebootTimeout = 3 * time.Minute
		reboot := rapid.Bool().Draw(t, "reboot")
		w.pol.Repair = append(w.pol.Repair, claims.RepairPolicy{Condition: "Broken", Status: "True", After: 20 * time.Second, Drain: time.Duration(rapid.SampledFrom([]int{0, 2, 60}).Draw(t, "drain")) * time.Second, Reboot: reboot})
		n := rapid.SampledFrom([]int{5, 10, 20}).Draw(t, "nodes")
		same := model.NewRequirements(model.OneOf("app", "web"))
		w.Workloads = []*sim.Workload{{Name: "web", Want: n, Grace: time.Second, Class: classOf(model.Class{Namespace: "default", Labels: model.Labels{"app": "web"},
			Scheduler: model.DefaultScheduler, Requests: model.Resources{1500, 128 << 20, 0, 1},
			AntiAffinity: []model.PodTerm{{TopologyKey: model.LabelHostname, Selector: model.Selector{Namespaces: []string{"default"}, Pods: &same}}}})}}
		budget := rapid.IntRange(1, 3).Draw(t, "budget")
		w.editPool(func(p *model.NodePool) {
			p.Budgets = []model.Budget{{Nodes: int64(budget), Reasons: []string{string(plan.Unhealthy)}}}
		})
		w.settle(3000)
		nodes := slices.Sorted(maps.Keys(w.Nodes))
		if len(nodes) != n {
			w.fatalf("%d nodes for %d pods, each on a node of its own", len(nodes), n)
		}

		nodes = rapid.Permutation(nodes).Draw(t, "order")
		broken, flapping := nodes[:n/5], nodes[n/5:2*(n/5)]
		isBroken := map[string]bool{}
		for _, name := range broken {
			isBroken[name] = true
		}
		reboots := map[string]int{} // by node
		w.rebooted = func(node string) {
			if reboots[node]++; reboots[node] > 1 || !isBroken[node] {
				w.fatalf("node %s, broken: %v, is rebooted for the %d. time", node, isBroken[node], reboots[node])
			}
		}
		w.judge = func(_ *model.Snapshot, out *Output) {
			if len(out.Unused) > 0 {
				w.fatalf("the launch of %s counts as unused", out.Unused[0].Claim)
			}
			going := 0
			for _, c := range w.Claims {
				if node := w.Nodes[c.NodeName]; node != nil && !c.Is(lifecycle.Terminating) && (!c.Deleting.IsZero() || c.Is(lifecycle.Disrupted) || lifecycle.IsRebooting(c)) {
					if going++; !isBroken[node.Name] {
						w.fatalf("node %s is being replaced, and it is not broken", node.Name)
					}
				}
			}
			if mostAtOnce = max(mostAtOnce, going); going > budget {
				w.fatalf("%d nodes are being replaced, the budget allows %d", going, budget)
			}
		}
		w.wild(sim.Crash, sim.CallFails, sim.AnswerLost, sim.SlowCall, sim.WatchLags, sim.SlowToBoot, sim.RebootNotCalled, sim.NeverBack)
		w.Faults.Odds[sim.RebootNotCalled], w.Faults.Odds[sim.NeverBack] = 40, 40
		for _, name := range broken {
			if reboot {
				w.SetCondition(name, "Broken", "True")
			} else {
				w.SetReady(name, false)
			}
		}
		for range rapid.IntRange(20, 60).Draw(t, "rounds") {
			for _, name := range flapping {
				node := w.Nodes[name]
				if down := !node.Ready; rapid.IntRange(0, 3).Draw(t, "flaps") == 0 || down && w.Now.Sub(node.ReadySince) >= 20*time.Second {
					w.SetReady(name, down)
				}
			}
			w.Tick()
			w.pause(200, 1000, 5000)
		}
		for _, name := range flapping {
			w.SetReady(name, true)
		}
		w.settle(6000)
		w.Now = w.Now.Add(time.Minute)
		w.settle(6000)
		for range n / 5 { // those that are not back are given up one after another
			w.Now = w.Now.Add(w.pol.Lifecycle.RebootTimeout)
			w.settle(6000)
			w.Now = w.Now.Add(time.Minute)
			w.settle(6000)
		}
		w.putBack()
		for _, name := range broken {
			node := w.Nodes[name]
			switch {
			case node == nil && reboots[name] > 0:
				inVain++
			case node == nil:
			case reboots[name] == 0 || !node.Ready || node.HasTaint(model.TaintRebooting):
				w.fatalf("node %s is there, rebooted %d times, Ready: %v, taints %v", name, reboots[name], node.Ready, node.Taints)
			default:
				isBroken[name] = false // not any more
				back++
			}
		}
		for _, name := range nodes {
			if there := w.Nodes[name] != nil; there == isBroken[name] {
				w.fatalf("node %s, broken: %v; it is there: %v", name, isBroken[name], there)
			}
		}
		repaired += len(broken)
	})
	if repaired == 0 || mostAtOnce < 2 || back == 0 {
		untested(t, "%d nodes were repaired, at most %d at once, %d by a reboot: too little was tested", repaired, mostAtOnce, back)
	}
	t.Logf("%d nodes were repaired, at most %d at once; %d were back from a reboot, and %d not", repaired, mostAtOnce, back, inVain)
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/decide/landing"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/sim"
)

// drawDaemons gives a world DaemonSets: some tolerate every taint, and with it the reservation of a node, some stand on the nodes of
// one zone only, or on registered ones. milliCPU is what they may request. Their controller takes a while for each node.
func (w *world) drawDaemons(milliCPU ...int64) {
	for i := range rapid.IntRange(1, 3).Draw(w.t, "DaemonSets") {
		name := fmt.Sprint("d", i)
		c := model.Class{Namespace: "kube-system", Labels: model.Labels{"app": name}, Scheduler: model.DefaultScheduler, Daemon: true,
			Requests: model.Resources{rapid.SampledFrom(milliCPU).Draw(w.t, "cpu of a DaemonSet"), 64 << 20, 0, 1}}
		if rapid.Bool().Draw(w.t, "tolerates everything") {
			c.Tolerations = []model.Toleration{{Exists: true, For: -1}}
		}
		switch rapid.IntRange(0, 3).Draw(w.t, "nodes of a DaemonSet") {
		case 0:
			c.Terms = []model.NodeTerm{{Requirements: model.NewRequirements(model.OneOf(model.LabelZone, "a"))}}
		case 1:
			c.Terms = []model.NodeTerm{{Requirements: model.NewRequirements(model.OneOf(model.LabelRegistered, "true"))}}
		}
		d := &model.Daemon{Namespace: c.Namespace, Name: name, UID: "uid-" + name, Class: classOf(c)}
		w.Daemons = append(w.Daemons, d)
		w.st().SetDaemon(d)
	}
	w.DaemonLag = time.Duration(rapid.SampledFrom([]int{0, 300, 2000, 8000}).Draw(w.t, "ms until a DaemonSet's pod is made")) * time.Millisecond
}

// playDaemons has workloads grow while new nodes start, and returns how many pods of DaemonSets run in the end, and a node launched with a
// reservation that has no room for one; empty: there is none. hasty opens nodes to every pod as soon as the pods that they were launched for are there.
func playDaemons(t *rapid.T, hasty bool) (run int, without string) {
	w := newWorld(t, false)
	w.pol.Landing.Mode = rapid.SampledFrom([]landing.Mode{landing.Bind, landing.Tolerate}).Draw(t, "reservations")
	w.drawDaemons(50, 100, 400, 900)
	if hasty {
		w.judge = openLandedNodes
	}
	w.wild(sim.SchedulerIsSlow, sim.PodsOneByOne, sim.WatchLags, sim.SlowCall)
	for range rapid.IntRange(10, 60).Draw(t, "rounds") {
		w.Tick()
		w.pause(50, 200, 700)
		if rapid.IntRange(0, 3).Draw(t, "grows") == 0 {
			w.Workloads[rapid.IntRange(0, len(w.Workloads)-1).Draw(t, "workload")].Want += rapid.IntRange(1, 6).Draw(t, "more pods")
		}
	}
	w.settle(3000)
	open := map[string]bool{} // nodes that were open to all pods from the start
	for _, c := range w.Claims {
		open[c.NodeName] = !c.Reserved
	}
	for name, n := range w.Nodes {
		for _, d := range w.Daemons {
			switch {
			case !w.StandsOn(d, n):
			case open[name]:
			case w.Pods[d.Namespace+"/"+d.Name+"-"+name] == nil:
				if without = fmt.Sprintf("%s has no room for DaemonSet %s", name, d.Name); !hasty {
					w.fatalf("%s", without)
				}
			default:
				run++
			}
		}
	}
	return run, without
}

// openLandedNodes ends the reservation of each node on which the pods are that it was launched for, whether those of its DaemonSets
// have come or not.
func openLandedNodes(snap *model.Snapshot, out *Output) {
	for _, n := range snap.Nodes {
		at := slices.IndexFunc(n.Taints, func(t model.Taint) bool { return t.Key == model.TaintReserved })
		claim := slices.IndexFunc(snap.Claims, func(c *model.Claim) bool { return c.Name == n.Claim })
		if at < 0 || claim < 0 || !n.Ready {
			continue
		}
		lacking := 0
		for _, s := range snap.Claims[claim].Slots {
			lacking += s.Count
		}
		for _, p := range n.Pods {
			if p.IsWorkload() {
				lacking--
			}
		}
		if lacking <= 0 {
			out.Actions = append(out.Actions, plan.UpdateNode{Node: n.Name, UID: n.UID, RemoveTaints: n.Taints[at : at+1], Why: plan.Reason{Code: plan.Landed}})
		}
	}
}

// TestDaemonsHaveTheirRoom: while new nodes start and workloads grow, the room for the pods of DaemonSets is left for them.
func TestDaemonsHaveTheirRoom(t *testing.T) {
	t.Parallel()
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		n, _ := playDaemons(t, false)
		run += n
	})
	if run == 0 {
		untested(t, "no pod of a DaemonSet ran")
	}
}

// TestTakenRoomIsFound plays the same with nodes that are opened as soon as their own pods are there: in some world others take the
// room that a DaemonSet's pod needs.
func TestTakenRoomIsFound(t *testing.T) {
	t.Parallel()
	found := ""
	rapid.Check(t, func(t *rapid.T) {
		if found == "" {
			_, found = playDaemons(t, true)
		}
	})
	if found == "" {
		t.Error("every DaemonSet had its room")
	}
}

// TestDaemonsComeLater: DaemonSets are made in a cluster that consolidates, and their controller takes a while for each node. Pods are moved onto
// standing nodes meanwhile, and verify finds the room of the pods that are still to come left there.
func TestDaemonsComeLater(t *testing.T) {
	t.Parallel()
	moved := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, false)
		w.editPool(func(p *model.NodePool) { p.ConsolidateAfter, p.ConsolidationPolicy = 0, "WhenEmptyOrUnderutilized" })
		for _, x := range w.Workloads {
			x.Want += rapid.IntRange(2, 8).Draw(t, "more pods")
		}
		w.settle(3000)
		for _, x := range w.Workloads {
			x.Want = rapid.IntRange(0, x.Want).Draw(t, "pods left")
		}
		w.drawDaemons(900, 1500, 2500)
		w.DaemonLag = time.Duration(rapid.SampledFrom([]int{5, 20, 60}).Draw(t, "s until a DaemonSet's pod is made")) * time.Second
		w.judge = func(_ *model.Snapshot, out *Output) {
			for _, m := range out.Commands {
				moved += m.PodsOnExisting
			}
		}
		w.rush(20, 60, 50, 200, 700, 2000)
		w.settle(3000)
	})
	if moved == 0 {
		untested(t, "no pod was moved onto a standing node")
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/decide/claims"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/sim"
)

// hasRoom reports whether a node more than n can be launched.
func hasRoom(s *model.Snapshot, n int) bool {
	p := s.Pools[0]
	if p.Replicas >= 0 {
		return p.NodeLimit > int64(n) && len(s.Claims) <= n
	}
	return slices.ContainsFunc(p.Types[0].Offerings, func(o model.Offering) bool { return o.Available && o.Remaining != 0 })
}

// TestTerminateFirst fills a capacity reservation, or a static NodePool at its limit of nodes, with nodes that drift or break: none can be replaced first. Calls fail
// and the controller is killed. With the feature gate each of them is terminated first and its capacity comes back, each once; at no moment are more nodes missing than the
// budget allows, those included that are coming back, and no PodDisruptionBudget is violated. Without the gate, or where a replacement can be launched
// first, no node is missing at any moment; and none is terminated first from the moment on at which that is so.
func TestTerminateFirst(t *testing.T) {
	t.Parallel()
	static, reserved, together, kept, changed := 0, 0, 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, false)
		w.pol.BackOff = 20 * time.Second
		w.pol.Repair = []claims.RepairPolicy{{Condition: "Broken", Status: "True", After: 20 * time.Second, Drain: 24 * time.Hour}}
		gate := rapid.IntRange(0, 4).Draw(t, "gate") > 0
		w.pol.TerminateFirstDrift, w.pol.TerminateFirstRepair = gate, gate
		n := rapid.SampledFrom([]int{5, 10}).Draw(t, "nodes")
		isStatic := rapid.Bool().Draw(t, "static")
		more := rapid.IntRange(0, 3).Draw(t, "more") == 0          // there is capacity for a replacement
		late := !more && rapid.IntRange(0, 2).Draw(t, "late") == 0 // there is at some time
		budget := rapid.IntRange(1, 3).Draw(t, "budget")
		spare := rapid.IntRange(1, 2).Draw(t, "spare pods")

		x := *w.Types[1]
		o := model.Offering{Zone: "a", CapacityType: model.Reserved, PriceMicro: 1000, Available: true, Remaining: int64(n), Labels: model.Labels{"reservation": "cr-1"}}
		if isStatic {
			o = model.Offering{Zone: "a", CapacityType: model.OnDemand, PriceMicro: 195_000, Available: true, Remaining: -1}
		} else {
			w.Reserved = map[sim.Offered]int{{Type: x.Name, Zone: "a", CapacityType: model.Reserved}: n}
		}
		x.Offerings = []model.Offering{o}
		others := sim.Offered{Type: x.Name, Zone: "a", CapacityType: model.OnDemand}
		if (more || late) && !isStatic {
			w.Reserved[others] = 2 * n
			o := model.Offering{Zone: "a", CapacityType: model.OnDemand, PriceMicro: 195_000, Available: true, Remaining: int64(2 * n)}
			if late {
				w.Reserved[others], o.Available, o.Remaining = 0, false, 0
			}
			x.Offerings = append(x.Offerings, o)
		}
		w.Types = []*model.InstanceType{&x}
		same := model.NewRequirements(model.OneOf("app", "web"))
		web := &sim.Workload{Name: "web", Want: n, Grace: time.Second, Guarded: true, MinHealthy: n - spare, Class: classOf(model.Class{Namespace: "default", Labels: model.Labels{"app": "web"},
			Scheduler: model.DefaultScheduler, Requests: model.Resources{1500, 128 << 20, 0, 1},
			AntiAffinity: []model.PodTerm{{TopologyKey: model.LabelHostname, Selector: model.Selector{Namespaces: []string{"default"}, Pods: &same}}}})}
		w.Workloads = []*sim.Workload{web}
		w.editPool(func(p *model.NodePool) {
			p.Hash, p.Types = "one", w.Types
			p.Budgets = []model.Budget{{Nodes: int64(budget)}}
			if isStatic {
				p.Replicas, p.NodeLimit = int64(n), int64(n)
				if more {
					p.NodeLimit++
				}
			}
		})
		w.settle(3000)
		nodes := slices.Sorted(maps.Keys(w.Nodes))
		if len(nodes) != n {
			w.fatalf("%d nodes for %d pods, each on a node of its own", len(nodes), n)
		}

		least := n - budget
		if !gate || more {
			least = n
		}
		ended := map[string]bool{} // claims by uid
		w.judge = func(snap *model.Snapshot, out *Output) {
			for _, a := range out.Actions {
				d, ok := a.(plan.DeleteClaim)
				if !ok || d.Why.Command == "" || !hasRoom(snap, n) {
					continue
				}
				if !slices.ContainsFunc(snap.Claims, func(c *model.Claim) bool {
					id, _ := cluster.ReplacedBy(c)
					return id == d.Why.Command || cluster.HostedCommand(c) == d.Why.Command
				}) {
					w.fatalf("%s is terminated first though a replacement can be launched", d.Claim)
				}
			}
			up, healthy := 0, 0
			for _, c := range w.Claims {
				if isCounted(c) && c.Deleting.IsZero() {
					up++
				}
				if !c.Deleting.IsZero() && c.ProviderID != "" {
					ended[c.UID] = true
				}
			}
			for _, p := range w.Pods {
				if p.Node != "" && p.Deleting.IsZero() {
					healthy++
				}
			}
			if up < least {
				w.fatalf("%d of %d nodes are there, want at least %d", up, n, least)
			}
			if up < n-1 {
				together++
			}
			if healthy < web.MinHealthy {
				w.fatalf("%d of %d pods run, the PodDisruptionBudget wants %d", healthy, n, web.MinHealthy)
			}
		}
		must := nodes // those that must go
		w.wild(sim.Crash, sim.CallFails, sim.AnswerLost, sim.SlowCall, sim.WatchLags, sim.SlowToBoot)
		if rapid.Bool().Draw(t, "repair") {
			must = nodes[:n/5]
			for _, name := range must {
				w.SetCondition(name, "Broken", "True")
			}
		} else {
			w.editPool(func(p *model.NodePool) { p.Hash = "two" })
		}
		w.rush(20, 60, 200, 1000, 5000)
		if late {
			if isStatic {
				w.editPool(func(p *model.NodePool) { p.NodeLimit++ })
			} else {
				w.LimitOffering(others, 2*n)
			}
			w.rush(20, 60, 200, 1000, 5000)
		}
		left := func() (out []string) {
			for _, name := range must {
				if w.Nodes[name] != nil {
					out = append(out, name)
				}
			}
			return out
		}
		for range 4 * n { // a node without a possible replacement backs off, twice as long each time, for up to two hours
			if w.settle(6000); len(left()) == 0 {
				break
			}
			w.Now = w.Now.Add(time.Hour)
		}
		w.settle(6000)
		w.putBack()
		stays := !gate && !more && !late
		if stays != (len(left()) > 0) {
			w.fatalf("nodes that must go and are there: %v", left())
		}
		up, running := 0, 0
		for _, c := range w.Claims {
			if isCounted(c) && c.Deleting.IsZero() {
				up++
			}
		}
		for _, p := range w.Pods {
			if p.Node != "" && p.Deleting.IsZero() {
				running++
			}
		}
		if up != n || running != n {
			w.fatalf("%d nodes and %d pods at the end, want %d of each", up, running, n)
		}
		switch {
		case stays:
			kept++
			if len(ended) > 0 {
				w.fatalf("%d nodes were removed", len(ended))
			}
		case len(ended) != len(must):
			w.fatalf("%d nodes were removed for %d that must go", len(ended), len(must))
		case more:
		case late:
			changed++
		case isStatic:
			static++
		default:
			reserved++
		}
	})
	if testing.Short() { // few worlds are drawn then
		return
	}
	if static == 0 || reserved == 0 || together == 0 || kept == 0 || changed == 0 {
		untested(t, "%d static and %d reserved worlds in which nodes were terminated first, in %d moments several, %d without the gate, %d with capacity later: too little was tested", static, reserved, together, kept, changed)
	}
}

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

// drawCatalog draws instance types of several families and sizes, on demand and spot in three zones, each at its own price.
func drawCatalog(t *rapid.T) (types []*model.InstanceType) {
	for f := range rapid.IntRange(2, 16).Draw(t, "families") {
		perCPU, memory := rapid.Int64Range(40_000, 90_000).Draw(t, "price"), rapid.SampledFrom([]int64{2, 4, 8}).Draw(t, "GiB per CPU")
		for cpu := int64(1); cpu <= 16; cpu *= 2 {
			x := &model.InstanceType{Name: fmt.Sprintf("f%d.%d", f, cpu), Labels: model.Labels{},
				Capacity: model.Resources{cpu * 1000, cpu * memory << 30, 0, 60}, Allocatable: model.Resources{cpu*1000 - 100, cpu * memory << 30, 0, 60}}
			x.Labels[model.LabelInstanceType] = x.Name
			share := rapid.Int64Range(25, 85).Draw(t, "spot price in percent")
			for _, z := range []string{"a", "b", "c"} {
				spot := perCPU * cpu * share * rapid.Int64Range(90, 110).Draw(t, "zone's price in percent") / 10_000
				x.Offerings = append(x.Offerings,
					model.Offering{Zone: z, CapacityType: model.OnDemand, PriceMicro: perCPU * cpu, Available: true, Remaining: -1},
					model.Offering{Zone: z, CapacityType: model.Spot, PriceMicro: spot, Available: true, Remaining: -1})
			}
			types = append(types, x)
		}
	}
	return types
}

// drawShortage draws what can't be had: a capacity type, a zone, some families, or offerings here and there.
func drawShortage(t *rapid.T, types []*model.InstanceType) map[sim.Offered]bool {
	kind := rapid.SampledFrom([]string{"spot", "spot", "zone", "families", "here and there"}).Draw(t, "shortage")
	short := map[sim.Offered]bool{}
	for _, x := range types {
		family := kind == "families" && rapid.Bool().Draw(t, "short")
		for _, o := range x.Offerings {
			if kind == "spot" && o.CapacityType == model.Spot || kind == "zone" && o.Zone != "c" || family && o.CapacityType == model.Spot ||
				kind == "here and there" && rapid.IntRange(0, 3).Draw(t, "there") > 0 {
				short[sim.Offered{Type: x.Name, Zone: o.Zone, CapacityType: o.CapacityType}] = true
			}
		}
	}
	return short
}

// TestShortages: whatever has no capacity, few launches find that out, and what is bought is close to what one plan would buy that
// knows it.
func TestShortages(t *testing.T) {
	t.Parallel()
	var failed, nodes, freshNodes int
	var micro, freshMicro int64
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, false)
		w.pol.Landing.Mode = landing.Bind
		w.Types = drawCatalog(t)
		w.Short = drawShortage(t, w.Types)
		w.editPool(func(p *model.NodePool) { p.Types = w.Types })
		l := w.Workloads[0]
		w.Workloads = w.Workloads[:1]
		l.Class = classOf(model.Class{Namespace: "default", Labels: model.Labels{"app": l.Name}, Scheduler: model.DefaultScheduler,
			Requests: model.Resources{rapid.SampledFrom([]int64{250, 500, 900, 1500, 3000}).Draw(t, "cpu"), rapid.SampledFrom([]int64{1, 8, 32}).Draw(t, "quarters of a GiB") << 28, 0, 1}})
		l.Stateful, l.Want = false, rapid.IntRange(1, 60).Draw(t, "replicas")
		w.settle(3000)
		for _, p := range w.Pods {
			if p.Node == "" {
				w.fatalf("pod %s has no node", p.Key())
			}
		}
		vain := w.Asked - len(w.Machines)
		if most := 20 + len(w.Short)/12; vain > most {
			w.fatalf("%d launches failed, where %d offerings have no capacity; want at most %d", vain, len(w.Short), most)
		}
		fresh, cost := w.freshPlan()
		failed, nodes, freshNodes, micro, freshMicro = failed+vain, nodes+len(w.Machines), freshNodes+fresh, micro+w.MicroPerHour(), freshMicro+cost
	})
	if failed == 0 {
		untested(t, "no launch failed: nothing was tested")
	}
	t.Logf("%d launches failed; %d nodes for %s/h, where one plan would buy %d for %s/h", failed, nodes, model.Dollars(micro), freshNodes, model.Dollars(freshMicro))
	if nodes*2 > freshNodes*3 || float64(micro) > 1.05*float64(freshMicro) {
		t.Errorf("%d nodes for %s/h, want at most half as many again as %d and a twentieth more than %s/h", nodes, model.Dollars(micro), freshNodes, model.Dollars(freshMicro))
	}
}

// TestZoneShortages: while a zone has no capacity at all, pods that must be spread over zones wait for it, and few launches find that out.
func TestZoneShortages(t *testing.T) {
	t.Parallel()
	var failed, worlds int
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, false)
		w.pol.Landing.Mode = landing.Bind
		w.Types = drawCatalog(t)
		w.Short = map[sim.Offered]bool{}
		for _, x := range w.Types {
			for _, o := range x.Offerings {
				if o.Zone == "a" {
					w.Short[sim.Offered{Type: x.Name, Zone: o.Zone, CapacityType: o.CapacityType}] = true
				}
			}
		}
		w.editPool(func(p *model.NodePool) { p.Types = w.Types })
		l := w.Workloads[0]
		w.Workloads = w.Workloads[:1]
		own := model.NewRequirements(model.OneOf("app", l.Name))
		l.Class = classOf(model.Class{Namespace: "default", Labels: model.Labels{"app": l.Name}, Scheduler: model.DefaultScheduler,
			Requests: model.Resources{rapid.SampledFrom([]int64{250, 500, 900, 1500, 3000}).Draw(t, "cpu"), rapid.SampledFrom([]int64{1, 8, 32}).Draw(t, "quarters of a GiB") << 28, 0, 1},
			Spread:   []model.SpreadConstraint{{TopologyKey: model.LabelZone, MaxSkew: 1, Hard: true, Selector: &own}}})
		l.Stateful, l.Want = false, rapid.IntRange(4, 60).Draw(t, "replicas")
		for end := w.Now.Add(25 * time.Second); w.Now.Before(end); w.Now = w.Now.Add(100 * time.Millisecond) { // before the shortage is forgotten
			w.Tick()
		}
		vain := w.Asked - len(w.Machines)
		if vain > 25 {
			w.fatalf("%d launches failed, where %d offerings have no capacity; want at most 25", vain, len(w.Short))
		}
		failed, worlds = failed+vain, worlds+1
	})
	if failed == 0 {
		untested(t, "no launch failed: nothing was tested")
	}
	t.Logf("%d launches failed in %d worlds", failed, worlds)
	if failed > 15*worlds {
		t.Errorf("%d launches failed in %d worlds, want at most 15 in each on average", failed, worlds)
	}
}

// freshPlan is what one plan would buy for all pods that knows what can't be had.
func (w *world) freshPlan() (nodes int, micro int64) {
	types := make([]*model.InstanceType, len(w.Types))
	for i, x := range w.Types {
		y := *x
		y.Offerings = slices.Clone(x.Offerings)
		for j := range y.Offerings {
			o := &y.Offerings[j]
			o.Available = !w.Short[sim.Offered{Type: x.Name, Zone: o.Zone, CapacityType: o.CapacityType}]
		}
		types[i] = &y
	}
	out := WhatIf(w.demandOf(types, func(l *sim.Workload) *model.Class { return l.Class }), w.Now, w.pol)
	for _, a := range out.Actions {
		if _, ok := a.(plan.CreateClaim); ok {
			nodes++
		}
	}
	return nodes, out.Cost.NewMicroPerHour
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/decide/landing"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/sim"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// drawPreferences gives a class what it would rather have: a zone, an instance type, nodes with or without other pods, spreads.
func drawPreferences(t *rapid.T, c *model.Class, apps int) {
	weight := func() int32 { return rapid.SampledFrom([]int32{1, 50, 100}).Draw(t, "weight") }
	term := func() model.PodTerm {
		sel := model.NewRequirements(model.OneOf("app", fmt.Sprint("w", rapid.IntRange(0, apps).Draw(t, "app")))) // the last is nobody
		return model.PodTerm{TopologyKey: rapid.SampledFrom([]string{model.LabelZone, model.LabelHostname}).Draw(t, "key"),
			Selector: model.Selector{Namespaces: []string{"default"}, Pods: &sel}}
	}
	for range rapid.IntRange(1, 2).Draw(t, "preferences") {
		switch rapid.IntRange(0, 4).Draw(t, "preference") {
		case 0:
			own := model.NewRequirements(model.OneOf("app", c.Labels["app"]))
			c.Spread = append(c.Spread, model.SpreadConstraint{TopologyKey: term().TopologyKey, MaxSkew: 1, Selector: &own})
		case 1:
			c.PreferredAffinity = append(c.PreferredAffinity, model.WeightedPodTerm{Weight: weight(), Term: term()})
		case 2:
			c.PreferredAntiAffinity = append(c.PreferredAntiAffinity, model.WeightedPodTerm{Weight: weight(), Term: term()})
		case 3:
			c.Preferred = append(c.Preferred, model.WeightedNodeTerm{Weight: weight(),
				Term: model.NodeTerm{Requirements: model.NewRequirements(model.OneOf(model.LabelZone, rapid.SampledFrom([]string{"a", "b", "nowhere"}).Draw(t, "zone")))}})
		case 4:
			c.Preferred = append(c.Preferred, model.WeightedNodeTerm{Weight: weight(),
				Term: model.NodeTerm{Requirements: model.NewRequirements(model.OneOf(model.LabelInstanceType, rapid.SampledFrom([]string{"small", "medium", "large"}).Draw(t, "type")))}})
		}
	}
}

// costWithoutPreferences is what would be bought for all pods together if they preferred nothing.
func (w *world) costWithoutPreferences() int64 {
	s := w.demandOf(w.Types, func(l *sim.Workload) *model.Class {
		return classOf(model.Class{Namespace: "default", Labels: l.Class.Labels, Scheduler: model.DefaultScheduler, Requests: l.Class.Requests})
	})
	return WhatIf(s, w.Now, w.pol).Cost.NewMicroPerHour
}

// demandOf is a cluster without nodes in which all pods of the workloads are pending, each workload's of a class.
func (w *world) demandOf(types []*model.InstanceType, class func(*sim.Workload) *model.Class) *model.Snapshot {
	s := state.New()
	s.Pools.SetPool(w.pool())
	s.Pools.SetTypes(w.pool().Name, types)
	for _, l := range w.Workloads {
		c := class(l)
		for i := range l.Want {
			name := fmt.Sprint(l.Name, "-", i)
			s.SetPod(&model.Pod{Namespace: "default", Name: name, UID: name, Class: c, Owner: model.Owner{Kind: "ReplicaSet", Name: l.Name, UID: l.Name}, Unschedulable: w.Now})
		}
	}
	return s.Snapshot(w.Now)
}

// TestBoughtNodesStay: what is bought for pods with preferences of every kind costs no more than they are worth, and is not consolidated when
// nothing has changed.
func TestBoughtNodesStay(t *testing.T) {
	t.Parallel()
	bought := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, false)
		w.pol.Landing.Mode = landing.Bind
		for i, l := range w.Workloads {
			c := &model.Class{Namespace: "default", Labels: l.Class.Labels, Scheduler: model.DefaultScheduler, Requests: l.Class.Requests}
			drawPreferences(t, c, len(w.Workloads))
			l.Class, l.Stateful = classOf(*c), false
			l.Name = fmt.Sprint("w", i)
		}
		w.settle(3000)
		before, made, claims := w.MicroPerHour(), w.created, len(w.Claims)
		bought += made
		// At most two preferences of weight 100 each: see drawPreferences.
		if without := w.costWithoutPreferences(); before-without > without*2*w.pol.Solve.PreferencePPM/1_000_000 {
			w.fatalf("nodes are bought for %s/h, without preferences for %s/h", model.Dollars(before), model.Dollars(without))
		}
		p := *w.pool()
		p.ConsolidateAfter, p.ConsolidationPolicy = 0, "WhenEmptyOrUnderutilized"
		p.Budgets = []model.Budget{{Nodes: 100}}
		w.SetPool(&p)
		w.say("consolidation begins")
		w.settle(3000)
		// Where preferences made nothing dearer, what is found is what the solver had not found: not this test's.
		if (w.created != made || len(w.Claims) != claims) && before > w.costWithoutPreferences() {
			var moves []string
			for _, line := range w.history {
				if strings.Contains(line, string(plan.Underutilized)) {
					moves = append(moves, line)
				}
			}
			w.fatalf("nodes just bought for $%d are consolidated: $%d\n%s", before, w.MicroPerHour(), strings.Join(moves, "\n"))
		}
	})
	if bought == 0 {
		untested(t, "nothing was bought: nothing was tested")
	}
}

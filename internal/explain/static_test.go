// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"slices"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// An answer about a static NodePool says how many of its nodes it has, and why none of those that are missing can be launched.
func TestMissingReplicas(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*model.Snapshot, *model.NodePool)
		fact   string
		code   plan.Code // of the one finding of cause Demand; empty: there is none
	}{
		{"they are being launched", func(*model.Snapshot, *model.NodePool) {}, "has 1 of 3", ""},
		{"it has them", func(s *model.Snapshot, p *model.NodePool) {
			s.Claims = append(s.Claims, &model.Claim{Name: "b", UID: "b", Pool: p.Name}, &model.Claim{Name: "c", UID: "c", Pool: p.Name})
		}, "has 3 of 3", ""},
		{"its limit is smaller", func(_ *model.Snapshot, p *model.NodePool) { p.NodeLimit = 1 }, "has 1 of 3", plan.Limit},
		{"no capacity", func(_ *model.Snapshot, p *model.NodePool) {
			x := *p.Types[0]
			x.Offerings = slices.Clone(x.Offerings)
			x.Offerings[0].Available = false
			p.Types = []*model.InstanceType{&x}
		}, "has 1 of 3", plan.OutOfCapacity},
		{"its requirements leave no instance type", func(_ *model.Snapshot, p *model.NodePool) {
			p.Requirements = p.Requirements.With(model.OneOf(model.LabelZone, "nowhere"))
		}, "has 1 of 3", plan.NoInstanceType},
		{"it is not ready", func(_ *model.Snapshot, p *model.NodePool) { p.Ready = false }, "has 1 of 3", plan.PoolNotReady},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := waitingCluster()
			p := s.Pools[0]
			p.Replicas = 3
			s.Claims = []*model.Claim{{Name: "a", UID: "a", Pool: p.Name}}
			c.change(s, p)
			a, err := Why(s, decide.Memory{}, epoch, decide.DefaultPolicy(), "nodepool/"+p.Name)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(a.Facts, plan.Fact{Name: "replicas", Value: c.fact}) {
				t.Errorf("facts are %v, want replicas: %s", a.Facts, c.fact)
			}
			var codes []plan.Code
			for _, f := range a.Findings {
				if f.Of == plan.Demand {
					codes = append(codes, f.Reason.Code)
				}
			}
			if want := slices.DeleteFunc([]plan.Code{c.code}, func(x plan.Code) bool { return x == "" }); !slices.Equal(codes, want) {
				t.Errorf("findings are of %v, want %v", codes, want)
			}
		})
	}
}

// Nodes of a static NodePool are never consolidated, so its answer has no policy and no budgets for that.
func TestStaticNotConsolidated(t *testing.T) {
	for _, replicas := range []int64{-1, 3} {
		s := waitingCluster()
		p := s.Pools[0]
		p.Replicas, p.ConsolidationPolicy = replicas, "WhenEmpty"
		a, err := Why(s, decide.Memory{}, epoch, decide.DefaultPolicy(), "nodepool/"+p.Name)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"consolidation", "disruption budget for Empty", "disruption budget for Underutilized"} {
			if has := slices.ContainsFunc(a.Facts, func(f plan.Fact) bool { return f.Name == name }); has != (replicas < 0) {
				t.Errorf("replicas %d: has fact %q is %v", replicas, name, has)
			}
		}
		if !slices.ContainsFunc(a.Facts, func(f plan.Fact) bool { return f.Name == "disruption budget for Drifted" }) {
			t.Errorf("replicas %d: no disruption budget for Drifted", replicas)
		}
		if off := slices.ContainsFunc(a.Findings, func(f plan.Finding) bool { return f.Reason.Code == plan.ConsolidationOff }); off != (replicas < 0) {
			t.Errorf("replicas %d: finding ConsolidationOff is %v", replicas, off)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// A pod that waits is counted from when it was seen and from when there was a place for it, until it is ready; one that goes is forgotten.
func TestPodTimes(t *testing.T) {
	start := time.Unix(1_000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	m := newChanges(prometheus.NewRegistry())
	class := &model.Class{Key: "c"}
	pod := func(name string, change func(*model.Pod)) *model.Pod {
		p := &model.Pod{Namespace: "d", Name: name, UID: "uid-" + name, Class: class, Created: at(-5)}
		if change != nil {
			change(p)
		}
		return p
	}
	have := func(now time.Time) map[string]float64 {
		out := map[string]float64{}
		m.pods.collectWaits(now, func(metric string, v float64, labels ...string) { out[metric+" "+labels[1]+"/"+labels[0]] = v })
		return out
	}
	want := func(now time.Time, want map[string]float64) {
		t.Helper()
		got := have(now)
		for k, v := range want {
			if g, ok := got[k]; !ok || g != v {
				t.Errorf("%s is %g (there: %t), want %g", k, g, ok, v)
			}
		}
		if len(got) != len(want) {
			t.Errorf("there are %v, want %v", got, want)
		}
	}
	daemon := pod("daemon", func(p *model.Pod) { p.Class = &model.Class{Key: "d", Daemon: true} })
	a, b := pod("a", nil), pod("b", nil)
	m.observeSnapshot(&model.Snapshot{Pending: []*model.Pod{a, daemon}}, nil, at(0))
	m.observeSnapshot(&model.Snapshot{Pending: []*model.Pod{a, b, daemon}}, nil, at(1))
	want(at(3), map[string]float64{
		"pods_unstarted_time_seconds d/a": 8, "pods_unstarted_time_seconds d/b": 8,
		"pods_provisioning_scheduling_undecided_time_seconds d/a": 3, "pods_provisioning_scheduling_undecided_time_seconds d/b": 2,
	})
	m.pods.noteDecided([]plan.PodDecision{{Pod: a, Outcome: plan.OnNew}, {Pod: b, Outcome: plan.Refused}, {Pod: daemon, Outcome: plan.Refused}}, at(4))
	want(at(6), map[string]float64{
		"pods_unstarted_time_seconds d/a": 11, "pods_unstarted_time_seconds d/b": 11,
		"pods_provisioning_unbound_time_seconds d/a": 2, "pods_provisioning_unstarted_time_seconds d/a": 2,
	})
	// a is bound in the same Snapshot in which it waits no more; b is deleted.
	bound := pod("a", func(p *model.Pod) { p.Node, p.Bound = "n", at(7) })
	m.observeSnapshot(&model.Snapshot{Pending: []*model.Pod{daemon}, Nodes: []*model.Node{{Name: "n", UID: "n", Pods: []*model.Pod{bound}}}}, nil, at(8))
	want(at(9), map[string]float64{"pods_unstarted_time_seconds d/a": 14, "pods_provisioning_unstarted_time_seconds d/a": 5})
	ready := pod("a", func(p *model.Pod) { p.Node, p.Bound, p.Ready, p.ReadySince = "n", at(7), true, at(9) })
	m.observeSnapshot(&model.Snapshot{Nodes: []*model.Node{{Name: "n", UID: "n", Pods: []*model.Pod{ready}}}}, nil, at(10))
	want(at(11), map[string]float64{})

	// Pods on a node that goes before they were ready are forgotten too.
	c := pod("c", nil)
	m.observeSnapshot(&model.Snapshot{Pending: []*model.Pod{c}}, nil, at(12))
	on := pod("c", func(p *model.Pod) { p.Node, p.Bound = "n", at(13) })
	m.observeSnapshot(&model.Snapshot{Nodes: []*model.Node{{Name: "n", UID: "n2", Pods: []*model.Pod{on}}}}, nil, at(13))
	want(at(14), map[string]float64{"pods_unstarted_time_seconds d/c": 19, "pods_provisioning_scheduling_undecided_time_seconds d/c": 2})
	m.observeSnapshot(&model.Snapshot{}, nil, at(15))
	want(at(16), map[string]float64{})
}

func TestEffectiveZone(t *testing.T) {
	in := func(zones ...string) model.Requirements {
		return model.NewRequirements(model.OneOf(model.LabelZone, zones...))
	}
	other := model.NewRequirements(model.OneOf("disk", "ssd"))
	not, err := model.NewRequirement(model.LabelZone, model.OpNotIn, "a")
	if err != nil {
		t.Fatal(err)
	}
	term := func(reqs ...model.Requirements) (out []model.NodeTerm) {
		for _, r := range reqs {
			out = append(out, model.NodeTerm{Requirements: r})
		}
		return out
	}
	for _, c := range []struct {
		terms   []model.NodeTerm
		volumes [][]model.Requirements
		want    string
	}{
		{nil, nil, "flexible"},
		{term(other), nil, "flexible"},
		{term(in("a")), nil, "a"},
		{term(in("a", "b")), nil, "flexible"},
		{term(in("a"), in("b")), nil, "flexible"},
		{term(in("a"), other), nil, "flexible"},
		{term(in("a", "b")), [][]model.Requirements{{in("b")}}, "b"},
		{term(in("a")), [][]model.Requirements{{in("b")}}, "none"},
		{nil, [][]model.Requirements{{in("a")}, {in("b")}}, "none"},
		{nil, [][]model.Requirements{{in("a"), in("b")}, {in("b"), in("c")}}, "b"},
		{term(model.NewRequirements(not)), nil, "flexible"},
		{term(model.NewRequirements(not)), [][]model.Requirements{{in("a"), in("b")}}, "b"},
	} {
		class := &model.Class{Terms: c.terms}
		for _, v := range c.volumes {
			class.Volumes = append(class.Volumes, model.Volume{Topology: v})
		}
		if have := effectiveZone(class); have != c.want {
			t.Errorf("%v, volumes %v: %q, want %q", c.terms, c.volumes, have, c.want)
		}
	}
}

// The conditions of node classes are counted by the reference's names.
func TestNodeClassMetrics(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		set := func(status string) {
			b.c.Emit(func(s *state.State) {
				s.Pools.SetNodeClass(state.NodeClass{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default", UID: "u", Conditions: map[string]model.Condition{
					"SubnetsReady": {Status: status, Reason: "SubnetsReady", Since: time.Now()}}})
			})
			time.Sleep(10 * time.Second)
		}
		b.lead()
		set("False")
		set("True")
		b.pod("p", "p")
		time.Sleep(time.Second)
		values, _ := b.scrape(t)
		for name, want := range map[string]float64{
			"operator_ec2nodeclass_status_condition_count{name=default,reason=SubnetsReady,status=True,type=SubnetsReady}":                  1,
			"operator_ec2nodeclass_status_condition_transitions_total{reason=SubnetsReady,status=True,type=SubnetsReady}":                   1,
			"operator_ec2nodeclass_status_condition_transition_seconds{status=False,type=SubnetsReady}":                                     1,
			"operator_ec2nodeclass_status_condition_current_status_seconds{name=default,reason=SubnetsReady,status=True,type=SubnetsReady}": 11,
		} {
			if have, ok := values[name]; !ok || have != want {
				t.Errorf("%s is %g (there: %t), want %g", name, have, ok, want)
			}
		}
	})
}

// A move that policy Balanced allowed, and one that it refused, by the reference's names.
func TestBalancedMetrics(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.c.Emit(func(*state.State) {
			b.c.Metrics.countDisruptionCommand(&decide.StartedCommand{Command: &disrupt.Command{Cause: plan.Underutilized, BalancedScores: map[string]float64{"p": 0.7}}})
			b.c.recorder.tellKept(time.Now(), decide.Kept{Node: "n", Cause: plan.Underutilized, Why: plan.Reason{Code: plan.NotBalanced, Subject: "nodepool/p", Have: "0.20"}})
			b.c.recorder.tellKept(time.Now(), decide.Kept{Node: "n", Cause: plan.Underutilized, Why: plan.Reason{Code: plan.DisruptionBudgetPDB}})
		})
		time.Sleep(time.Second)
		values, _ := b.scrape(t)
		for _, decision := range []string{"approved", "rejected"} {
			for _, metric := range []string{"karpenter_consolidation_moves_total", "karpenter_consolidation_score"} {
				name := metric + "{decision=" + decision + ",nodepool=p,policy=Balanced}"
				if have := values[name]; have != 1 {
					t.Errorf("%s is %g, want 1", name, have)
				}
			}
		}
	})
}

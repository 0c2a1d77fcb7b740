// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package metrics

import (
	"maps"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
	"github.com/prometheus/client_golang/prometheus"
)

// A pod that waits is counted from when it was seen and from when there was a place for it, until it is ready; one that goes is forgotten.
func TestPodTimes(t *testing.T) {
	start := time.Unix(1_000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	m := newChanges(registrar{prometheus.NewRegistry(), &Metrics{}}, nil)
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
		"pods_provisioning_scheduling_undecided_time_seconds d/a": 3, "pods_provisioning_scheduling_undecided_time_seconds d/b": 2,
	})
	m.pods.noteDecided([]plan.PodDecision{{Pod: a, Outcome: plan.OnNew}, {Pod: b, Outcome: plan.Refused}, {Pod: daemon, Outcome: plan.Refused}}, at(4))
	want(at(6), map[string]float64{
		"pods_provisioning_unbound_time_seconds d/a": 2, "pods_provisioning_unstarted_time_seconds d/a": 2,
	})
	// a is bound in the same Snapshot in which it waits no more; b is deleted.
	bound := pod("a", func(p *model.Pod) { p.Node, p.Bound = "n", at(7) })
	m.observeSnapshot(&model.Snapshot{Pending: []*model.Pod{daemon}, Nodes: []*model.Node{{Name: "n", UID: "n", Pods: []*model.Pod{bound}}}}, nil, at(8))
	want(at(9), map[string]float64{"pods_provisioning_unstarted_time_seconds d/a": 5})
	ready := pod("a", func(p *model.Pod) { p.Node, p.Bound, p.Ready, p.ReadySince = "n", at(7), true, at(9) })
	m.observeSnapshot(&model.Snapshot{Nodes: []*model.Node{{Name: "n", UID: "n", Pods: []*model.Pod{ready}}}}, nil, at(10))
	want(at(11), map[string]float64{})

	// Pods on a node that goes before they were ready are forgotten too.
	c := pod("c", nil)
	m.observeSnapshot(&model.Snapshot{Pending: []*model.Pod{c}}, nil, at(12))
	on := pod("c", func(p *model.Pod) { p.Node, p.Bound = "n", at(13) })
	m.observeSnapshot(&model.Snapshot{Nodes: []*model.Node{{Name: "n", UID: "n2", Pods: []*model.Pod{on}}}}, nil, at(13))
	want(at(14), map[string]float64{"pods_provisioning_scheduling_undecided_time_seconds d/c": 2})
	m.observeSnapshot(&model.Snapshot{}, nil, at(15))
	want(at(16), map[string]float64{})
}

// A pod that was seen Pending is measured until it is ready, whoever made it; one that was not is not.
func TestPodStarts(t *testing.T) {
	start := time.Unix(1_000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	registry := prometheus.NewRegistry()
	m := newPodStarts(registrar{registry, &Metrics{}})
	pod := func(name string, change func(*state.PodFacts)) *state.PodFacts {
		p := &state.PodFacts{Namespace: "d", Name: name, UID: "uid-" + name, Phase: "Pending", Created: at(0)}
		if change != nil {
			change(p)
		}
		return p
	}
	bound := func(p *state.PodFacts) { p.Node, p.Scheduled, p.ScheduledAt = "n", true, at(4) }
	running := func(p *state.PodFacts) { bound(p); p.Phase = "Running" }
	ready := func(p *state.PodFacts) { running(p); p.Ready, p.ReadyAt = true, at(9) }
	check := func(now time.Time, want map[string]float64, wantBound, wantReady, wantClaiming float64) {
		t.Helper()
		got := map[string]float64{}
		m.collect(now, func(metric string, v float64, labels ...string) { got[metric+" "+labels[0]] = v })
		if !maps.Equal(got, want) {
			t.Errorf("waiting %v, want %v", got, want)
		}
		families, err := registry.Gather()
		if err != nil || len(families) != 2 {
			t.Fatal(families, err)
		}
		sums := map[string]float64{} // of bound, by dynamicResources
		for _, b := range families[0].GetMetric() {
			sums[b.GetLabel()[0].GetValue()] = b.GetHistogram().GetSampleSum()
		}
		s := families[1].GetMetric()[0].GetSummary()
		if sums["false"] != wantBound || s.GetSampleSum() != wantReady || sums["true"] != wantClaiming {
			t.Errorf("bound %v s, ready %g s, want %g and %g without and with resource claims, and %g", sums, s.GetSampleSum(), wantBound, wantClaiming, wantReady)
		}
	}
	const unstarted, unbound = "pods_unstarted_time_seconds ", "pods_unbound_time_seconds "
	daemon := func(p *state.PodFacts) { p.Daemon = true }
	m.observe(nil, pod("a", nil))
	m.observe(nil, pod("agent", daemon))
	m.observe(nil, pod("old", ready)) // it was ready when it was first seen
	m.observe(nil, pod("gone", nil))
	m.observe(pod("gone", nil), nil)
	check(at(3), map[string]float64{unstarted + "a": 3, unbound + "a": 3, unstarted + "agent": 3, unbound + "agent": 3}, 0, 0, 0)
	m.observe(nil, pod("a", bound))
	m.observe(nil, pod("agent", running)) // another replica acts yet, and measures
	m.observe(nil, pod("agent", ready))
	check(at(5), map[string]float64{unstarted + "a": 5}, 0, 0, 0)
	m.setActing()
	m.observe(nil, pod("a", running))
	check(at(6), map[string]float64{unstarted + "a": 6}, 4, 0, 0)
	m.observe(nil, pod("a", ready))
	m.observe(nil, pod("a", ready))
	check(at(10), map[string]float64{}, 4, 9, 0)
	claiming := func(p *state.PodFacts) { p.ClaimsResources = true }
	m.observe(nil, pod("job", claiming))
	m.observe(nil, pod("job", func(p *state.PodFacts) { claiming(p); running(p); p.Phase = "Succeeded" }))
	check(at(11), map[string]float64{}, 4, 9, 4)
}

// Pools that come and go don't add up: what is counted of one is forgotten a while after it is gone.
func TestPoolsAreForgotten(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := New(registry, "test", cloud.Traits{})
	count := func() (n int) {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, x := range f.GetMetric() {
				for _, l := range x.GetLabel() {
					if l.GetValue() == "p" {
						n++
					}
				}
			}
		}
		return n
	}
	pool, now := &model.NodePool{Name: "p", NodeLimit: -1}, time.Unix(1_000, 0)
	m.setClusterGauges(&model.Snapshot{Pools: []*model.NodePool{pool}}, now)
	m.CountCreatedClaim(plan.CreateClaim{Pool: pool, Why: plan.Reason{Code: plan.Demand}})
	m.changes.conditions.observe(claimObject(&model.Claim{Labels: model.Labels{model.LabelNodePool: "p"}}), nil, map[string]model.Condition{"Ready": {Status: "True"}})
	m.CountCreatedClaim(plan.CreateClaim{Pool: pool, Why: plan.Reason{Code: plan.Demand}, MinValuesRelaxed: true}) // a series of its own
	m.scheduler.scheduling.WithLabelValues("p").Observe(1)
	if n := count(); n != 5 {
		t.Errorf("%d series of the pool, want 5", n)
	}
	m.setClusterGauges(&model.Snapshot{}, now)
	m.setClusterGauges(&model.Snapshot{}, now.Add(poolsKeptFor/2))
	if n := count(); n != 4 {
		t.Errorf("%d series of a pool just gone, want the 4 that are counters", n)
	}
	m.setClusterGauges(&model.Snapshot{}, now.Add(poolsKeptFor))
	if n := count(); n != 0 {
		t.Errorf("%d series of a pool long gone", n)
	}
}

func TestLabelValues(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{disruptionReason(plan.Reason{Code: plan.Underutilized}), "underutilized"},
		{disruptionReason(plan.Reason{Code: plan.InsufficientCap}), "insufficient_capacity"},
		{disruptionReason(plan.Reason{Code: plan.NodeClassNotReady}), "nodeclass_not_ready"},
		{disruptionReason(plan.Reason{Code: plan.RegistrationTimeout}), "registration_timeout"},
		{disruptionReason(plan.Reason{Code: plan.Interrupted, Detail: plan.OfInterrupted{Kind: cloud.SpotInterruption}}), "spot_interrupted"},
		{disruptionReason(plan.Reason{Code: plan.Deleted}), ""},
		{creationReason(plan.Reason{Code: plan.Demand}), "provisioned"},
		{creationReason(plan.Reason{Code: plan.Drifted}), "drifted"},
		{messageType(cloud.Interruption{Kind: cloud.StateChange, Stops: true}), "instance_stopped"},
		{messageType(cloud.Interruption{Kind: cloud.StateChange}), "instance_terminated"},
		{messageType(cloud.Interruption{Kind: cloud.Rebalance}), "rebalance_recommendation"},
		{messageType(cloud.Interruption{Kind: cloud.ScheduledChange}), "scheduled_change"},
		{messageType(cloud.Interruption{Kind: cloud.ReservationInterruption}), "capacity_reservation_interrupted"},
		{drainReason(plan.Interrupted), "Forceful Termination"},
		{drainReason(plan.Empty), "Empty"},
		{consolidationType(plan.Underutilized, 2), "multi"},
		{consolidationType(plan.Drifted, 2), ""},
		{resourceLabel("ephemeral-storage"), "ephemeral_storage"},
		{wellKnownName("karpenter.k8s.aws/instance-ebs-bandwidth"), "instance_ebs_bandwidth"},
		{labelName("karpenter.k8s.aws/ec2nodeclass"), "karpenter_k8s_aws_ec2nodeclass"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
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

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/metrics"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// scrape reads all metrics: the value (of a histogram or summary, its count) by name and labels, and the labels' names by name.
func (b *bench) scrape(t *testing.T) (values map[string]float64, labels map[string]string) {
	t.Helper()
	families, err := b.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values, labels = map[string]float64{}, map[string]string{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var names, pairs []string
			for _, l := range m.GetLabel() {
				names = append(names, l.GetName())
				if l.GetValue() != "" {
					pairs = append(pairs, l.GetName()+"="+l.GetValue())
				}
			}
			labels[f.GetName()] = strings.Join(names, ",")
			v := m.GetGauge().GetValue() + m.GetCounter().GetValue()
			if h := m.GetHistogram(); h != nil {
				v = float64(h.GetSampleCount())
			}
			if s := m.GetSummary(); s != nil {
				v = float64(s.GetSampleCount())
			}
			values[f.GetName()+"{"+strings.Join(pairs, ",")+"}"] = v
		}
	}
	return values, labels
}

// The figures of a small cluster, by the reference's names and labels: two machines with three pods each stand, one is taken away by its
// cloud, one of the pods waits.
func TestMetrics(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.offerings = func() ([]*model.InstanceType, error) {
			return append([]*model.InstanceType{instanceType("barred", 4000, 50_000)}, catalogue...), nil // the pool requires one of the others
		}
		b.stand(2)
		b.lead()
		b.pod("late", "late")
		facts := func(change func(*state.PodFacts)) *state.PodFacts {
			p := &state.PodFacts{Namespace: "default", Phase: "Pending", Created: time.Now()}
			change(p)
			return p
		}
		late := facts(func(p *state.PodFacts) { p.Name, p.UID = "late", "uid-late" })
		daemon := facts(func(p *state.PodFacts) {
			p.Name, p.UID, p.Node, p.Phase, p.Scheduled = "daemon", "uid-daemon", "old-01", "Running", true
			p.OwnerVersion, p.OwnerKind, p.OwnerName, p.Daemon, p.Limits = "apps/v1", "DaemonSet", "agent", true, model.Resources{500}
		})
		fresh := facts(func(p *state.PodFacts) { p.Name, p.UID = "new", "uid-new" })
		b.c.Emit(func(s *state.State) {
			for _, p := range []*state.PodFacts{late, daemon, fresh} {
				s.PodFacts.Set(p)
			}
		})
		time.Sleep(10 * time.Second)
		b.notices <- cloud.Interruption{ProviderID: "m-old-00", Kind: "SpotInterruption", At: time.Now().Add(2 * time.Minute), Sent: time.Now().Add(-time.Second)}
		time.Sleep(2 * time.Minute)     // its drain has to begin by then
		b.c.Emit(func(s *state.State) { // and it is over
			s.DeleteNode("old-00")
			s.DeleteClaim("old-00")
			since := time.Now().Add(-3 * time.Second)
			s.PodFacts.Set(facts(func(p *state.PodFacts) {
				p.Name, p.UID, p.Node, p.Phase, p.Scheduled, p.Ready = "new", "uid-new", "old-01", "Running", true, true
				p.ScheduledAt, p.ReadyAt, p.Limits = time.Now(), time.Now(), model.Resources{1500}
			}))
			s.SetPod(&model.Pod{Namespace: "default", Name: "new", UID: "uid-new", Node: "old-01", Created: since, Bound: since.Add(time.Second), Ready: true, ReadySince: since.Add(2 * time.Second),
				Owner: model.Owner{Kind: "ReplicaSet", Name: "web", UID: "uid-web"}, Class: &model.Class{Key: "web", Namespace: "default", Requests: model.Resources{1000, 1 << 30, 0, 1}, Scheduler: "default-scheduler"}})
		})
		time.Sleep(time.Second)
		values, labels := b.scrape(t)
		const node = "instance_type=cheap,managed=true,node_name=old-01,nodepool=p,resource_type=cpu,zone=a"
		for name, want := range map[string]float64{
			"karpenter_nodes_allocatable{capacity_type=spot," + node + "}":         4,
			"karpenter_nodes_total_pod_requests{capacity_type=spot," + node + "}":  4,
			"karpenter_nodes_total_pod_limits{capacity_type=spot," + node + "}":    2,
			"karpenter_nodes_total_daemon_limits{capacity_type=spot," + node + "}": .5,
			"karpenter_pods_state{capacity_type=spot,instance_type=cheap,managed=true,name=daemon,namespace=default,node=old-01,nodepool=p,owner=/apis/apps/v1/namespaces/default/daemonsets/agent,phase=Running,ready=false,scheduled=true,zone=a}": 1,
			"karpenter_pods_state{managed=false,name=late,namespace=default,phase=Pending,ready=false,scheduled=false}":                                                                                                                              1,
			"karpenter_nodes_total_daemon_requests{capacity_type=spot," + node + "}":                                                                                                                                                                 0,
			"karpenter_nodes_system_overhead{capacity_type=spot," + node + "}":                                                                                                                                                                       0,
			"karpenter_cluster_utilization_percent{resource_type=cpu}":                                                                                                                                                                               100,
			"karpenter_cluster_state_node_count{}":                                                                                                                                                                                                   1,
			"karpenter_cluster_state_unsynced_time_seconds{}":                                                                                                                                                                                        0,
			"karpenter_nodepools_allowed_disruptions{nodepool=p,reason=underutilized}":                                                                                                                                                               1,
			"karpenter_nodepools_nodes_consuming_budgets{nodepool=p,reason=underutilized}":                                                                                                                                                           0,
			"dovetail_drift_back_off_seconds{nodepool=p}":                                                                                                                                                                                            0,
			"karpenter_voluntary_disruption_eligible_nodes{reason=empty}":                                                                                                                                                                            0,
			"karpenter_interruption_received_messages_total{message_type=spot_interrupted}":                                                                                                                                                          1,
			"karpenter_interruption_deleted_messages_total{}":                                                                                                                                                                                        1,
			"karpenter_interruption_message_queue_duration_seconds{}":                                                                                                                                                                                1,
			"karpenter_nodeclaims_terminated_total{capacity_type=spot,nodepool=p,zone=a}":                                                                                                                                                            1,
			"karpenter_nodeclaims_termination_duration_seconds{nodepool=p}":                                                                                                                                                                          1,
			"karpenter_nodeclaims_disrupted_total{capacity_type=spot,nodepool=p,reason=spot_interrupted,termination_mode=graceful}":                                                                                                                  1,
			"karpenter_nodes_terminated_total{nodepool=p,zone=a}":                                                                                                                                                                                    1,
			"karpenter_nodes_lifetime_duration_seconds{nodepool=p}":                                                                                                                                                                                  1,
			"karpenter_pods_disruption_initiated_total{capacity_type=spot,nodepool=p,reason=spot_interrupted,termination_mode=graceful}":                                                                                                             3,
			"karpenter_pods_scheduling_decision_duration_seconds{}":                                                                                                                                                                                  1,
			"karpenter_pods_unstarted_time_seconds{name=late,namespace=default}":                                                                                                                                                                     131,
			"karpenter_scheduler_unschedulable_pods_count{controller=provisioner}":                                                                                                                                                                   0,
			"karpenter_pods_unbound_time_seconds{dynamic_resources=false,name=late,namespace=default}":                                                                                                                                               131,
			"controller_runtime_reconcile_errors_total{controller=provisioner}":                                                                                                                                                                      0,
			"workqueue_depth{controller=eviction-queue,name=eviction-queue,priority=0}":                                                                                                                                                              0,
			"karpenter_voluntary_disruption_consolidation_timeouts_total{consolidation_type=multi}":                                                                                                                                                  0,
			"karpenter_scheduler_ignored_pods_count{}":                                                                                                                                                                                               0,
			"karpenter_scheduler_pending_pods_by_effective_zone_count{controller=provisioner,zone=flexible}":                                                                                                                                         1,
			"karpenter_cloudprovider_instance_type_offering_price_estimate{capacity_type=on-demand,instance_type=cheap,zone=a}":                                                                                                                      0.1,
			"karpenter_cloudprovider_instance_type_offering_available{capacity_type=on-demand,instance_type=cheap,zone=a}":                                                                                                                           1,
			"karpenter_cloudprovider_instance_type_cpu_cores{instance_type=cheap}":                                                                                                                                                                   4,
			"karpenter_cloudprovider_instance_type_memory_bytes{instance_type=cheap}":                                                                                                                                                                1 << 34,
			"karpenter_pods_startup_duration_seconds{}":                                                                                                                                                                                              1,
			"karpenter_pods_bound_duration_seconds{dynamic_resources=false}":                                                                                                                                                                         1,
			"operator_nodeclaim_status_condition_count{karpenter_sh_nodepool=p,name=old-01,status=True,type=Initialized}":                                                                                                                            1,
			"operator_nodeclaim_status_condition_transitions_total{karpenter_sh_nodepool=p,reason=Interrupted,status=True,type=DisruptionReason}":                                                                                                    1,
			"operator_nodeclaim_termination_duration_seconds{karpenter_sh_nodepool=p}":                                                                                                                                                               1,
		} {
			have, ok := values[name]
			if !ok || have != want {
				var near []string
				for k, v := range values {
					if strings.HasPrefix(k, name[:strings.IndexByte(name, '{')]) {
						near = append(near, fmt.Sprintf("%s %g", k, v))
					}
				}
				slices.Sort(near)
				t.Errorf("%s is %g, want %g; there are %s", name, have, want, strings.Join(near[:min(len(near), 6)], "; "))
			}
		}
		for name := range values {
			if strings.Contains(name, "instance_type=barred") {
				t.Errorf("%s is told, of a type that no pool may buy", name)
			}
		}
		for name, want := range map[string]string{
			"karpenter_nodeclaims_created_total":                         "min_values_relaxed,nodepool,reason",
			"karpenter_nodeclaims_disrupted_total":                       "capacity_type,consolidation_policy,nodepool,reason,termination_mode",
			"karpenter_nodes_current_lifetime_seconds":                   "arch,capacity_type,instance_type,managed,node_name,nodepool,os,phase,region,windows_build,zone",
			"karpenter_nodepools_cost_total":                             "nodepool",
			"karpenter_cloudprovider_duration_seconds":                   "controller,method,provider",
			"karpenter_pods_unbound_time_seconds":                        "dynamic_resources,name,namespace",
			"karpenter_cloudprovider_instance_type_offering_available":   "capacity_type,instance_type,zone",
			"karpenter_pods_provisioning_unbound_time_seconds":           "dynamic_resources,name,namespace",
			"karpenter_pods_provisioning_unstarted_time_seconds":         "name,namespace",
			"operator_nodeclaim_status_condition_current_status_seconds": "g_k,karpenter_sh_nodepool,name,namespace,reason,status,type",
		} {
			if have, ok := labels[name]; !ok || have != want {
				t.Errorf("%s has labels %q, want %q", name, have, want)
			}
		}
	})
}

// A NodePool whose nodes drift again and again has its back-off in a metric, and a node that it holds is not told as one that may
// go for drift.
func TestDriftBackOffMetrics(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.stand(1)
		b.drifts = func(q cloud.DriftQuery) string { return "NodeClassDrift" }
		b.c.Emit(func(*state.State) {
			var learned decide.LearnedCapacity
			text := fmt.Sprintf(`{"drift": {"uid-p": {"times": 3, "begun": %q}}}`, time.Now().Format(time.RFC3339))
			if err := json.Unmarshal([]byte(text), &learned); err != nil {
				t.Error(err)
			}
			b.c.mem = b.c.mem.WithLearned(learned, func(string) model.Dim { return 0 })
		})
		b.lead()
		if !b.claims["old-00"].Is("Drifted") {
			t.Fatal("the node has not drifted")
		}
		values, _ := b.scrape(t)
		for name, want := range map[string]float64{"dovetail_drift_back_off_seconds{nodepool=p}": 120, "karpenter_voluntary_disruption_eligible_nodes{reason=drifted}": 0} {
			if have, ok := values[name]; !ok || have != want {
				t.Errorf("%s is %g, want %g", name, have, want)
			}
		}
	})
}

// Whoever turns them off gets no metrics of single pods, nodes and conditions.
func TestUnobserved(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.stand(1)
		b.lead()
		b.pod("late", "late")
		b.c.Emit(func(s *state.State) {
			s.PodFacts.Set(&state.PodFacts{Namespace: "default", Name: "late", UID: "uid-late", Phase: "Pending", Created: time.Now()})
		})
		time.Sleep(time.Second)
		names := func(observed bool) map[string]bool {
			registry := prometheus.NewRegistry()
			registry.MustRegister(metrics.NewState(b.c.Metrics, b.c, nil, observed, b.c.Log))
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			out := map[string]bool{}
			for _, f := range families {
				out[f.GetName()] = true
			}
			return out
		}
		on, off := names(true), names(false)
		for _, name := range []string{"karpenter_pods_state", "karpenter_nodes_allocatable", "karpenter_pods_unstarted_time_seconds", "operator_nodeclaim_status_condition_count"} {
			if !on[name] || off[name] {
				t.Errorf("%s is there: %t, and turned off: %t", name, on[name], off[name])
			}
		}
		if !off["karpenter_nodepools_allowed_disruptions"] {
			t.Error("what is not of single objects is gone too")
		}
	})
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
			"operator_ec2nodeclass_status_condition_transition_seconds{status=False,to_status=True,type=SubnetsReady}":                      1,
			"operator_ec2nodeclass_status_condition_current_status_seconds{name=default,reason=SubnetsReady,status=True,type=SubnetsReady}": 11,
		} {
			if have, ok := values[name]; !ok || have != want {
				t.Errorf("%s is %g (there: %t), want %g", name, have, ok, want)
			}
		}
	})
}

// A node that is terminated before its replacement is launched is a decision of its own, counted by what left no capacity.
func TestTerminateFirstIsCounted(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.c.Emit(func(*state.State) {
			u := &disrupt.Candidate{Pool: &model.NodePool{Name: "p"}}
			b.c.Metrics.CountDisruptionCommand(&decide.StartedCommand{Command: &disrupt.Command{Cause: plan.Drifted, TerminateFirst: disrupt.StaticAtLimit, Candidates: []*disrupt.Candidate{u}}})
		})
		time.Sleep(time.Second)
		values, _ := b.scrape(t)
		for _, name := range []string{
			"karpenter_voluntary_disruption_terminate_first_decisions_total{nodepool=p,reason=drifted,terminate_first_reason=static-at-limit}",
			"karpenter_voluntary_disruption_decisions_by_nodepool_total{decision=terminate-first,nodepool=p,reason=drifted}",
		} {
			if have := values[name]; have != 1 {
				t.Errorf("%s is %g, want 1", name, have)
			}
		}
	})
}

// A move that policy Balanced allowed, and one that it refused, by the reference's names.
func TestBalancedMetrics(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.c.Emit(func(*state.State) {
			b.c.Metrics.CountDisruptionCommand(&decide.StartedCommand{Command: &disrupt.Command{Cause: plan.Underutilized, BalancedScores: map[string]float64{"p": 0.7}}})
			b.c.recorder.Output(time.Now(), &model.Snapshot{}, &decide.Output{Kept: []decide.Kept{
				{Node: "n", Cause: plan.Underutilized, Why: plan.Reason{Code: plan.NotBalanced, Subject: "nodepool/p", Detail: plan.OfNotBalanced{Score: 0.2}}},
				{Node: "n", Cause: plan.Underutilized, Why: plan.Reason{Code: plan.DisruptionBudgetPDB}},
			}})
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

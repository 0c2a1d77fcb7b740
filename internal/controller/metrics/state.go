// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package metrics

import (
	"log/slog"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/controller/view"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// State are the metrics of the cluster's state in the last step. They are computed on each scrape, in its goroutine, so a step has
// no cost for them regardless of the number of nodes.
type State struct {
	m     *Metrics
	loop  Loop
	log   *slog.Logger
	d     map[string]*prometheus.Desc
	nodes []string // keys of the labels of nodes that the metrics of nodes bear
	// observed: single pods and nodes, and the conditions of objects, are measured. With many pods these are nearly all
	// series.
	observed bool
}

// wellKnownLabels are the keys of labels that every provider's nodes have.
var wellKnownLabels = []string{model.LabelNodePool, model.LabelZone, model.LabelRegion, model.LabelInstanceType, model.LabelArch, model.LabelOS, model.LabelCapacityType,
	model.LabelWindowsBuild}

// driftBackOff is the metric of the back-off that repeated drift puts a NodePool in: see docs/design/0020.
const driftBackOff = "drift_back_off_seconds"

// NewState returns the metrics of a loop. Metrics of individual pods and nodes and of conditions are included only if observed is
// set. labels are the keys of labels of the provider's nodes.
func NewState(counted *Metrics, loop Loop, labels []string, observed bool, log *slog.Logger) *State {
	m := &State{m: counted, loop: loop, log: log, observed: observed, d: map[string]*prometheus.Desc{}, nodes: slices.Concat(wellKnownLabels, labels)}
	add := func(name, help string, labels ...string) {
		m.d[name] = prometheus.NewDesc("karpenter_"+name, help, labels, nil)
	}
	var nodeLabels []string
	for _, key := range m.nodes {
		nodeLabels = append(nodeLabels, wellKnownName(key))
	}
	nodeLabels = append(nodeLabels, "node_name", "phase", "managed")
	ofNode := append(slices.Clone(nodeLabels), "resource_type")
	add("nodes_allocatable", "Allocatable resources of a node, in the base unit of the resource.", ofNode...)
	add("nodes_total_pod_requests", "Sum of the requests of pods on a node, including DaemonSets.", ofNode...)
	add("nodes_total_pod_limits", "Sum of the limits of pods on a node, including DaemonSets.", ofNode...)
	add("nodes_total_daemon_requests", "Sum of the requests of pods of DaemonSets on a node.", ofNode...)
	add("nodes_total_daemon_limits", "Sum of the limits of pods of DaemonSets on a node.", ofNode...)
	add("nodes_system_overhead", "Capacity of a node that is not allocatable.", ofNode...)
	add("nodes_current_lifetime_seconds", "Age of a node.", nodeLabels...)
	add("nodepools_cost_total", "Price of the nodes of a NodePool, in dollars per hour.", "nodepool")
	add("nodepools_allowed_disruptions", "Number of nodes of a NodePool that its budgets allow to be disrupted, by reason.", "nodepool", "reason")
	add("nodepools_nodes_consuming_budgets", "Nodes of a NodePool that count against its budgets.", "nodepool", "reason")
	m.d[driftBackOff] = prometheus.NewDesc("dovetail_"+driftBackOff, "How long a NodePool and its node class must remain unchanged before drifted nodes are replaced. 0 means at once.", []string{"nodepool"}, nil)
	add("voluntary_disruption_eligible_nodes", "Nodes eligible for disruption, by reason, without regard to budgets.", "reason")
	add("cluster_utilization_percent", "Requested share of all allocatable resources, in percent.", "resource_type")
	add("cluster_state_unsynced_time_seconds", "How long the cluster state has been incomplete. 0 if it is complete.")
	add("pods_state", "1 for each pod of the cluster.", podLabels...)
	add("pods_unbound_time_seconds", "Age of a pod that is not bound.", "name", "namespace", dynamicResources)
	add("pods_unstarted_time_seconds", "Age of a pod that was seen Pending and is not ready.", "name", "namespace")
	add("pods_provisioning_scheduling_undecided_time_seconds", "Time that a pending pod has waited for its first decision.", "name", "namespace")
	add("pods_provisioning_unbound_time_seconds", "Time that a pod with planned capacity has waited to be bound.", "name", "namespace", dynamicResources)
	add("pods_provisioning_unstarted_time_seconds", "Time that a pod with planned capacity has waited to become ready.", "name", "namespace")
	add("scheduler_unfinished_work_seconds", "Duration of the current decision so far.", "controller", "scheduling_id")
	add("scheduler_ignored_pods_count", "Unbound pods that are ignored: gated, nominated, or of another scheduler.")
	add("scheduler_pending_pods_by_effective_zone_count", "Unbound pods by the only zone in which they can run. Zone flexible: several; none: no zone.", "controller", "zone")
	add("cloudprovider_instance_type_offering_price_estimate", "Price of an offering, in dollars per hour.", "instance_type", "capacity_type", "zone")
	add("cloudprovider_instance_type_offering_available", "1 if an offering is available.", "instance_type", "capacity_type", "zone")
	add("cloudprovider_instance_type_cpu_cores", "CPUs of an instance type.", "instance_type")
	add("cloudprovider_instance_type_memory_bytes", "Memory of an instance type.", "instance_type")
	return m
}

// Describe implements prometheus.Collector.
func (m *State) Describe(out chan<- *prometheus.Desc) {
	for _, d := range m.d {
		out <- d
	}
	m.m.changes.conditions.describe(out)
}

// computeFigures returns figuresOf. What makes it panic makes the loop do less and go on; who only asks must not end the process.
func (m *State) computeFigures(v *view.View, now time.Time) (figures []poolFigures, eligible map[plan.Code]int64) {
	defer func() {
		if fault := recover(); fault != nil {
			m.m.CountFailedDecision()
			m.log.Error("NodePool figures can't be computed; this is a bug in Dovetail", "panic", fault, "stack", string(debug.Stack()))
		}
	}()
	return figuresOf(v.Snap, v.Mem, now, v.Policy)
}

// Collect implements prometheus.Collector.
func (m *State) Collect(out chan<- prometheus.Metric) {
	now := time.Now()
	put := func(name string, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(m.d[name], prometheus.GaugeValue, v, labels...)
	}
	unsynced := 0.0
	if since := m.loop.UnreadSince(); !since.IsZero() {
		unsynced = now.Sub(since).Seconds()
	}
	put("cluster_state_unsynced_time_seconds", unsynced)
	v := m.loop.LastView()
	if v == nil {
		return // nothing has been decided here: this is not the leader
	}
	s := v.Snap
	if d := m.m.deciding.Load(); d != nil {
		put("scheduler_unfinished_work_seconds", max(0, now.Sub(d.began).Seconds()), d.kind, d.id)
	}
	if m.observed {
		pods := m.loop.PodFacts()
		m.m.changes.pods.collectWaits(now, put)
		m.m.podStarts.collect(now, put)
		m.collectPods(s, pods, put)
		m.collectNodes(s, pods, now, put)
		m.collectConditions(v, now, out)
	}
	m.collectZones(s, put)
	m.collectTypes(s, put)
	figures, eligible := m.computeFigures(v, now)
	for _, f := range figures {
		put(driftBackOff, f.DriftRest.Seconds(), f.Name)
		put("nodepools_cost_total", float64(f.PriceMicro)/1e6, f.Name)
		for _, why := range disrupt.Budgeted {
			reason := strings.ToLower(string(why))
			put("nodepools_nodes_consuming_budgets", float64(f.Down), f.Name, reason)
			put("nodepools_allowed_disruptions", float64(f.Allowed[why]), f.Name, reason)
		}
	}
	for _, why := range disrupt.Budgeted {
		put("voluntary_disruption_eligible_nodes", float64(eligible[why]), strings.ToLower(string(why)))
	}
}

// collectConditions tells of the conditions of every claim, node, pool and node class.
func (m *State) collectConditions(v *view.View, now time.Time, out chan<- prometheus.Metric) {
	conditions := m.m.changes.conditions
	for _, c := range v.Snap.Claims {
		conditions.collect(out, claimObject(c), c.Conditions, now)
	}
	for _, n := range v.Snap.Nodes {
		conditions.collect(out, nodeObject(n), n.Conditions, now)
	}
	for _, p := range v.Snap.Pools {
		conditions.collect(out, poolObject(p), p.Conditions, now)
	}
	for _, c := range v.Classes {
		conditions.collect(out, classObject(c), c.Conditions, now)
	}
}

// collectPods tells of every pod of the cluster.
func (m *State) collectPods(s *model.Snapshot, pods []*state.PodFacts, put func(string, float64, ...string)) {
	nodes := make(map[string]model.Labels, len(s.Nodes))
	for _, n := range s.Nodes {
		nodes[n.Name] = n.Labels
	}
	for _, p := range pods {
		put("pods_state", 1, podStateLabels(p, nodes[p.Node])...)
	}
}

// collectZones counts pods that wait by the zone that their own node selection and their volumes leave them: what other pods have to do with it
// is not looked at.
func (m *State) collectZones(s *model.Snapshot, put func(string, float64, ...string)) {
	ignored, count, of := 0, map[string]int{}, map[*model.Class]string{}
	for _, p := range s.Pending {
		if !p.IsWorkload() || p.Placeholder {
			continue
		}
		if !p.IsForScheduler() {
			ignored++
			continue
		}
		zone, ok := of[p.Class]
		if !ok {
			zone = effectiveZone(p.Class)
			of[p.Class] = zone
		}
		count[zone]++
	}
	put("scheduler_ignored_pods_count", float64(ignored))
	for zone, n := range count {
		put("scheduler_pending_pods_by_effective_zone_count", float64(n), workProvisioner, zone)
	}
}

// effectiveZone is the only zone that a pod of a class may go to; flexible: there are several, or any will do; none: no zone will do.
func effectiveZone(c *model.Class) string {
	alternatives := [][]model.Requirements{} // of each, one must match
	if len(c.Terms) > 0 {
		var terms []model.Requirements
		for _, t := range c.Terms {
			terms = append(terms, t.Requirements)
		}
		alternatives = append(alternatives, terms)
	}
	for _, v := range c.Volumes {
		if len(v.Topology) > 0 {
			alternatives = append(alternatives, v.Topology)
		}
	}
	named := map[string]bool{} // only a zone that something names can be the only one
	for _, a := range alternatives {
		for _, reqs := range a {
			if r := reqs.Get(model.LabelZone); r != nil && !r.Complement {
				for _, zone := range r.Values {
					named[zone] = true
				}
			}
		}
	}
	allowed := func(zone string) bool {
		for _, a := range alternatives {
			if !slices.ContainsFunc(a, func(reqs model.Requirements) bool {
				r := reqs.Get(model.LabelZone)
				return r == nil || r.Matches(zone, true)
			}) {
				return false
			}
		}
		return true
	}
	if allowed("") {
		return "flexible" // a zone that nothing names will do
	}
	var out []string
	for zone := range named {
		if allowed(zone) {
			out = append(out, zone)
		}
	}
	switch len(out) {
	case 0:
		return "none"
	case 1:
		return out[0]
	}
	return "flexible"
}

// collectTypes are what the pools may buy, each once though several pools may.
func (m *State) collectTypes(s *model.Snapshot, put func(string, float64, ...string)) {
	type offering struct{ instanceType, capacityType, zone string }
	type figures struct {
		price     int64
		available bool
	}
	offerings := map[offering]figures{}
	machine := map[string]*model.InstanceType{}
	for _, p := range s.Pools {
		for _, t := range p.Types {
			if !p.MayBuyType(t) {
				continue
			}
			for _, o := range t.Offerings {
				if !p.MayBuyOffering(&o) {
					continue
				}
				machine[t.Name] = t
				k := offering{t.Name, o.CapacityType, o.Zone}
				have, ok := offerings[k]
				if !ok || o.PriceMicro < have.price {
					have.price = o.PriceMicro
				}
				have.available = have.available || o.Available
				offerings[k] = have
			}
		}
	}
	for k, f := range offerings {
		put("cloudprovider_instance_type_offering_price_estimate", float64(f.price)/1e6, k.instanceType, k.capacityType, k.zone)
		available := 0.0
		if f.available {
			available = 1
		}
		put("cloudprovider_instance_type_offering_available", available, k.instanceType, k.capacityType, k.zone)
	}
	for name, t := range machine {
		put("cloudprovider_instance_type_cpu_cores", inBaseUnit(model.CPU, t.Capacity.At(model.CPU)), name)
		put("cloudprovider_instance_type_memory_bytes", inBaseUnit(model.Memory, t.Capacity.At(model.Memory)), name)
	}
}

func (m *State) collectNodes(s *model.Snapshot, podFacts []*state.PodFacts, now time.Time, put func(string, float64, ...string)) {
	limits, daemonLimits := limitsByNode(podFacts)
	var all, used model.Resources
	for _, n := range s.Nodes {
		all, used = all.AddInto(n.Allocatable, 1), used.AddInto(n.Used, 1)
		var pods, daemons model.Resources
		for _, p := range n.Pods {
			pods = pods.AddInto(p.Class.Requests, 1)
			if p.Owner.Kind == "DaemonSet" {
				daemons = daemons.AddInto(p.Class.Requests, 1)
			}
		}
		var labels []string
		for _, key := range m.nodes {
			labels = append(labels, n.Labels[key])
		}
		labels = append(labels, n.Name, n.Phase, strconv.FormatBool(n.Claim != ""))
		put("nodes_current_lifetime_seconds", now.Sub(n.Created).Seconds(), labels...)
		for i, name := range s.ResourceNames {
			d := model.Dim(i)
			if n.Allocatable.At(d) == 0 && pods.At(d) == 0 && limits[n.Name].At(d) == 0 {
				continue
			}
			ofResource := append(slices.Clone(labels), resourceLabel(name))
			put("nodes_allocatable", inBaseUnit(d, n.Allocatable.At(d)), ofResource...)
			put("nodes_total_pod_requests", inBaseUnit(d, pods.At(d)), ofResource...)
			put("nodes_total_pod_limits", inBaseUnit(d, limits[n.Name].At(d)), ofResource...)
			put("nodes_total_daemon_requests", inBaseUnit(d, daemons.At(d)), ofResource...)
			put("nodes_total_daemon_limits", inBaseUnit(d, daemonLimits[n.Name].At(d)), ofResource...)
			put("nodes_system_overhead", inBaseUnit(d, max(0, n.Capacity.At(d)-n.Allocatable.At(d))), ofResource...)
		}
	}
	for i, name := range s.ResourceNames {
		if a := all.At(model.Dim(i)); a > 0 {
			put("cluster_utilization_percent", 100*float64(used.At(model.Dim(i)))/float64(a), resourceLabel(name))
		}
	}
}

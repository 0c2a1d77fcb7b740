// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"runtime/debug"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// StateMetrics are the figures that follow from what the last step saw. They are worked out when they are asked for, in the goroutine of
// whoever asks: a step costs nothing for them, however many nodes there are.
type StateMetrics struct {
	c *Controller
	d map[string]*prometheus.Desc
}

var nodeLabels = []string{"resource_type", "node_name", "nodepool", "instance_type", "zone", "region", "arch", "os", "capacity_type"}

// NewStateMetrics are the metrics of a controller.
func NewStateMetrics(c *Controller) *StateMetrics {
	m := &StateMetrics{c: c, d: map[string]*prometheus.Desc{}}
	add := func(name, help string, labels ...string) {
		m.d[name] = prometheus.NewDesc("karpenter_"+name, help, labels, nil)
	}
	add("nodes_allocatable", "What pods may ask for on a node, in the base unit of the resource.", nodeLabels...)
	add("nodes_total_pod_requests", "What pods ask for on a node, those of DaemonSets left out.", nodeLabels...)
	add("nodes_total_daemon_requests", "What pods of DaemonSets ask for on a node.", nodeLabels...)
	add("nodes_system_overhead", "What a node has and pods may not ask for.", nodeLabels...)
	add("nodes_current_lifetime_seconds", "Age of a node.", "node_name", "nodepool")
	add("nodepools_cost_total", "Price of a pool's machines, in dollars an hour.", "nodepool")
	add("nodepools_allowed_disruptions", "How many more machines of a pool its budgets let go, by reason.", "nodepool", "reason")
	add("nodepools_nodes_consuming_budgets", "Machines of a pool that are down or going, which its budgets count.", "nodepool")
	add("voluntary_disruption_eligible_nodes", "Machines that might go for a reason but for the budgets.", "reason")
	add("cluster_utilization_percent", "Share of all nodes' allocatable that pods ask for.", "resource_type")
	add("cluster_state_unsynced_time_seconds", "Since when the cluster has not been read whole; 0 once it has.")
	add("pods_unbound_time_seconds", "Age of a pod that is not bound.", "name", "namespace")
	add("pods_unstarted_time_seconds", "Age of a pod that was seen waiting and is not ready.", "name", "namespace")
	add("pods_provisioning_scheduling_undecided_time_seconds", "Since when a waiting pod is known that nothing was decided on.", "name", "namespace")
	add("pods_provisioning_unbound_time_seconds", "Since when there is a place for a pod that is not bound.", "name", "namespace")
	add("pods_provisioning_unstarted_time_seconds", "Since when there is a place for a pod that is not ready.", "name", "namespace")
	add("scheduler_unfinished_work_seconds", "How long the decision that is being made has taken so far.")
	add("scheduler_ignored_pods_count", "Pods that are not bound and nobody's to decide on here: gated, nominated, another scheduler's.")
	add("scheduler_pending_pods_by_effective_zone_count", "Pods that are not bound, by the only zone that they may go to, flexible or none.", "zone")
	add("cloudprovider_instance_type_offering_price_estimate", "Price of an offering, in dollars an hour.", "instance_type", "capacity_type", "zone")
	add("cloudprovider_instance_type_offering_available", "1 where an offering can be had.", "instance_type", "capacity_type", "zone")
	add("cloudprovider_instance_type_cpu_cores", "CPUs of an instance type.", "instance_type")
	add("cloudprovider_instance_type_memory_bytes", "Memory of an instance type.", "instance_type")
	for _, kind := range slices.Concat([]string{"nodeclaim", "node", "nodepool"}, classKinds) {
		for name, help := range map[string]string{"count": "1 for each condition that an object has.", "current_status_seconds": "Since when a condition has its status."} {
			full := "operator_" + kind + "_status_condition_" + name
			m.d[full] = prometheus.NewDesc(full, help, []string{"namespace", "name", "type", "status", "reason"}, nil)
		}
		full := "operator_" + kind + "_termination_current_time_seconds"
		m.d[full] = prometheus.NewDesc(full, "Since when an object is being deleted.", []string{"namespace", "name"}, nil)
	}
	return m
}

// Describe implements prometheus.Collector.
func (m *StateMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range m.d {
		out <- d
	}
}

// computeFigures are decide's. What makes it panic makes the loop do less and go on; who only asks must not end the process.
func (m *StateMetrics) computeFigures(v *view, now time.Time) (figures []decide.PoolFigures, eligible map[plan.Code]int64) {
	defer func() {
		if fault := recover(); fault != nil {
			m.c.Metrics.countFailedDecision()
			m.c.Log.Error("figures of pools can't be told; this is a fault of dovetail", "panic", fault, "stack", string(debug.Stack()))
		}
	}()
	return decide.Figures(v.snap, v.mem, now, m.c.Policy)
}

// Collect implements prometheus.Collector.
func (m *StateMetrics) Collect(out chan<- prometheus.Metric) {
	now := time.Now()
	put := func(name string, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(m.d[name], prometheus.GaugeValue, v, labels...)
	}
	unsynced := 0.0
	if !m.c.synced.Load() {
		unsynced = now.Sub(m.c.readSince).Seconds()
	}
	put("cluster_state_unsynced_time_seconds", unsynced)
	v := m.c.view.Load()
	if v == nil {
		return // nothing has been decided here: this is not the leader
	}
	s := v.snap
	if began := m.c.deciding.Load(); began != 0 {
		put("scheduler_unfinished_work_seconds", max(0, now.Sub(time.Unix(0, began)).Seconds()))
	} else {
		put("scheduler_unfinished_work_seconds", 0)
	}
	m.c.Metrics.changes.pods.collectWaits(now, put)
	m.collectNodes(s, now, put)
	m.collectZones(s, put)
	m.collectTypes(s, put)
	for _, p := range s.Pending {
		if p.IsWorkload() {
			put("pods_unbound_time_seconds", now.Sub(p.Created).Seconds(), p.Name, p.Namespace)
		}
	}
	figures, eligible := m.computeFigures(v, now)
	for _, f := range figures {
		put("nodepools_cost_total", float64(f.PriceMicro)/1e6, f.Name)
		put("nodepools_nodes_consuming_budgets", float64(f.Down), f.Name)
		for _, why := range decide.Voluntary {
			put("nodepools_allowed_disruptions", float64(f.Allowed[why]), f.Name, string(why))
		}
	}
	for _, why := range decide.Voluntary {
		put("voluntary_disruption_eligible_nodes", float64(eligible[why]), string(why))
	}
	conditions := func(kind, name string, all map[string]model.Condition, deleting time.Time) {
		for of, c := range all {
			put("operator_"+kind+"_status_condition_count", 1, "", name, of, c.Status, c.Reason)
			if !c.Since.IsZero() {
				put("operator_"+kind+"_status_condition_current_status_seconds", now.Sub(c.Since).Seconds(), "", name, of, c.Status, c.Reason)
			}
		}
		if !deleting.IsZero() {
			put("operator_"+kind+"_termination_current_time_seconds", now.Sub(deleting).Seconds(), "", name)
		}
	}
	for _, c := range s.Claims {
		conditions("nodeclaim", c.Name, c.Conditions, c.Deleting)
	}
	for _, n := range s.Nodes {
		conditions("node", n.Name, n.Conditions, n.Deleting)
	}
	for _, p := range s.Pools {
		conditions("nodepool", p.Name, p.Conditions, time.Time{})
	}
	for _, c := range v.classes {
		if kind := nodeClassKind(c); kind != "" {
			conditions(kind, c.Name, c.Conditions, c.Deleting)
		}
	}
}

// collectZones counts pods that wait by the zone that their own node selection and their volumes leave them: what other pods have to do with it
// is not looked at.
func (m *StateMetrics) collectZones(s *model.Snapshot, put func(string, float64, ...string)) {
	ignored, count, of := 0, map[string]int{}, map[*model.Class]string{}
	for _, p := range s.Pending {
		if !p.IsWorkload() {
			continue
		}
		if !decide.IsForScheduler(p) {
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
		put("scheduler_pending_pods_by_effective_zone_count", float64(n), zone)
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
func (m *StateMetrics) collectTypes(s *model.Snapshot, put func(string, float64, ...string)) {
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

func (m *StateMetrics) collectNodes(s *model.Snapshot, now time.Time, put func(string, float64, ...string)) {
	var all, used model.Resources
	for _, n := range s.Nodes {
		all, used = all.AddInto(n.Allocatable, 1), used.AddInto(n.Used, 1)
		var pods, daemons model.Resources
		for _, p := range n.Pods {
			if !p.IsWorkload() {
				daemons = daemons.AddInto(p.Class.Requests, 1)
			} else {
				pods = pods.AddInto(p.Class.Requests, 1)
			}
		}
		pool := n.Labels[model.LabelNodePool]
		put("nodes_current_lifetime_seconds", now.Sub(n.Created).Seconds(), n.Name, pool)
		for i, name := range s.ResourceNames {
			d := model.Dim(i)
			labels := []string{name, n.Name, pool, n.Labels[model.LabelInstanceType], n.Labels[model.LabelZone], n.Labels[model.LabelRegion], n.Labels[model.LabelArch],
				n.Labels[model.LabelOS], n.Labels[model.LabelCapacityType]}
			if n.Allocatable.At(d) == 0 && n.Used.At(d) == 0 {
				continue
			}
			put("nodes_allocatable", inBaseUnit(d, n.Allocatable.At(d)), labels...)
			put("nodes_total_pod_requests", inBaseUnit(d, pods.At(d)), labels...)
			put("nodes_total_daemon_requests", inBaseUnit(d, daemons.At(d)), labels...)
			put("nodes_system_overhead", inBaseUnit(d, max(0, n.Capacity.At(d)-n.Allocatable.At(d))), labels...)
		}
	}
	for i, name := range s.ResourceNames {
		if a := all.At(model.Dim(i)); a > 0 {
			put("cluster_utilization_percent", 100*float64(used.At(model.Dim(i)))/float64(a), name)
		}
	}
}

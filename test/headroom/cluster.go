// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/sim"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// cluster is one workload on nodes that the product's own decision (internal/decide) launches and removes, in virtual
// time and without faults: what is decided is done at once, and a node is Ready boot after its launch. What is held
// beyond demand is a CapacityBuffer as a Headroom writes it, so that demand takes its room at once.
type cluster struct {
	*sim.Cluster
	mem      decide.Memory
	policy   decide.Policy
	workload *sim.Workload
	like     *model.Pod // of the buffer
	err      error      // of what must never happen

	moved                  int
	pending, idle, demands float64 // pod-seconds; idle is room on nodes that are Ready and not needed for demand
}

const (
	podCPU    = 1000
	podMemory = 2 << 30
)

func newCluster(boot, minute int) *cluster {
	c := &cluster{Cluster: sim.New(time.Unix(int64(firstMonday+minute)*60, 0).UTC()), policy: decide.DefaultPolicy()}
	c.Boot, c.Readiness, c.Packs, c.Observe = time.Duration(boot)*time.Minute, 0, true, c.observe
	class := &model.Class{Key: "workload", Namespace: "default", Labels: model.Labels{"app": "workload"}, Scheduler: model.DefaultScheduler,
		Requests: model.Resources{podCPU, podMemory, 0, 1}}
	virtual := *class
	virtual.Key, virtual.Priority = "virtual", model.VirtualPriority
	c.like = &model.Pod{Namespace: "default", Class: &virtual, Expected: true, Buffer: "default/held"}
	c.workload = &sim.Workload{Name: "workload", Class: class, Order: c.fewestFirst}
	c.Workloads = []*sim.Workload{c.workload}
	for _, cpus := range []int64{2, 4, 8, 16, 32} {
		capacity := model.Resources{cpus * podCPU, cpus * podMemory, 0, 110}
		c.Types = append(c.Types, &model.InstanceType{Name: fmt.Sprintf("c%02d", cpus), Labels: model.Labels{model.LabelInstanceType: fmt.Sprintf("c%02d", cpus)},
			Capacity: capacity, Allocatable: capacity,
			Offerings: []model.Offering{{Zone: "a", CapacityType: model.OnDemand, PriceMicro: cpus * 48_000, Available: true, Remaining: -1}}})
	}
	c.SetPool(&model.NodePool{Name: "p", UID: "uid-p", Ready: true, Replicas: -1, NodeLimit: -1, ExpireAfter: -1, TerminationGracePeriod: -1,
		ConsolidationPolicy: "WhenEmptyOrUnderutilized", Budgets: []model.Budget{{Nodes: 100, Percent: true}}, Types: c.Types,
		Labels: model.Labels{}, Requirements: model.NewRequirements(model.OneOf(model.LabelNodePool, "p"))})
	c.Control(c)
	return c
}

// Restart implements sim.Decider.
func (c *cluster) Restart(*state.ResourceTable) { c.mem = decide.Memory{} }

// Decide implements sim.Decider.
func (c *cluster) Decide(now time.Time, s *model.Snapshot, solve bool) ([]plan.Action, time.Time) {
	out, mem := decide.Step(s, c.mem, now, c.policy, decide.Request{Solve: solve})
	c.mem = mem
	return out.Actions, out.Next
}

func (c *cluster) observe(e sim.Event) {
	if _, ok := e.Action.(plan.Evict); ok && e.Kind == sim.Begun {
		c.moved++
	}
	if e.Kind == sim.Violated || e.Kind == sim.Overfilled {
		c.err = errors.Join(c.err, fmt.Errorf("at %s: %s: %s", e.At, e.Object, e.Text))
	}
}

// fewestFirst orders pods as they are deleted: those not running first, then those of the node that has the fewest, the
// youngest first.
func (c *cluster) fewestFirst(a, b *model.Pod) int {
	count := func(p *model.Pod) int {
		if p.Node == "" {
			return 0
		}
		return c.PodCount(p.Node)
	}
	return cmp.Or(cmp.Compare(count(a), count(b)), cmp.Compare(a.Node, b.Node), cmp.Compare(b.Seen, a.Seen))
}

// minute lets demand be so many pods for a minute, with room for the replicas wanted, which are more, and measures it if
// it counts.
func (c *cluster) minute(demand, wanted int, counts bool) error {
	c.workload.Want = demand
	c.SetBuffer(&model.Buffer{Namespace: "default", Name: "held", UID: "uid-held", Created: c.Now, MaxHourMicro: -1, Like: c.like, Replicas: wanted - demand,
		Total: wanted, Workload: model.Workload{Namespace: "default", Kind: "ReplicaSet", Name: "workload"}, Ready: model.Condition{Status: "True", Reason: "Resolved"}})
	err := c.Play(c.Now.Add(time.Minute), func(span time.Duration) bool {
		if counts {
			c.measure(demand, span.Seconds())
		}
		return true
	})
	return errors.Join(err, c.err)
}

// measure adds up what is so for some seconds.
func (c *cluster) measure(demand int, seconds float64) {
	runs, room := 0, 0
	for _, p := range c.Pods {
		if p.Node != "" {
			runs++
		}
	}
	for _, n := range c.Nodes {
		if n.Ready {
			room += int(n.Allocatable.At(model.CPU) / podCPU)
		}
	}
	c.pending += float64(max(0, demand-runs)) * seconds
	c.idle += float64(max(0, room-demand)) * seconds
	c.demands += float64(demand) * seconds
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// TestChangesAreEnough compares kube-scheduler and the DaemonSet controller, which look at what has changed, with ones that look at all pods and
// nodes in each round: they bind, delete and make the same pods.
func TestChangesAreEnough(t *testing.T) {
	bound, preempted, refused := 0, 0, 0
	for seed := range uint64(60) {
		one, other := drawnCluster(seed), drawnCluster(seed)
		r, same := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 1))
		one.Observe = func(e Event) {
			if e.Kind == Preempted {
				preempted++
			}
		}
		for round := range 120 {
			change(one, r)
			change(other, same)
			other.refusals.of = map[*model.Class]map[string]uint64{}
			other.daemons.seen = nil
			one.Happen()
			other.Happen()
			if have, want := podTexts(one), podTexts(other); !slices.Equal(have, want) {
				t.Fatalf("seed %d, round %d: %v, want %v", seed, round, have, want)
			}
			one.Now = one.Now.Add(700 * time.Millisecond)
			other.Now = one.Now
		}
		for _, p := range one.Pods {
			if p.Node != "" {
				bound++
			}
		}
		refused += len(one.refusals.of)
	}
	if bound == 0 || preempted == 0 || refused == 0 {
		t.Errorf("%d pods bound, %d preempted, %d classes refused: nothing was compared", bound, preempted, refused)
	}
}

// podTexts returns what can be seen of a cluster's pods.
func podTexts(c *Cluster) (out []string) {
	for _, p := range byKey(c.Pods) {
		out = append(out, fmt.Sprint(p.Name, " on ", p.Node, p.Nominated, p.Unschedulable, p.Deleting))
	}
	return out
}

// drawnCluster returns a cluster with workloads of several priorities, some of which are spread or keep apart, and two DaemonSets.
func drawnCluster(seed uint64) *Cluster {
	c, r := New(start), rand.New(rand.NewPCG(seed, 0))
	for i := range 6 {
		k := class(fmt.Sprint("app", i), int64(200+r.IntN(5)*300))
		k.Priority, k.Preempts = int32(r.IntN(3)), r.IntN(3) > 0
		q := model.NewRequirements(model.OneOf("app", fmt.Sprint("app", i)))
		switch r.IntN(4) {
		case 0:
			k.Spread = []model.SpreadConstraint{{TopologyKey: model.LabelZone, MaxSkew: 1, Hard: true, Selector: &q}}
		case 1:
			k.AntiAffinity = []model.PodTerm{{TopologyKey: model.LabelHostname, Selector: model.Selector{Namespaces: []string{"default"}, Pods: &q}}}
		}
		c.Workloads = append(c.Workloads, &Workload{Name: fmt.Sprint("app", i), Class: k, Want: r.IntN(6), Grace: time.Second})
	}
	for i := range 2 {
		k := class(fmt.Sprint("daemon", i), 100)
		k.Priority = math.MaxInt32
		c.Daemons = append(c.Daemons, &model.Daemon{Namespace: "default", Name: fmt.Sprint("daemon", i), UID: fmt.Sprint("uid-daemon", i), Class: k})
	}
	c.DaemonLag = time.Duration(r.IntN(3)) * time.Second
	return c
}

// change changes nodes, pods and workloads at random.
func change(c *Cluster, r *rand.Rand) {
	name := fmt.Sprint("n", r.IntN(6))
	n := c.Nodes[name]
	switch k := r.IntN(12); {
	case k < 3 && n == nil:
		node(c, name, int64(500+r.IntN(4)*1000), model.Labels{model.LabelHostname: name, model.LabelZone: []string{"a", "b", "c"}[r.IntN(3)]})
	case k < 1 && n != nil:
		c.DropNode(name)
	case k < 3 && n != nil:
		m := *n
		m.Taints = nil
		if r.IntN(2) == 0 {
			m.Taints = []model.Taint{{Key: "busy", Effect: model.NoSchedule}}
		}
		c.SetNode(&m)
	case k < 6:
		c.Workloads[r.IntN(len(c.Workloads))].Want = r.IntN(7)
	case k < 8 && len(c.Pods) > 0:
		all := byKey(c.Pods)
		c.DeletePod(all[r.IntN(len(all))], time.Duration(r.IntN(3))*time.Second)
	}
}

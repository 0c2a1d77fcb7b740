// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package deletioncosts

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/deletioncost"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// cluster is a Loop, and a Store that takes a while for each write.
type cluster struct {
	snap    *model.Snapshot
	pods    map[string]*model.Pod // by uid
	refuses map[string]error      // by uid of a pod
	tries   map[string]int        // by uid of a pod
	minutes map[int64]map[string]bool
	told    map[string]error // what came of writes, by uid of a pod
	to      *prometheus.Registry
	metrics *Metrics
}

func (c *cluster) WritesTold(_, _ string, answers []plan.WriteAnswer) {
	for _, a := range answers {
		c.told[a.UID] = a.Err
	}
}

func newCluster(nodes int) *cluster {
	c := &cluster{snap: &model.Snapshot{Pools: []*model.NodePool{{Name: "p"}}}, pods: map[string]*model.Pod{}, tries: map[string]int{}, minutes: map[int64]map[string]bool{}, told: map[string]error{}, to: prometheus.NewRegistry()}
	c.metrics = NewMetrics(c.to)
	for i := range nodes {
		n := &model.Node{Name: fmt.Sprintf("n%03d", i), Claim: fmt.Sprint("c", i), Labels: model.Labels{model.LabelNodePool: "p"}}
		for k := range 2 {
			uid := fmt.Sprintf("%s-%d", n.Name, k)
			p := &model.Pod{Namespace: "default", Name: uid, UID: uid, Node: n.Name, Class: &model.Class{}, Owner: model.Owner{Kind: "ReplicaSet", Name: "web", UID: "web"}}
			n.Pods, c.pods[uid] = append(n.Pods, p), p
		}
		c.snap.Nodes, c.snap.Claims = append(c.snap.Nodes, n), append(c.snap.Claims, &model.Claim{Name: n.Claim, Pool: "p"})
	}
	return c
}

func (c *cluster) LastSnapshot() *model.Snapshot { return c.snap }

func (c *cluster) WriteDeletionCost(ctx context.Context, w deletioncost.Write) error {
	p := c.pods[w.UID]
	minute := time.Now().Unix() / 60
	if c.minutes[minute] == nil {
		c.minutes[minute] = map[string]bool{}
	}
	c.minutes[minute][p.Node] = true
	c.tries[w.UID]++
	if err := c.refuses[w.UID]; err != nil {
		return err
	}
	select {
	case <-ctx.Done(): // nobody knows whether it was written
		if len(c.tries)%2 == 0 {
			return ctx.Err()
		}
	case <-time.After(10 * time.Millisecond):
	}
	p.DeletionCost, p.OwnDeletionCost = w.Cost, w.Cost
	return nil
}

// lead has a leader keep costs for a time, and be killed then.
func (c *cluster) lead(t *testing.T, on bool, d time.Duration) {
	ctx, kill := context.WithTimeout(t.Context(), d)
	defer kill()
	(&Keeper{Loop: c, Store: c, On: on, Log: slog.New(slog.DiscardHandler), Metrics: c.metrics}).Run(ctx)
}

// checkBound fails if pods of more nodes were written to in a minute than may be.
func (c *cluster) checkBound(t *testing.T) {
	t.Helper()
	if len(c.minutes) == 0 {
		t.Fatal("nothing was written")
	}
	for at, on := range c.minutes {
		if len(on) > deletioncost.MostNodes {
			t.Errorf("pods of %d nodes were written to in minute %d", len(on), at)
		}
	}
}

// TestLeadersKilled: leaders are killed in the middle of a step, and the next ones finish it: every pod gets its cost, and is written to once more than
// leaders were killed while they wrote to it.
func TestLeadersKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(30)
		for _, d := range []time.Duration{15, 133, 71, 205} {
			c.lead(t, true, d*time.Millisecond)
		}
		c.lead(t, true, 5*time.Minute+time.Second)
		twice := 0
		for uid, p := range c.pods {
			if p.DeletionCost == "" {
				t.Errorf("pod %s has no cost", uid)
			}
			twice += c.tries[uid] - 1
		}
		if twice > 4 {
			t.Errorf("%d writes were repeated after 4 leaders were killed", twice)
		}
	})
}

// TestBoundAndGate: pods of at most 50 nodes are written to in a minute, whether costs are turned on or off. Off, all of ours are removed.
func TestBoundAndGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(120)
		c.pods["n007-0"].DeletionCost = "7" // a user's
		c.lead(t, false, 10*time.Minute-time.Second)
		time.Sleep(time.Second)
		if len(c.tries) > 0 {
			t.Fatalf("the gate is off, and %d pods were written to", len(c.tries))
		}
		c.lead(t, true, 90*time.Second)
		time.Sleep(30 * time.Second) // a minute has one step
		if len(c.tries) > 2*2*deletioncost.MostNodes {
			t.Errorf("%d pods were written to in two steps", len(c.tries))
		}
		c.lead(t, true, 10*time.Minute-time.Second)
		time.Sleep(time.Second)
		with := 0
		for _, p := range c.pods {
			if p.OwnDeletionCost != "" {
				with++
			}
		}
		if with != 238 { // a node with a pod that the cost does not move is not emptied
			t.Errorf("%d pods have a cost of ours, want 238", with)
		}
		c.lead(t, false, 10*time.Minute-time.Second)
		time.Sleep(time.Second)
		for uid, p := range c.pods {
			if want := map[string]string{"n007-0": "7"}[uid]; p.OwnDeletionCost != "" || p.DeletionCost != want {
				t.Errorf("the gate is off, and pod %s has costs %q and %q of ours", uid, p.DeletionCost, p.OwnDeletionCost)
			}
		}
		c.checkBound(t)
	})
}

// series are the values of a metric by that of its label.
func (c *cluster) series(t *testing.T, name string) map[string]int {
	t.Helper()
	families, err := c.to.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				out[m.GetLabel()[0].GetValue()] = int(m.GetCounter().GetValue() + m.GetGauge().GetValue())
			}
		}
	}
	return out
}

// TestRefusedPods: pods that refuse to be written to are asked ever more rarely, and cost others nothing. Metrics count each write.
func TestRefusedPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(120)
		c.refuses = map[string]error{}
		for i := range 60 {
			for k := range 2 {
				c.refuses[fmt.Sprintf("n%03d-%d", i, k)] = []error{plan.ErrInvalid, plan.ErrConflict}[k]
			}
		}
		c.lead(t, true, time.Second)
		if have := c.series(t, "karpenter_pod_deletion_cost_nodes_with_pending_annotation_writes"); len(have) != 1 || have["p"] != deletioncost.MostNodes {
			t.Errorf("in the first step, nodes to write to: %v", have)
		}
		c.lead(t, true, 4*time.Minute)
		for uid, p := range c.pods {
			if c.refuses[uid] == nil && p.DeletionCost == "" {
				t.Errorf("pod %s has no cost after four minutes", uid)
			}
		}
		c.lead(t, true, time.Hour)
		c.checkBound(t)
		for uid := range c.refuses {
			if c.told[uid] != c.refuses[uid] {
				t.Errorf("of pod %s, told is %v", uid, c.told[uid])
			}
			if n := c.tries[uid]; n < 5 || n > 15 {
				t.Errorf("pod %s was asked %d times in an hour", uid, n)
			}
		}
		want := map[string]int{"updated": 120}
		for uid, err := range c.refuses {
			want[map[error]string{plan.ErrInvalid: "error", plan.ErrConflict: "skipped_conflict"}[err]] += c.tries[uid]
		}
		if have := c.series(t, "karpenter_pod_deletion_cost_pod_annotation_writes_total"); !maps.Equal(have, want) {
			t.Errorf("counted are %v, want %v", have, want)
		}
	})
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/sim"
)

// promises compares what pods are told with what the next step does.
type promises struct {
	*world
	looks                      int
	launches, groups, memories int // promises that were kept, of nodes of groups, and while launches were counted
}

// drawPromises draws a world with an adversary, limits, shortages, and a NodePool of node groups beside the others.
func drawPromises(t *rapid.T) *world {
	w := drawAdversary(t)
	groups := []*model.InstanceType{}
	w.Reserved = map[sim.Offered]int{}
	for i, name := range []string{"ga", "gb", "gc"}[:rapid.IntRange(0, 3).Draw(t, "node groups")] {
		of := *w.Types[rapid.IntRange(0, len(w.Types)-1).Draw(t, "its type")]
		of.Name = fmt.Sprint(of.Name, "-", name)
		of.Labels = model.Labels{model.LabelInstanceType: of.Name}
		most := int64(rapid.IntRange(1, 4).Draw(t, "maximum"))
		of.Offerings = []model.Offering{{Zone: []string{"a", "b"}[i%2], CapacityType: model.OnDemand, Available: true, Remaining: most, Most: most,
			Labels: model.Labels{model.LabelNodeGroup: name}, PriceMicro: int64(rapid.IntRange(50, 300).Draw(t, "its price")) * 1000}}
		groups = append(groups, &of)
		w.Reserved[sim.Offered{Type: of.Name, Zone: of.Offerings[0].Zone, CapacityType: model.OnDemand}] = int(most)
	}
	limit := func(p *model.NodePool) {
		switch rapid.IntRange(0, 4).Draw(t, "limit") {
		case 0:
			p.NodeLimit = int64(rapid.IntRange(1, 4).Draw(t, "nodes"))
		case 1:
			p.HasLimit, p.Limits = []bool{true}, model.Resources{int64(rapid.IntRange(2, 24).Draw(t, "cpu")) * 1000}
		}
	}
	for _, p := range slices.Clone(w.NodePools) {
		q := *p
		limit(&q)
		w.SetPool(&q)
	}
	if len(groups) > 0 {
		q := *w.pool()
		q.Name, q.UID, q.Weight = "g", "uid-g", int32(rapid.SampledFrom([]int{0, 0, 10}).Draw(t, "weight of the groups"))
		q.Requirements = model.NewRequirements(model.OneOf(model.LabelNodePool, "g"), *q.Requirements.Get(teamLabel))
		q.Types, q.HasLimit, q.Limits, q.NodeLimit = groups, nil, nil, -1
		limit(&q)
		w.TypesOf = func(pool string) []*model.InstanceType {
			if pool == "g" {
				return groups
			}
			return w.Types
		}
		w.SetPool(&q)
	}
	w.Faults.Odds[sim.NoCapacityLeft] = rapid.SampledFrom([]int{0, 10}).Draw(t, "shortages")
	return w
}

// compare holds that a pod that is told of a node has it launched by the next step, of the offering that is named, and that no node is launched for one that
// is told of something else.
func (pr *promises) compare(said string, snap *model.Snapshot, p *model.Pod, a *plan.Answer, out *Output) {
	var bought *plan.CreateClaim
	for _, d := range out.Pods {
		if d.Pod.UID != p.UID || d.Outcome != plan.OnNew {
			continue
		}
		if _, begun := snap.InFlight[plan.CreateClaim{Name: d.Target}.Key()]; begun {
			return
		}
		for _, x := range out.Actions {
			if c, ok := x.(plan.CreateClaim); ok && d.Target == c.Name {
				bought = &c
			}
		}
	}
	var told *plan.Machine
	for i := range a.Alternatives {
		if x := &a.Alternatives[i]; x.Of == plan.Demand && x.Kind == plan.Buy && len(x.Machines) == 1 {
			told = &x.Machines[0]
		}
	}
	text := func() string { return WhyText(a) }
	switch {
	case told == nil && bought == nil:
	case told == nil:
		pr.fatalf("%s of pod %s tells of no node, and %s/%s/%s is launched:\n%s", said, p.Name, bought.Pool.Name, bought.Type, bought.Zone, text())
	case bought == nil:
		pr.fatalf("%s of pod %s tells of %s/%s/%s, and none is launched for it:\n%s%v", said, p.Name, told.Pool, told.Type, told.Zone, text(), out.Pods)
	case told.Pool != bought.Pool.Name || told.Type != bought.Type || told.Zone != bought.Zone || told.CapacityType != bought.CapacityType:
		pr.fatalf("%s of pod %s tells of %s/%s/%s, and %s/%s/%s is launched:\n%s", said, p.Name, told.Pool, told.Type, told.Zone, bought.Pool.Name, bought.Type, bought.Zone, text())
	default:
		pr.launches++
		if told.Pool == "g" {
			pr.groups++
		}
		if !Stand(snap, pr.mem, pr.Now, pr.pol).st.unused.Bars.IsEmpty() {
			pr.memories++
		}
	}
}

// look asks about pods as the cluster stands, one by one and all at once, and takes the step. It does where that launches something, and at some
// other times.
func (pr *promises) look(snap *model.Snapshot) {
	const most, every = 2, 8 // pods, looks
	if len(snap.Pending) == 0 {
		return
	}
	out, _ := Step(snap, pr.mem, pr.Now, pr.pol, Request{Solve: true})
	launches := slices.ContainsFunc(out.Actions, func(a plan.Action) bool { _, ok := a.(plan.CreateClaim); return ok })
	if pr.looks++; !launches && pr.looks%every != 0 {
		return
	}
	table := Stand(snap, pr.mem, pr.Now, pr.pol).st.pods
	asked := 0
	for _, p := range snap.Pending {
		if table.IsUnseen(p) || asked == most {
			continue // it is answered as if kube-scheduler had refused it
		}
		asked++
		a, err := Why(snap, pr.mem, pr.Now, pr.pol, "pod/"+p.Key())
		if err != nil {
			pr.fatalf("%v", err)
		}
		pr.compare("why", snap, p, &a, &out)
	}
	WhyPending(snap, pr.mem, pr.Now, pr.pol, func(pods []*model.Pod, a plan.Answer) {
		if !table.IsUnseen(pods[0]) {
			pr.compare("why pods", snap, pods[0], &a, &out)
		}
	})
}

// TestPromisedNodesAreLaunched asks why pods wait, in worlds in which launches are unused, NodePools and node groups are at their limits and
// capacity is short: the node that an answer names is the one that the next step launches.
func TestPromisedNodesAreLaunched(t *testing.T) {
	t.Parallel()
	var launches, groups, memories int
	rapid.Check(t, func(t *rapid.T) {
		pr := &promises{world: drawPromises(t)}
		pr.before = pr.look
		for end := epoch.Add(rapid.SampledFrom([]time.Duration{2 * time.Minute, 15 * time.Minute}).Draw(t, "long")); pr.Now.Before(end); {
			pr.Tick()
			step := time.Second
			if pr.Controller.IsQuiet() && !pr.Controller.Next.IsZero() {
				step = max(step, min(pr.Controller.Next.Sub(pr.Now), 20*time.Second))
			}
			pr.Now = pr.Now.Add(step)
		}
		launches, groups, memories = launches+pr.launches, groups+pr.groups, memories+pr.memories
	})
	t.Logf("%d promised nodes were launched, %d of node groups, %d after unused launches", launches, groups, memories)
	if launches == 0 || groups == 0 || memories == 0 {
		untested(t, "%d promised nodes were launched, %d of node groups, %d after unused launches: too little was promised", launches, groups, memories)
	}
}

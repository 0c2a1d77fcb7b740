// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package shares

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// dearPods are n pods of a namespace, each of a class of its own that is about so many units of work.
func dearPods(namespace string, n, work int, created time.Time) (out []*model.Pod) {
	for i := range n {
		c := &model.Class{Namespace: namespace, Key: fmt.Sprintf("%s %04d", namespace, i)}
		for range work / 3 {
			c.HostPorts = append(c.HostPorts, model.HostPort{Port: int32(len(c.HostPorts)), Protocol: "TCP"})
		}
		out = append(out, &model.Pod{Namespace: namespace, Name: fmt.Sprint("p-", i), UID: fmt.Sprint(namespace, i), Class: c, Created: created.Add(time.Duration(i) * time.Second)})
	}
	return out
}

// One namespace's pods use no more than its share while others have demand, and the others are looked at whole; alone
// it has all of the step. What is set aside comes in turn, and nothing of it waits for ever.
func TestWorkShares(t *testing.T) {
	at := time.Unix(1000, 0)
	greedy, modest := dearPods("greedy", 100, 900, at), dearPods("modest", 10, 30, at)
	mem := WorkMemory{}
	share := func(now time.Time, demand []*model.Pod) (kept, aside []string) {
		in := WorkInput{Now: now, StepWork: 20_000}
		k, a, next := Work(in, mem, demand, nil)
		mem = next
		for _, p := range k {
			kept = append(kept, p.UID)
		}
		for _, d := range a {
			if d.Reasons[0].Code == "" {
				t.Errorf("pod %s is set aside without a reason", d.Pod.UID)
			}
			aside = append(aside, d.Pod.UID)
		}
		return kept, aside
	}
	all := slices.Concat(greedy, modest)
	seen := map[string]int{}
	for i := range 8 {
		now := at.Add(time.Duration(i) * time.Hour)
		if i > 0 && (mem.Retry.At.IsZero() || mem.Retry.At.After(now)) {
			t.Fatalf("step %d: pods are set aside and due at %v", i, mem.Retry.At)
		}
		kept, aside := share(now, all)
		if len(kept)+len(aside) != len(all) || len(aside) == 0 {
			t.Fatalf("step %d: %d pods are looked at and %d set aside, of %d", i, len(kept), len(aside), len(all))
		}
		for _, p := range modest {
			if !slices.Contains(kept, p.UID) {
				t.Errorf("step %d: pod %s of the modest namespace is set aside", i, p.UID)
			}
		}
		for _, uid := range kept {
			seen[uid]++
		}
	}
	for _, p := range greedy {
		if seen[p.UID] == 0 {
			t.Errorf("pod %s was never looked at", p.UID)
		}
	}
	if _, aside := share(at, slices.Concat(greedy[:20], modest)); len(aside) > 0 || !mem.Retry.At.IsZero() || mem.looked != nil {
		t.Errorf("what one namespace leaves is not the other's: %d pods are set aside; remembered: %+v", len(aside), mem)
	}
}

// Demand with preferences is solved up to three times, so a step looks at a third as many classes.
func TestWorkOfPreferences(t *testing.T) {
	looked := func(prefer func(*model.Class)) int {
		demand := dearPods("greedy", 100, 900, time.Unix(1000, 0))
		prefer(demand[0].Class)
		in := WorkInput{Now: time.Unix(2000, 0), StepWork: 27_000}
		kept, _, _ := Work(in, WorkMemory{}, demand, nil)
		return len(kept)
	}
	forNodes := func(c *model.Class) { c.Preferred = make([]model.WeightedNodeTerm, 1) }
	aboutPods := func(c *model.Class) { c.PreferredAffinity = make([]model.WeightedPodTerm, 1) }
	for _, c := range []struct {
		name   string
		prefer func(*model.Class)
		want   int
	}{
		{"none", func(*model.Class) {}, 29},
		{"for nodes", forNodes, 14},
		{"about pods", aboutPods, 14},
		{"both", func(c *model.Class) { forNodes(c); aboutPods(c) }, 9},
	} {
		if n := looked(c.prefer); n != c.want {
			t.Errorf("preferences %s: %d pods are looked at, want %d", c.name, n, c.want)
		}
	}
}

// The work of pods that no step affords is not counted to the last one, and the reason says so.
func TestWorkIsCountedAsFarAsAStepAffordsIt(t *testing.T) {
	in := WorkInput{Now: time.Unix(1000, 0), StepWork: 20_000}
	_, aside, _ := Work(in, WorkMemory{}, dearPods("greedy", 1000, 900, time.Unix(1000, 0)), nil)
	if len(aside) == 0 {
		t.Fatal("no pod is set aside")
	}
	if why := plan.DetailOf[plan.OfWorkShare](aside[0].Reasons[0]); !why.More || why.Work <= 20_000 || why.Work > 22_000 {
		t.Errorf("the work is said to be more than %d, want more than about 20,000", why.Work)
	}
}

// A class that is more work than a share is looked at when its namespace's turn has come.
func TestWorkShareOfOneDearClass(t *testing.T) {
	at := time.Unix(1000, 0)
	var all []*model.Pod
	for i := range 10 {
		all = append(all, dearPods(fmt.Sprint("n", i), 2, 15_000, at)...)
	}
	mem, seen := WorkMemory{}, map[string]bool{}
	for i := range 40 {
		in := WorkInput{Now: at.Add(time.Duration(i) * time.Minute), StepWork: 20_000}
		kept, _, next := Work(in, mem, all, nil)
		mem = next
		if len(kept) > 2 {
			t.Fatalf("step %d looks at %d classes of 15,000 units each", i, len(kept))
		}
		for _, p := range kept {
			seen[p.UID] = true
		}
	}
	if len(seen) != len(all) {
		t.Errorf("%d of %d pods were looked at in 40 steps", len(seen), len(all))
	}
}

// A step that leaves a namespace undecided forgets neither whose turn it is there nor when its pods are due.
func TestWorkSharesOfUndecided(t *testing.T) {
	at := time.Unix(1000, 0)
	greedy, modest := dearPods("greedy", 100, 900, at), dearPods("modest", 10, 30, at)
	mem := WorkMemory{}
	share := func(demand, undecided []*model.Pod) {
		in := WorkInput{Now: at, StepWork: 20_000}
		_, _, mem = Work(in, mem, demand, undecided)
	}
	share(slices.Concat(greedy, modest), nil)
	before := mem
	if len(before.looked) == 0 || before.Retry.At.IsZero() {
		t.Fatalf("nothing was set aside: %+v", before)
	}
	share(modest, greedy)
	if !maps.Equal(mem.looked, before.looked) || mem.Retry != before.Retry {
		t.Errorf("after a step without them it is remembered of pods that were set aside: %+v, want %+v", mem, before)
	}
}

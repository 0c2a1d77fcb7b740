// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package shares

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// A tenant asks for thirty resources that nodes have, ten at once and one by one, and for one that no node has; others
// ask for two, for one that the tenant asks for too, or for none. All of the others' pods are looked at in each step,
// and the tenant's in turn.
func TestResourceShares(t *testing.T) {
	const many = 30
	extended := func(i int) model.Dim { return model.FirstExtended + model.Dim(i) }
	offered := model.Resources{1000, 1 << 30, 1 << 30, 10}
	for i := range many + 2 {
		offered = offered.With(extended(i), 8)
	}
	nodes := []solve.ExistingNode{{Name: "n", Free: offered.With(extended(many+1), 0)}}
	pools := []solve.Pool{{NodePool: &model.NodePool{Types: []*model.InstanceType{{Allocatable: offered}}}}}
	pod := func(namespace, name string, resources ...int) *model.Pod {
		c := &model.Class{Namespace: namespace, Key: namespace + " " + name, Requests: model.Resources{1, 1, 0, 1}}
		for _, i := range resources {
			c.Requests = c.Requests.With(extended(i), 1)
		}
		return &model.Pod{Namespace: namespace, Name: name, UID: c.Key, Class: c, Created: time.Unix(100, 0)}
	}
	var tenants []*model.Pod
	for i := range many - 10 {
		tenants = append(tenants, pod("a-tenant", fmt.Sprint("one-", i), i))
	}
	tenants = append(tenants, pod("a-tenant", "ten", 20, 21, 22, 23, 24, 25, 26, 27, 28, 29), pod("a-tenant", "made-up", many+2))
	others := []*model.Pod{pod("science", "train", many, many+1), pod("video", "encode", 29), pod("shop", "web")}

	mem, seen, at := ResourceMemory{}, map[string]int{}, time.Unix(1000, 0)
	step := func(now time.Time, demand []*model.Pod) (kept, aside []string) {
		over, next := Resources(now, mem, nil, demand, nodes, pools)
		mem = next
		k, a := over.Split(demand)
		resources := map[model.Dim]bool{}
		for _, p := range k {
			kept = append(kept, p.Name)
			for d := extended(0); d < extended(many+2) && int(d) < len(p.Class.Requests); d++ {
				if p.Class.Requests[d] > 0 {
					resources[d] = true
				}
			}
		}
		if len(resources) > solve.MostExtendedResources {
			t.Errorf("%d resources are looked at in one step, at most %d are", len(resources), solve.MostExtendedResources)
		}
		for _, d := range a {
			if d.Outcome != plan.Refused || d.Reasons[0].Code != plan.ResourceShare {
				t.Errorf("pod %s is set aside as %+v", d.Pod.UID, d)
			}
			aside = append(aside, d.Pod.Name)
		}
		return kept, aside
	}
	all := slices.Concat(tenants, others)
	for i := range 6 {
		now := at.Add(time.Duration(i) * time.Minute)
		if i > 0 && !mem.Retry.IsDue(now) {
			t.Fatalf("step %d: pods are set aside and due at %v", i, mem.Retry.At)
		}
		kept, aside := step(now, all)
		if len(kept)+len(aside) != len(all) || len(aside) == 0 {
			t.Fatalf("step %d: %d pods are looked at and %d set aside, of %d", i, len(kept), len(aside), len(all))
		}
		for _, name := range []string{"train", "encode", "web", "made-up"} {
			if !slices.Contains(kept, name) {
				t.Errorf("step %d: pod %s is set aside", i, name)
			}
		}
		for _, name := range kept {
			seen[name]++
		}
	}
	for _, p := range all {
		if seen[p.Name] == 0 {
			t.Errorf("pod %s was never looked at", p.Name)
		}
	}
	if kept, aside := step(at, slices.Concat(tenants[many-10:], others[1:])); len(aside) > 0 || mem.looked != nil || !mem.Retry.At.IsZero() || len(kept) != 4 {
		t.Errorf("what others leave is not the tenant's: %v are set aside; remembered: %+v", aside, mem)
	}
}

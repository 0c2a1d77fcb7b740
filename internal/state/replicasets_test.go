// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package state

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// TestMaking: what ReplicaSets have still to make is what counting all pods anew says, whatever came in whichever order,
// and nothing is told of one that has lost a pod and made none since.
func TestMaking(t *testing.T) {
	seen := 0
	rapid.Check(t, func(t *rapid.T) {
		s := New()
		want, quotas, lost := map[string]int{}, map[string]bool{}, map[string]bool{}
		replicas := func() map[string]string { // owners by pod
			out := map[string]string{}
			for key, p := range s.pods.byKey {
				if p.Owner.Kind == "ReplicaSet" && !p.Terminal && p.Deleting.IsZero() {
					out[key] = p.Owner.UID
				}
			}
			return out
		}
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			before := replicas()
			owner := rapid.SampledFrom([]string{"r1", "r2", "r3"}).Draw(t, "owner")
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0, 1:
				n := rapid.IntRange(0, 5).Draw(t, "replicas")
				want[owner] = n
				s.SetReplicas(owner, n)
			case 2:
				key := rapid.SampledFrom([]string{"default/q1", "default/q2", "other/q"}).Draw(t, "quota")
				if quotas[key] {
					delete(quotas, key)
					s.DeleteQuota(key)
				} else {
					quotas[key] = true
					s.SetQuota(key)
				}
			case 3:
				s.DeletePod(fmt.Sprint("default/p", rapid.IntRange(0, 8).Draw(t, "gone")))
			case 4:
				s.Snapshot(at(step))
			default:
				p := pod(fmt.Sprint("p", rapid.IntRange(0, 8).Draw(t, "pod")), "k", rapid.SampledFrom([]string{"", "", "n"}).Draw(t, "node"))
				p.UID = fmt.Sprint(p.Name, "-", rapid.IntRange(0, 1).Draw(t, "life"))
				p.Owner = model.Owner{Kind: rapid.SampledFrom([]string{"ReplicaSet", "ReplicaSet", "Job"}).Draw(t, "kind"), Name: owner, UID: owner}
				p.Created, p.Terminal = at(step), rapid.IntRange(0, 5).Draw(t, "terminal") == 0
				if rapid.IntRange(0, 5).Draw(t, "deleting") == 0 {
					p.Deleting = at(step)
				}
				s.SetPod(p)
			}
			after := replicas()
			for key, owner := range before {
				lost[owner] = lost[owner] || after[key] != owner
			}
			for key, owner := range after {
				lost[owner] = lost[owner] && before[key] == owner
			}
		}
		have := map[string]int{}
		for _, owner := range replicas() {
			have[owner]++
		}
		told := map[string]model.Making{}
		for _, m := range s.Snapshot(at(100)).Making {
			told[m.Like.Owner.UID] = m
		}
		limited := quotas["default/q1"] || quotas["default/q2"]
		for _, owner := range []string{"r1", "r2", "r3"} {
			m, ok := told[owner]
			if limited {
				if ok {
					t.Fatalf("%s has to make pods in a namespace with a quota", owner)
				}
				continue
			}
			if ok && lost[owner] {
				t.Fatalf("%s has lost a pod and made none since, told %d of %d", owner, m.Have, m.Want)
			}
			if ok && (m.Have != have[owner] || m.Want != want[owner] || m.Have >= m.Want) {
				t.Fatalf("%s has %d of %d pods, told %d of %d", owner, have[owner], want[owner], m.Have, m.Want)
			}
			if !ok && !lost[owner] && have[owner] > 0 && have[owner] < want[owner] {
				t.Fatalf("%s has %d of %d pods, and nothing is told", owner, have[owner], want[owner])
			}
			if ok {
				seen++
			}
		}
	})
	if seen == 0 {
		t.Error("no ReplicaSet had pods to make")
	}
}

// TestForeseen: a pod of a ReplicaSet is no surprise when one like it was refused and more were known to come, where they may, and nothing has
// changed since that nobody looked at.
func TestForeseen(t *testing.T) {
	made := func(name string, second int, change func(*model.Pod)) *model.Pod {
		p := pod(name, "k", "")
		p.Owner, p.Created, p.Unschedulable = model.Owner{Kind: "ReplicaSet", Name: "r", UID: "r"}, at(second), at(second)
		change(p)
		return p
	}
	as := func(*model.Pod) {}
	nothing := func(*State) {}
	for name, c := range map[string]struct {
		first  func(*model.Pod)
		before func(*State)
		at     int // second
		second func(*model.Pod)
		want   bool
	}{
		"as it is":                   {as, nothing, 1, as, true},
		"before anything is refused": {func(p *model.Pod) { p.Unschedulable = time.Time{} }, nothing, 1, as, false},
		"of another class":           {as, nothing, 1, func(p *model.Pod) { p.Class = class("other") }, false},
		"of another ReplicaSet":      {as, nothing, 1, func(p *model.Pod) { p.Owner.UID = "r2" }, false},
		"of a Job":                   {as, nothing, 1, func(p *model.Pod) { p.Owner.Kind = "Job" }, false},
		"with a gate":                {as, nothing, 1, func(p *model.Pod) { p.Gated = true }, false},
		"after a while":              {as, nothing, 30, as, false},
		"the last":                   {as, func(s *State) { s.SetReplicas("r", 2) }, 1, as, false}, // it is short of none then, and nobody waits for more
		"of one that makes none":     {as, func(s *State) { s.SetReplicas("r", 0) }, 1, as, false},
		"of one that made none":      {as, func(s *State) { s.SetReplicas("r", 0); s.SetReplicas("r", 5) }, 1, as, false},
		"of fewer":                   {as, func(s *State) { s.SetReplicas("r", 4) }, 1, as, true},
		"of more":                    {as, func(s *State) { s.SetReplicas("r", 6) }, 1, as, false},
		"made again": {as, func(s *State) {
			s.SetPod(made("c", 0, as))
			s.DeletePod("default/c")
		}, 1, as, false},
		"with a quota": {as, func(s *State) { s.SetQuota("default/q") }, 1, as, false},
		"with a quota that is gone": {as, func(s *State) {
			s.SetQuota("default/q")
			s.SetQuota("default/q")
			s.DeleteQuota("default/q")
			s.DeleteQuota("default/q")
		}, 1, as, true},
		"with a quota elsewhere": {as, func(s *State) { s.SetQuota("other/q") }, 1, as, true},
		"of too many": {as, func(s *State) {
			s.SetReplicas("big", model.MostExpected)
			s.SetPod(made("big", 0, func(p *model.Pod) { p.Owner.UID = "big" }))
		}, 1, as, false},
	} {
		s := fresh()
		s.SetReplicas("r", 5)
		s.SetPod(made("a", 0, c.first))
		c.before(s)
		s.TakeDemandChanges()
		second := made("b", c.at, c.second)
		s.SetPod(second)
		unforeseen, changed := s.TakeDemandChanges()[second.Namespace]
		if got := !unforeseen; got != c.want {
			t.Errorf("%s: foreseen %v, want %v", name, got, c.want)
		}
		if !changed {
			t.Errorf("%s: no demand", name)
		}
	}
}

// TestFailing: which pods can't be created is listed by namespace and name, anew at the first Snapshot after changes, however many there were; a
// change by itself makes no list.
func TestFailing(t *testing.T) {
	const n = 2_000
	s := New()
	of := func(i, missing int) *model.FailingReplicas {
		return &model.FailingReplicas{Namespace: fmt.Sprint("n", i%7), ReplicaSet: fmt.Sprint("r", i), Missing: missing}
	}
	compared := 0
	compare := s.replicaSets.failing.compare
	s.replicaSets.failing.compare = func(a, b *model.FailingReplicas) int { compared++; return compare(a, b) }
	for i := range n {
		s.SetFailingReplicas(fmt.Sprint(i), of(i, 1))
	}
	s.SetFailingReplicas("0", nil)
	if compared > 0 {
		t.Errorf("%d changes compared ReplicaSets %d times before anybody asked", n+1, compared)
	}
	list := s.Snapshot(at(1)).Failing
	if len(list) != n-1 || !slices.IsSortedFunc(list, compare) {
		t.Fatalf("%d are listed, want %d by namespace and name", len(list), n-1)
	}
	compared = 0
	if again := s.Snapshot(at(2)).Failing; compared > 0 || &again[0] != &list[0] {
		t.Error("a Snapshot after no change made another list")
	}
	changed := of(7, 2)
	if allocs := testing.AllocsPerRun(10, func() { s.SetFailingReplicas("7", changed) }); allocs > 0 {
		t.Errorf("a change allocates %v times, want none", allocs)
	}
	i := slices.IndexFunc(s.Snapshot(at(3)).Failing, func(f *model.FailingReplicas) bool { return f == changed })
	if i < 0 || list[i].ReplicaSet != changed.ReplicaSet || list[i].Missing != 1 {
		t.Errorf("a change is listed at %d, want it where it was, and the earlier Snapshot left as it was", i)
	}
	for i := range n {
		s.SetFailingReplicas(fmt.Sprint(i), nil)
	}
	if left := s.Snapshot(at(4)).Failing; len(left) > 0 {
		t.Errorf("%d are listed once none fails", len(left))
	}
}

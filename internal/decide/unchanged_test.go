// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// passedOver counts the nodes that decisions of tests have passed over because nothing about them had changed.
var passedOver atomic.Int64

// stepTwice decides with what the step before has found still, and again with everything astir: both must come to the same plan and remember the
// same. All tests that decide step by step do it so.
func stepTwice(s *model.Snapshot, mem Memory, now time.Time, pol Policy, req Request, fatalf func(string, ...any)) (Output, Memory) {
	forgetful := mem
	forgetful.unchanged = nil
	out, next := Step(s, mem, now, pol, req)
	want, other := Step(s, forgetful, now, pol, req)
	if mem.unchanged != nil {
		for _, x := range next.unchanged.state {
			if x != dirty {
				passedOver.Add(1)
			}
		}
	}
	if d := difference("plan", reflect.ValueOf(out), reflect.ValueOf(want), 0); d != "" {
		fatalf("what is kept of the step before changes the plan: %s\n%swant\n%s", d, actions(out), actions(want))
	}
	a, b := next, other
	a.unchanged, b.unchanged = nil, nil
	if d := difference("memory", reflect.ValueOf(a), reflect.ValueOf(b), 0); d != "" {
		fatalf("what is kept of the step before changes the memory: %s", d)
	}
	if d := difference("kept", reflect.ValueOf(*next.unchanged), reflect.ValueOf(*other.unchanged), 0); d != "" {
		fatalf("what is kept is not what is found: %s", d)
	}
	return out, next
}

// difference says where two values are different in content; empty: nowhere.
func difference(at string, a, b reflect.Value, depth int) string {
	if !a.IsValid() || !b.IsValid() {
		if a.IsValid() != b.IsValid() {
			return fmt.Sprintf("%s: %v, want %v", at, a, b)
		}
		return ""
	}
	if a.Type() != b.Type() {
		return fmt.Sprintf("%s: a %s, want a %s", at, a.Type(), b.Type())
	}
	if depth > 40 {
		return ""
	}
	switch a.Kind() {
	case reflect.Pointer, reflect.Interface:
		if a.IsNil() || b.IsNil() {
			if a.IsNil() != b.IsNil() {
				return fmt.Sprintf("%s: nil %t, want %t", at, a.IsNil(), b.IsNil())
			}
			return ""
		}
		if a.Kind() == reflect.Pointer && a.Pointer() == b.Pointer() {
			return ""
		}
		return difference(at, a.Elem(), b.Elem(), depth+1)
	case reflect.Struct:
		for i := range a.NumField() {
			if d := difference(at+"."+a.Type().Field(i).Name, a.Field(i), b.Field(i), depth+1); d != "" {
				return d
			}
		}
	case reflect.Slice, reflect.Array:
		if a.Len() != b.Len() {
			return fmt.Sprintf("%s: %d of them, want %d", at, a.Len(), b.Len())
		}
		for i := range a.Len() {
			if d := difference(fmt.Sprintf("%s[%d]", at, i), a.Index(i), b.Index(i), depth+1); d != "" {
				return d
			}
		}
	case reflect.Map:
		if a.Len() != b.Len() {
			return fmt.Sprintf("%s: %d keys, want %d", at, a.Len(), b.Len())
		}
		for _, k := range a.MapKeys() {
			y := b.MapIndex(k)
			if !y.IsValid() {
				return fmt.Sprintf("%s: key %v, which is not wanted", at, k)
			}
			if d := difference(fmt.Sprintf("%s[%v]", at, k), a.MapIndex(k), y, depth+1); d != "" {
				return d
			}
		}
	case reflect.Func:
	default:
		if !a.Equal(b) {
			return fmt.Sprintf("%s: %v, want %v", at, a, b)
		}
	}
	return ""
}

// TestKeptDecidesTheSame lets everything go wrong, as other tests do, with several pools of properties: whatever changes, a step that remembers
// what was still decides as one that does not.
func TestKeptDecidesTheSame(t *testing.T) {
	passedOver.Store(0)
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, true)
		w.sickly = rapid.IntRange(0, 2).Draw(t, "kubelets die") == 0
		w.pool().Hash = "one"
		w.pool().ConsolidateAfter = time.Duration(rapid.SampledFrom([]int{-1, 0, 5, 20}).Draw(t, "consolidateAfter")) * time.Second
		w.pool().ConsolidationPolicy = rapid.SampledFrom([]string{"WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced"}).Draw(t, "policy")
		if rapid.IntRange(0, 2).Draw(t, "expires") == 0 {
			w.pool().ExpireAfter = time.Minute
		}
		w.SetPool(w.pool())
		for range rapid.IntRange(20, 120).Draw(t, "ticks") {
			if w.Faults.Odds = nil; rapid.IntRange(0, 2).Draw(t, "wild") == 0 {
				w.wild()
			}
			switch rapid.IntRange(0, 29).Draw(t, "somebody") {
			case 25:
				p := *w.pool()
				p.Hash += "+"
				w.SetPool(&p)
				w.say("the pool's template is another")
			case 26:
				p := *w.pool()
				p.Limits, p.HasLimit = model.Resources{rapid.SampledFrom([]int64{200_000, 400_000}).Draw(t, "limit")}, []bool{true}
				w.SetPool(&p)
				w.say("the pool's limit is %d", p.Limits[0])
			case 27:
				reasons := map[string]string{}
				for _, k := range slices.Sorted(maps.Keys(w.Claims)) {
					reasons[w.Claims[k].UID] = rapid.SampledFrom([]string{"", "", "ImageDrift"}).Draw(t, "drift")
				}
				w.st().SetDrift(reasons)
				w.say("the provider says what has drifted")
			case 28:
				l := rapid.SampledFrom(w.Workloads).Draw(t, "workload")
				l.Want = rapid.IntRange(0, 8).Draw(t, "replicas")
				w.say("%s is scaled to %d", l.Name, l.Want)
			case 29:
				n := &model.Node{Name: fmt.Sprint("stranger", rapid.IntRange(0, 2).Draw(t, "which")), UID: "uid-s", Created: w.Now, Ready: true, Allocatable: w.Types[0].Allocatable,
					Labels: model.Labels{model.LabelZone: "a"}}
				if rapid.Bool().Draw(t, "is there") {
					w.st().SetNode(n, uint64(len(w.history)))
				} else {
					w.st().DeleteNode(n.Name)
				}
			}
			w.Tick()
			w.pause(50, 200, 1000, 5000, 60000)
		}
	})
	if passedOver.Load() == 0 {
		t.Fatal("no node was ever passed over: nothing was tested")
	}
	t.Logf("%d nodes were passed over", passedOver.Load())
}

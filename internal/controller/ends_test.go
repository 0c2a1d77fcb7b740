// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// classed plays a test with a cloud that makes things for node classes. The class is as the API server would have it.
func classed(t *testing.T, play func(t *testing.T, b *bench, change func(func(*state.NodeClass)))) {
	t.Helper()
	run(t, func(t *testing.T, b *bench) {
		k := state.NodeClass{Group: "g", Kind: "K", Name: "c", UID: "class", Generation: 1, Version: 1, Conditions: map[string]model.Condition{}}
		change := func(do func(*state.NodeClass)) {
			b.c.Emit(func(s *state.State) {
				if s.Pools.FindNodeClass("g", "K", "c") == nil {
					return
				}
				do(&k)
				k.Version++
				next := k
				s.Pools.SetNodeClass(next)
			})
		}
		b.endClass = func() error { return nil }
		b.updateClass = func(a plan.UpdateNodeClass) error {
			go func() {
				if a.RemoveFinalizer {
					b.c.Emit(func(s *state.State) { s.Pools.DeleteNodeClass("g", "K", "c") })
					return
				}
				change(func(k *state.NodeClass) {
					k.HasFinalizer = k.HasFinalizer || a.AddFinalizer
					conditions := map[string]model.Condition{}
					for of, c := range k.Conditions {
						conditions[of] = c
					}
					for of, c := range a.Conditions {
						conditions[of] = c
					}
					k.Conditions = conditions
				})
			}()
			return nil
		}
		play(t, b, change)
	})
}

// order is what was done about node classes and what was asked of the cloud for them, in order, each once in a row.
func (b *bench) order() []string {
	var out []string
	for _, m := range append(b.made("class"), append(b.made0("end"), b.made0("asked")...)...) {
		out = append(out, fmt.Sprintf("%012d %s %s", m.after.Microseconds(), m.kind, m.what))
	}
	slices.Sort(out)
	for i := range out {
		_, out[i], _ = strings.Cut(out[i], " ")
	}
	return slices.Compact(out)
}

// A node class bears the finalizer before anything is made for it.
func TestClassBearsFinalizerFirst(t *testing.T) {
	classed(t, func(t *testing.T, b *bench, _ func(func(*state.NodeClass))) {
		b.offerings = func() ([]*model.InstanceType, error) {
			b.note("asked", "offerings")
			return catalogue, nil
		}
		b.c.MarkSynced()
		b.c.StartActing()
		b.pod("a", "a")
		time.Sleep(10 * time.Second)
		if have := b.order(); len(have) < 2 || have[0] != "class +finalizer class" || have[1] != "asked offerings" {
			t.Errorf("it went %q", have)
		}
		if n := len(b.made("launch")); n != 1 {
			t.Errorf("%d launches, want one", n)
		}
	})
}

// Where the finalizer may not be written, machines are bought all the same.
func TestClassFinalizerRefused(t *testing.T) {
	classed(t, func(t *testing.T, b *bench, _ func(func(*state.NodeClass))) {
		b.updateClass = func(plan.UpdateNodeClass) error { return fmt.Errorf("%w: forbidden", plan.ErrInvalid) }
		b.c.MarkSynced()
		b.c.StartActing()
		b.pod("a", "a")
		time.Sleep(10 * time.Second)
		if n := len(b.made("launch")); n != 1 {
			t.Errorf("%d launches, want one", n)
		}
	})
}

// A node class that is being deleted waits for the claims that use it, which is told; then what was made for it goes, and then it does.
func TestClassWaitsForClaims(t *testing.T) {
	classed(t, func(t *testing.T, b *bench, change func(func(*state.NodeClass))) {
		b.lead()
		b.pod("a", "a")
		time.Sleep(10 * time.Second)
		claims := subjects(b.made("launch"))
		if len(claims) != 1 {
			t.Fatalf("launched %v, want one claim", claims)
		}
		change(func(k *state.NodeClass) { k.Deleting = time.Now() })
		for i := range 5 { // more than the machine holds
			b.pod(fmt.Sprint("b", i), "b")
		}
		time.Sleep(time.Minute)
		if n := len(b.made("end")); n != 0 {
			t.Errorf("it was ended %d times while a claim used it", n)
		}
		if n := len(b.made("launch")); n != 1 {
			t.Errorf("%d launches: one was for a class that is being deleted", n-1)
		}
		told := b.made("class")
		if last := told[len(told)-1].what; !strings.Contains(last, "False WaitingOnNodeClaimTermination") || !strings.Contains(last, claims[0]) {
			t.Errorf("its status says %q, want %s", last, claims[0])
		}
		said := false
		for _, m := range b.made("event") {
			said = said || strings.HasPrefix(m.what, "K c WaitingOnNodeClaimTermination: ") && strings.Contains(m.what, claims[0])
		}
		if !said {
			t.Errorf("no event says so: %v", b.made("event"))
		}
		b.c.Emit(func(s *state.State) { s.DeleteClaim(claims[0]) })
		time.Sleep(time.Minute)
		have := b.order()
		if n := len(have); n < 2 || have[n-2] != "end c" || have[n-1] != "class -finalizer class" || len(b.made("end")) != 1 {
			t.Errorf("it went %q", have)
		}
	})
}

// What can't be taken away is told in the status, the finalizer stays, and it is tried again, ever more seldom.
func TestClassEndDenied(t *testing.T) {
	classed(t, func(t *testing.T, b *bench, change func(func(*state.NodeClass))) {
		err := error(&cloud.Error{Kind: cloud.Denied, Op: "end", Object: "c", Err: errors.New("DeleteThing: not allowed")})
		b.endClass = func() error {
			b.mu.Lock()
			defer b.mu.Unlock()
			return err
		}
		steps, was := 0, b.c.decider
		b.c.decider = func(s *model.Snapshot, m decide.Memory, now time.Time, p decide.Policy, r decide.Request) (decide.Output, decide.Memory) {
			steps++
			return was(s, m, now, p, r)
		}
		b.lead()
		change(func(k *state.NodeClass) { k.Deleting = time.Now() })
		time.Sleep(10 * time.Minute)
		if b.made("end"); steps > 3000 {
			t.Errorf("the loop has gone round %d times in ten minutes in which there was nothing to do", steps)
		}
		if n := len(b.made("end")); n < 5 || n > 20 {
			t.Errorf("tried %d times in ten minutes", n)
		}
		told := b.made("class")
		if len(told) != 1 || !strings.HasPrefix(told[0].what, "False AccessDenied: ") || !strings.Contains(told[0].what, "DeleteThing") {
			t.Errorf("its status was written so: %v", told)
		}
		b.mu.Lock()
		err = nil
		b.mu.Unlock()
		time.Sleep(2 * time.Minute)
		if have := b.order(); have[len(have)-1] != "class -finalizer class" {
			t.Errorf("it went %q", have)
		}
	})
}

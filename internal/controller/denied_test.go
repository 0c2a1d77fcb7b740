// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// Each write that the API server refuses is told on its object, in the words of who refuses it, and so is that it is let through again. Writes
// are found by reflection; TestDenied has the API server refuse each.
func TestDeniedWritesAreTold(t *testing.T) {
	const said = `ValidatingAdmissionPolicy 'frozen' with binding 'frozen' denied request: no changes today`
	run(t, func(t *testing.T, b *bench) {
		var writes []plan.Action
		cluster := reflect.TypeFor[Cluster]()
		for i := range cluster.NumMethod() {
			m := cluster.Method(i).Type
			if m.NumIn() != 2 || m.NumOut() != 2 || m.Out(0).Kind() != reflect.Uint64 || m.In(1) == reflect.TypeFor[plan.CreateClaim]() { // told by recorder.Unmade
				continue
			}
			v := reflect.New(m.In(1)).Elem()
			for j := range v.NumField() {
				if f := v.Field(j); f.Kind() == reflect.String {
					f.SetString("x")
				}
			}
			writes = append(writes, v.Interface().(plan.Action))
		}
		answer := func(err func(plan.Action) error) (out []string) {
			before := len(b.made("event"))
			b.c.Emit(func(*state.State) {
				for _, w := range writes {
					b.c.noteDenial(time.Now(), w, err(w))
				}
			})
			time.Sleep(time.Second)
			for _, e := range b.made("event")[before:] {
				out = append(out, e.what)
			}
			return out
		}
		refused := answer(func(a plan.Action) error {
			cause := errors.New(`things "x" is forbidden: ` + said)
			if _, is := a.(plan.Evict); is {
				return fmt.Errorf("evict pod %q: %w", "x", &plan.EvictionDenied{Err: cause})
			}
			return fmt.Errorf("write thing %q: %w: %w", "x", plan.ErrInvalid, cause)
		})
		if len(refused) != len(writes) || len(writes) < 15 {
			t.Errorf("%d of %d refused writes were told:\n%s", len(refused), len(writes), strings.Join(refused, "\n"))
		}
		for _, e := range refused {
			if !strings.Contains(e, " x WriteDenied: The API server does not let Dovetail ") || !strings.HasSuffix(e, ": "+said) {
				t.Errorf("told is %q", e)
			}
		}
		if told := answer(func(plan.Action) error { return plan.ErrConflict }); len(told) > 0 {
			t.Errorf("a conflict is told: %v", told)
		}
		accepted := answer(func(plan.Action) error { return nil })
		if len(accepted) != len(writes) || slices.ContainsFunc(accepted, func(e string) bool { return !strings.Contains(e, " x WriteAccepted: ") }) {
			t.Errorf("of writes that are let through again, told is %v", accepted)
		}
		if again := answer(func(plan.Action) error { return nil }); len(again) > 0 || len(b.c.denied) > 0 {
			t.Errorf("told once more: %v; remembered are %d", again, len(b.c.denied))
		}
	})
}

// TestDeniedWritesAreForgotten has more writes refused than are remembered: those that are not repeated are forgotten.
func TestDeniedWritesAreForgotten(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.c.Emit(func(*state.State) {
			for i := range mostDenied + 1 {
				at := time.Now()
				if i < mostDenied {
					at = at.Add(-3 * refusedPause)
				}
				b.c.noteDenial(at, plan.DeleteNode{Node: fmt.Sprint("n", i), UID: fmt.Sprint(i)}, plan.ErrInvalid)
			}
			if _, last := b.c.denied[model.ActionKey(plan.DeleteNode{Node: "n", UID: fmt.Sprint(mostDenied)}.Key())]; len(b.c.denied) != 1 || !last {
				t.Errorf("%d are remembered", len(b.c.denied))
			}
		})
		time.Sleep(time.Second)
	})
}

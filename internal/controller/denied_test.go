// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/controller/metrics"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// refuser is a Cluster that answers each write but the creation of claims, whose refusals record.Recorder.Unmade tells, with an error, and keeps events.
type refuser struct {
	Cluster
	answer func(plan.Action) error
	events []string
}

func (r *refuser) Event(kind, _, name, _ string, _ bool, reason, message string) {
	r.events = append(r.events, kind+" "+name+" "+reason+": "+message)
}

func (r *refuser) DeleteClaim(_ context.Context, a plan.DeleteClaim) (uint64, error) {
	return 0, r.answer(a)
}
func (r *refuser) UpdateClaim(_ context.Context, a plan.UpdateClaim) (uint64, error) {
	return 0, r.answer(a)
}
func (r *refuser) UpdateNode(_ context.Context, a plan.UpdateNode) (uint64, error) {
	return 0, r.answer(a)
}
func (r *refuser) DeleteNode(_ context.Context, a plan.DeleteNode) (uint64, error) {
	return 0, r.answer(a)
}
func (r *refuser) Bind(_ context.Context, a plan.Bind) (uint64, error)         { return 0, r.answer(a) }
func (r *refuser) Tolerate(_ context.Context, a plan.Tolerate) (uint64, error) { return 0, r.answer(a) }
func (r *refuser) Evict(_ context.Context, a plan.Evict) (uint64, error)       { return 0, r.answer(a) }
func (r *refuser) Restart(_ context.Context, a plan.Restart) (uint64, error)   { return 0, r.answer(a) }
func (r *refuser) DeletePod(_ context.Context, a plan.DeletePod) (uint64, error) {
	return 0, r.answer(a)
}
func (r *refuser) UpdatePool(_ context.Context, a plan.UpdatePool) (uint64, error) {
	return 0, r.answer(a)
}
func (r *refuser) UpdateNodeClass(_ context.Context, a plan.UpdateNodeClass) (uint64, error) {
	return 0, r.answer(a)
}
func (r *refuser) UpdateNodeOverlay(_ context.Context, a plan.UpdateNodeOverlay) (uint64, error) {
	return 0, r.answer(a)
}
func (r *refuser) UpdateBuffer(_ context.Context, a plan.UpdateBuffer) (uint64, error) {
	return 0, r.answer(a)
}
func (r *refuser) UpdateRequest(_ context.Context, a plan.UpdateRequest) (uint64, error) {
	return 0, r.answer(a)
}
func (r *refuser) UpdateQuota(_ context.Context, a plan.UpdateQuota) (uint64, error) {
	return 0, r.answer(a)
}

// TestDeniedWritesAreTold has each write that a Cluster can make refused, and let through again: it is told on its object, in the words of who refuses it. Writes are
// found by reflection; TestDenied has the API server refuse each.
func TestDeniedWritesAreTold(t *testing.T) {
	const said = `ValidatingAdmissionPolicy 'frozen' with binding 'frozen' denied request: no changes today`
	r := &refuser{}
	c := newToldCluster(r)
	writes := 0
	answer := func(err func(plan.Action) error) []string {
		r.answer, r.events, writes = err, nil, 0
		of := reflect.TypeFor[Cluster]()
		for i := range of.NumMethod() {
			m := of.Method(i)
			if m.Type.NumIn() != 2 || m.Type.NumOut() != 2 || m.Type.Out(0).Kind() != reflect.Uint64 || m.Type.In(1) == reflect.TypeFor[plan.CreateClaim]() {
				continue
			}
			a := reflect.New(m.Type.In(1)).Elem()
			for j := range a.NumField() {
				if f := a.Field(j); f.Kind() == reflect.String {
					f.SetString("x")
				}
			}
			writes++
			reflect.ValueOf(c).MethodByName(m.Name).Call([]reflect.Value{reflect.ValueOf(t.Context()), a})
		}
		return r.events
	}
	refused := answer(func(a plan.Action) error {
		cause := errors.New(`things "x" is forbidden: ` + said)
		if _, is := a.(plan.Evict); is {
			return fmt.Errorf("evict pod %q: %w", "x", &plan.EvictionDenied{Err: cause})
		}
		return fmt.Errorf("write thing %q: %w: %w", "x", plan.ErrInvalid, cause)
	})
	if len(refused) != writes || writes < 15 {
		t.Errorf("%d of %d refused writes were told:\n%s", len(refused), writes, strings.Join(refused, "\n"))
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
	if len(accepted) != writes {
		t.Errorf("of writes that are let through again, told is %v", accepted)
	}
	for i, e := range accepted {
		_, denied, _ := strings.Cut(refused[i], ": ")
		_, text, is := strings.Cut(e, " x WriteAccepted: ")
		if what := plan.WriteOf(text); !is || what == "" || what != plan.WriteOf(denied) {
			t.Errorf("that %q is over is told as %q", denied, e)
		}
	}
	if again := answer(func(plan.Action) error { return nil }); len(again) > 0 || len(c.denials.at) > 0 {
		t.Errorf("told once more: %v; remembered are %d", again, len(c.denials.at))
	}
}

// TestEveryWriteIsTold: whatever writes holds the Cluster that tells of refused writes, and no part of the loop the one within.
func TestEveryWriteIsTold(t *testing.T) {
	c := New(&Controller{Cluster: &refuser{}, Provider: cloud.NewSetAside(nil, cloud.Wall{}, cloud.SetAsideFor), State: state.New(), Ledger: ledger.New(10),
		Metrics: metrics.New(prometheus.NewRegistry(), "test", cloud.Traits{}), Log: slog.New(slog.DiscardHandler), Config: DefaultConfig(), Policy: decide.DefaultPolicy()})
	var held []string
	findType(reflect.ValueOf(c), reflect.TypeFor[*refuser](), "Controller", map[uintptr]bool{}, &held)
	if want := []string{"Controller.Cluster.Cluster", "Controller.Cluster.denials.events"}; !slices.Equal(held, want) {
		t.Errorf("the Cluster is held by %q, want %q", held, want)
	}
}

// TestDeniedOutsideActions has writes refused that are no actions of a plan: what the launch of a machine writes into its claim, a notice of an interruption, the note of
// a reboot. Each is told.
func TestDeniedOutsideActions(t *testing.T) {
	refused := fmt.Errorf("update nodeclaim: %w: no changes today", plan.ErrInvalid)
	denied := func(b *bench) (out []string) {
		for _, e := range b.made("event") {
			if strings.Contains(e.what, plan.EventWriteDenied) {
				out = append(out, e.what)
			}
		}
		return out
	}
	for name, test := range map[string]struct {
		is  func(plan.UpdateClaim) bool
		has func(b *bench)
	}{
		"launch": {func(a plan.UpdateClaim) bool { return a.ProviderID != "" }, func(b *bench) { b.pod("a", "") }},
		"notice": {func(a plan.UpdateClaim) bool { return a.Annotations[cluster.AnnotationInterrupted] != "" }, func(b *bench) {
			b.notices <- cloud.Interruption{ProviderID: "m-old-00", Kind: cloud.SpotInterruption, At: time.Now().Add(time.Minute), Sent: time.Now()}
		}},
		"reboot": {func(a plan.UpdateClaim) bool { return a.Given[model.AnnotationBootID] != "" }, func(b *bench) {
			b.c.Emit(func(*state.State) {
				b.c.beginAction(b.c.base, time.Now(), plan.Reboot{Claim: "old-00", UID: "uid-old-00", ProviderID: "m-old-00", Node: "old-00", BootID: "boot-1",
					Note: plan.UpdateClaim{Claim: "old-00", UID: "uid-old-00", Given: map[string]string{model.AnnotationBootID: "boot-1"}}})
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, b *bench) {
				if name != "launch" { // for whose pod there is no room
					b.stand(1)
				}
				b.reboot = func() error { return nil }
				b.lead()
				var over atomic.Bool
				b.updateClaim = func(a plan.UpdateClaim) error {
					if test.is(a) && !over.Load() {
						return refused
					}
					return nil
				}
				test.has(b)
				time.Sleep(20 * time.Second)
				if told := denied(b); len(told) == 0 {
					t.Errorf("a refused write is not told; events: %v", b.made("event"))
				}
				over.Store(true)
				time.Sleep(time.Minute)
			})
		})
	}
}

// TestDeniedWritesAreForgotten has more writes refused than are remembered: those that are not repeated are forgotten, and they are looked for ever more rarely while there are none.
func TestDeniedWritesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &denials{events: &refuser{}}
		deny := func(n int) {
			d.note(model.ActionKey(fmt.Sprint(n)), written{"delete", "Node", "", fmt.Sprint("n", n), ""}, plan.ErrInvalid)
		}
		for i := range 3 * mostDenied {
			deny(i)
		}
		if len(d.at) != 3*mostDenied || d.sweepAt < 2*mostDenied {
			t.Errorf("%d are remembered, and looked through at %d", len(d.at), d.sweepAt)
		}
		time.Sleep(3 * refusedPause)
		for i := range 2 * mostDenied {
			deny(-1 - i)
		}
		if len(d.at) > 4*mostDenied {
			t.Errorf("%d are remembered", len(d.at))
		}
	})
}

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
	"github.com/dovetail-sh/dovetail/internal/controller/deletioncosts"
	"github.com/dovetail-sh/dovetail/internal/controller/metrics"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/deletioncost"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// refuser is a Cluster that answers each write but the creation of claims, whose refusals record.Recorder.Unmade tells, with an error, and keeps events.
type refuser struct {
	Cluster
	answer  func(plan.Action) error
	events  []string
	reports []plan.WriteReport
}

func (r *refuser) Event(kind, _, name, _ string, _ bool, reason, message string) {
	r.events = append(r.events, kind+" "+name+" "+reason+": "+message)
}

func (r *refuser) WriteReported(kind, _, name, _ string, w plan.WriteReport) {
	r.reports = append(r.reports, w)
	r.Event(kind, "", name, "", w.Refusal != "", w.Reason(), w.Text())
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
		r.answer, r.events, r.reports, writes = err, nil, nil, 0
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
	denied := r.reports
	if told := answer(func(plan.Action) error { return plan.ErrConflict }); len(told) > 0 {
		t.Errorf("a conflict is told: %v", told)
	}
	accepted := answer(func(plan.Action) error { return nil })
	if len(accepted) != writes {
		t.Errorf("of writes that are let through again, told is %v", accepted)
	}
	for i, e := range accepted {
		if is := r.reports[i]; !strings.Contains(e, " x WriteAccepted: ") || is.Write == "" || is.Write != denied[i].Write {
			t.Errorf("that %q is over is told as %q", refused[i], e)
		}
	}
	if again := answer(func(plan.Action) error { return nil }); len(again) > 0 || len(c.denials.at) > 0 {
		t.Errorf("told once more: %v; remembered are %d", again, len(c.denials.at))
	}
}

// partOf is the part of an object that a field of an action changes, by the action's type and the field's name. The empty part: by itself it changes nothing.
var partOf = map[string]string{
	"UpdateClaim.AddFinalizer": "finalizers", "UpdateClaim.RemoveFinalizer": "finalizers", "UpdateClaim.Annotations": "annotations", "UpdateClaim.Labels": "labels",
	"UpdateClaim.NodeName": "status", "UpdateClaim.ProviderID": "status", "UpdateClaim.ImageID": "status", "UpdateClaim.LastPodEvent": "status", "UpdateClaim.Capacity": "status",
	"UpdateClaim.Allocatable": "status", "UpdateClaim.Conditions": "status", "UpdateClaim.SetSlots": "slots", "UpdateClaim.Slots": "", "UpdateClaim.Given": "", "UpdateClaim.OwnerPool": "owner",
	"UpdateClaim.OwnerUID": "", "UpdateNode.Labels": "labels", "UpdateNode.Annotations": "annotations", "UpdateNode.AddTaints": "taints", "UpdateNode.RemoveTaints": "taints",
	"UpdateNode.DaemonsOnly": "cordon", "UpdateNode.Uncordon": "cordon", "UpdateNode.AddFinalizer": "finalizers", "UpdateNode.RemoveFinalizer": "finalizers", "UpdateNode.OwnerClaim": "owner",
	"UpdateNode.OwnerUID": "", "UpdateNodeClass.AddFinalizer": "finalizers", "UpdateNodeClass.RemoveFinalizer": "finalizers", "UpdateNodeClass.Conditions": "status",
	"UpdateNodeClass.Status": "status",
}

// TestPartsAreToldApart has the writes to one part of an object refused while those to the others are let through: each refusal is told, and that it is over never is,
// until it is. The fields of actions are found by reflection.
func TestPartsAreToldApart(t *testing.T) {
	type change struct {
		action plan.Action
		part   string
	}
	named := []string{"Claim", "Node", "Group", "Kind", "Name", "UID", "Why"} // which object, and why
	for _, of := range []reflect.Type{reflect.TypeFor[plan.UpdateClaim](), reflect.TypeFor[plan.UpdateNode](), reflect.TypeFor[plan.UpdateNodeClass]()} {
		var changes []change
		parts := map[string]bool{}
		for i := range of.NumField() {
			f, a := of.Field(i), reflect.New(of).Elem()
			part, known := partOf[of.Name()+"."+f.Name]
			for _, name := range named {
				if id := a.FieldByName(name); id.IsValid() && id.Kind() == reflect.String {
					id.SetString("x")
				}
			}
			switch v := a.Field(i); {
			case slices.Contains(named, f.Name):
				continue
			case !known:
				t.Errorf("which part of an object %s.%s changes is not said", of.Name(), f.Name)
			case f.Type.Kind() == reflect.Map:
				v.Set(reflect.MakeMap(f.Type))
				v.SetMapIndex(reflect.ValueOf("x"), reflect.New(f.Type.Elem()).Elem())
			case f.Type.Kind() == reflect.Slice:
				v.Set(reflect.MakeSlice(f.Type, 1, 1))
			case f.Type.Kind() == reflect.Bool:
				v.SetBool(true)
			case f.Type.Kind() == reflect.String:
				v.SetString("x")
			case f.Type == reflect.TypeFor[time.Time]():
				v.Set(reflect.ValueOf(time.Unix(1, 0)))
			default:
				t.Fatalf("%s.%s is a %s", of.Name(), f.Name, f.Type)
			}
			if part != "" {
				changes, parts[part] = append(changes, change{a.Interface().(plan.Action), part}), true
			}
		}
		for refused := range parts {
			r := &refuser{}
			c := newToldCluster(r)
			write := func(x change, err error) {
				r.answer = func(plan.Action) error { return err }
				m := reflect.ValueOf(c).MethodByName(of.Name())
				m.Call([]reflect.Value{reflect.ValueOf(t.Context()), reflect.ValueOf(x.action)})
			}
			for _, x := range changes {
				if x.part != refused {
					continue
				}
				write(x, plan.ErrInvalid)
				if n := len(r.events); n == 0 || !strings.Contains(r.events[n-1], "let Dovetail update the "+refused+" of this ") {
					t.Errorf("%+v is refused, told is %q", x.action, r.events)
				}
			}
			told := len(r.events)
			for _, x := range changes {
				if x.part != refused {
					write(x, nil)
				}
			}
			if len(r.events) > told {
				t.Errorf("the %s are refused, and told is %q", refused, r.events[told:])
			}
			for _, x := range changes {
				write(x, nil)
			}
			if len(r.events) != told+1 {
				t.Errorf("the %s are refused no more, and told is %q", refused, r.events[told:])
			}
		}
	}
}

// TestRefusedTogether has all deletion costs refused for a day, as if the right to write pods were missing, and by a policy that says something else of each pod: of one
// pod for each who refuses is told, and of how many, now and then; then that it is over.
func TestRefusedTogether(t *testing.T) {
	const nodes, pods = 120, 10
	for name, test := range map[string]func(w deletioncost.Write) string{
		"right": func(w deletioncost.Write) string {
			return fmt.Sprintf(`pods %q is forbidden: User "system:serviceaccount:kube-system:dovetail" cannot patch resource "pods" in API group "" in the namespace %q`, w.Pod, w.Namespace)
		},
		"policy": func(w deletioncost.Write) string {
			return fmt.Sprintf(`pods %q is forbidden: ValidatingAdmissionPolicy 'frozen' with binding 'frozen' denied request: %s is not to be changed`, w.Pod, w.UID)
		},
		"webhook": func(w deletioncost.Write) string {
			return fmt.Sprintf(`admission webhook "frozen.example.com" denied the request: %s is not to be changed`, w.UID)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &refuser{}
				snap := &model.Snapshot{Pools: []*model.NodePool{{Name: "p"}}}
				byUID := map[string]*model.Pod{}
				for i := range nodes {
					n := &model.Node{Name: fmt.Sprintf("n%03d", i), Claim: fmt.Sprint("c", i)}
					for k := range pods {
						p := &model.Pod{Namespace: fmt.Sprint("team-", k), Name: fmt.Sprintf("web-%d-%d", i, k), UID: fmt.Sprintf("uid-%d-%d", i, k), Node: n.Name, Class: &model.Class{},
							Owner: model.Owner{Kind: "ReplicaSet", Name: "web", UID: fmt.Sprint("web-", k)}}
						n.Pods, byUID[p.UID] = append(n.Pods, p), p
					}
					snap.Nodes, snap.Claims = append(snap.Nodes, n), append(snap.Claims, &model.Claim{Name: n.Claim, Pool: "p"})
				}
				k := &keptCosts{c: &Controller{Cluster: newToldCluster(r)}, snap: snap}
				k.write = func(w deletioncost.Write) error {
					return fmt.Errorf("write deletion cost of pod %q: %w: %s", model.PodKey(w.Namespace, w.Pod), plan.ErrInvalid, test(w))
				}
				ctx, end := context.WithCancel(t.Context())
				defer end()
				go (&deletioncosts.Keeper{Loop: k, Store: k, On: true, Log: slog.New(slog.DiscardHandler), Metrics: deletioncosts.NewMetrics(prometheus.NewRegistry())}).Run(ctx)
				time.Sleep(4 * time.Hour)
				if n := len(r.events); n < 15 || n > 30 || !strings.Contains(r.events[n-1], fmt.Sprintf(" of this Pod and %d others: ", nodes*pods-1)) {
					t.Errorf("told is in four hours:\n%s", strings.Join(r.events, "\n"))
				}
				denied := r.events[len(r.events)-1]
				r.events, k.write = nil, func(w deletioncost.Write) error {
					byUID[w.UID].DeletionCost, byUID[w.UID].OwnDeletionCost = w.Cost, w.Cost
					return nil
				}
				time.Sleep(30 * time.Minute)
				pod, _, _ := strings.Cut(denied, plan.EventWriteDenied)
				if len(r.events) != 1 || !strings.HasPrefix(r.events[0], pod+plan.EventWriteAccepted) {
					t.Errorf("told is that %q, and when it is over:\n%s", denied, strings.Join(r.events, "\n"))
				}
				if told := k.c.Cluster.(*toldCluster); len(told.denials.at)+len(told.denials.crowds.by) > 0 {
					t.Errorf("remembered are %v and %v", told.denials.at, told.denials.crowds.by)
				}
			})
		})
	}
}

// keptCosts is what a deletioncosts.Keeper uses: the loop of a controller, and a store.
type keptCosts struct {
	c     *Controller
	snap  *model.Snapshot
	write func(deletioncost.Write) error
}

func (k *keptCosts) LastSnapshot() *model.Snapshot { return k.snap }
func (k *keptCosts) WritesTold(verb, kind string, answers []plan.WriteAnswer) {
	k.c.WritesTold(verb, kind, answers)
}
func (k *keptCosts) WriteDeletionCost(_ context.Context, w deletioncost.Write) error {
	return k.write(w)
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

// What Dovetail keeps for itself is written by no Cluster: that it is refused is told on the object, and that it no longer is.
func TestDeniedOwnObjectsAreTold(t *testing.T) {
	r := &refuser{}
	c := &Controller{Cluster: newToldCluster(r)}
	for _, kind := range []string{"ConfigMap", "Lease"} {
		r.events = nil
		for _, err := range []error{nil, fmt.Errorf("write %s %q: %w: no changes today", kind, "ns/own", plan.ErrInvalid), nil, nil} {
			c.WriteTold("write", kind, plan.WriteAnswer{Namespace: "ns", Name: "own", Err: err})
		}
		want := []string{kind + " own WriteDenied: The API server does not let Dovetail write this " + kind + ": no changes today", kind + " own WriteAccepted: " + plan.WriteReport{Write: "write this " + kind}.Text()}
		if !slices.Equal(r.events, want) {
			t.Errorf("told is %q, want %q", r.events, want)
		}
	}
}

// TestDeniedOutsideActions has writes refused that are no actions of a plan: what the launch of a machine writes into its claim, a notice of an interruption, the note of
// a reboot. Each is told, and that it is refused no more.
func TestDeniedOutsideActions(t *testing.T) {
	refused := fmt.Errorf("update nodeclaim: %w: no changes today", plan.ErrInvalid)
	told := func(b *bench, reason string) (out []string) {
		for _, e := range b.made("event") {
			if strings.Contains(e.what, reason) {
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
		"reboot": {func(a plan.UpdateClaim) bool { return a.Annotations[model.AnnotationBootID] != "" }, func(b *bench) {
			b.c.Emit(func(*state.State) {
				b.c.beginAction(b.c.base, time.Now(), plan.Reboot{Claim: "old-00", UID: "uid-old-00", ProviderID: "m-old-00", Node: "old-00", BootID: "boot-1",
					Note: plan.UpdateClaim{Claim: "old-00", UID: "uid-old-00", Annotations: map[string]string{model.AnnotationBootID: "boot-1"}}})
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
				if len(told(b, plan.EventWriteDenied)) == 0 || len(told(b, plan.EventWriteAccepted)) > 0 {
					t.Errorf("a refused write is not told, or told to be over; events: %v", b.made("event"))
				}
				over.Store(true)
				if name == "reboot" { // which nothing but this test decides
					test.has(b)
				}
				time.Sleep(refusedPause)
				if len(told(b, plan.EventWriteAccepted)) == 0 {
					t.Errorf("that a write is refused no more is not told; events: %v", b.made("event"))
				}
			})
		})
	}
}

// TestDeniedWritesAreForgotten has more writes refused than are remembered: those that are not repeated are forgotten, and they are looked for ever more rarely while there are none.
func TestDeniedWritesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &denials{events: &refuser{}}
		deny := func(n int) {
			d.note(written{"delete", "Node", "", fmt.Sprint("n", n), ""}, plan.ErrInvalid, 0)
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

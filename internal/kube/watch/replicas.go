// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import (
	"context"
	"reflect"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// followReplicas watches the desired replicas of ReplicaSets, and ResourceQuotas that may prevent them.
func (w *watcher) followReplicas(ctx context.Context, wg *sync.WaitGroup) {
	if w.once != nil {
		return // what is read once is planned as it is
	}
	quota := func(k string, q *corev1.ResourceQuota) {
		w.buffers.setQuota(k, q)
		w.failing.tellNamespace(translate.NamespaceOf(k))
	}
	follow(ctx, w, wg, source{w.c.Core, "resourcequotas", &corev1.ResourceQuota{}}, &sync.Mutex{},
		func(k string, q *corev1.ResourceQuota) {
			w.emit(func(s *state.State) { s.SetQuota(k) })
			quota(k, q)
		},
		func(k string) {
			w.emit(func(s *state.State) { s.DeleteQuota(k) })
			quota(k, nil)
		})
	if len(w.t.Defaults) == 0 { // else followSelectors watches them, and tells
		follow(ctx, w, wg, source{w.c.Apps, "replicasets", &appsv1.ReplicaSet{}}, &sync.Mutex{}, w.setReplicas, w.dropReplicas)
		if w.recorder != nil { // a replay must know how many pods they want
			follow(ctx, w, wg, source{w.c.Apps, "statefulsets", &appsv1.StatefulSet{}}, &sync.Mutex{}, func(string, *appsv1.StatefulSet) {}, func(string) {})
		}
	}
}

// setReplicas tells how many pods a ReplicaSet is making, and which it can't make.
func (w *watcher) setReplicas(k string, x *appsv1.ReplicaSet) {
	if w.once != nil {
		return
	}
	w.failing.set(k, x)
	w.setTemplate(k, x)
	want := translate.WantedReplicas(x)
	if want == w.replicas[k].want {
		return // its status, mostly; and most are of templates past, and have none
	}
	uid := string(x.UID)
	w.replicas[k] = replicas{uid, want}
	if want == 0 {
		delete(w.replicas, k)
	}
	w.emit(func(s *state.State) { s.SetReplicas(uid, want) })
	w.c.Seen.ReplicasChanged.Raise()
	w.buffers.markDue(x.Namespace)
}

// dropReplicas removes a ReplicaSet.
func (w *watcher) dropReplicas(k string) {
	if w.once != nil {
		return
	}
	w.failing.set(k, nil)
	w.setTemplate(k, nil)
	if was, ok := w.replicas[k]; ok {
		delete(w.replicas, k)
		w.emit(func(s *state.State) { s.SetReplicas(was.uid, 0) })
	}
}

// setTemplate tells of the template of a ReplicaSet with pods; nil: the ReplicaSet is gone.
func (w *watcher) setTemplate(k string, x *appsv1.ReplicaSet) {
	was, known := w.made[k]
	var now *model.Template
	if x != nil {
		now = translate.Template(x)
	}
	if known && (now == nil || was.uid != string(x.UID)) {
		delete(w.made, k)
		w.emit(func(s *state.State) { s.SetTemplate(was.uid, nil) })
	}
	if now == nil || known && was.uid == string(x.UID) && reflect.DeepEqual(was.Template, *now) {
		return
	}
	uid := string(x.UID)
	w.made[k] = template{*now, uid}
	w.emit(func(s *state.State) { s.SetTemplate(uid, now) })
}

// template is what was last told of the template of a ReplicaSet.
type template struct {
	model.Template
	uid string
}

// replicas is the last reported state of a ReplicaSet with desired replicas.
type replicas struct {
	uid  string
	want int
}

// failingWatch tells which pods can't be created, and again when a ResourceQuota changes.
type failingWatch struct {
	emit     func(state.Change)
	quotasOf func(namespace string) []*corev1.ResourceQuota

	mu sync.Mutex
	of byNamespace[*failing] // by the key of the ReplicaSet
}

func newFailingWatch(w *watcher) *failingWatch {
	return &failingWatch{emit: w.emit, quotasOf: w.buffers.quotasOf, of: byNamespace[*failing]{}}
}

type failing struct {
	x    *appsv1.ReplicaSet
	told *model.FailingReplicas // nil: nothing
}

// set adds, changes or (nil) removes a ReplicaSet.
func (f *failingWatch) set(k string, x *appsv1.ReplicaSet) {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.of.get(k)
	if was != nil && (x == nil || was.x.UID != x.UID) {
		f.tell(was, nil)
		f.of.delete(k)
		was = nil
	}
	if x == nil || was == nil && translate.FailingReplicas(x, nil) == nil {
		return
	}
	if was == nil {
		was = &failing{}
		f.of.set(k, was)
	}
	was.x = x
	if f.update(was, f.quotasOf(x.Namespace)); was.told == nil {
		f.of.delete(k)
	}
}

// tellNamespace reports the ReplicaSets of a namespace again after its ResourceQuotas have changed.
func (f *failingWatch) tellNamespace(namespace string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.of[namespace]) == 0 {
		return
	}
	quotas := f.quotasOf(namespace)
	for _, x := range f.of[namespace] {
		f.update(x, quotas)
	}
}

func (f *failingWatch) update(x *failing, quotas []*corev1.ResourceQuota) {
	f.tell(x, translate.FailingReplicas(x.x, quotas))
}

func (f *failingWatch) tell(x *failing, now *model.FailingReplicas) {
	if reflect.DeepEqual(x.told, now) {
		return
	}
	x.told = now
	uid := string(x.x.UID)
	f.emit(func(s *state.State) { s.SetFailingReplicas(uid, now) })
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import (
	"context"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/dovetail-sh/dovetail/internal/state"
)

// followReplicas watches how many pods each ReplicaSet shall have, and where a ResourceQuota may keep it from having them.
func (w *watcher) followReplicas(ctx context.Context, wg *sync.WaitGroup) {
	if w.once != nil {
		return // what is read once is planned as it is
	}
	follow(ctx, w, wg, source{w.c.Core, "resourcequotas", &corev1.ResourceQuota{}}, &sync.Mutex{},
		func(k string, q *corev1.ResourceQuota) {
			w.emit(func(s *state.State) { s.SetQuota(k) })
			w.buffers.setQuota(k, q)
		},
		func(k string) {
			w.emit(func(s *state.State) { s.DeleteQuota(k) })
			w.buffers.setQuota(k, nil)
		})
	if len(w.t.Defaults) == 0 { // else followSelectors watches them, and tells
		follow(ctx, w, wg, source{w.c.Apps, "replicasets", &appsv1.ReplicaSet{}}, &sync.Mutex{}, w.setReplicas, w.dropReplicas)
	}
}

// setReplicas tells how many pods a ReplicaSet is making.
func (w *watcher) setReplicas(k string, x *appsv1.ReplicaSet) {
	want := wantedReplicas(x)
	if w.once != nil || want == w.replicas[k].want {
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

// dropReplicas tells that a ReplicaSet is gone.
func (w *watcher) dropReplicas(k string) {
	if was, ok := w.replicas[k]; ok {
		delete(w.replicas, k)
		w.emit(func(s *state.State) { s.SetReplicas(was.uid, 0) })
	}
}

// replicas is what was last told of a ReplicaSet that is to have pods.
type replicas struct {
	uid  string
	want int
}

// wantedReplicas is how many pods a ReplicaSet is making; 0 where it says that it can't.
func wantedReplicas(x *appsv1.ReplicaSet) int {
	if x.DeletionTimestamp != nil || x.Spec.Replicas == nil {
		return 0
	}
	for _, c := range x.Status.Conditions {
		if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue {
			return 0
		}
	}
	return int(*x.Spec.Replicas)
}

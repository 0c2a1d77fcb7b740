// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// followSelectors watches what default constraints take their selectors from, and has the pods that a change concerns translated again.
func (w *watcher) followSelectors(ctx context.Context, wg *sync.WaitGroup) {
	c := w.c
	if len(w.t.Defaults) == 0 {
		return
	}
	set := func(kind, k string, sel *metav1.LabelSelector) {
		key := translate.OwnerKey(kind, translate.NamespaceOf(k), translate.NameOf(k))
		if was, ok := c.Seen.Selectors.Get(key); ok && reflect.DeepEqual(was, sel) {
			return // its status, mostly
		}
		c.Seen.Selectors.Set(key, sel)
		w.selectorChanged(translate.NamespaceOf(k))
	}
	gone := func(kind string) func(string) {
		return func(k string) {
			c.Seen.Selectors.Delete(translate.OwnerKey(kind, translate.NamespaceOf(k), translate.NameOf(k)))
			w.selectorChanged(translate.NamespaceOf(k))
		}
	}
	follow(ctx, w, wg, source{c.Core, "services", &corev1.Service{}}, &sync.Mutex{},
		func(k string, s *corev1.Service) {
			was, ok := c.Seen.Services.Get(k)
			if c.Seen.Services.Set(k, s); !ok || !maps.Equal(was.Spec.Selector, s.Spec.Selector) {
				w.selectorChanged(s.Namespace)
			}
		},
		func(k string) { c.Seen.Services.Delete(k); w.selectorChanged(translate.NamespaceOf(k)) })
	follow(ctx, w, wg, source{c.Apps, "replicasets", &appsv1.ReplicaSet{}}, &sync.Mutex{},
		func(k string, x *appsv1.ReplicaSet) {
			set(translate.KindReplicaSet, k, x.Spec.Selector)
			w.setReplicas(k, x)
		},
		func(k string) { gone(translate.KindReplicaSet)(k); w.dropReplicas(k) })
	follow(ctx, w, wg, source{c.Apps, "statefulsets", &appsv1.StatefulSet{}}, &sync.Mutex{},
		func(k string, x *appsv1.StatefulSet) { set(translate.KindStatefulSet, k, x.Spec.Selector) }, gone(translate.KindStatefulSet))
	follow(ctx, w, wg, source{c.Core, "replicationcontrollers", &corev1.ReplicationController{}}, &sync.Mutex{},
		func(k string, x *corev1.ReplicationController) {
			set(translate.KindController, k, &metav1.LabelSelector{MatchLabels: x.Spec.Selector})
		}, gone(translate.KindController))
}

// selectorChanged translates the pods of a namespace again whose spread follows from selectors.
func (w *watcher) selectorChanged(namespace string) {
	w.podMu.Lock()
	defer w.podMu.Unlock()
	for _, k := range slices.Sorted(maps.Keys(w.spreadPods)) {
		if translate.NamespaceOf(k) == namespace {
			w.setPod(w.spreadPods[k])
		}
	}
}

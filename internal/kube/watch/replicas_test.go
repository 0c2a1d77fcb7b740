// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/dovetail-sh/dovetail/internal/state"
)

// TestTellNamespace: when a ResourceQuota changes, the ReplicaSets of its namespace are told anew, those of others aren't looked at, and the
// namespace's ResourceQuotas are read once for all of them.
func TestTellNamespace(t *testing.T) {
	const sets = 50
	emitted := 0
	w := &watcher{emit: func(state.Change) { emitted++ }}
	w.buffers = newBufferWatch(w)
	f := newFailingWatch(w)
	read := map[string]int{}
	f.quotasOf = func(namespace string) []*corev1.ResourceQuota {
		read[namespace]++
		return w.buffers.quotasOf(namespace)
	}
	quota := func(key, used string) {
		namespace, name := key[:1], key[2:]
		amounts := func(n string) corev1.ResourceList { return corev1.ResourceList{"pods": resource.MustParse(n)} }
		w.buffers.setQuota(key, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: corev1.ResourceQuotaSpec{Hard: amounts("5")}, Status: corev1.ResourceQuotaStatus{Hard: amounts("5"), Used: amounts(used)}})
	}
	quota("a/few", "5")
	quota("b/few", "5")
	set := func(namespace string, i int, fails bool) {
		x := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("r", i), UID: types.UID(fmt.Sprint(namespace, i))}, Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(3))}}
		if fails {
			x.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue,
				Message: `pods "r-x" is forbidden: exceeded quota: few, requested: pods=1, used: pods=5, limited: pods=5`}}
		}
		f.set(namespace+"/"+x.Name, x)
	}
	for i := range sets {
		set("a", i, true)
		set("b", i, true)
	}
	for _, x := range []struct {
		name          string
		do            func()
		tell          string
		emitted, read int
	}{
		{"a quota that leaves less", func() { quota("a/few", "6") }, "a", sets, 1},
		{"a quota as it was", func() { quota("a/few", "6") }, "a", 0, 1},
		{"another quota", func() { quota("a/other", "6") }, "a", 0, 1},
		{"the quota is gone", func() { w.buffers.setQuota("a/few", nil) }, "a", sets, 1},
		{"a namespace without a ReplicaSet that fails", func() { quota("c/few", "5") }, "c", 0, 0},
		{"once some fail no more", func() {
			for i := range sets - 1 {
				set("b", i, false)
			}
			quota("b/few", "6")
		}, "b", 1, 1},
		{"once none fails", func() { set("b", sets-1, false); quota("b/few", "7") }, "b", 0, 0},
	} {
		x.do()
		clear(read)
		emitted = 0
		f.tellNamespace(x.tell)
		if emitted != x.emitted || read[x.tell] != x.read || len(read) > x.read {
			t.Errorf("%s: %d ReplicaSets were told anew and ResourceQuotas read %v times, want %d and %d", x.name, emitted, read, x.emitted, x.read)
		}
	}
	if len(f.of) != 1 || len(f.of["a"]) != sets {
		t.Errorf("%d namespaces with ReplicaSets that fail are kept, want a alone with %d", len(f.of), sets)
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A list after a watch that could not be resumed: what is missing went, and one with another uid went and came.
func TestFeedReplace(t *testing.T) {
	var got []string
	synced := 0
	f := &feed[*corev1.Pod]{
		mu: &sync.Mutex{}, known: map[string]types.UID{}, synced: func() { synced++ },
		set:  func(k string, p *corev1.Pod) { got = append(got, "set "+k+" "+string(p.UID)) },
		gone: func(k string) { got = append(got, "gone "+k) },
	}
	pod := func(name, uid string) any {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(uid)}}
	}
	check := func(err error, want ...string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
		got = nil
	}
	check(f.Replace([]any{pod("a", "1"), pod("b", "2")}, "5"), "set n/a 1", "set n/b 2")
	check(f.Update(pod("a", "1")), "set n/a 1")
	check(f.Add(pod("a", "3")), "gone n/a", "set n/a 3")
	check(f.Delete(pod("c", "4")))
	check(f.Replace([]any{pod("b", "9")}, "8"), "gone n/a", "gone n/b", "set n/b 9")
	check(f.Delete(pod("b", "9")), "gone n/b")
	if err := f.Add(&corev1.Node{}); err == nil {
		t.Fatal("a node among pods was taken")
	}
	if synced != 1 {
		t.Fatalf("said %d times that the first list is through, want once", synced)
	}
}

// What the watch brings late does not undo what a write answered.
func TestSeenAndNewer(t *testing.T) {
	node := func(uid, version string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: types.UID(uid), ResourceVersion: version}}
	}
	var o objects[*corev1.Node]
	want := func(uid, version string) {
		t.Helper()
		n, ok := o.get("a")
		if !ok && uid != "" || ok && (string(n.UID) != uid || n.ResourceVersion != version) {
			t.Fatalf("have %v, want %s at %s", n, uid, version)
		}
	}
	newer(&o, "a", node("1", "5"))
	want("", "") // not known by the watch: not kept
	seen(&o, "a", node("1", "5"))
	newer(&o, "a", node("1", "7"))
	want("1", "7")
	seen(&o, "a", node("1", "6"))
	want("1", "7")
	seen(&o, "a", node("2", "6"))
	want("2", "6") // another object of the name
	newer(&o, "a", node("1", "8"))
	want("2", "6")
}

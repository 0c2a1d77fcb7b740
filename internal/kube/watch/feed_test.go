// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

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

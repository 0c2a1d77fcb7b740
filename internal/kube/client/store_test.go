// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package client

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// What the watch brings late does not undo what a write answered.
func TestSeenAndNewer(t *testing.T) {
	node := func(uid, version string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: types.UID(uid), ResourceVersion: version}}
	}
	var o Objects[*corev1.Node]
	want := func(uid, version string) {
		t.Helper()
		n, ok := o.Get("a")
		if !ok && uid != "" || ok && (string(n.UID) != uid || n.ResourceVersion != version) {
			t.Fatalf("have %v, want %s at %s", n, uid, version)
		}
	}
	KeepWritten(&o, "a", node("1", "5"))
	want("", "") // not known by the watch: not kept
	KeepSeen(&o, "a", node("1", "5"))
	KeepWritten(&o, "a", node("1", "7"))
	want("1", "7")
	KeepSeen(&o, "a", node("1", "6"))
	want("1", "7")
	KeepSeen(&o, "a", node("2", "6"))
	want("2", "6") // another object of the name
	KeepWritten(&o, "a", node("1", "8"))
	want("2", "6")
}

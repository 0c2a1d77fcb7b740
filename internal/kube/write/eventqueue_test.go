// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package write

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A tenant whose pods need attention by the ten thousand leaves the events of others in their turn, and what is kept of
// all that it causes is bounded in count and bytes.
func TestEventsAreFair(t *testing.T) {
	now := time.Unix(1000, 0)
	r := &recorder{now: func() time.Time { return now }, last: map[[sha256.Size]byte]time.Time{}, queue: fairEvents{most: eventQueue}, filled: now, writing: true}
	a := &Actor{events: r}
	long := strings.Repeat("é", 50_000)
	for i := range 3 * eventQueue {
		a.Event("Pod", "tenant", fmt.Sprint("pod-", i), "", true, "FailedScheduling", long)
	}
	for i := range 10 {
		a.Event("Pod", "shop", fmt.Sprint("web-", i), "", true, "FailedScheduling", "no room for it")
	}
	a.Event("NodePool", "", "default", "", true, "DisruptionBlocked", "a budget")
	if r.queue.count != eventQueue || len(r.last) > eventKeys+1 {
		t.Errorf("%d events wait, %d are known", r.queue.count, len(r.last))
	}
	seen := map[string]int{}
	for i := range 22 {
		e, _ := r.next()
		seen[e.InvolvedObject.Namespace]++
		if len(e.Message) > 1024 || !strings.HasSuffix(e.Message, "é...") && e.InvolvedObject.Namespace == "tenant" {
			t.Errorf("event %d says %d bytes: …%q", i, len(e.Message), e.Message[max(0, len(e.Message)-8):])
		}
	}
	if seen["shop"] != 10 || seen[""] != 1 || seen["tenant"] != 11 {
		t.Errorf("of the first 22 written %v", seen)
	}
	written := 22
	for e, _ := r.next(); e != nil; e, _ = r.next() {
		written++
	}
	if written != eventQueue || r.queue.of != nil {
		t.Errorf("%d were written, %v is left", written, r.queue)
	}
}

// Events of many namespaces are written in turn, those of one in their order.
func TestEventsTakeTurns(t *testing.T) {
	q := fairEvents{most: 6}
	push := func(namespace, name string) bool {
		e := &corev1.Event{}
		e.Name = name
		return q.push(namespace, e)
	}
	for _, name := range []string{"a1", "a2", "a3", "a4", "b1", "a5"} {
		push(name[:1], name)
	}
	if push("a", "a6") {
		t.Error("a full queue takes what its largest namespace adds")
	}
	if !push("c", "c1") {
		t.Error("a full queue refuses a namespace that has none in it")
	}
	var order []string
	for e := q.pop(); e != nil; e = q.pop() {
		order = append(order, e.Name)
	}
	if have := strings.Join(order, " "); have != "a1 b1 c1 a2 a3 a4" {
		t.Errorf("written: %s", have)
	}
}

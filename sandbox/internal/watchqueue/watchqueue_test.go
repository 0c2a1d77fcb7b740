// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watchqueue

import (
	"strconv"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func event(i int) watch.Event {
	return watch.Event{Type: watch.Modified, Object: &metav1.PartialObjectMetadata{
		ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(i)},
	}}
}

// TestOrder: a producer that never waits and a consumer that comes late; every
// event arrives, in order, and the end is passed on.
func TestOrder(t *testing.T) {
	const events = 5000
	synctest.Test(t, func(t *testing.T) {
		inner := watch.NewRaceFreeFake()
		unbuffered := &relay{events: make(chan watch.Event), inner: inner}
		q := Wrap(unbuffered)
		for i := range events {
			unbuffered.events <- event(i)
		}
		close(unbuffered.events)
		got := 0
		for e := range q.ResultChan() {
			if want := event(got); e.Object.(*metav1.PartialObjectMetadata).ResourceVersion != want.Object.(*metav1.PartialObjectMetadata).ResourceVersion {
				t.Fatalf("event %d is %v", got, e.Object)
			}
			got++
		}
		if got != events {
			t.Errorf("%d events arrived, want %d", got, events)
		}
	})
}

// TestStop: after Stop the inner watch is stopped and the channel closed, with
// events waiting and none taken.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := watch.NewRaceFreeFake()
		unbuffered := &relay{events: make(chan watch.Event), inner: inner}
		q := Wrap(unbuffered)
		for i := range 2 * outgoing {
			unbuffered.events <- event(i)
		}
		q.Stop()
		q.Stop() // Twice is once.
		synctest.Wait()
		if !inner.IsStopped() {
			t.Error("the inner watch goes on")
		}
		taken := 0
		for range q.ResultChan() {
			taken++
		}
		if taken > outgoing {
			t.Errorf("%d events came after Stop, more than the channel holds", taken)
		}
	})
}

// relay is a watch whose events the test hands over one by one.
type relay struct {
	events chan watch.Event
	inner  *watch.RaceFreeFakeWatcher
}

func (r *relay) ResultChan() <-chan watch.Event { return r.events }
func (r *relay) Stop()                          { r.inner.Stop() }

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package watchqueue puts a long queue between the API server's watch cache and
// each client that watches.
//
// The watch cache gives a watcher room for ten events while a cluster is young,
// waits a tenth of a second in all for those that are full, and then closes
// them. A real API server has cores enough that this is rare. On two cores
// shared by the whole control plane a burst of a thousand pods closes the
// watches of scheduler, controller manager and kwok dozens of times; each then
// backs off for a second, lists everything anew, and what is measured is that.
//
// The queue changes neither the events nor their order. It is bounded: beyond
// its bound the watch cache's own rule holds again.
package watchqueue

import (
	"sync"

	"k8s.io/apimachinery/pkg/watch"
)

const (
	// bound is in events. They are pointers to objects that the watch cache
	// holds anyway, so a full queue costs little more than its slice.
	bound = 1 << 16
	// outgoing is what the HTTP handler can take without waiting for us; it
	// flushes when it finds this empty, so a longer one means fewer writes.
	outgoing = 256
)

// Wrap returns a watch with the same events in the same order.
func Wrap(inner watch.Interface) watch.Interface {
	q := &queue{inner: inner, out: make(chan watch.Event, outgoing), done: make(chan struct{})}
	go q.run()
	return q
}

type queue struct {
	inner watch.Interface
	out   chan watch.Event
	stop  sync.Once
	done  chan struct{}
}

// ResultChan is closed when the inner watch has ended and its last event has
// been taken, or after Stop.
func (q *queue) ResultChan() <-chan watch.Event { return q.out }

// Stop ends the watch; events not yet taken may be lost, as ever.
func (q *queue) Stop() {
	q.stop.Do(func() {
		close(q.done)
		q.inner.Stop()
	})
}

func (q *queue) run() {
	defer close(q.out)
	in := q.inner.ResultChan()
	var waiting []watch.Event
	for in != nil || len(waiting) > 0 {
		source := in
		if len(waiting) >= bound {
			source = nil
		}
		var target chan<- watch.Event
		var head watch.Event
		if len(waiting) > 0 {
			target, head = q.out, waiting[0]
		}
		select {
		case event, ok := <-source:
			if !ok {
				in = nil
				continue
			}
			if len(waiting) == 0 { // The usual case: no queue at all.
				select {
				case q.out <- event:
					continue
				default:
				}
			}
			waiting = append(waiting, event)
		case target <- head:
			waiting[0] = watch.Event{} // Let the object go.
			if waiting = waiting[1:]; len(waiting) == 0 {
				waiting = nil
			}
		case <-q.done:
			return
		}
	}
}

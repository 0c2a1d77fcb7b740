// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package sim

import (
	"container/heap"
	"time"
)

// queue is what will happen, in order of time and, at one instant, of when it was added.
type queue struct {
	events events
	serial uint64
}

type event struct {
	at     time.Time
	serial uint64
	do     func()
}

// add has something happen at an instant. What it finds by then may be another: it looks.
func (q *queue) add(at time.Time, do func()) {
	q.serial++
	heap.Push(&q.events, event{at, q.serial, do})
}

// run does what is due, and what that adds that is due too.
func (q *queue) run(now time.Time) {
	for len(q.events) > 0 && !q.events[0].at.After(now) {
		heap.Pop(&q.events).(event).do()
	}
}

// next returns when the first event is due; zero: there is none.
func (q *queue) next() time.Time {
	if len(q.events) == 0 {
		return time.Time{}
	}
	return q.events[0].at
}

// events implements heap.Interface.
type events []event

func (e events) Len() int      { return len(e) }
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e events) Less(i, j int) bool {
	return e[i].at.Before(e[j].at) || e[i].at.Equal(e[j].at) && e[i].serial < e[j].serial
}
func (e *events) Push(x any) { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}

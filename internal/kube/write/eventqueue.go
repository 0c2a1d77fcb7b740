// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package write

import (
	corev1 "k8s.io/api/core/v1"
)

// fairEvents are events that wait to be written, at most so many. Namespaces take turns, so that ten thousand pods of
// one keep the events of another waiting for one write. Where there is no room, the namespace with most waiting loses
// its latest. What is about objects of no namespace counts as one.
type fairEvents struct {
	most  int
	count int
	of    map[string][]*corev1.Event // by namespace; none is empty
	turns []string                   // the namespaces in of, the next to be asked first
}

// push adds an event; false: it is left out.
func (q *fairEvents) push(namespace string, e *corev1.Event) bool {
	if q.count >= q.most {
		largest := namespace
		for _, n := range q.turns {
			if len(q.of[n]) > len(q.of[largest]) {
				largest = n
			}
		}
		if largest == namespace {
			return false
		}
		list := q.of[largest]
		q.of[largest] = list[:len(list)-1] // it had more than the namespace of the new one, so at least one is left, or its turn finds none
		q.count--
	}
	if q.of == nil {
		q.of = map[string][]*corev1.Event{}
	}
	if _, ok := q.of[namespace]; !ok {
		q.turns = append(q.turns, namespace)
	}
	q.of[namespace] = append(q.of[namespace], e)
	q.count++
	return true
}

// pop removes and returns the event to write next; nil if there is none.
func (q *fairEvents) pop() *corev1.Event {
	for len(q.turns) > 0 {
		n := q.turns[0]
		q.turns = q.turns[1:]
		list := q.of[n]
		if len(list) <= 1 {
			delete(q.of, n)
		} else {
			q.of[n] = list[1:]
			q.turns = append(q.turns, n)
		}
		if len(list) > 0 {
			q.count--
			return list[0]
		}
	}
	*q = fairEvents{most: q.most}
	return nil
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package top

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// mostCauses is how many messages are remembered with their causes.
const mostCauses = 4096

// causeText says in one line what a pod waits for, the same for all pods that wait for the same.
func (b *Board) causeText(w *Waits) string {
	switch {
	case w.Nominated != "":
		return "Nominated to a node, where pods of lower priority are terminating"
	case w.Reason == "SchedulingGated":
		return "Scheduling gates: the pod may not be scheduled yet"
	case w.Reason == "":
		return "Not processed yet by " + cmp.Or(w.Scheduler, "its scheduler")
	case w.Message == "":
		return w.Reason
	}
	if text, ok := b.causeOf[w.Message]; ok {
		return text
	}
	if len(b.causeOf) >= mostCauses {
		// Texts are found again from the message: nothing refers to an entry.
		clear(b.causeOf)
	}
	text := groupMessage(w.Message)
	b.causeOf[w.Message] = text
	return text
}

// groupMessage takes out of a scheduler's message what differs from pod to pod and from minute to minute: how many nodes fail which check, and
// what was tried to make room: preemption, and the release of resource claims. What is no such message is returned as it is.
//
//	0/28 nodes are available: 3 Insufficient cpu, 25 node(s) had untolerated taint {a: b}. no new claims to deallocate, preemption: 0/28 …
//	Insufficient cpu; untolerated taint {a: b}
func groupMessage(message string) string {
	_, checks, ok := strings.Cut(message, "nodes are available: ")
	if !ok {
		return clean(message)
	}
	var parts []string
	depth, from := 0, 0
	add := func(part string) {
		part = strings.TrimLeftFunc(strings.TrimSpace(part), unicode.IsDigit)
		part = strings.TrimSpace(part)
		for _, prefix := range []string{"node(s) had ", "node(s) "} {
			part = strings.TrimPrefix(part, prefix)
		}
		part = strings.TrimSuffix(strings.TrimSuffix(part, "."), ",")
		if part != "" && !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	for i, r := range checks {
		if r == '.' && depth == 0 && (i+1 == len(checks) || checks[i+1] == ' ') { // what follows is what was tried to make room
			checks = checks[:i]
			break
		}
		switch r {
		case '{', '(', '[':
			depth++
		case '}', ')', ']':
			depth--
		case ',':
			if depth == 0 {
				add(checks[from:i])
				from = i + 1
			}
		}
	}
	add(checks[from:])
	slices.Sort(parts)
	return clean(cmp.Or(strings.Join(parts, "; "), message))
}

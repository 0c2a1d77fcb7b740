// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package demo

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// kind of a moment.
type kind int

const (
	scaled kind = iota
	podsEnded
	podsPending
	claimMade
	instanceLaunched
	nodeRegistered
	nodeReady
	podsRunning
	claimEnded
	claimReason // joins claimEnded's line
	instanceTerminated
)

var labels = [...]string{
	scaled: "scaled to", podsEnded: "pods ended", podsPending: "pods pending", claimMade: "NodeClaim created", instanceLaunched: "instance launched",
	nodeRegistered: "node registered", nodeReady: "node Ready", podsRunning: "pods running", claimEnded: "NodeClaim deleted",
	instanceTerminated: "instance terminated",
}

// moment is one thing that happened.
type moment struct {
	at   time.Duration // since the step began
	what kind
	name string // of the pod, node or claim
	text string
}

// joinFor is how long moments of one kind share a line.
const joinFor = 250 * time.Millisecond

// entry is a line of the timeline that may still grow.
type entry struct {
	moment
	first time.Duration
	names []string // of what the line is about, in the order of its coming
	full  bool     // one of them has gone on: who comes after that takes a line of its own
}

// timeline turns moments into lines as they come. What happens together takes
// one line; a line is given out once it can't grow any more, so the times in
// the lines never fall.
type timeline struct{ open []entry }

func (t *timeline) add(m moment) {
	if m.what == claimReason {
		t.explain(m.name, m.text)
		return
	}
	for i := range t.open {
		e := &t.open[i]
		e.full = e.full || e.what != m.what && slices.Contains(e.names, m.name)
	}
	for i := len(t.open) - 1; i >= 0; i-- {
		e := &t.open[i]
		if e.what != m.what || e.full || m.at-e.first >= joinFor {
			continue
		}
		if m.what != podsRunning && e.text != m.text {
			continue
		}
		e.names, e.text = append(e.names, m.name), m.text
		if m.what != podsPending && m.what != podsEnded { // Those are about when it began.
			e.at = max(e.at, m.at)
		}
		return
	}
	t.open = append(t.open, entry{moment: m, first: m.at, names: []string{m.name}})
}

// explain says why a claim is deleted, if its line is not out yet: those with
// one reason share a line.
func (t *timeline) explain(claim, why string) {
	for i := range t.open {
		e := &t.open[i]
		at := slices.Index(e.names, claim)
		if e.what != claimEnded || at < 0 || e.text == because(why) {
			continue
		}
		said := entry{moment: e.moment, first: e.first, names: []string{claim}}
		said.text = because(why)
		if e.names = slices.Delete(e.names, at, at+1); len(e.names) == 0 {
			t.open = slices.Delete(t.open, i, i+1)
		}
		for j := range t.open {
			if o := &t.open[j]; o.what == said.what && o.text == said.text && said.first-o.first < joinFor {
				o.names, o.at = append(o.names, claim), max(o.at, said.at)
				return
			}
		}
		t.open = append(t.open, said)
		return
	}
}

// take gives out the lines that nothing can join after now.
func (t *timeline) take(now time.Duration) []string {
	slices.SortStableFunc(t.open, func(a, b entry) int { return cmp.Compare(a.at, b.at) })
	var lines []string
	for len(t.open) > 0 && t.open[0].first+joinFor <= now {
		lines = append(lines, t.open[0].line())
		t.open = t.open[1:]
	}
	return lines
}

// rest gives out what is left.
func (t *timeline) rest() []string {
	var last time.Duration
	for _, e := range t.open {
		last = max(last, e.first)
	}
	return t.take(last + joinFor)
}

func (e entry) line() string {
	text := e.text
	switch e.what {
	case podsEnded, podsPending:
		text = fmt.Sprint(len(e.names))
	case claimMade, nodeRegistered, nodeReady:
		text = listed(e.names)
	case instanceLaunched:
		text = fmt.Sprintf("%d × %s for %s", len(e.names), e.text, listed(e.names))
	case instanceTerminated:
		text = listed(e.names) + ", for which nothing was launched yet"
		if e.text != "" {
			text = fmt.Sprintf("%d × %s of %s", len(e.names), e.text, listed(e.names))
		}
	case claimEnded:
		text = listed(e.names)
		if e.text != "" {
			text += ": " + e.text
		}
	}
	return fmt.Sprintf("  %7.2f s  %-20s %s", e.at.Seconds(), labels[e.what], text)
}

// listed names some, and how many more there are.
func listed(names []string) string {
	const most = 3
	if len(names) <= most+1 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// because is the controller's word in ours.
func because(why string) string {
	switch why {
	case "Empty":
		return "empty"
	case "Underutilized":
		return "underutilized"
	}
	return why
}

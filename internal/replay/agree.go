// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package replay

import (
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Decision is an action on nodes or pods that can be compared between a recording and its replay.
type Decision struct {
	At     time.Time
	Kind   DecisionKind
	Object string // NodeClaim, or namespace/name of a pod
	Detail string // for a launch: instance type, zone and capacity type
}

// DecisionKind is a kind of Decision.
type DecisionKind string

// The kinds of decisions.
const (
	Launch DecisionKind = "launch"
	Remove DecisionKind = "remove"
	Evict  DecisionKind = "evict"
)

func (w *world) decided(kind DecisionKind, object, detail string) {
	w.result.Decisions = append(w.result.Decisions, Decision{w.Now, kind, object, detail})
}

func offeringText(parts ...string) string { return strings.Join(parts, " ") }

// Decisions returns the decisions recorded in a trace, in order of time.
func (t *Trace) Decisions() []Decision {
	var out []Decision
	for _, x := range t.Claims {
		if l := x.Last.Labels; !x.First && !x.Launched.IsZero() {
			out = append(out, Decision{launchedAt(x), Launch, x.Last.Name, offeringText(l[model.LabelInstanceType], l[model.LabelZone], l[model.LabelCapacityType])})
		}
		if !x.Deleted.IsZero() && x.Deleted.After(t.From) {
			out = append(out, Decision{x.Deleted, Remove, x.Last.Name, ""})
		}
	}
	for _, o := range t.Owners {
		for _, p := range o.Pods {
			if p.Disrupted != "" && p.Disrupted != "Preempted" && p.Disrupted != "NodeLost" {
				out = append(out, Decision{p.Ended, Evict, p.Pod.Key(), ""})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Decision) int { return a.At.Compare(b.At) })
	return out
}

// Agreement compares the decisions of a replay with the recorded ones.
type Agreement struct {
	Recorded int // number of recorded decisions
	Same     int // repeated in the replay, at the same time
	Shifted  int // repeated in the replay at another time: the time depends on when, between two recorded changes, something was observed
	Added    int // only in the replay

	Differing []Decision // recorded and not repeated, at most maxDiffering
}

const (
	// sameInstant is how far apart a decision and its replay may be.
	sameInstant  = 2 * time.Second
	maxDiffering = 20
)

// Agree compares the decisions of a replay with the recorded ones.
func Agree(recorded, replayed []Decision) Agreement {
	type key struct {
		kind           DecisionKind
		object, detail string
	}
	made := map[key][]time.Time{}
	for _, d := range replayed {
		k := key{d.Kind, d.Object, d.Detail}
		made[k] = append(made[k], d.At)
	}
	a := Agreement{Recorded: len(recorded)}
	matched := 0
	for _, d := range recorded {
		k := key{d.Kind, d.Object, d.Detail}
		at := made[k]
		if len(at) == 0 {
			if len(a.Differing) < maxDiffering {
				a.Differing = append(a.Differing, d)
			}
			continue
		}
		made[k] = at[1:]
		matched++
		if d.At.Sub(at[0]).Abs() <= sameInstant {
			a.Same++
		} else {
			a.Shifted++
		}
	}
	a.Added = len(replayed) - matched
	return a
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package headroom

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/forecast"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Status is the full status of a Headroom after an evaluation.
type Status struct {
	Spec     *Spec
	Problems []Problem
	Lead     time.Duration
	Output   Output // the zero value if there are Problems
	Memory   Memory
}

// Condition is one status condition.
type Condition struct {
	Type            string
	True            bool
	Reason, Message string
}

// Conditions returns Ready, Holding and WithinLimits.
func (s *Status) Conditions() []Condition {
	ready := Condition{Type: "Ready", True: true, Reason: "Valid"}
	if len(s.Problems) > 0 {
		var texts []string
		for _, p := range s.Problems {
			texts = append(texts, p.Error())
		}
		ready = Condition{Type: "Ready", Reason: s.Problems[0].Reason, Message: strings.Join(texts, " ")}
	}
	within := Condition{Type: "WithinLimits", True: true, Reason: "WithinLimits"}
	if s.Output.Limited != "" {
		within = Condition{Type: "WithinLimits", Reason: "LimitReached", Message: s.Output.Limited}
	}
	return []Condition{ready, s.holding(), within}
}

// holding reports whether capacity is held, for whom and at what price.
func (s *Status) holding() Condition {
	c := Condition{Type: "Holding"}
	switch {
	case s.Spec.Mode == Off:
		c.Reason, c.Message = "Off", "spec.mode is Off: nothing is held."
	case len(s.Problems) > 0:
		c.Reason, c.Message = "NotReady", "Nothing is held while condition Ready is False."
	case s.Output.Held == 0 && s.Output.Next != nil:
		n := s.Output.Next
		c.Reason = "NothingWanted"
		if n.LaunchFrom.After(s.Memory.At) {
			c.Message = fmt.Sprintf("No capacity is needed now. Window %s opens at %s; its nodes are launched from %s.", n.Window, clock(n.Opens), clock(n.LaunchFrom))
		} else {
			c.Message = fmt.Sprintf("Window %s is prepared or open, and the workload already uses the requested capacity.", n.Window)
		}
	case s.Output.Held == 0:
		c.Reason, c.Message = "NothingWanted", "No capacity is needed now."
	case s.Spec.Mode == Recommend:
		c.Reason, c.Message = "Recommended", upper(s.heldText())+" would be held in mode Active. spec.mode is Recommend, so nothing is held."
	default:
		c.True, c.Reason, c.Message = true, "Held", upper(s.heldText())+" is held."
	}
	return c
}

// heldText says for whom room is held and what it costs.
func (s *Status) heldText() string {
	var parts []string
	for _, d := range s.Output.Holds {
		if d.Held > 0 {
			parts = append(parts, fmt.Sprintf("%s of %s (%s)", model.Count(d.Held, "pod"), d.Workload, purpose(d.For)))
		}
	}
	text := "capacity for " + strings.Join(parts, ", ")
	if s.Output.Priced {
		text += ", at most $" + model.Dollars(s.Output.Micro) + "/h,"
	}
	return text
}

// Fact is a name and a value to display.
type Fact struct{ Name, Value string }

// Facts returns the facts that `dovetail why` prints.
func (s *Status) Facts() []Fact {
	facts := []Fact{{"mode", string(s.Spec.Mode)}}
	add := func(name, format string, args ...any) {
		facts = append(facts, Fact{name, fmt.Sprintf(format, args...)})
	}
	for _, c := range s.Conditions() {
		if c.Message != "" {
			add(strings.ToLower(c.Type), "%s", c.Message)
		}
	}
	if len(s.Problems) > 0 || s.Spec.Mode == Off {
		return facts
	}
	add("nodes take", "%s from NodeClaim to Ready (95th percentile of the last ones, or %s while there are none)", s.Lead, DefaultLead)
	if n := s.Output.Next; n != nil {
		add("next window", "%s, %s to %s; nodes are launched from %s on", n.Window, clock(n.Opens), clock(n.Closes), clock(n.LaunchFrom))
	}
	for i := range s.Output.Holds {
		d := &s.Output.Holds[i]
		add(d.Workload.String(), "%s", d.text())
	}
	add("last week", "%s", s.record())
	return facts
}

// text says what is held for one workload and what is expected of it.
func (d *Hold) text() string {
	text := fmt.Sprintf("%d replicas", d.Replicas)
	if d.Wanted > 0 {
		text += fmt.Sprintf("; capacity for %d more is needed (%s), %d within limits", d.Wanted, purpose(d.For), d.Held)
	}
	switch {
	case d.Awaited:
		return text + "; its demand history is being read: held capacity is kept until then"
	case d.Level == 0:
		return text
	case d.Rise.Why == forecast.TooLittleHistory:
		return text + "; less than a day of demand history: no forecast yet"
	case d.Rise.Why == forecast.Outdated:
		return text + "; no demand data in the last minutes: no forecast"
	}
	text += fmt.Sprintf("; forecast: at most %[2]d more replicas within %[1]s, with probability %[3].3g %% (method %[4]s)",
		time.Duration(d.Rise.Lead)*time.Minute, d.Rise.Rise, 100*d.Level, d.Rise.Method)
	if d.NextHour != nil {
		text += fmt.Sprintf("; next hour by quarters: %s replicas", strings.Trim(fmt.Sprint(d.NextHour.Quarters), "[]"))
		for _, e := range d.NextHour.Spikes {
			text += fmt.Sprintf("; %s spike of %d expected %s to %s, chance %.0f %%", strings.ToLower(e.Pattern.String()), e.Rise,
				clock(time.Unix(60*e.From, 0)), clock(time.Unix(60*e.To, 0)), 100*e.Soon)
		}
	}
	return text
}

// record says what came of the last week.
func (s *Status) record() string {
	r := s.Memory.LastWeek()
	held := "were held"
	if s.Spec.Mode == Recommend {
		held = "would have been held"
	}
	return fmt.Sprintf("%d spikes met, %d missed; %d pod-minutes of waiting avoided, %d not; %d pod-minutes of capacity %s, $%s",
		r.Hits, r.Misses, r.SparedSeconds/60, r.WaitedSeconds/60, r.IdleSeconds/60, held, model.Dollars(r.Micro))
}

// Text returns the message of an event.
func (e *Event) Text() string {
	rose := fmt.Sprintf("%s rose from %d to %d replicas", e.Workload, e.From, e.To)
	if e.Kind == SpikeMet {
		return fmt.Sprintf("%s: capacity was held for %s, which avoided %s of waiting for nodes", rose, model.Count(e.Met, "pod"), e.Lead.Round(time.Second))
	}
	return fmt.Sprintf("%s: no capacity was held for %d of %s, which waited for nodes; a node takes %s", rose, e.Missed, model.Count(e.Met+e.Missed, "pod"), e.Lead.Round(time.Second))
}

func purpose(name string) string {
	if name == ForForecast {
		return "forecast"
	}
	return "window " + name
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 MST") }

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// OnOneWorkload returns, for each Headroom in the order of the list, a problem if another Headroom holds capacity for the same
// workload, otherwise nil. Of several, only the oldest has no problem; if equally old, the first by name.
func OnOneWorkload(specs []*Spec, targets [][]WorkloadName) []*Problem {
	holder := map[WorkloadName]int{}
	older := func(a, b *Spec) bool {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Key(), b.Key())) < 0
	}
	for i, s := range specs {
		for _, w := range targets[i] {
			if k, ok := holder[w]; s.Mode != Off && (!ok || older(s, specs[k])) {
				holder[w] = i
			}
		}
	}
	out := make([]*Problem, len(specs))
	for i, s := range specs {
		for _, w := range targets[i] {
			if k, ok := holder[w]; ok && k != i && s.Mode != Off && out[i] == nil {
				out[i] = &Problem{Reason: TargetHeldTwice, Field: "spec.target", Value: w.String(),
					Why: "the older Headroom " + specs[k].Key() + " also targets this workload", Remedy: "Delete one of them, or merge their windows"}
			}
		}
	}
	return out
}

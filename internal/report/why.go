// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Why is an answer about one object, and what was decided about it before.
type Why struct {
	plan.Answer
	Gone    bool           `json:"gone,omitempty"` // the cluster doesn't have the object any more: Decided is all that is known of it
	Decided []ledger.Entry `json:"decided"`        // oldest first
}

// WhyJSON writes an answer for programs.
func WhyJSON(w io.Writer, a *Why) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(a)
}

// mostDecided is how many earlier decisions the text shows; the JSON has all.
const mostDecided = 10

// WhyText writes an answer for people.
func WhyText(w io.Writer, a *Why) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s at %s\n", a.Subject, a.At.UTC().Format(time.RFC3339))
	for _, f := range a.Facts {
		fmt.Fprintf(&b, "  %s: %s\n", f.Name, f.Value)
	}
	of := plan.Code("")
	for _, f := range a.Findings {
		if f.Of != of {
			of = f.Of
			fmt.Fprintf(&b, "\n%s\n", question(of))
		}
		pool := ""
		if of == plan.Demand && f.Reason.Pool != "" {
			pool = "nodepool " + f.Reason.Pool + ": "
		}
		fmt.Fprintf(&b, "  - %s%s\n", pool, Sentence(f.Reason))
		if f.Change != nil {
			fmt.Fprintf(&b, "    change: %s\n", change(*f.Change))
		}
		if !f.Until.IsZero() {
			fmt.Fprintf(&b, "    ends by itself at %s\n", f.Until.UTC().Format(time.RFC3339))
		}
	}
	switch {
	case a.Gone:
		fmt.Fprintf(&b, "\nIt is gone. What was decided about it follows.\n")
	case len(a.Findings) == 0:
		fmt.Fprintf(&b, "\nNothing is in the way.\n")
	}
	if len(a.Alternatives) > 0 {
		fmt.Fprintf(&b, "\nWhat it would come to\n")
		for i := range a.Alternatives {
			fmt.Fprintf(&b, "  - %s\n", alternative(&a.Alternatives[i]))
		}
	}
	if len(a.Ways) > 0 {
		fmt.Fprintf(&b, "\nWhat would change that, nearest first\n")
		for i := range a.Ways {
			fmt.Fprintf(&b, "  %d. %s\n", i+1, way(&a.Ways[i]))
		}
	}
	if n := len(a.Decided); n > 0 {
		fmt.Fprintf(&b, "\nDecided before\n")
		first := max(0, n-mostDecided)
		if first > 0 {
			fmt.Fprintf(&b, "  (%d earlier ones are left out)\n", first)
		}
		for _, e := range a.Decided[first:] {
			var why []string
			for _, r := range e.Why {
				why = append(why, Sentence(r))
			}
			at := e.At.UTC().Format(time.RFC3339)
			if e.Count > 1 {
				at += fmt.Sprintf(" to %s, %d times,", e.Last.UTC().Format(time.RFC3339), e.Count)
			}
			line := fmt.Sprintf("  %s %s %s: %s", at, e.Kind, e.Subject, strings.Join(why, "; "))
			if e.Outcome != "" {
				line += " (" + e.Outcome + ")"
			}
			fmt.Fprintln(&b, line)
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// change says an edit.
func change(c plan.Change) string {
	if c.Field == "" {
		return string(c.Op) + " " + c.Object
	}
	at := c.Object + " " + c.Field
	switch c.Op {
	case plan.Add:
		return at + ": add " + c.Value
	case plan.Remove:
		return at + ": remove"
	}
	return at + ": " + c.Value
}

func way(w *plan.Way) string {
	parts := make([]string, 0, len(w.Changes)+1)
	for _, c := range w.Changes {
		parts = append(parts, change(c))
	}
	if !w.After.IsZero() {
		parts = append(parts, "wait until "+w.After.UTC().Format(time.RFC3339))
	}
	if len(parts) == 0 {
		return "nothing but time: " + alternative(&w.Then)
	}
	return strings.Join(parts, ", and ") + "; then: " + alternative(&w.Then)
}

// alternative says what might be done and what it would cost.
func alternative(a *plan.Alternative) string {
	var machines []string
	for i := range a.Machines {
		m := &a.Machines[i]
		machines = append(machines, fmt.Sprintf("%d × %s in %s (%s) of nodepool %s at %s an hour", m.Count, m.Type, or(m.Zone, "any zone"), m.CapacityType, m.Pool, usd(m.PriceMicro)))
	}
	bought := strings.Join(machines, ", ")
	s := ""
	switch {
	case a.Kind == plan.Fit:
		return "it fits on " + a.On
	case a.Kind == plan.Usable:
		return a.On + " takes pods"
	case a.Kind == plan.Buy:
		return "buy " + bought
	case a.Kind == plan.Replace && bought == "":
		s = "replace it: can't be done"
	case a.Kind == plan.Replace:
		s = "replace it by " + bought
	default:
		s = "delete it"
	}
	s += fmt.Sprintf("; %s to move", count(a.Pods, "pod"))
	if a.Standing > 0 {
		s += fmt.Sprintf(", %d of them to machines that stand", a.Standing)
	}
	if a.Kind == plan.Leave || bought != "" {
		if saved := a.SavingMicro(); saved >= 0 {
			s += "; saves " + usd(saved) + " of " + usd(a.NowMicro) + " an hour"
		} else {
			s += "; costs " + usd(-saved) + " an hour more than now"
		}
		s += ", costs " + usd(a.OnceMicro) + " once"
	}
	if a.Why.Code != "" {
		s += "; not done: " + Sentence(a.Why)
	}
	return s
}

func question(of plan.Code) string {
	switch of {
	case plan.Demand:
		return "In the way of a machine for it"
	case plan.Empty:
		return "It is empty; in the way of giving it back"
	case plan.Underutilized:
		return "In the way of moving its pods to cheaper machines"
	case plan.Drifted:
		return "It has drifted; in the way of replacing it"
	case plan.Expired:
		return "It has expired; in the way of replacing it"
	case plan.Unhealthy:
		return "It is broken; in the way of replacing it"
	case plan.Draining:
		return "In the way of its drain"
	case plan.Initializing:
		return "In the way of the machine it waits for"
	}
	return "In the way of " + string(of)
}

// kept says what keeps a machine; empty: not a reason of that kind.
func kept(r plan.Reason) string {
	switch r.Code {
	case plan.NotInitialized:
		return r.Subject + " is not initialised yet"
	case plan.Moving:
		return r.Subject + " goes already, in move " + r.Key
	case plan.NoPrice:
		return "what " + r.Subject + " is (" + r.Have + ") is not in the catalogue any more, so that nobody can say whether another is cheaper"
	case plan.NodeDoNotDisrupt:
		return r.Subject + " bears " + r.Key + "=" + r.Have
	case plan.Nominated:
		return "pods are expected on " + r.Subject
	case plan.ConsolidationOff:
		return r.Subject + " has " + r.Key + " " + or(r.Have, "not set") + ", which moves no pods"
	case plan.Static:
		return r.Subject + " has a fixed number of machines, " + r.Key + " " + r.Have
	case plan.GroupMinimum:
		return r.Subject + " has " + r.Have + " machines that stay, and may not have fewer than " + r.Want
	case plan.GroupRefresh:
		return "an instance refresh of " + r.Subject + " is " + r.Have + ": its cloud replaces the machines itself"
	case plan.WellUsed:
		return "pods ask for " + r.Have + " of the " + r.Key + " of " + r.Subject + ", and its node group gives back those of which at most " + r.Want + " is asked for"
	case plan.Quiet:
		if r.Have == "Never" {
			return r.Subject + " has " + r.Key + " Never"
		}
		return "pods came or left " + r.Have + " ago; " + r.Key + " is " + r.Want
	case plan.Payback:
		return r.Subject + " was bought to save money and has not paid for its move before " + r.Want
	case plan.PodDoNotDisrupt:
		return r.Subject + " bears " + r.Key + "=" + r.Have
	case plan.SafeToEvict:
		return r.Subject + " bears " + r.Key + "=" + r.Have
	case plan.BadRestartCost:
		return r.Subject + " has " + r.Key + " " + strconv.Quote(r.Have) + ", which is not counted: want " + r.Want
	case plan.NoController:
		return r.Subject + " has no controller that would make it again"
	case plan.DisruptionBudgetPDB:
		return r.Subject + " is guarded by PodDisruptionBudget " + r.Key + ", which allows no disruption now"
	case plan.SeveralPDBs:
		return r.Subject + " is guarded by " + r.Have + " PodDisruptionBudgets (" + r.Key + "); the eviction API refuses such a pod always"
	case plan.Budget:
		return "the disruption budget of " + r.Subject + with(", ", r.Key, ",") + " " + r.Have
	case plan.NoHome:
		return r.Subject + " would have no home: " + strings.TrimSpace(r.Key) + with(", wants ", r.Want, "") + with(", has ", r.Have, "")
	case plan.NotCheaper:
		return "its pods cost no less elsewhere: " + r.Have + " an hour, where " + r.Want + " is wanted"
	case plan.DoesNotPay:
		return "a move would save too little: " + r.Have + ", where " + r.Want + " is wanted"
	case plan.ShortLived:
		return r.Subject + " is expected to grow or shrink again in " + r.Key + ", as it did before: with that a move would save " + r.Have + ", where " + r.Want + " is wanted"
	case plan.NotKept:
		return "what would come can't be kept to its pods (" + r.Key + "), and then " + r.Subject + " might find no room"
	case plan.NotBalanced:
		return "policy Balanced wants " + r.Want + "; the best move scores " + r.Have
	case plan.RepairBlocked:
		return "too many nodes of " + r.Subject + " are unhealthy at once to be repaired: " + r.Have + ", where " + r.Want + " is wanted"
	case plan.NoSurge:
		return r.Subject + " can't wait for its successor: " + or(r.Have, r.Key) + with(" (", r.Key, ")")
	case plan.StartupTaints:
		return or(r.Subject, "the pool") + " bears startup taint " + or(r.Have, r.Key)
	case plan.Aborted:
		return r.Have + "; not tried again before " + strings.TrimPrefix(r.Want, "past ")
	case plan.Underutilized:
		return "its pods cost less elsewhere: saves " + r.Have + " for " + r.Want
	}
	return ""
}

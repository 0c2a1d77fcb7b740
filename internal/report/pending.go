// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Pending is what pending pods wait for.
type Pending struct {
	At     time.Time      `json:"at"`
	Pods   int            `json:"pods"`
	Causes []PendingCause `json:"causes"` // most pods first
}

// PendingCause is pods that wait for the same.
type PendingCause struct {
	Cause  string   `json:"cause"`
	Change string   `json:"change,omitempty"` // the nearest change after which they don't
	Pods   []string `json:"pods"`             // namespace/name, sorted
}

// CauseOf says in one sentence what a pending pod waits for.
func CauseOf(a *plan.Answer) PendingCause {
	out := PendingCause{Cause: "waiting for kube-scheduler"}
	if i := slices.IndexFunc(a.Findings, func(f plan.Finding) bool { return f.Of == plan.Demand }); i >= 0 {
		r := a.Findings[i].Reason
		out.Cause = with("NodePool ", r.Pool, ": ") + Sentence(r)
	} else if len(a.Findings) > 0 { // of the node that it waits for
		out.Cause = Sentence(a.Findings[0].Reason)
	}
	if len(a.Findings) == 0 && len(a.Alternatives) > 0 {
		switch alt := &a.Alternatives[0]; alt.Kind {
		case plan.Fit:
			out.Cause = "waiting for node or NodeClaim " + alt.On + ", which has capacity for it"
		case plan.Buy:
			out.Cause = "a node is about to be launched for it"
		}
	}
	for i := range a.Ways {
		if w := &a.Ways[i]; len(w.Changes) > 0 && w.IsEditable() {
			parts := make([]string, len(w.Changes))
			for j, c := range w.Changes {
				parts[j] = change(c)
			}
			out.Change = strings.Join(parts, ", and ")
			if w.Starts < w.Waiting {
				out.Change += " (starts " + startsText(w) + ")"
			}
			break
		}
	}
	return out
}

// PendingJSON writes what pending pods wait for, for programs.
func PendingJSON(w io.Writer, p *Pending) error { return writeIndented(w, p) }

// PendingText writes what pending pods wait for, for people.
func PendingText(w io.Writer, p *Pending) error {
	const most = 5
	var b bytes.Buffer
	if p.Pods == 0 {
		fmt.Fprintf(&b, "No pod is pending.\n")
	} else {
		fmt.Fprintf(&b, "%s pending at %s\n", model.Count(p.Pods, "pod"), p.At.UTC().Format(time.RFC3339))
	}
	for _, c := range p.Causes {
		fmt.Fprintf(&b, "\n%s: %s\n", model.Count(len(c.Pods), "pod"), c.Cause)
		if c.Change != "" {
			fmt.Fprintf(&b, "  change: %s\n", c.Change)
		}
		names := c.Pods[:min(len(c.Pods), most)]
		fmt.Fprintf(&b, "  pods: %s", strings.Join(names, ", "))
		if n := len(c.Pods) - len(names); n > 0 {
			fmt.Fprintf(&b, " and %d more", n)
		}
		b.WriteByte('\n')
	}
	_, err := w.Write(b.Bytes())
	return err
}

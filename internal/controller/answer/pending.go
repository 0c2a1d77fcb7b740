// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package answer

import (
	"context"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/explain"
	"github.com/dovetail-sh/dovetail/internal/report"
)

// mostChangesSought is for how many causes, of most pods first, the changes that would help are looked for.
const mostChangesSought = 50

// ExplainPending returns the pending pods, grouped by the reason why they are pending.
func (an *Answers) ExplainPending(ctx context.Context) (report.Pending, error) {
	v, done, err := an.openView(ctx)
	if err != nil {
		return report.Pending{}, err
	}
	defer done()
	out := report.Pending{At: time.Now(), Causes: []report.PendingCause{}}
	first := map[string]explain.Waiting{} // by cause
	for _, w := range explain.Pending(v.Snap, v.Mem, out.At, v.Policy) {
		cause := report.CauseOf(&w.Answer)
		i := slices.IndexFunc(out.Causes, func(o report.PendingCause) bool { return o.Cause == cause.Cause })
		if i < 0 {
			i = len(out.Causes)
			out.Causes = append(out.Causes, cause)
			first[cause.Cause] = w
		}
		for _, p := range w.Pods {
			out.Causes[i].Pods = append(out.Causes[i].Pods, p.Key())
			out.Pods++
		}
	}
	if len(v.Left) > 0 {
		left := report.PendingCause{Cause: "waiting for " + leftTo(v)}
		for _, p := range v.Left {
			left.Pods = append(left.Pods, p.Key())
		}
		out.Causes, out.Pods = append(out.Causes, left), out.Pods+len(left.Pods)
	}
	slices.SortStableFunc(out.Causes, func(a, b report.PendingCause) int { return len(b.Pods) - len(a.Pods) })
	for i := range out.Causes[:min(len(out.Causes), mostChangesSought)] {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		c := &out.Causes[i]
		w, asked := first[c.Cause]
		if !asked {
			continue // another autoscaler's
		}
		a, err := w.Why()
		if err != nil {
			return out, err
		}
		if of := report.CauseOf(&a); of.Change != "" { // of the NodePool that the change is for, which may be another
			c.Cause, c.Change = of.Cause, of.Change
		}
	}
	return out, nil
}

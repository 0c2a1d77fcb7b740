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

// mostPendingAsked is how many workloads with pending pods are asked about one by one.
const mostPendingAsked = 50

// ExplainPending says what pending pods wait for, those that wait for the same together.
func (an *Answers) ExplainPending(ctx context.Context) (report.Pending, error) {
	v, done, err := an.openView(ctx)
	if err != nil {
		return report.Pending{}, err
	}
	defer done()
	out := report.Pending{At: time.Now(), Causes: []report.PendingCause{}}
	asked := map[string]report.PendingCause{} // by owner and class
	for _, p := range v.Snap.Pending {
		out.Pods++
		key := p.Owner.UID + "\x00" + p.Class.Key
		cause, ok := asked[key]
		if !ok {
			if len(asked) == mostPendingAsked {
				out.NotAsked++
				continue
			}
			a, err := explain.Why(v.Snap, v.Mem, out.At, v.Policy, "pod/"+p.Key())
			if err != nil {
				return out, err
			}
			cause = report.CauseOf(&a)
			asked[key] = cause
		}
		i := slices.IndexFunc(out.Causes, func(o report.PendingCause) bool { return o.Cause == cause.Cause })
		if i < 0 {
			i = len(out.Causes)
			out.Causes = append(out.Causes, cause)
		}
		out.Causes[i].Pods = append(out.Causes[i].Pods, p.Key())
	}
	slices.SortStableFunc(out.Causes, func(a, b report.PendingCause) int { return len(b.Pods) - len(a.Pods) })
	return out, nil
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package record

import (
	"fmt"
	"time"

	"github.com/dovetail-sh/dovetail/internal/approve"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/report"
)

// Refused records the parts of a decision that verify refused, and those withheld because their evaluation failed.
func (rec *Recorder) Refused(now time.Time, d *approve.Decision) {
	for _, r := range d.Bindings {
		if r.KeepsSlot() {
			continue
		}
		rec.metrics.CountUnfitBinding()
		text := report.Sentence(r.Why)
		rec.log.Info("pod can't be bound as planned", "pod", r.Key, "node", r.Node, "because", text)
		rec.ledger.Add(ledger.Entry{At: now, Kind: "bind", Subject: "pod/" + r.Key, Why: []plan.Reason{r.Why}, Outcome: "not bound to node " + r.Node})
	}
	for _, m := range d.Moves {
		rec.refuseMove(now, m)
	}
	if d.Fault != nil {
		return // told as a failed decision
	}
	verified := false
	for _, x := range d.Refused {
		why := plan.DetailOf[plan.OfPlanRefused](x.Why)
		rec.metrics.CountRefusedPart(x.Unit, x.Why.Pool)
		e := ledger.Entry{At: now, Kind: "verify", Subject: "plan", Outcome: "refused: " + string(why.Said)}
		var names []string
		for _, p := range x.Pods {
			names = append(names, p.Key())
		}
		e.Pods = names
		if why.Rule != "" {
			e.Why = []plan.Reason{x.Why}
		}
		if x.Why.Pool != "" {
			e.Subject = "nodepool/" + x.Why.Pool
		}
		rec.ledger.Add(e)
		const most = 5
		rec.log.Error("part of the plan failed verification and is not carried out; this is a bug in Dovetail", "unit", x.Unit, "nodepool", x.Why.Pool, "rule", why.Rule,
			"violation", why.Said, "pods", len(names), "names", names[:min(most, len(names))])
		if x.Pool != "" {
			if p := rec.pools.FindPool(x.Pool); p != nil {
				rec.events.Event("NodePool", "", x.Pool, p.UID, true, "PlanRefused", fmt.Sprintf("No node is launched for now: the plan failed verification (%s: %s), a bug in Dovetail", why.Rule, why.Said))
			}
		}
		verified = true
	}
	if verified {
		rec.metrics.CountRefusedPlan()
	}
}

// Fault records a panic during a decision. If it affected only a withheld part, everything else was decided; otherwise nothing is
// launched or disrupted for a while.
func (rec *Recorder) Fault(now time.Time, d *approve.Decision) {
	rec.metrics.CountFailedDecision()
	e := ledger.Entry{At: now, Kind: "decide", Subject: "plan", Outcome: fmt.Sprint("failed: ", d.Fault)}
	if !d.Isolated {
		rec.log.Error("decision failed: nothing is launched or disrupted until the next one; this is a bug in Dovetail", "panic", d.Fault, "stack", d.Stack)
		rec.ledger.Add(e)
		return
	}
	for _, x := range d.Refused {
		if plan.DetailOf[plan.OfPlanRefused](x.Why).Rule != plan.Panic {
			continue
		}
		rec.metrics.CountRefusedPart(x.Unit, x.Why.Pool)
		own := e
		if x.Pool != "" {
			own.Subject = "nodepool/" + x.Pool
		}
		for _, p := range x.Pods {
			own.Pods = append(own.Pods, p.Key())
		}
		rec.ledger.Add(own)
		rec.log.Error("decision failed: repeated without the part that caused it; this is a bug in Dovetail", "unit", x.Unit, "nodepool", x.Pool, "pods", len(x.Pods), "panic", d.Fault, "stack", d.Stack)
	}
}

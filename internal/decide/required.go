// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide/claims"
	"github.com/dovetail-sh/dovetail/internal/decide/disruption"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// requiredDisruption replaces machines that must go: broken, expired, drifted.
type requiredDisruption struct {
	*draft
	backOffs     *disruption.BackOffs
	candidates   *candidates
	commandStage *disruptionCommands
	driftBackOff *driftBackOff
	health       *claims.Health
	reboots      *reboots
	search       *disruptionSearch
	endsFirst    *terminateFirst
}

// replace starts the next disruption command of a machine that must go: broken, expired, drifted. Machines without pods
// just go, and a broken one that a reboot may repair is rebooted. It reports whether it started one with replacements, or a reboot.
func (rq *requiredDisruption) replace() bool {
	type due struct {
		u     *disrupt.Candidate
		cause plan.Code
		since time.Time
		rank  int
	}
	var queue []due
	for _, u := range rq.candidates.dirty {
		c := u.Claim
		switch {
		case u.CommandID != "" || u.Pool.Replicas >= 0 && rq.IsDeleting(c): // removed by a scale-down in this step
		case rq.health.CanReplace(c, rq.Now):
			queue = append(queue, due{u, plan.Unhealthy, rq.health.Of(c).Urgent, -1})
		case u.Initialized && rq.candidates.machines[c].found.expired:
			queue = append(queue, due{u, plan.Expired, c.Created.Add(c.ExpireAfter), 0})
		case c.Is(lifecycle.Drifted):
			queue = append(queue, due{u, plan.Drifted, c.Conditions[lifecycle.Drifted].Since, 1})
		}
	}
	slices.SortStableFunc(queue, func(a, b due) int {
		if a.rank != b.rank {
			return a.rank - b.rank
		}
		if a.cause == plan.Unhealthy && !a.since.Equal(b.since) { // by urgency alone, since an empty one uses the budget too
			return a.since.Compare(b.since)
		}
		if x, y := len(a.u.Pods) > 0, len(b.u.Pods) > 0; x != y { // empty ones first: they cost nobody anything
			if y {
				return -1
			}
			return 1
		}
		return a.since.Compare(b.since)
	})
	for _, d := range queue {
		u := d.u
		if d.cause == plan.Drifted {
			rq.wakeAt(rq.driftBackOff.heldUntil(u))
		}
		if len(rq.candidates.guard.Blockers(u, d.cause, true)) > 0 || rq.heed(rq.backOffs.IsHeld(u)) {
			continue
		}
		if rq.IsUpdating(u.Claim) {
			rq.wakeAt(rq.Now.Add(rq.pol.SearchInterval))
			continue
		}
		if left, _ := rq.candidates.budgetLeftFor(u, d.cause); left <= 0 {
			rq.wakeAt(rq.Now.Add(10 * time.Second))
			continue
		}
		if d.cause == plan.Unhealthy && rq.health.Of(u.Claim).Reboot {
			if u.Nominated { // pods are coming: they are waited for
				rq.wakeAt(rq.Now.Add(rq.pol.SearchInterval))
				continue
			}
			rq.candidates.countDown(u.Pool, 1)
			rq.reboots.begin(u.Claim)
			return true
		}
		if len(u.Pods) == 0 && u.Pool.Replicas < 0 {
			rq.commandStage.start(&disrupt.Command{Cause: d.cause, Candidates: []*disrupt.Candidate{u}, OldMicroPerHour: max(u.PriceMicro, 0), Why: rq.reason(u, d.cause)})
			continue
		}
		var m *disrupt.Command
		var why plan.Reason
		if u.Pool.Replicas >= 0 {
			m, why = rq.commandStage.purchases.staticReplacement(u, d.cause)
		} else {
			m, why = rq.findReplacement(u, d.cause)
		}
		if m == nil {
			var wait plan.Reason
			if m, wait = rq.endsFirst.command(u, d.cause); wait.Code != "" {
				rq.wakeAt(rq.Now.Add(10 * time.Second))
				continue
			} else if m == nil && u.Pool.Replicas < 0 {
				rq.backOffs.HoldCandidate(u, rq.pol.BackOff/10)
			}
		}
		if m == nil {
			rq.out.Kept = append(rq.out.Kept, Kept{Node: u.Node.Name, Cause: d.cause, Why: why})
			continue
		}
		m.Why = rq.reason(u, d.cause)
		rq.commandStage.start(m)
		return true
	}
	return false
}

// findReplacement returns the disruption command that replaces a machine, whatever it costs; nil and the reason where
// some pod would find no node. Virtual pods do not keep what must go: without a place elsewhere they are left out, and
// sought one when it is gone.
func (rq *requiredDisruption) findReplacement(u *disrupt.Candidate, cause plan.Code) (m *disrupt.Command, why plan.Reason) {
	rq.search.mem.measured = rq.search.startTimes()
	if m, why = rq.search.replacement(u, cause); m != nil {
		return m, why
	}
	real := model.RealPods(u.Pods)
	if len(real) == len(u.Pods) {
		return nil, why
	}
	v := *u
	v.Pods = real
	rq.candidates.replace(u, &v)
	if len(real) == 0 {
		return &disrupt.Command{Cause: cause, Candidates: []*disrupt.Candidate{&v}, OldMicroPerHour: max(u.PriceMicro, 0)}, plan.Reason{}
	}
	return rq.findReplacement(&v, cause)
}

// reason says why a machine must go.
func (rq *requiredDisruption) reason(u *disrupt.Candidate, cause plan.Code) plan.Reason {
	r := plan.Reason{Code: cause, Pool: u.Pool.Name, Subject: plan.ObjectOf("node", u.Node.Name)}
	switch cause {
	case plan.Unhealthy:
		return rq.health.Of(u.Claim).Cause
	case plan.Expired:
		r.Detail = plan.OfExpired{After: u.Claim.ExpireAfter, Age: rq.Now.Sub(u.Claim.Created).Round(time.Second)}
	case plan.Drifted:
		d := u.Claim.Conditions[lifecycle.Drifted]
		r.Detail = plan.OfDrifted{Kind: d.Reason, Said: plan.Words(d.Message)}
	}
	return r
}

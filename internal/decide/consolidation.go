// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide/demand"
	"github.com/dovetail-sh/dovetail/internal/decide/disruption"
	"github.com/dovetail-sh/dovetail/internal/decide/scaleforecast"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// disruptionSearch looks for machines whose pods can be had for less.
type disruptionSearch struct {
	*searchInput
	backOffs     *disruption.BackOffs
	commandStage *disruptionCommands
}

// searchMemory is what disruptionSearch remembers from step to step.
type searchMemory struct {
	consolidation  disrupt.Memory
	quietWaitSince time.Time // since when machines that come to rest soon are waited for; zero: none is
	quietWaitFresh bool      // and some have come to rest since
	searchedAt     time.Time // when machines were last looked at for consolidation
	searchedAllAt  time.Time // and when all of them, and sets
	measured       measurement
	forecast       scaleforecast.Memory
}

// searchable is the machines that may be searched for consolidation now.
type searchable struct {
	candidates []*disrupt.Candidate
	budgetLeft map[string]int64 // by pool: how many of its machines may go
	fresh      bool             // some have become quiet since the last search

	soon  time.Time     // when the last of those that become quiet within Policy.QuietWait does, or whose pods end within it; zero: there are none
	after time.Duration // the longest consolidateAfter of these; of those with pods that end at most Policy.QuietWait
}

// sampleReplicas notes how many pods each workload has now.
func (se *disruptionSearch) sampleReplicas() {
	se.mem.forecast = se.mem.forecast.Sample(se.Snapshot, se.Now)
}

// findSearchable returns the machines with pods that nothing blocks and that their pools' budgets let go; those whose
// claims are being written only with atOnce.
func (se *disruptionSearch) findSearchable(atOnce bool) searchable {
	out := searchable{budgetLeft: map[string]int64{}}
	for _, u := range se.candidates.all {
		if se.podsEndSoon(u) {
			out.after = max(out.after, min(u.Pool.ConsolidateAfter, se.pol.QuietWait))
			out.soon = model.LaterOf(out.soon, model.LaterOf(u.PodsEndBy, se.Now.Add(se.pol.SearchInterval)))
		}
		if len(u.Pods) == 0 || se.heed(se.backOffs.IsHeld(u)) {
			continue
		}
		if why := se.candidates.guard.Blockers(u, plan.Underutilized, true); len(why) > 0 {
			due := se.candidates.guard.EligibleAt(u)
			switch why[0].Code {
			case plan.DelayAfterAdd, plan.DelayAfterDelete, plan.DelayAfterFailure, plan.SystemPod:
				se.wakeAt(due)
			}
			if why[0].Code == plan.Quiet && !due.IsZero() && due.Before(se.Now.Add(se.pol.QuietWait)) {
				out.after = max(out.after, u.Pool.ConsolidateAfter)
				out.soon = model.LaterOf(out.soon, due)
			}
			continue
		}
		out.fresh = out.fresh || u.UnchangedSince.Add(u.Pool.ConsolidateAfter).After(se.mem.searchedAt)
		if !atOnce && se.IsUpdating(u.Claim) { // a write of its own, and then it may
			out.soon = model.LaterOf(out.soon, se.Now.Add(se.pol.SearchInterval/5))
			continue
		}
		n, ok := out.budgetLeft[u.Pool.Name]
		if !ok {
			n, _ = se.candidates.budgetLeft(u.Pool, plan.Underutilized)
			out.budgetLeft[u.Pool.Name] = n
		}
		if n <= 0 {
			se.wakeAt(se.Now.Add(10 * time.Second)) // a schedule may open, another node may be gone
			continue
		}
		out.candidates = append(out.candidates, u)
	}
	return out
}

// podsEndSoon reports whether the last of the pods that are being deleted on a machine ends within Policy.QuietWait, if it ends when its grace period does.
// One that has not ended shortly after that is not waited for.
func (se *disruptionSearch) podsEndSoon(u *disrupt.Candidate) bool {
	return u.CommandID == "" && se.Now.Before(u.PodsEndBy.Add(demand.LateEnd)) && !u.PodsEndBy.After(se.Now.Add(se.pol.QuietWait))
}

// noteQuietWait notes since when a search waits for machines that become quiet soon, and whether some are quiet already.
func (se *disruptionSearch) noteQuietWait(x searchable) {
	if se.mem.quietWaitSince.IsZero() || x.fresh && !se.mem.quietWaitFresh {
		se.mem.quietWaitSince, se.mem.quietWaitFresh = se.Now, x.fresh
	}
}

// waitsForQuiet reports whether a search waits for machines that become quiet soon. Machines whose pods left together
// become quiet one after another: a command for all of them is better than one for each. As long as none of them is
// quiet, the others, which have been searched before, are not searched alone.
//
// Machines with pods that end soon are waited for likewise: from then on they have free capacity, and they are quiet consolidateAfter later. A search
// before that would launch nodes for pods that fit there a moment later, or move pods onto a machine that another command replaces next.
func (se *disruptionSearch) waitsForQuiet(x searchable) bool {
	limit := se.pol.QuietWait + demand.LateEnd
	if se.mem.quietWaitFresh {
		limit += min(x.after, se.pol.QuietWait)
	} else {
		limit += x.after
	}
	return !x.soon.IsZero() && se.Now.Before(se.mem.quietWaitSince.Add(limit))
}

// consolidate searches for machines whose pods can be had for less, and starts the commands that it finds. With atOnce it
// searches among all machines and waits neither for those that become quiet soon, nor for a write, nor until
// SearchInterval after the last search.
func (se *disruptionSearch) consolidate(atOnce bool) {
	x := se.findSearchable(atOnce)
	if len(x.candidates) == 0 {
		se.mem.quietWaitSince, se.mem.quietWaitFresh = time.Time{}, false
		return
	}
	if !atOnce {
		if se.noteQuietWait(x); se.waitsForQuiet(x) {
			se.wakeAt(x.soon)
			return
		}
	}
	if due := se.mem.searchedAt.Add(se.pol.SearchInterval); !atOnce && se.Now.Before(due) {
		se.wakeAt(due)
		return
	}
	if se.heed(se.transit(se.placements).AreUnsettled()) {
		se.wakeAt(se.Now.Add(se.pol.SearchInterval))
		return
	}
	se.mem.searchedAt = se.Now
	se.mem.measured = se.startTimes()
	in, until := se.input(false)
	se.wakeAt(until)
	in.Candidates, in.BudgetLeft = x.candidates, x.budgetLeft
	var again time.Time
	in.Scope, again = se.scope(atOnce)
	found, mem := disrupt.Consolidate(in, se.pol.Disrupt, se.pol.Solve, se.mem.consolidation)
	for _, name := range mem.Judged {
		if v := mem.WhyKept(name); v.Code != se.mem.consolidation.WhyKept(name).Code {
			se.out.Kept = append(se.out.Kept, Kept{Node: name, Cause: plan.Underutilized, Why: v})
		}
	}
	se.mem.consolidation = mem
	if len(found) > 0 || !mem.Unfinished { // what comes to rest from now on is waited for anew
		se.mem.quietWaitSince, se.mem.quietWaitFresh = time.Time{}, false
	}
	for _, m := range found {
		if se.heed(se.buffers.wouldBuyAgain(m)) {
			for _, u := range m.Candidates {
				se.backOffs.HoldCandidate(u, se.pol.BackOff)
			}
			continue
		}
		se.commandStage.start(m)
	}
	if mem.WasWide {
		se.mem.searchedAllAt = se.Now
	}
	switch {
	case len(found) > 0 || mem.Unfinished:
		se.wakeAt(se.Now.Add(se.pol.SearchInterval))
	case mem.HasUnsearched():
		se.wakeAt(again)
	}
}

// restPerWork is how long searches pause after one of all machines, for each step of its work: ten to twenty times as
// long as it took.
const restPerWork = 100 * time.Nanosecond

// scope returns how far to search now, and when to search further: among all machines when anything has changed, but no
// more often than costs a small part of a processor; in between among what has changed.
func (se *disruptionSearch) scope(atOnce bool) (disrupt.Scope, time.Time) {
	rest := se.mem.searchedAllAt.Add(max(se.pol.SearchInterval, min(time.Duration(se.mem.consolidation.LastWideWork)*restPerWork, se.pol.FullSearchInterval)))
	switch {
	case atOnce:
		return disrupt.Afresh, se.Now.Add(se.pol.SearchInterval)
	case se.Now.Before(rest):
		return disrupt.Narrow, rest
	}
	return disrupt.Wide, se.Now.Add(se.pol.SearchInterval)
}

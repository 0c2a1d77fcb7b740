// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/decide/claims"
	"github.com/dovetail-sh/dovetail/internal/decide/pools"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// evaluation is a machine of a NodePool with a node, evaluated once in a step: the candidate as the next step may take it over,
// and what was found about it.
type evaluation struct {
	*disrupt.Candidate
	found findings
}

// findings are what stages may have to do about one machine, a field for each. A stage that looks at machines one by one
// looks at its field, and no stage has anything to do about a machine of which nothing is found. That is all that the memo
// of unchanged machines knows: a new rule adds a field here, and can't be forgotten there.
type findings struct {
	interrupted bool // its cloud takes it away
	commanded   bool // it is part of a disruption command, or its objects speak of one
	rebooting   bool // its node is rebooted, or is to be
	tainted     bool // its node has the taint of disruption
	down        bool // it is not available to disruption budgets, or is about to go
	uncounted   bool // it is not yet, or no longer, what NodePools count: see isCountedByAll
	unhealthy   bool // its node has something wrong with it
	terminates  bool // its claim has a time of termination
	reserved    bool // its claim holds capacity for pods, or its node is still kept for them and for pods of DaemonSets
	unsure      bool // nobody knows whether the slots of its claim were written
	expired     bool
	idle        bool // it goes when it is empty for consolidateAfter, and has no workload pod
	ending      bool // a workload pod on it is being deleted: its node waits for it for a while
	drift       drift
}

// evaluate returns what is found about a machine.
func (ca *candidates) evaluate(u *disrupt.Candidate) findings {
	c := u.Claim
	return findings{
		interrupted: ca.Interruptions[c.Name] != nil,
		commanded:   ca.commands.IsInvolved(c),
		rebooting:   ca.reboots.isUnderWay(c),
		tainted:     slices.Contains(u.Node.Taints, disrupt.DisruptedTaint),
		down:        !ca.isAvailable(c, u.Node),
		uncounted:   !isCountedByAll(c),
		unhealthy:   ca.health.Of(c).Cause.Code != "",
		terminates:  c.Annotations[lifecycle.TerminationTime] != "",
		reserved:    ca.reservations.ByClaim[c.Name] != nil || cluster.WaitsForDaemons(c, u.Node) || c.Annotations[model.AnnotationBooked] != "",
		unsure:      c.SlotsUnsure,
		expired:     lifecycle.IsExpired(c, ca.Now),
		idle:        !ca.isOccupied(u) && u.Pool.ConsolidateAfter >= 0 && u.Pool.Replicas < 0,
		ending:      !u.PodsEndBy.IsZero(),
		drift:       ca.findDrift(u),
	}
}

// isCountedByAll reports whether a claim's machine is one for whoever counts those of a NodePool: for limits, for disruption
// budgets, for repairs and in the status.
func isCountedByAll(c *model.Claim) bool {
	return isSizeKnown(c) && isCounted(c) && claims.CountsForRepair(c) && pools.CountsInStatus(c)
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"github.com/dovetail-sh/dovetail/internal/decide/claims"
	"github.com/dovetail-sh/dovetail/internal/decide/demand"
	"github.com/dovetail-sh/dovetail/internal/decide/disruption"
	"github.com/dovetail-sh/dovetail/internal/decide/nodegroups"
	"github.com/dovetail-sh/dovetail/internal/decide/unused"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// step is one run of the stages: the index of the snapshot and the plan under construction, which every stage reads and
// adds to, and the stages that are run or asked by name.
type step struct {
	*draft
	mem Memory // of the step before; what stages write to it is the next one's

	cameShort bool // a node was found in this step to have less than was promised; this is the step taken anew with what is known of it

	memo          *unchangedMachines
	buffers       *buffers
	disagreements *demand.Disagreements
	placements    *placements
	nodes         *solverView
	purchases     *purchases
	shortfalls    *demand.Shortfalls
	unused        *unused.Launches
	health        *claims.Health
	backOffs      *disruption.BackOffs
	bookings      *bookings
	commandStage  *disruptionCommands
	candidates    *candidates
	search        *disruptionSearch
	required      *requiredDisruption
	reboots       *reboots
	drift         *driftConditions
	driftBackOff  *driftBackOff
	demand        *demandStage
	withholding   *demand.Withholding
}

// newStep returns a step over a View, with nothing decided yet. A stage is given its part of the memory and the
// stages that it asks, which are made before it: that is why none asks another in a circle.
func newStep(memo *unchangedMachines, mem Memory, pol Policy, req Request) *step {
	d := &draft{index: &index{memo.View, pol}, Begun: plan.Begun{InFlight: memo.Snapshot.InFlight, Decided: map[model.ActionKey]bool{}}, req: req, changedClaims: map[string]bool{}, changedNodes: map[string]bool{}}
	st := &step{draft: d, mem: mem, memo: memo}
	m := &st.mem

	// What is there, and how it stands.
	shortfalls := demand.NewShortfalls(d.View, pol.Lifecycle, m.shortfalls)
	backOffs := disruption.NewBackOffs(d.View, m.backOffs)
	table := &commandTable{draft: d, mem: &m.commands, backOffs: backOffs, memo: memo}
	health := &claims.Health{}
	placements := &placements{mem: &m.placements, awaitsPods: map[string]bool{}, awaitsEnds: map[string]bool{}, booked: map[string][]*model.Pod{}}
	disagreements := demand.NewDisagreements(d.View, pol.DisagreementAfter, pol.DisagreementRetry, m.disagreements)

	// Claims, and what is launched for demand.
	unused := unused.New(d.View, m.unused)
	withheld := demand.NewWithholding(d.View, m.withholding)
	purchases := &purchases{draft: d, mem: &m.purchases, memo: memo, unused: unused, withholding: withheld}
	nodes := &solverView{draft: d, memo: memo, purchases: purchases}
	buffers := &buffers{draft: d, mem: &m.buffers, nodes: nodes, placements: placements}
	hosts := &commandHosts{table, health, placements}
	st.demand = &demandStage{draft: d, mem: &m.demand, buffers: buffers, disagreements: disagreements, expander: &nodegroups.Expander{View: d.View, Policy: pol.Solve, Ask: req.AskExpander, Answer: req.Expander}, hosts: hosts,
		nodes: nodes, placements: placements, purchases: purchases, shortfalls: shortfalls, unused: unused, requests: &m.requests, bookings: &m.bookings, withholding: withheld,
		smallNodes: &m.smallNodes}

	st.bookings = &bookings{draft: d, hosts: hosts, placements: placements, nodes: nodes, mem: &m.bookings}

	// Disruption.
	driftBackOff := &driftBackOff{draft: d, mem: &m.drift}
	reboots := &reboots{draft: d, mem: &m.reboots, health: health}
	candidates := &candidates{draft: d, reboots: reboots, activity: &m.groupActivity, buffers: buffers, driftBackOff: driftBackOff, health: health, memo: memo, placements: placements}
	input := &searchInput{draft: d, mem: &m.search, buffers: buffers, candidates: candidates, hosts: hosts, nodes: nodes, purchases: purchases, placements: placements}
	endsFirst := &terminateFirst{draft: d, candidates: candidates, input: input, nodes: nodes, purchases: purchases, placements: placements}
	commandStage := &disruptionCommands{commandTable: table, candidates: candidates, health: health, hosts: hosts, nodes: nodes,
		purchases: purchases, placements: placements, endsFirst: endsFirst}
	search := &disruptionSearch{searchInput: input, backOffs: backOffs, commandStage: commandStage}
	st.drift = &driftConditions{draft: d, candidates: candidates, backOff: driftBackOff}
	st.required = &requiredDisruption{draft: d, backOffs: backOffs, candidates: candidates, driftBackOff: driftBackOff, commandStage: commandStage, health: health, reboots: reboots, search: search, endsFirst: endsFirst}

	st.buffers, st.unused, st.withholding = buffers, unused, withheld
	st.disagreements, st.placements = disagreements, placements
	st.nodes, st.purchases, st.shortfalls, st.health, st.backOffs = nodes, purchases, shortfalls, health, backOffs
	st.driftBackOff, st.reboots = driftBackOff, reboots
	st.commandStage, st.candidates, st.search = commandStage, candidates, search
	return st
}

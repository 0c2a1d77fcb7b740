// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/decide/claims"
	"github.com/dovetail-sh/dovetail/internal/decide/demand"
	"github.com/dovetail-sh/dovetail/internal/decide/disruption"
	"github.com/dovetail-sh/dovetail/internal/decide/nodegroups"
	"github.com/dovetail-sh/dovetail/internal/decide/unused"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// step is one run of the stages: the index of the snapshot and the plan under construction, which every stage reads and
// adds to, and the stages that are run or asked by name.
type step struct {
	*draft
	mem Memory // of the step before; what stages write to it is the next one's

	memo          *unchangedMachines
	pods          *podTable
	reservations  *reservations
	anticipation  *anticipation
	buffers       *buffers
	slots         *slotAssignment
	disagreements *demand.Disagreements
	placements    *placements
	nodes         *solverView
	purchases     *purchases
	shortfalls    *demand.Shortfalls
	unused        *unused.Launches
	health        *claims.Health
	backOffs      *disruption.BackOffs
	commandStage  *disruptionCommands
	candidates    *candidates
	search        *disruptionSearch
	required      *requiredDisruption
	drift         *driftConditions
	driftBackOff  *driftBackOff
	rollouts      *rollouts
	pacing        *evictionPacing
	demand        *demandStage
	withholding   *demand.Withholding
}

// newStep returns a step over a View, with nothing decided yet. A stage is given its part of the memory and the
// stages that it asks, which are made before it: that is why none asks another in a circle.
func newStep(memo *unchangedMachines, mem Memory, pol Policy, req Request) *step {
	d := &draft{index: &index{memo.View, pol}, Begun: plan.Begun{InFlight: memo.Snapshot.InFlight, Decided: map[string]bool{}}, req: req, found: found{commands: &cluster.Commands{}}, changedClaims: map[string]bool{}, changedNodes: map[string]bool{}}
	st := &step{draft: d, mem: mem, memo: memo}
	m := &st.mem

	// What is there, and how it stands.
	shortfalls := demand.NewShortfalls(d.View, pol.Lifecycle, m.shortfalls)
	backOffs := disruption.NewBackOffs(d.View, m.backOffs)
	table := &commandTable{draft: d, mem: &m.commands, backOffs: backOffs, memo: memo}
	health := &claims.Health{}
	rollouts := &rollouts{draft: d}

	// Pods: which are demand, which have a slot, which are on their way.
	pods := &podTable{draft: d, rollouts: rollouts, groups: nodegroups.NewPodRules(d.Snapshot.Pools)}
	evictions := &evictions{draft: d, mem: &m.evictions, pods: pods}
	placements := &placements{mem: &m.placements, awaitsPods: map[string]bool{}}
	disagreements := demand.NewDisagreements(d.View, pol.DisagreementAfter, pol.DisagreementRetry, m.disagreements)
	reserved := &reservations{draft: d, mem: &m.reservations, shortfalls: shortfalls}
	anticipation := &anticipation{draft: d, mem: &m.anticipation, table: pods, reservations: reserved}
	slots := &slotAssignment{draft: d, mem: &m.slots, anticipation: anticipation, disagreements: disagreements, pods: pods,
		reservations: reserved}
	transit := &podsInTransit{draft: d, evictions: evictions, placements: placements, pods: pods, reservations: reserved, slots: slots}

	// Claims, and what is launched for demand.
	unused := unused.New(d.View, m.unused)
	preemption := &preemption{draft: d, reservations: reserved, slots: slots}
	withheld := demand.NewWithholding(d.View, m.withholding)
	purchases := &purchases{draft: d, mem: &m.purchases, memo: memo, preemption: preemption, unused: unused, withholding: withheld}
	nodes := &solverView{draft: d, memo: memo, preemption: preemption, purchases: purchases, reservations: reserved}
	buffers := &buffers{draft: d, mem: &m.buffers, nodes: nodes, placements: placements, pods: pods, anticipation: anticipation}
	hosts := &commandHosts{table, preemption, reserved}
	st.demand = &demandStage{draft: d, mem: &m.demand, anticipation: anticipation, buffers: buffers, disagreements: disagreements, expander: &nodegroups.Expander{View: d.View, Policy: pol.Solve, Ask: req.AskExpander, Answer: req.Expander}, hosts: hosts,
		nodes: nodes, placements: placements, pods: pods, purchases: purchases, reservations: reserved, shortfalls: shortfalls, slots: slots, unused: unused, withholding: withheld,
		smallNodes: &m.smallNodes}

	// Disruption.
	driftBackOff := &driftBackOff{draft: d, mem: &m.drift}
	candidates := &candidates{draft: d, activity: &m.groupActivity, buffers: buffers, driftBackOff: driftBackOff, health: health, memo: memo, placements: placements, reservations: reserved, rollouts: rollouts}
	commandStage := &disruptionCommands{commandTable: table, candidates: candidates, health: health, hosts: hosts, nodes: nodes, pods: pods,
		purchases: purchases, transit: transit}
	search := &disruptionSearch{draft: d, mem: &m.search, backOffs: backOffs, buffers: buffers, candidates: candidates, commandStage: commandStage, nodes: nodes,
		pods: pods, preemption: preemption, purchases: purchases, slots: slots, transit: transit}
	st.drift = &driftConditions{draft: d, candidates: candidates, backOff: driftBackOff}
	st.required = &requiredDisruption{draft: d, backOffs: backOffs, candidates: candidates, driftBackOff: driftBackOff, commandStage: commandStage, health: health, search: search}

	// What people are told, and what must not go too fast.
	st.pacing = &evictionPacing{draft: d, evictions: evictions, pods: pods, slots: slots}

	st.buffers, st.unused, st.withholding = buffers, unused, withheld
	st.pods, st.reservations, st.anticipation, st.slots, st.disagreements, st.placements = pods, reserved, anticipation, slots, disagreements, placements
	st.nodes, st.purchases, st.shortfalls, st.health, st.backOffs, st.rollouts = nodes, purchases, shortfalls, health, backOffs, rollouts
	st.driftBackOff = driftBackOff
	st.commandStage, st.candidates, st.search = commandStage, candidates, search
	return st
}

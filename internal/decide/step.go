// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// step is one run of the stages: the index of the snapshot and the plan under construction, which every stage reads and
// adds to, and the stages themselves. A stage names those that it asks as fields of its own type.
type step struct {
	*draft
	mem Memory // of the step before; what stages write to it is the next one's

	memo          *unchangedMachines
	pods          *podTable
	reservations  *reservations
	disagreements *schedulerDisagreements
	nodes         *solverView
	purchases     *purchases
	shortfalls    *capacityShortfalls
	interruptions *interruptions
	health        *nodeHealth
	commands      *disruptionCommands
	candidates    *candidates
	search        *disruptionSearch
	required      *requiredDisruption
	drift         *driftConditions
	static        *staticPools
	forecast      *replicaForecast
	rollouts      *rollouts
	pacing        *evictionPacing
	lifecycle     *claimLifecycle
	registrations *registrations
	status        *poolStatus
	orphans       *orphanedMachines
	events        *blockerNotes
	demand        *demandStage
}

// newStep returns a step over a snapshot, with nothing decided yet.
func newStep(s *model.Snapshot, mem Memory, now time.Time, pol Policy) *step {
	d := &draft{index: &index{s: s, now: now, pol: pol}, decided: map[string]bool{}}
	st := &step{draft: d, mem: mem,
		memo: &unchangedMachines{draft: d}, pods: &podTable{draft: d}, reservations: &reservations{draft: d},
		disagreements: &schedulerDisagreements{draft: d}, nodes: &solverView{draft: d}, purchases: &purchases{draft: d, namedClaims: map[string]bool{}},
		shortfalls: &capacityShortfalls{draft: d}, interruptions: &interruptions{draft: d}, health: &nodeHealth{draft: d},
		commands: &disruptionCommands{draft: d}, candidates: &candidates{draft: d}, search: &disruptionSearch{draft: d},
		required: &requiredDisruption{draft: d}, drift: &driftConditions{draft: d}, static: &staticPools{draft: d},
		forecast: &replicaForecast{draft: d}, rollouts: &rollouts{draft: d}, pacing: &evictionPacing{draft: d},
		lifecycle: &claimLifecycle{draft: d}, registrations: &registrations{draft: d}, status: &poolStatus{draft: d},
		orphans: &orphanedMachines{draft: d}, events: &blockerNotes{draft: d}, demand: &demandStage{draft: d, awaitsPods: map[string]bool{}},
	}
	st.connect()
	st.shortfalls.reducePools()
	st.memo.load()
	st.pods.readUnschedulable()
	st.pacing.followSlowEvictions()
	return st
}

// connect gives every stage its part of the memory and the stages that it asks.
func (st *step) connect() {
	m := &st.mem
	x := st.memo
	x.mem, x.candidates, x.commands, x.drift, x.health, x.interruptions, x.nodes, x.reservations =
		&m.unchanged, st.candidates, st.commands, st.drift, st.health, st.interruptions, st.nodes, st.reservations
	p := st.pods
	p.commands, p.demand, p.interruptions, p.pacing, p.reservations, p.rollouts =
		st.commands, st.demand, st.interruptions, st.pacing, st.reservations, st.rollouts
	r := st.reservations
	r.mem, r.commands, r.demand, r.disagreements, r.interruptions, r.pods, r.shortfalls =
		&m.reservations, st.commands, st.demand, st.disagreements, st.interruptions, st.pods, st.shortfalls
	st.disagreements.mem, st.disagreements.demand = &m.disagreements, st.demand
	n := st.nodes
	n.commands, n.interruptions, n.memo, n.purchases, n.reservations = st.commands, st.interruptions, st.memo, st.purchases, st.reservations
	st.purchases.mem, st.purchases.memo, st.purchases.reservations = &m.purchases, st.memo, st.reservations
	st.shortfalls.mem, st.shortfalls.pods, st.shortfalls.reservations = &m.shortfalls, st.pods, st.reservations
	i := st.interruptions
	i.mem, i.commands, i.demand, i.reservations = &m.interruptions, st.commands, st.demand, st.reservations
	st.health.memo = st.memo
	c := st.commands
	c.mem, c.candidates, c.interruptions, c.memo, c.nodes, c.pods, c.purchases, c.reservations =
		&m.commands, st.candidates, st.interruptions, st.memo, st.nodes, st.pods, st.purchases, st.reservations
	k := st.candidates
	k.commands, k.demand, k.interruptions, k.memo, k.reservations, k.rollouts =
		st.commands, st.demand, st.interruptions, st.memo, st.reservations, st.rollouts
	s := st.search
	s.mem, s.candidates, s.commands, s.forecast, s.nodes, s.pods, s.purchases, s.reservations =
		&m.search, st.candidates, st.commands, st.forecast, st.nodes, st.pods, st.purchases, st.reservations
	q := st.required
	q.candidates, q.commands, q.health, q.search, q.static = st.candidates, st.commands, st.health, st.search, st.static
	st.drift.candidates = st.candidates
	a := st.static
	a.candidates, a.commands, a.interruptions, a.purchases = st.candidates, st.commands, st.interruptions, st.purchases
	st.forecast.mem = &m.forecast
	st.rollouts.interruptions = st.interruptions
	st.pacing.mem, st.pacing.interruptions, st.pacing.pods = &m.pacing, st.interruptions, st.pods
	l := st.lifecycle
	l.mem, l.commands, l.memo, l.registrations, l.reservations, l.rollouts =
		&m.lifecycle, st.commands, st.memo, st.registrations, st.reservations, st.rollouts
	st.registrations.mem = &m.registrations
	st.status.mem, st.status.memo, st.status.registrations = &m.status, st.memo, st.registrations
	st.events.candidates, st.events.commands = st.candidates, st.commands
	d := st.demand
	d.mem, d.commands, d.disagreements, d.nodes, d.pods, d.purchases, d.reservations, d.shortfalls =
		&m.demand, st.commands, st.disagreements, st.nodes, st.pods, st.purchases, st.reservations, st.shortfalls
}

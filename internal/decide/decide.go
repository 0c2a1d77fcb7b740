// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package decide makes one decision for the whole cluster: from a Snapshot, a Memory, a time and a Policy, it
// computes a Plan and the next Memory. It combines lifecycle (the next step of each NodeClaim), demand (pods that
// need a node, and pods with a planned node) and solve (what to launch).
//
// It is a pure function: it uses no clock, I/O or goroutine, and no output depends on map order. Equal inputs give
// equal plans.
//
// Invariants: no second node is launched for a pod with a slot on an upcoming node; limits are never exceeded,
// including NodeClaims that are being created; the name of a NodeClaim is derived from its pool and pods, so creating
// it twice has no further effect.
//
// Start reading at Step. Its two lists of stages, readings and decisions, contain the whole policy in order.
package decide

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide/disruption"
	"github.com/dovetail-sh/dovetail/internal/decide/unused"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Step makes one decision: it reads the Snapshot, runs the stages in order, and returns the plan and what the next step
// remembers.
func Step(s *model.Snapshot, mem Memory, now time.Time, pol Policy, req Request) (Output, Memory) {
	st := read(s, mem, now, pol, req, deciding)
	again := false
	for st.shortfalls.IsFound() { // with what is known now of an instance type, all of it is another decision
		mem.shortfalls = st.shortfalls.WithFound(mem.shortfalls)
		st, again = read(s, mem, now, pol, req, deciding), true
	}
	st.cameShort = again
	st.run(st.decisions(), deciding)
	st.out.Pods = slices.DeleteFunc(st.out.Pods, func(d plan.PodDecision) bool { return d.Pod.Expected || d.Pod.Placeholder }) // there is nobody to tell
	return st.out, st.mem
}

// purpose is what stages are run for; a stage runs for each of the purposes in its own.
type purpose uint8

const (
	deciding    purpose = 1 << iota // Step
	explaining                      // Stand: how everything stands, and nothing is decided
	purchasing                      // WhatIf: what would be bought for the pods that are pending
	remembering                     // and by what is remembered: Standing.WhatIf
	always      = deciding | explaining | purchasing
)

// stage is one entry of a list of stages. It reads what those before it have found and decided, and adds to it.
type stage struct {
	name string
	of   purpose
	run  func()
}

// run runs those of the stages that are of a purpose, in order.
func (st *step) run(stages []stage, of purpose) {
	for _, x := range stages {
		if x.of&of != 0 {
			x.run()
		}
	}
}

// read returns a step that knows how everything stands and has decided nothing. Instance types whose nodes came smaller than
// promised count for what those had, and machines about which nothing has changed since the step before are passed over.
func read(s *model.Snapshot, mem Memory, now time.Time, pol Policy, req Request, of purpose) *step {
	s, mem.shortfalls = mem.shortfalls.ReducePools(s)
	st := newStep(loadUnchanged(s, now, &pol, mem.unchanged), mem, pol, req)
	st.ReadInterruptions(pol.InterruptionNotice)
	st.wakeAt(st.memo.unchanged.next)
	st.run(st.readings(), of)
	return st
}

// readings are the stages that find out how everything stands.
func (st *step) readings() []stage {
	return []stage{
		// What is left out of the demand for a while, because the plan for it was refused.
		{"withheld demand", always, st.readWithheld},
		// Pods whose binding verify refused are decided on again, without that node.
		{"refused bindings", deciding, st.closeRefusedBindings},
		// Disruption commands under way, as the API server and the memory tell them.
		{"commands under way", always, st.commandStage.read},
		// Which pods are demand, which are leaving their node, and which have been evicted.
		{"pods", always, st.classifyPods},
		// Nodes that have something wrong with them.
		{"node health", deciding | explaining, st.readHealth},
		// Claims that hold slots for pods, and which pods the slots are for, those that ReplicaSets are about to make among them.
		{"reservations", always, st.readReservations},
		{"slots", always, st.assignSlots},
		// Launches that have ended without the pods that they were made for.
		{"unused launches", deciding | explaining | remembering, st.readUnusedLaunches},
		// NodePools whose nodes drift again and again.
		{"drift back-off", deciding | explaining, st.driftBackOff.read},
		// Virtual pods of CapacityBuffers, and those whose capacity real pods have taken.
		{"virtual pods", always, st.buffers.read},
	}
}

// decisions are the stages that decide. Their order is the policy: who comes first is served first.
func (st *step) decisions() []stage {
	active := st.req.PassiveReason == ""
	return []stage{
		// Each claim's next step: launch, registration, initialization, drain, termination.
		{"claim lifecycle", deciding, st.advanceClaims},
		// Pods that have a slot are bound to their node, or let in.
		{"binding", deciding, st.admitPods},
		// Machines and nodes without a claim are ended; members of node groups without one get one.
		{"orphans", deciding, st.endOrphans},
		{"adoption", deciding, st.adoptGroupMembers},
		// Machines are bought for the pods that need one and have none coming.
		{"lost slots", deciding, st.findLostSlots},
		{"pods of interrupted machines", deciding, st.batchInterruptions},
		{"demand", deciding | purchasing, st.demand.solve},
		{"places of virtual pods", deciding, st.buffers.record},
		{"bookings", deciding, st.bookings.reserve},
		{"placements", explaining, func() { st.demand.rememberPlacements(nil) }},
		// Machines of commands that verify refused are left alone for a while.
		{"refused commands", deciding, st.backOffRefused},
		// Reboots that were asked for and that no claim speaks of yet.
		{"reboots asked for", deciding, onlyIf(active, st.reboots.requestAgain)},
		// The machines of pools, and what their budgets allow.
		{"candidates", deciding | explaining, st.candidates.build},
		{"replica history", deciding, st.search.sampleReplicas},
		// First what must go whatever it costs, then commands under way, then new ones: empty nodes, broken, expired
		// and drifted ones, and those whose pods can be had for less.
		{"interruptions", deciding, onlyIf(active, st.drainInterrupted)},
		{"forced repairs", deciding, onlyIf(active, st.forceRepairs)},
		{"commands", deciding, st.commandStage.advanceAll},
		{"drift", deciding, onlyIf(active, st.drift.writeConditions)},
		{"empty nodes", deciding, onlyIf(active, st.search.startEmpty)},
		{"new commands", deciding, onlyIf(active && !st.req.OngoingOnly && len(st.req.Refused) == 0, st.startCommands)},
		{"places of virtual pods on replacements", deciding, st.buffers.record},
		// What people are told, and the status of pools.
		{"state of buffers", always, st.buffers.report},
		{"state of provisioning requests", always, st.followRequests},
		{"blocker notes", deciding, onlyIf(st.req.NoteBlockers, st.addBlockerNotes)},
		{"pool status", deciding, st.writePoolStatus},
		{"what is known of earlier launches", always, st.mergeEarlierLaunches},
		{"what is known of back-offs", always, st.mergeBackOffs},
		// Only so many pods are evicted at a time, and what is in flight is not done twice.
		{"eviction pacing", deciding, st.paceEvictions},
		{"unsure slots", deciding, st.rewriteUnsureSlots},
		{"actions in flight", deciding, st.dropInFlight},
		// What the next step should remember of all this.
		{"placed pods", deciding, st.rememberPlaced},
		{"claim sizes", deciding, st.purchases.rememberClaimSizes},
		{"unchanged machines", deciding, func() { st.mem.unchanged = st.memo.save(st.draft, st.candidates.machines, st.nodes) }},
	}
}

// onlyIf is a stage's function where a condition holds, and nothing else.
func onlyIf(holds bool, run func()) func() {
	if holds {
		return run
	}
	return func() {}
}

// startCommands starts the disruption commands that buy something. Where this step has bought already it starts none:
// limits are counted anew first, and what was bought comes back as a change. Nor does it while virtual pods have still
// to be placed.
func (st *step) startCommands() {
	if st.buffers.isUnsettled() {
		return
	}
	if slices.ContainsFunc(st.out.Actions, func(a plan.Action) bool { _, ok := a.(plan.CreateClaim); return ok }) {
		return
	}
	if st.scaleStatic() || st.required.replace() {
		st.wakeAt(st.Now.Add(st.pol.SearchInterval / 10))
		return
	}
	st.search.consolidate(st.req.SearchNow)
}

// readUnusedLaunches finds launches that have ended without the pods that they were made for.
func (st *step) readUnusedLaunches() {
	st.unused.Read(unused.In{Lifecycle: st.pol.Lifecycle, IsForeign: st.isForeign, Reservations: st.reservations.ByClaim,
		Commands: st.commands, Held: st.buffers.heldByClaim(), Leaving: st.pods.Leaving()})
}

// mergeEarlierLaunches merges what was found of launches that served no pod, of nodes that came short and of nodes that
// kube-scheduler does not use.
func (st *step) mergeEarlierLaunches() {
	out, mem := st.unused.Result()
	st.out.Unused, st.out.UnusedCosts, st.mem.unused = out.Counted, out.Costs, mem
	st.merge(out.Part)
	var short plan.Part
	short, st.mem.shortfalls = st.shortfalls.Result()
	st.merge(short)
	st.mem.disagreements = st.disagreements.Result()
}

// readWithheld withholds what verify refused when this step was decided before.
func (st *step) readWithheld() {
	var next time.Time
	next, st.mem.withholding = st.withholding.Read(st.req.Withhold, st.pol.RefusedPlanRetry)
	st.wakeAt(next)
}

// closeRefusedBindings closes nodes to pods that verify is against binding there: they are decided on again.
func (st *step) closeRefusedBindings() {
	for _, r := range st.req.NotBound {
		st.disagreements.CloseNode(r.Pod, r.Node, r.Why)
	}
}

// backOffRefused keeps claims from new commands for a while that were to go in one that verify refused.
func (st *step) backOffRefused() {
	for _, uid := range st.req.Refused {
		st.backOffs.Hold(uid, st.pol.BackOff)
	}
}

// mergeBackOffs merges what was added to back-offs.
func (st *step) mergeBackOffs() {
	var part plan.Part
	part, st.mem.backOffs = st.backOffs.Result()
	st.merge(part)
}

// addBlockerNotes notes what blocks disruption. It looks at everything, so it is asked for only now and then.
func (st *step) addBlockerNotes() {
	ca := st.candidates
	st.out.Notes = append(st.out.Notes, disruption.BlockerNotes(st.View, disruption.NotesIn{Candidates: ca.all, Eligibility: ca.guard, BudgetLeft: ca.budgetLeft,
		IsBroken: func(c *model.Claim) bool { return st.health.CanReplace(c, st.Now) }, Awaited: st.commandStage.awaitedReplacements()})...)
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"time"

	"github.com/dovetail-sh/dovetail/internal/approve"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/answer"
	"github.com/dovetail-sh/dovetail/internal/controller/demandhistory"
	"github.com/dovetail-sh/dovetail/internal/controller/record"
	"github.com/dovetail-sh/dovetail/internal/controller/savingskeeper"
	"github.com/dovetail-sh/dovetail/internal/controller/view"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/decide/claims"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// New completes a controller whose exported fields are set; changes must be emitted before Run can see anything.
func New(c *Controller) *Controller {
	if c.ReadOnly {
		c.makeReadOnly()
	} else {
		c.Cluster = newToldCluster(c.Cluster)
	}
	c.changes = make(chan state.Change, 16384)
	c.lanes = newCallLanes()
	c.turns = newCallTurns(c.Config.Calls, slowCall)
	c.beneficiaries = map[string]string{}
	c.batches = newBatchWindows(c.Config, c.State, c.Policy.SchedulerWait)
	c.Answers = answer.New(c, c.Ledger)
	c.readSince = time.Now()
	if r, ok := cloud.As[cloud.Repairer](c.Provider); ok {
		for _, p := range r.RepairPolicies(c.Policy.LegacyRepair) {
			_, can := cloud.As[cloud.Rebooter](c.Provider)
			p.Reboot = p.Reboot && can
			c.Policy.Repair = append(c.Policy.Repair, claims.RepairPolicy(p))
		}
	}
	c.recorder = record.New(record.Config{
		Events: c.Cluster, Objects: c.State, Pools: c.State.Pools, Metrics: c.Metrics, Ledger: c.Ledger, Log: c.Log, Status: c.GroupStatus,
	})
	e := newEdges(c)
	c.expander = &outsideExpander{expander: c.Expander, log: c.Log, metrics: c.Metrics, emit: c.Emit}
	c.classes = &nodeClasses{edges: e, recorder: c.recorder, ends: map[string]*classEnd{}, withoutFinalizer: map[string]bool{}}
	c.offerings = &offerings{edges: e, classes: c.classes, onlyLooks: c.onlyLooksAt, byPool: map[string]*poolInfo{}}
	c.launcher = &launcher{edges: e, classes: c.classes, lanes: c.lanes, turns: c.turns, beneficiaries: c.beneficiaries, offerings: c.offerings, recorder: c.recorder, isPassive: func() bool { return c.passive.Load() != nil }, lookAgain: func() { c.lookAgain = true }}
	c.answers = &actionAnswers{edges: e, recorder: c.recorder}
	c.drift = &driftChecker{edges: e, offerings: c.offerings}
	c.teacher = &capacityTeacher{edges: e, offerings: c.offerings, taught: map[learned]int64{}}
	c.instances = &instanceLister{edges: e, teacher: c.teacher, onlyLooks: c.onlyLooks}
	c.interruptions = &interruptionListener{edges: e, lanes: c.lanes, offerings: c.offerings}
	c.shifts = &zonalShifts{edges: e, offerings: c.offerings, read: true, told: map[shiftOfPool]model.ZonalShift{}, apart: map[shiftOfPool]*model.NodePool{}}
	c.demand = demandhistory.New(c.Log, c.Metrics.Registerer(), c.Histories, c.Past)
	c.savings = savingskeeper.New(c.Log, c.Savings)
	if c.Decisions != nil {
		c.past = ledger.NewKeeper(c.Ledger, c.Decisions, c.Log)
	}
	c.verify, c.decider = approve.Verify, decide.Step
	return c
}

// newEdges returns those of a controller whose exported fields are set.
func newEdges(c *Controller) *edges {
	return &edges{
		cluster: c.Cluster, provider: c.Provider, state: c.State, ledger: c.Ledger, metrics: c.Metrics, log: c.Log, config: &c.Config, changes: c.changes,
		begin: func(now time.Time, a plan.Action) { c.beginAction(c.base, now, a) },
	}
}

// Run is the loop. It returns when the context ends.
func (c *Controller) Run(ctx context.Context) error {
	c.base = ctx
	defer c.keepers.Wait()
	c.keepers.Go(func() { c.shifts.watch(ctx) })
	c.Metrics.SetWidth(c.Config.Parallel, c.Config.Bindings)
	c.State.PodFacts.OnChange(c.Metrics.ObservePod)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var standby time.Time // when a Snapshot was last made though nothing is decided
	for {
		select {
		case <-ctx.Done():
			return nil
		case ch := <-c.changes:
			c.State.SetNow(time.Now())
			ch(c.State)
			if err := c.takeChanges(ctx, max(c.Config.Coalesce, time.Until(c.free))); err != nil {
				return nil
			}
		case <-timer.C:
			c.State.SetNow(time.Now())
		}
		if !c.synced.Load() || !c.leading.Load() {
			if now := time.Now(); c.synced.Load() && now.Sub(standby) > time.Minute {
				c.State.Snapshot(now) // what has changed is noted down until then, also of what is gone
				c.State.TakeDemandChanges()
				standby = now
			}
			continue
		}
		begin := time.Now()
		next := c.runStep(ctx, begin)
		c.rest(begin)
		timer.Reset(max(time.Millisecond, time.Until(next)))
	}
}

// rest has the next step begin later the more the one that began then has cost, so that the loop leaves the cores to others.
func (c *Controller) rest(begin time.Time) {
	end := time.Now()
	c.free = end.Add(min(16*end.Sub(begin), 50*time.Millisecond))
}

// takeChanges takes the changes that come within a short time.
func (c *Controller) takeChanges(ctx context.Context, limit time.Duration) error {
	end := time.NewTimer(limit)
	defer end.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case ch := <-c.changes:
			ch(c.State)
		case <-end.C:
			c.State.SetNow(time.Now())
			return nil
		}
	}
}

// runStep decides once and begins what was decided. It returns when to look again though nothing happens.
func (c *Controller) runStep(ctx context.Context, now time.Time) time.Time {
	next := now.Add(time.Hour)
	sooner := func(t time.Time) {
		if !t.IsZero() && t.Before(next) {
			next = t
		}
	}
	sooner(c.shifts.update(c.onlyLooks()))
	sooner(c.offerings.updateOfferings(ctx, now))
	sooner(c.State.ExpireActions(now))
	if !c.onlyLooks() {
		c.writeOverlayStatuses(ctx, now)
	}
	look := c.batches.check(now)
	sooner(look.next)
	request := decide.Request{Solve: look.solve, Undecided: look.open, Streaming: look.streaming}

	snap := c.State.Snapshot(now)
	if c.shadow == nil {
		c.updateDivision(snap.Pools)
	}
	sooner(c.instances.listInstances(ctx, now, snap))
	sooner(c.demand.Sample(now, snap))
	sooner(c.savings.Sample(now, snap))
	if d := c.passive.Load(); d != nil {
		sooner(c.runPassiveStep(ctx, now, snap, d, look.solve))
		c.Metrics.ObserveSnapshot(snap, c.State.Pools.ListNodeClasses(), now)
		return next
	}
	if c.shadow != nil {
		sooner(c.shadow.Step(now, snap, request))
		c.Metrics.ObserveSnapshot(snap, c.State.Pools.ListNodeClasses(), now)
		return next
	}
	c.startBackground(ctx)
	if !c.sharesCluster() {
		sooner(c.classes.endNodeClasses(ctx, now, snap))
	}
	whole := snap
	if c.division != nil {
		snap = c.divide(now, snap, look.solve)
	}
	looks := ctx
	if c.sharesCluster() { // what is made for node classes is the other's
		looks = cloud.LookOnly(ctx)
	}
	sooner(c.drift.checkDrift(looks, now, snap))
	if look.solve && c.solveTook > longSolve {
		snap = c.actBeforeSolving(ctx, now, snap)
	}
	request.NoteBlockers = c.recorder.MayTellBlockers(now)
	began := time.Now()
	out, due := c.decideWithExpander(ctx, now, snap, request)
	if out.Solved {
		c.solveTook = time.Since(began)
	}
	sooner(due)
	c.keepLessons(ctx, snap)
	classes := c.State.Pools.ListNodeClasses()
	shown := &view.View{Snap: snap, Mem: c.mem, Policy: c.Policy, Classes: classes, Divided: c.sharesCluster()}
	if c.division != nil {
		shown.Theirs, shown.Left = c.division.leftOut(whole)
	}
	c.view.Store(shown)
	c.recorder.Output(now, snap, &out)
	for _, a := range out.Actions {
		c.beginAction(ctx, now, a)
	}
	c.writeBufferStatuses(ctx, now, out.Buffers)
	c.writeRequestStatuses(ctx, now, out.Requests)
	c.writeQuotaStatuses(ctx, now, snap)
	if c.lookAgain {
		c.lookAgain = false
		sooner(now)
	}
	c.Metrics.ObserveSnapshot(snap, classes, now)
	c.Metrics.NoteStep(now, out.Solved)
	sooner(out.Next)
	return next
}

// longSolve is how long a step with a solve takes before the next one is taken to be worth a step for itself.
const longSolve = 50 * time.Millisecond

// actBeforeSolving does what need not wait for a solve that takes long: claims' next steps, bindings, drains, and what
// interruption notices ask for. It returns the Snapshot to solve on.
func (c *Controller) actBeforeSolving(ctx context.Context, now time.Time, snap *model.Snapshot) *model.Snapshot {
	out, _ := c.decideVerified(now, snap, decide.Request{OngoingOnly: true})
	if len(out.Actions) == 0 {
		return snap
	}
	c.recorder.Output(now, snap, &out)
	for _, a := range out.Actions {
		c.beginAction(ctx, now, a)
	}
	next := c.State.Snapshot(now)
	if c.division != nil {
		next = c.divide(now, next, false)
	}
	return next
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package controller is the loop: gather changes, decide, verify, act, record.
//
// One goroutine, Run's, owns the State and alone decides; calls run in goroutines of their own (startCall) and hand what
// came of them back to the loop as changes (Emit). record.Recorder tells people, callLanes bound how many calls are under way,
// passiveMode holds while another autoscaler is live; offerings, nodeClasses, instanceLister, driftChecker,
// capacityTeacher, launcher and interruptionListener each see to one thing that the provider is asked.
//
// What holds:
//   - A slow call delays only itself: calls that may hang together have a lane of their own.
//   - An action is recorded in State before its call is made, and stays in flight until the watch has shown its effect.
//   - No part of a plan is done that verify refuses (package approve).
//   - Fields of Controller are the loop's alone, but for atomics and channels.
//
// It never talks to Kubernetes or a cloud by itself: Cluster and cloud.Provider are handed in. It decides nothing that
// decide could. It holds the only wall-clock limits outside the edges.
//
// Start reading at Run, then runStep and beginAction.
package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dovetail-sh/dovetail/internal/approve"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/answer"
	"github.com/dovetail-sh/dovetail/internal/controller/demandhistory"
	"github.com/dovetail-sh/dovetail/internal/controller/metrics"
	"github.com/dovetail-sh/dovetail/internal/controller/record"
	"github.com/dovetail-sh/dovetail/internal/controller/shadow"
	"github.com/dovetail-sh/dovetail/internal/controller/view"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// Cluster is the power over Kubernetes that the loop needs. Each call carries out one action, answers the version of the object
// that shows its effect (0 where there is none), and classifies its errors by plan.Err*.
type Cluster interface {
	CreateClaim(context.Context, plan.CreateClaim) (uint64, error)
	DeleteClaim(context.Context, plan.DeleteClaim) (uint64, error)
	UpdateClaim(context.Context, plan.UpdateClaim) (uint64, error)
	UpdateNode(context.Context, plan.UpdateNode) (uint64, error)
	DeleteNode(context.Context, plan.DeleteNode) (uint64, error)
	// Bind answers ErrConflict where the pod is bound already, or may not be bound now.
	Bind(context.Context, plan.Bind) (uint64, error)
	Tolerate(context.Context, plan.Tolerate) (uint64, error)
	Evict(context.Context, plan.Evict) (uint64, error)
	Restart(context.Context, plan.Restart) (uint64, error)
	DeletePod(context.Context, plan.DeletePod) (uint64, error)
	UpdatePool(context.Context, plan.UpdatePool) (uint64, error)
	UpdateNodeClass(context.Context, plan.UpdateNodeClass) (uint64, error)
	UpdateNodeOverlay(context.Context, plan.UpdateNodeOverlay) (uint64, error)
	UpdateBuffer(context.Context, plan.UpdateBuffer) (uint64, error)
	UpdateQuota(context.Context, plan.UpdateQuota) (uint64, error)
	// Claimed reports whether an orphan that is about to be ended has a NodeClaim after all, as the API server knows it now.
	Claimed(context.Context, plan.Terminate) (bool, error)
	// Event tells the people who watch an object. kind is Pod, NodeClaim, Node, NodePool or EC2NodeClass; warn marks what needs attention.
	Event(kind, namespace, name, uid string, warn bool, reason, message string)
}

// Config are the loop's times and widths.
type Config struct {
	Idle       time.Duration // demand is decided on when none came for this long; longer while decisions follow each other within Max
	Max        time.Duration // and at the latest this long after the first
	Coalesce   time.Duration // changes that come within this time are looked at together
	ListEvery  time.Duration // how often the cloud is asked for its machines
	OfferEvery time.Duration // how often the cloud is asked for its offerings
	DriftEvery time.Duration // how often the cloud is asked which machines have drifted
	RetryAfter time.Duration // pods that could not be placed are looked at again this often though nothing changed
	CallLimit  time.Duration // an action's call is given up after this long, and repeated
	Parallel   int           // actions under way at once, a kind
	Calls      int           // calls to the API server under way at once, of all kinds together, but for those that take long
	Bindings   int           // pods being bound at once, a namespace: few enough that an API server's priority and fairness queues none of them
}

// DefaultConfig is what the controller runs with.
func DefaultConfig() Config {
	return Config{
		Idle: 30 * time.Millisecond, Max: time.Second, Coalesce: 3 * time.Millisecond, ListEvery: 10 * time.Second,
		OfferEvery: time.Minute, DriftEvery: 5 * time.Minute, RetryAfter: 30 * time.Second, CallLimit: 60 * time.Second, Parallel: 64, Calls: 48, Bindings: 32,
	}
}

// Validate says what is wrong with a configuration.
func (c Config) Validate() error {
	switch {
	case c.Idle <= 0 || c.Max < c.Idle:
		return fmt.Errorf("batch window: idle %s must be positive and at most max %s", c.Idle, c.Max)
	case c.Parallel < 1:
		return fmt.Errorf("parallel actions: %d, must be at least 1", c.Parallel)
	case c.Calls < 1:
		return fmt.Errorf("parallel calls: %d, must be at least 1", c.Calls)
	case c.Bindings < 1:
		return fmt.Errorf("parallel bindings: %d, must be at least 1", c.Bindings)
	case c.ListEvery <= 0 || c.OfferEvery <= 0 || c.DriftEvery <= 0 || c.RetryAfter <= 0 || c.CallLimit <= 0:
		return errors.New("intervals must be positive")
	}
	return nil
}

// Controller is the loop and what it works with.
type Controller struct {
	ReadOnly    bool // shadow mode: decide, and do nothing. The stores and the Cluster given are not kept then
	Cluster     Cluster
	Provider    *cloud.SetAside
	State       *state.State
	Ledger      *ledger.Ledger
	Metrics     *metrics.Metrics
	Log         *slog.Logger
	Config      Config
	Policy      decide.Policy
	Keeper      Keeper                     // nil: what is learned ends with the process
	Histories   demandhistory.Store        // nil: histories of demand end with the process
	Decisions   ledger.Store               // nil: past decisions end with the process
	GroupStatus GroupStatus                // nil: nobody is told of node groups as Cluster Autoscaler does it
	Expander    Expander                   // nil: no program outside chooses among node groups
	Past        demandhistory.PastReplicas // nil: they begin with the process, or with what is stored
	Answers     *answer.Answers            // made by New
	Background  []func(context.Context)    // runs beside the loop while it acts, and ends with its context when another autoscaler is live

	keepers sync.WaitGroup // what must end before the process does: Run waits for it

	lookAgain bool            // look again at once: something was found out while acting
	free      time.Time       // when the next step may begin
	base      context.Context // Run's; what is begun outside a step ends with it
	changes   chan state.Change
	lanes     *callLanes
	turns     *callTurns
	// beneficiaries are the namespaces that claims were made for, by claim, of those that this process has made.
	beneficiaries        map[string]string
	sweepBeneficiariesAt int
	leading              atomic.Bool
	synced               atomic.Bool
	// passive is nil while it may act; written by the loop alone.
	passive  atomic.Pointer[passiveMode]
	others   []string                  // autoscalers that are live beside it, for people
	anothers map[string]bool           // by uid: NodeClaims that were another autoscaler's when the last division ended
	division *division                 // nil: all NodePools are Dovetail's, or none
	shadow   *shadow.Watcher           // what is decided and not done; nil: it is done
	view     atomic.Pointer[view.View] // for whoever asks beside the loop; nil before the first step

	verify        approve.VerifyFunc
	decider       approve.StepFunc // decide.Step
	faultyUntil   time.Time        // until then nothing is bought or moved, since deciding on it has failed
	mem           decide.Memory
	solveTook     time.Duration // the last step that solved demand
	batches       *batchWindows
	keeping       bool // what was learned is being kept
	kept          int  // of decide.Memory.LearnedChanges
	recorder      *record.Recorder
	expander      *outsideExpander
	classes       *nodeClasses
	offerings     *offerings
	drift         *driftChecker
	instances     *instanceLister
	launcher      *launcher
	answers       *actionAnswers
	teacher       *capacityTeacher
	interruptions *interruptionListener
	demand        *demandhistory.Keeper
	past          *ledger.Keeper // nil: past decisions are not stored
	readSince     time.Time      // for how long the cluster has not been read
	acted         bool           // at least once
	stop          func()         // ends what runs beside the loop while it acts; nil: nothing does
}

// New completes a controller whose exported fields are set; changes must be emitted before Run can see anything.
func New(c *Controller) *Controller {
	if c.ReadOnly {
		c.lookOnly()
	}
	c.changes = make(chan state.Change, 16384)
	c.lanes = newCallLanes()
	c.turns = newCallTurns(c.Config.Calls, slowCall)
	c.beneficiaries = map[string]string{}
	c.batches = newBatchWindows(c.Config, c.State, c.Policy.SchedulerWait)
	c.Answers = answer.New(c, c.Ledger)
	c.readSince = time.Now()
	if r, ok := cloud.As[cloud.Repairer](c.Provider); ok {
		for _, p := range r.RepairPolicies() {
			c.Policy.Repair = append(c.Policy.Repair, decide.RepairPolicy{Condition: p.Condition, Status: p.Status, After: p.After})
		}
	}
	c.recorder = record.New(record.Config{
		Events: c.Cluster, Objects: c.State, Pools: c.State.Pools, Metrics: c.Metrics, Ledger: c.Ledger, Log: c.Log, Repair: c.Policy.Repair, Status: c.GroupStatus,
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
	c.demand = demandhistory.New(c.Log, c.Metrics.Registerer(), c.Histories, c.Past)
	if c.Decisions != nil {
		c.past = ledger.NewKeeper(c.Ledger, c.Decisions, c.Log)
	}
	c.verify, c.decider = approve.Verify, decide.Step
	return c
}

// Emit hands a change to the loop. It blocks when the loop is far behind.
func (c *Controller) Emit(ch state.Change) { c.changes <- ch }

// StartActing starts acting, after all that was emitted before; until then the loop only watches.
func (c *Controller) StartActing() {
	c.Emit(func(*state.State) { c.leading.Store(true); c.Metrics.StartMeasuringPods() })
}

// MarkSynced says that the watch has delivered everything once; before, nothing is decided.
func (c *Controller) MarkSynced() {
	c.synced.Store(true)
	c.Emit(func(*state.State) {})
}

// IsLeading reports whether this process is to act.
func (c *Controller) IsLeading() bool { return c.leading.Load() }

// IsActing reports whether this process decides and acts: it leads, has read the cluster, and no other autoscaler is live.
func (c *Controller) IsActing() bool {
	return c.leading.Load() && c.synced.Load() && c.passive.Load() == nil
}

// UnreadSince returns since when the cluster has not been read; zero: it has been.
func (c *Controller) UnreadSince() time.Time {
	if c.synced.Load() {
		return time.Time{}
	}
	return c.readSince
}

// PodFacts returns what is known of all pods.
func (c *Controller) PodFacts() []*state.PodFacts { return c.State.PodFacts.List() }

// Demand returns what demand workloads had.
func (c *Controller) Demand() *demandhistory.Keeper { return c.demand }

// IsReady reports whether the loop has seen the cluster.
func (c *Controller) IsReady() bool { return c.synced.Load() }

// Run is the loop. It returns when the context ends.
func (c *Controller) Run(ctx context.Context) error {
	c.base = ctx
	defer c.keepers.Wait()
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
	c.view.Store(&view.View{Snap: snap, Mem: c.mem, Policy: c.Policy, Classes: classes, Divided: c.sharesCluster()})
	c.recorder.Output(now, snap, &out)
	for _, a := range out.Actions {
		c.beginAction(ctx, now, a)
	}
	c.writeBufferStatuses(ctx, now, out.Buffers)
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

// decideVerified decides, and decides again without what verify refuses. It returns what is to be done, and when to look
// again for its own sake; what is remembered of it is the loop's memory from now on.
func (c *Controller) decideVerified(now time.Time, snap *model.Snapshot, asked decide.Request) (out decide.Output, next time.Time) {
	sooner := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	decided := c.measureDecision(asked.Solve)
	if now.Before(c.faultyUntil) {
		asked.Solve, asked.OngoingOnly = false, true
	}
	d := approve.Step(c.decider, c.verify, snap, c.mem, now, c.Policy, asked)
	out = d.Output
	decided(&out)
	if d.Fault != nil {
		c.recorder.Fault(now, &d)
		if !d.Isolated {
			c.faultyUntil = now.Add(c.Config.RetryAfter)
		}
	}
	if now.Before(c.faultyUntil) {
		sooner(c.faultyUntil)
	}
	if d.First.Solved {
		c.batches.adaptTo(now, d.First.Plan)
		if d.First.Waiting > 0 {
			sooner(c.batches.reopen(now))
		}
	}
	c.recorder.Refused(now, &d)
	if d.GaveUp {
		sooner(now.Add(c.Config.RetryAfter))
	}
	c.mem = d.Memory
	return out, next
}

// measureDecision takes in that a decision begins; what it returns, that it has ended.
func (c *Controller) measureDecision(solve bool) func(*decide.Output) {
	pending := 0
	if solve {
		pending = c.State.CountPending()
	}
	return c.Metrics.BeginDecision(solve, pending)
}

// decideSafely decides. A panic is a fault of ours that some pods or machines bring to light: those that are paid for need their next steps all the
// same, so it is told and they are decided on without purchases and moves for a while, from what was remembered before. Where even that fails, the process
// ends.
func (c *Controller) decideSafely(snap *model.Snapshot, now time.Time, req decide.Request) (out decide.Output, mem decide.Memory, less bool) {
	return c.decideFrom(c.mem, snap, now, req)
}

// decideFrom is decideSafely with another memory than the loop's.
func (c *Controller) decideFrom(from decide.Memory, snap *model.Snapshot, now time.Time, req decide.Request) (out decide.Output, mem decide.Memory, less bool) {
	defer func() {
		fault := recover()
		if fault == nil {
			return
		}
		if req.OngoingOnly {
			panic(fault)
		}
		c.recorder.Fault(now, &approve.Decision{Fault: fault, Stack: string(debug.Stack())})
		c.faultyUntil = now.Add(c.Config.RetryAfter)
		req.Solve, req.OngoingOnly = false, true
		out, mem = c.decider(snap, from, now, c.Policy, req)
		less = true
	}()
	if now.Before(c.faultyUntil) {
		req.Solve, req.OngoingOnly, less = false, true, true
	}
	out, mem = c.decider(snap, from, now, c.Policy, req)
	return out, mem, less
}

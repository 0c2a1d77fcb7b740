// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package controller is the control loop: collect changes, decide, verify, act, record.
//
// One goroutine, which runs Run, owns the State and makes the decisions. Calls run in their own goroutines (startCall)
// and return their results to the loop as changes (Emit). record.Recorder reports decisions, callLanes limits the calls
// in flight, and passiveMode applies while another autoscaler is running. offerings, nodeClasses, instanceLister,
// driftChecker, capacityTeacher, launcher and interruptionListener each make one kind of request to the provider.
//
// Invariants:
//
//   - A slow call delays nothing else: calls that may block at the same time use a separate lane.
//   - An action is recorded in State before its call is made, and stays in flight until the watch shows its effect.
//   - No part of a plan that verify rejects is carried out (package approve).
//   - Fields of Controller are used by the loop's goroutine only, except for atomics and channels.
//
// It accesses Kubernetes and the cloud only through Cluster and cloud.Provider. It makes no decision that decide could
// make, and is the only package besides the clients that has wall-clock limits. Start reading at Run, then runStep and
// beginAction.
package controller

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dovetail-sh/dovetail/internal/approve"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/answer"
	"github.com/dovetail-sh/dovetail/internal/controller/demandhistory"
	"github.com/dovetail-sh/dovetail/internal/controller/metrics"
	"github.com/dovetail-sh/dovetail/internal/controller/record"
	"github.com/dovetail-sh/dovetail/internal/controller/savingskeeper"
	"github.com/dovetail-sh/dovetail/internal/controller/shadow"
	"github.com/dovetail-sh/dovetail/internal/controller/view"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// Controller contains the control loop and its dependencies.
type Controller struct {
	ReadOnly    bool // shadow mode: decisions are made, but not carried out. The given stores and Cluster are not used
	Cluster     Cluster
	Provider    *cloud.SetAside
	State       *state.State
	Ledger      *ledger.Ledger
	Metrics     *metrics.Metrics
	Log         *slog.Logger
	Config      Config
	Policy      decide.Policy
	Keeper      Keeper                     // store for what decide has learned; nil: kept in memory only
	Histories   demandhistory.Store        // store for demand histories; nil: kept in memory only
	Decisions   ledger.Store               // store for past decisions; nil: kept in memory only
	Savings     savingskeeper.Store        // store for the account of savings; nil: kept in memory only
	GroupStatus GroupStatus                // publishes the status of node groups in the format of Cluster Autoscaler; nil: not published
	Expander    Expander                   // external expander, which chooses among node groups; nil: none
	Past        demandhistory.PastReplicas // source of past replica counts; nil: demand histories begin when the process starts, or with the stored data
	Answers     *answer.Answers            // set by New
	Background  []func(context.Context)    // functions that run in the background while the controller is active; their context is canceled when another autoscaler is detected

	keepers sync.WaitGroup // goroutines that Run waits for before it returns

	lookAgain bool            // start the next step at once, because an action had a result that affects it
	free      time.Time       // earliest start of the next step
	base      context.Context // context of Run; work that is started outside a step ends with it
	changes   chan state.Change
	lanes     *callLanes
	turns     *callTurns
	// beneficiaries maps each NodeClaim that this process created to the namespace for which it was created.
	beneficiaries        map[string]string
	sweepBeneficiariesAt int
	leading              atomic.Bool
	synced               atomic.Bool
	// passive is nil while the loop may act. Only the loop writes it.
	passive  atomic.Pointer[passiveMode]
	others   []string                  // names of other running autoscalers, for messages
	anothers map[string]bool           // by UID: NodeClaims of another autoscaler when the last division ended
	managers map[string]bool           // by name of the NodePool: whether Dovetail had taken it over when this was last recorded
	division *division                 // nil: Dovetail manages all NodePools, or none
	shadow   *shadow.Watcher           // records the decisions that are not carried out; nil: decisions are carried out
	view     atomic.Pointer[view.View] // results of the last step, for readers outside the loop; nil before the first step

	verify        approve.VerifyFunc
	decider       approve.StepFunc // decide.Step
	faultyUntil   time.Time        // no node is launched or removed before this time, because a decision failed
	mem           decide.Memory
	solveTook     time.Duration // duration of the last step that solved demand
	batches       *batchWindows
	keeping       bool // learned state is being stored
	kept          int  // decide.Memory.LearnedChanges when the learned state was last stored
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
	shifts        *zonalShifts
	demand        *demandhistory.Keeper
	savings       *savingskeeper.Keeper
	past          *ledger.Keeper // nil: past decisions are not stored
	readSince     time.Time      // time since which the cluster has not been read
	acted         bool           // whether this process has acted at least once
	stop          func()         // stops the background functions that run while the loop acts; nil: none is running
}

// Emit passes a change to the loop. It blocks if the loop is far behind.
func (c *Controller) Emit(ch state.Change) { c.changes <- ch }

// StartActing allows the loop to act, after all changes emitted before. Until then, the loop only watches.
func (c *Controller) StartActing() {
	c.Emit(func(*state.State) { c.leading.Store(true); c.Metrics.StartMeasuringPods() })
}

// MarkSynced reports to the loop that the watch has delivered and emitted every object once. Until the loop has
// processed this, it makes no decisions.
func (c *Controller) MarkSynced() {
	c.Emit(func(*state.State) { c.synced.Store(true) })
}

// IsLeading reports whether this process is the leader.
func (c *Controller) IsLeading() bool { return c.leading.Load() }

// IsActing reports whether this process decides and acts: it is the leader, has read the cluster, and no other
// autoscaler is running.
func (c *Controller) IsActing() bool {
	return c.leading.Load() && c.synced.Load() && c.passive.Load() == nil
}

// UnreadSince returns the time since which the cluster has not been read, or the zero time if it has been read.
func (c *Controller) UnreadSince() time.Time {
	if c.synced.Load() {
		return time.Time{}
	}
	return c.readSince
}

// PodFacts returns the recorded facts about all pods.
func (c *Controller) PodFacts() []*state.PodFacts { return c.State.PodFacts.List() }

// Demand returns the keeper of the demand histories of workloads.
func (c *Controller) Demand() *demandhistory.Keeper { return c.demand }

// Account returns the keeper of the account of costs and savings.
func (c *Controller) Account() *savingskeeper.Keeper { return c.savings }

// IsReady reports whether the loop has read the cluster.
func (c *Controller) IsReady() bool { return c.synced.Load() }

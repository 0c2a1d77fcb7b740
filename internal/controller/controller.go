// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package controller is the control loop: collect changes, decide, verify, act, record.
//
// One goroutine, Run's, owns the State and makes the decisions. Calls run in their own goroutines (startCall) and
// return their results to the loop as changes (Emit). record.Recorder reports decisions, callLanes limits the calls
// in flight, and passiveMode applies while another autoscaler is running. offerings, nodeClasses, instanceLister,
// driftChecker, capacityTeacher, launcher and interruptionListener each make one kind of request to the provider.
//
// Invariants:
//
//   - A slow call delays nothing else: calls that may hang together have a lane of their own.
//   - An action is recorded in State before its call is made, and stays in flight until the watch shows its effect.
//   - No part of a plan that verify rejects is carried out (package approve).
//   - Fields of Controller are used by the loop's goroutine only, except for atomics and channels.
//
// It accesses Kubernetes and the cloud only through Cluster and cloud.Provider. It makes no decision that decide
// could make, and is the only package besides the clients that has wall-clock limits. Start reading at Run, then
// runStep and beginAction.
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
	Savings     savingskeeper.Store        // nil: the account of savings ends with the process
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
	managers map[string]bool           // by name of the NodePool: it was taken over, as last told
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
	shifts        *zonalShifts
	demand        *demandhistory.Keeper
	savings       *savingskeeper.Keeper
	past          *ledger.Keeper // nil: past decisions are not stored
	readSince     time.Time      // for how long the cluster has not been read
	acted         bool           // at least once
	stop          func()         // ends what runs beside the loop while it acts; nil: nothing does
}

// Emit hands a change to the loop. It blocks when the loop is far behind.
func (c *Controller) Emit(ch state.Change) { c.changes <- ch }

// StartActing starts acting, after all that was emitted before; until then the loop only watches.
func (c *Controller) StartActing() {
	c.Emit(func(*state.State) { c.leading.Store(true); c.Metrics.StartMeasuringPods() })
}

// MarkSynced says that the watch has delivered everything once, all of which was emitted before; until the loop has taken it in, nothing is decided.
func (c *Controller) MarkSynced() {
	c.Emit(func(*state.State) { c.synced.Store(true) })
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

// Account returns the account of what nodes cost and save.
func (c *Controller) Account() *savingskeeper.Keeper { return c.savings }

// IsReady reports whether the loop has seen the cluster.
func (c *Controller) IsReady() bool { return c.synced.Load() }

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package record reports the loop's decisions and their results: log lines, ledger entries, events of the objects
// concerned, and metrics.
//
// It does not influence decisions. Start reading at Recorder.Output.
package record

import (
	"log/slog"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// Events tell the people who watch an object.
type Events interface {
	Event(kind, namespace, name, uid string, warn bool, reason, message string)
}

// Objects looks up the current NodeClaims and pods.
type Objects interface {
	FindClaim(name string) *model.Claim
	FindClaimByNode(node string) *model.Claim
	FindPod(key string) *model.Pod
	Resources() *state.ResourceTable
}

// Pools looks up the current NodePools and their node classes.
type Pools interface {
	FindPool(name string) *model.NodePool
	FindNodeClass(group, kind, name string) *state.NodeClass
	ListNodeClasses() []*state.NodeClass
}

// StatusObject is the ConfigMap in which the status of node groups is written; its uid is empty before it was written once.
type StatusObject interface {
	StatusObject() (namespace, name, uid string)
}

// Metrics count decisions and what became of them.
type Metrics interface {
	CountAbortedCommand(cause plan.Code)
	CountBalancedScore(decision, pool string, score float64)
	CountDisruptedClaim(resources []string, c *model.Claim, pool *model.NodePool, a plan.DeleteClaim, pods int)
	CountDisruptionCommand(*decide.StartedCommand)
	CountFailedAction()
	CountFailedDecision()
	CountRefusedCommand(*decide.StartedCommand)
	CountRefusedPart(unit, pool string)
	CountRefusedPlan()
	CountUnfitBinding()
	CountUnusedCost(pool string, micro int64)
	CountUnusedLaunch(pool string, cause plan.Code, micro int64)
	NoteDecided(pods []plan.PodDecision, now time.Time)
	SetUnschedulable(n int)
}

// Config is what a Recorder reads, and where it tells what it has to.
type Config struct {
	Events  Events
	Objects Objects
	Pools   Pools
	Metrics Metrics
	Ledger  *ledger.Ledger
	Log     *slog.Logger
	Status  StatusObject // nil: the status of node groups is not written
}

// Recorder tells people what was decided and what became of it. Only the loop uses it.
type Recorder struct {
	events  Events
	objects Objects
	pools   Pools
	metrics Metrics
	ledger  *ledger.Ledger
	log     *slog.Logger
	groups  *groupEvents

	notes        map[string]toldNote // by object and event: what was told of them
	noteSweepAt  int                 // when there are so many notes, those are forgotten that may be told again
	told         map[string]string   // by pod uid: the refusal last told, so that it is not told again
	blockersTold time.Time           // when all that blocks disruption was last told
	claims       claimHistory
	creates      map[string]decidedCreate           // by name: NodeClaims that are being made
	commands     map[plan.CommandID]*ledger.Command // that begin in this step, by id
}

// New returns a Recorder that has told nothing yet.
func New(c Config) *Recorder {
	return &Recorder{
		events: c.Events, objects: c.Objects, pools: c.Pools, metrics: c.Metrics, ledger: c.Ledger, log: c.Log,
		groups: &groupEvents{events: c.Events, pools: c.Pools, status: c.Status},
		notes:  map[string]toldNote{}, creates: map[string]decidedCreate{}, told: map[string]string{}, claims: newClaimHistory(), commands: map[plan.CommandID]*ledger.Command{},
	}
}

// claimHistory follows NodeClaims from one step to the next, so that the ledger tells of their end when they have ended, and
// what all nodes of NodePools cost an hour at each entry: a node costs from when its launch is decided until its NodeClaim
// has ended, however long ago its deletion was asked for.
type claimHistory struct {
	followed   bool
	last       []*model.Claim // of the step before, where followed
	pools      map[string]*model.NodePool
	planned    map[string]int64       // by name of a claim: what its node was decided to cost
	asked      map[string]plan.Reason // by name of a claim: why its deletion was asked for
	awaiting   map[string][]string    // by name of a claim that is not launched yet: the pods, by key, that were told of it
	handedOver map[string]bool        // by provider ID: the NodeClaim has ended, and its node stays
	cost       int64                  // micro-dollars an hour, as far as this step has been recorded
}

func newClaimHistory() claimHistory {
	return claimHistory{planned: map[string]int64{}, asked: map[string]plan.Reason{}, awaiting: map[string][]string{}, handedOver: map[string]bool{}}
}

// groupEvents tells of what is done to node groups by the reasons that Cluster Autoscaler's events have, for scripts and
// people that look for those: TriggeredScaleUp and NotTriggerScaleUp on pods, ScaleDown and ScaleDownFailed on nodes and
// on pods, and what becomes of groups, and of the limit on nodes, on the status ConfigMap. They come beside the events
// that are told anyway, and only where a NodeGroupClass has groups. Only the loop uses it.
type groupEvents struct {
	events Events
	pools  Pools
	status StatusObject // nil: none is written

	groupsOfPool   map[string]int // how many node groups a pool has, by its name; of the step that is being recorded
	toldTotalNodes bool           // whether this step has told that the limit on nodes is reached
}

// toldNote is when and with which words a note was last told.
type toldNote struct {
	at   time.Time
	text string
}

// decidedCreate is a NodeClaim that is being made, and what is told when it is.
type decidedCreate struct {
	entry ledger.Entry
	pods  []*model.Pod
}

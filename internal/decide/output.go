// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"github.com/dovetail-sh/dovetail/internal/decide/demand"
	"github.com/dovetail-sh/dovetail/internal/decide/nodegroups"
	"github.com/dovetail-sh/dovetail/internal/decide/requests"
	"github.com/dovetail-sh/dovetail/internal/decide/unused"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Output is a Plan, and the problem that it solves, for verify.
type Output struct {
	plan.Plan
	Problem     *solve.Problem // nil if nothing was solved
	Result      *solve.Result
	Commands    []StartedCommand  // started in this step
	Left        []*model.Pod      // demand that was not evaluated: see Request.Undecided
	Waiting     int               // pods that wait for the next solve of demand, within a second
	Notes       []plan.Note       // reports for events and logs
	Buffers     []BufferState     // every CapacityBuffer, by namespace and name
	Requests    []requests.State  // every ProvisioningRequest, by namespace and name
	Query       *nodegroups.Query // query for the external expander, to send before the plan is carried out; nil: none
	Kept        []Kept            // nodes that should be removed but cannot, or need not be
	Unused      []unused.Launch   // unused launches counted in this step
	UnusedCosts []unused.Cost
}

// StartedCommand is a disruption command that starts in this step.
type StartedCommand struct {
	ID plan.CommandID
	*disrupt.Command
}

// Kept is a node that should be removed but cannot, or that was evaluated and is kept. It is reported when the reason
// changes.
type Kept struct {
	Node  string
	Cause plan.Code
	Why   plan.Reason
}

// BufferState is the state of a CapacityBuffer at the end of a step.
type BufferState struct {
	Buffer *model.Buffer
	Wanted int           // number of pods that it holds capacity for, or would
	Ready  int           // pods with free capacity on an initialized node
	Coming int           // pods with capacity on a node that is being launched
	Sought int           // pods that have not been placed yet
	None   int           // pods that cannot be placed
	Why    []plan.Reason // reasons why the first unplaceable pod cannot be placed
	Shared string        // namespace/name of the buffer whose capacity it shares; empty: none
	Priced int           // pods that are left out because the capacity would exceed Buffer.MaxHourMicro
}

// Request defines the kind of step to run.
type Request struct {
	Solve       bool // solve demand in addition to processing NodeClaims
	OngoingOnly bool // launch nothing and start no command, even if a pod lost its planned node
	SearchNow   bool // search for consolidation even if the last search was recent, or nodes become eligible soon

	// Undecided are namespaces whose pending pods are not evaluated in this step, because more of them are being created:
	// they are within a second. Streaming are namespaces that also still receive pods, but are evaluated now, and again
	// within a second. nil: none.
	Undecided, Streaming map[string]bool

	// Refused are the NodeClaims, by UID, of commands that verify rejected in this step: they back off with increasing
	// duration, and this step starts no other command.
	Refused []string

	// Withhold are parts of the demand that verify rejected in this step, or whose evaluation failed: this step and the next
	// ones plan without them, with increasing duration.
	Withhold []demand.Withheld

	// NotBound are bindings that verify rejected in this step: their pods are evaluated again.
	NotBound []RefusedBinding

	// AskExpander requests Output.Query, the query for the external expander, if one is needed. The rest of the decision is
	// made as without an expander. Expander is its answer: groups that it leaves out are not scaled up in this step; nil: no
	// answer.
	AskExpander bool
	Expander    *nodegroups.Answer

	NoteBlockers bool // also report what blocks disruption

	Following *Following // nil: running commands are carried out by this process

	// PassiveReason enables passive mode: commands that have not started to delete are cancelled for this reason, and none is
	// started. Empty: active mode.
	PassiveReason string

	whatIf bool // decide on the demand, whatever work that is: see WhatIf
	unseen bool // pending pods that kube-scheduler has not looked at yet are decided on as if it had just refused them
}

// RefusedBinding is a binding that verify rejected.
type RefusedBinding struct {
	Pod  string // uid
	Key  string // namespace/name
	Node string
	Why  plan.Reason
}

// KeepsSlot reports whether the pod keeps its slot and is tried again, because the rejection ends when other pods like it
// have been bound.
func (r RefusedBinding) KeepsSlot() bool {
	return plan.DetailOf[plan.OfBindingUnfit](r.Why).Filter == plan.FilterSpread
}

// Following is set if another process carries out its own decisions, and this one only compares. Commands in the cluster are
// then those of the other process: this one neither advances nor cancels them, because their writes become visible one by
// one.
type Following struct {
	Dropped   []plan.CommandID // IDs of commands started here that are dropped without a trace
	TakenBack []plan.CommandID // IDs of commands that the other process has started to cancel: their candidates back off as after a cancellation
}

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

// Output is a Plan and what it was solved from, for verify.
type Output struct {
	plan.Plan
	Problem     *solve.Problem // nil where nothing was solved
	Result      *solve.Result
	Commands    []StartedCommand  // started in this step
	Left        []*model.Pod      // demand that is not decided on: see Request.Undecided
	Waiting     int               // pods that are delayed to the next solve of demand, which must come within a second
	Notes       []plan.Note       // to tell people
	Buffers     []BufferState     // every CapacityBuffer, by namespace and name
	Requests    []requests.State  // every ProvisioningRequest, by namespace and name
	Query       *nodegroups.Query // what to ask the expander outside before this is done; nil: nothing
	Kept        []Kept            // machines that should go and can't, or need not
	Unused      []unused.Launch   // unused launches counted in this step
	UnusedCosts []unused.Cost
}

// StartedCommand is a disruption command as it was decided.
type StartedCommand struct {
	ID plan.CommandID
	*disrupt.Command
}

// Kept is a machine that should go and can't, or that was searched and need not go; told when the reason changes.
type Kept struct {
	Node  string
	Cause plan.Code
	Why   plan.Reason
}

// BufferState is how a CapacityBuffer stands at the end of a step.
type BufferState struct {
	Buffer *model.Buffer
	Wanted int           // for how many pods it holds capacity, or would
	Ready  int           // pods whose capacity is free on an initialized node
	Coming int           // pods whose capacity is on a node that is coming
	Sought int           // pods for which a place has still to be sought
	None   int           // pods for which there is none
	Why    []plan.Reason // why there is none for the first of these
	Shared string        // namespace/name of the buffer whose capacity it shares; empty: it has its own
	Priced int           // pods that are left out because the capacity would cost more than Buffer.MaxHourMicro
}

// Request says what kind of step is wanted.
type Request struct {
	Solve       bool // solve demand too, and not only see to claims
	OngoingOnly bool // buy nothing and start no command, though a pod has lost the machine that was coming for it
	SearchNow   bool // search for consolidation though the last search was a moment ago or machines become quiet soon

	// Undecided are namespaces whose pending pods are not decided on in this step, since more of them are on their way:
	// they are within a second. Streaming are namespaces whose pods still stream in too, and are decided on now and again
	// within a second. nil: none.
	Undecided, Streaming map[string]bool

	// Refused are the claims, by uid, of commands that verify refused when this step was decided before: they back off,
	// longer each time, and no other command is started in this step.
	Refused []string

	// Withhold are parts of the demand that verify refused when this step was decided before, or on which deciding failed:
	// this step plans without them, and the next ones for a while, longer each time.
	Withhold []demand.Withheld

	// NotBound are bindings that verify refused when this step was decided before: their pods are decided on again.
	NotBound []RefusedBinding

	// AskExpander has Output.Query say what to ask the expander outside, where it is to be asked. What else is decided then
	// is as if there were none. Expander is what it answered: groups that it leaves out are not grown in this step; nil:
	// it did not answer.
	AskExpander bool
	Expander    *nodegroups.Answer

	NoteBlockers bool // say what blocks disruption too

	Following *Following // nil: commands under way are this process's to carry out

	// PassiveReason puts the step into passive mode: commands that have not begun to delete are taken back for this
	// reason and none is started; empty: they go on.
	PassiveReason string

	whatIf bool // decide on the demand, whatever work that is: see WhatIf
	unseen bool // pending pods that kube-scheduler has not looked at yet are decided on as if it had just refused them
}

// RefusedBinding is a binding that verify is against.
type RefusedBinding struct {
	Pod  string // uid
	Key  string // namespace/name
	Node string
	Why  plan.Reason
}

// KeepsSlot reports whether the pod keeps its slot and is tried again: what is against it passes when others like it have
// come to their nodes.
func (r RefusedBinding) KeepsSlot() bool {
	return plan.DetailOf[plan.OfBindingUnfit](r.Why).Filter == plan.FilterSpread
}

// Following is asked where another process carries out what it decides, and this one decides beside it and does nothing.
// Commands that objects speak of are the other's: they are taken as they stand, neither on nor back, since what it writes
// is seen piece by piece.
type Following struct {
	Dropped   []plan.CommandID // commands by id, started here, that are forgotten as though they had never been
	TakenBack []plan.CommandID // commands by id that the other has begun to take back: what they were to remove backs off as after it
}

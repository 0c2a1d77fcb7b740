// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"github.com/dovetail-sh/dovetail/internal/decide/nodegroups"
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

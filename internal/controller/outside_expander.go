// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/controller/metrics"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/decide/nodegroups"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// Expander is an external program that selects the node groups to grow.
type Expander interface {
	// BestOptions returns the names of the selected groups.
	BestOptions(context.Context, *nodegroups.Query) ([]string, error)
}

const (
	expanderLimit = 2 * time.Second  // of one call: so long pods wait for an answer at most
	expanderPause = 30 * time.Second // after a call that failed, it is not asked
)

// Values of label result of calls to the expander.
const (
	expanderAnswered = "answered"
	expanderTimedOut = "timeout"
	expanderFailed   = "error"
	expanderNonsense = "nonsense" // no group that it was asked about
)

// outsideExpander asks an expander outside about the groups that a decision would choose among. Pods wait for the answer,
// expanderLimit at most; nothing else does. Where there is no answer the optimizer decides alone. Only the loop uses it.
type outsideExpander struct {
	expander Expander // nil: none is asked
	log      *slog.Logger
	metrics  *metrics.Metrics
	emit     func(state.Change)

	asking  bool
	decided bool               // an answer has come, or will not come: the next step decides with it
	answer  *nodegroups.Answer // nil: the optimizer decides alone
	paused  time.Time          // until then it is not asked
	failing bool               // since the last answer, which is said once
}

// prepare returns a request with what is known of the expander: demand waits while it is asked, and is decided on at once
// when that is over.
func (oe *outsideExpander) prepare(now time.Time, req decide.Request) decide.Request {
	switch {
	case oe.expander == nil:
	case oe.asking:
		req.Solve = false
	case oe.decided:
		req.Solve, req.Expander = true, oe.answer
		oe.decided, oe.answer = false, nil
	case !now.Before(oe.paused):
		req.AskExpander = req.Solve
	}
	return req
}

// ask begins to ask.
func (oe *outsideExpander) ask(ctx context.Context, query *nodegroups.Query) {
	oe.asking = true
	go func() {
		call, cancel := context.WithTimeout(ctx, expanderLimit)
		groups, err := oe.expander.BestOptions(call, query)
		if err != nil && call.Err() != nil && ctx.Err() == nil {
			err = call.Err()
		}
		cancel()
		oe.emit(func(*state.State) { oe.take(time.Now(), query, groups, err) })
	}()
}

// take takes an answer, or that there is none.
func (oe *outsideExpander) take(now time.Time, query *nodegroups.Query, groups []string, err error) {
	oe.asking, oe.decided, oe.answer = false, true, nil
	asked := make([]string, len(query.Options))
	for i, o := range query.Options {
		asked[i] = o.Group
	}
	known := slices.DeleteFunc(slices.Clone(groups), func(g string) bool { return !slices.Contains(asked, g) })
	result := expanderAnswered
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		result = expanderTimedOut
	case err != nil:
		result = expanderFailed
	case len(known) == 0:
		result, err = expanderNonsense, errors.New("it returned no group of the request, but: "+strings.Join(groups, ", "))
	}
	oe.metrics.CountExpanderCall(result)
	if err != nil {
		oe.paused = now.Add(expanderPause)
		if !oe.failing {
			oe.log.Warn("the expander failed: the optimizer chooses node groups without it for 30s", "result", result, "groups", asked, "error", err.Error())
		}
		oe.failing = true
		return
	}
	if oe.failing {
		oe.log.Info("the expander responds again")
	}
	if len(known) < len(groups) {
		oe.log.Warn("the expander returned groups that were not in the request", "asked", asked, "answered", groups)
	}
	oe.failing, oe.answer = false, &nodegroups.Answer{Groups: known}
}

// decideWithExpander decides, and where that would have a node group grow that an expander outside has a say in, asks it
// first: nothing is decided about demand until it has answered.
func (c *Controller) decideWithExpander(ctx context.Context, now time.Time, snap *model.Snapshot, asked decide.Request) (decide.Output, time.Time) {
	req := c.expander.prepare(now, asked)
	if !req.AskExpander {
		return c.decideVerified(now, snap, req)
	}
	before := c.mem
	out, next := c.decideVerified(now, snap, req)
	if out.Query == nil {
		return out, next
	}
	c.mem = before
	c.expander.ask(ctx, out.Query)
	req.Solve, req.AskExpander = false, false
	return c.decideVerified(now, snap, req)
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"runtime/debug"
	"time"

	"github.com/dovetail-sh/dovetail/internal/approve"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/model"
)

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

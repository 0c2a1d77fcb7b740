// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"errors"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/view"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/report"
	"github.com/dovetail-sh/dovetail/internal/state"
)

const (
	// shadowHold is how long what was decided in shadow mode is taken to be under way, so that the same is not decided
	// again, unless the cluster shows before what became of it.
	shadowHold = 5 * time.Minute
	// shadowPause is the same for a pod that would be bound, and for what else is not compared.
	shadowPause = 30 * time.Second
	// shadowStep is the same for a step in the life of a NodeClaim or its node, which whoever launched it takes care of, and
	// for a command that the other has begun: it shows by then.
	shadowStep = time.Second
	// shadowBurst is how far apart two autoscalers see the same at most: what is due within it is due, and what the other
	// writes within it is taken to be of one decision.
	shadowBurst = 30 * time.Millisecond
	// shadowTry is how long is spent at most on finding the instant at which the other decided, plus one decision.
	shadowTry = 500 * time.Millisecond
	// shadowLook is how long after a change the cluster is looked at again, since pods may land without one that is
	// decided on.
	shadowLook = time.Second
)

// onlyLooks reports whether nothing may be changed beyond what is decided: neither the status of node classes nor what is
// made for them beforehand. Where NodePools are divided both are the other autoscaler's, for as long as one is its.
func (c *Controller) onlyLooks() bool {
	return c.passive.Load() != nil || c.shadow != nil || c.sharesCluster()
}

// onlyLooksAt says the same of one node class. No other autoscaler knows those of node groups, and what is decided on their
// nodes goes by what their status says, so that is written though NodePools are divided.
func (c *Controller) onlyLooksAt(class *state.NodeClass) bool {
	return c.passive.Load() != nil || c.shadow != nil || c.sharesCluster() && class.Scaling == nil
}

// lookOnly takes from a loop everything that it could write with, before its parts are made: it decides as it would if it
// acted, verifies that, and does nothing. What it decided and what somebody else did instead are kept for ShadowReport.
func (c *Controller) lookOnly() {
	c.Cluster, c.Keeper, c.Histories, c.Decisions, c.GroupStatus, c.Background = readOnlyCluster{}, nil, nil, nil, nil, nil
	c.shadow = newShadow(c.State, time.Now())
	c.State.BeforeClaim, c.State.BeforeNode = c.followClaim, c.followNode
}

// SetOthersBeside says for the report which other autoscalers are live. It may be called from anywhere.
func (c *Controller) SetOthersBeside(others []string) {
	c.Emit(func(*state.State) {
		if c.shadow != nil {
			c.shadow.others = others
		}
	})
}

// errNotInShadow: a loop that acts has nobody to compare itself with.
var errNotInShadow = errors.New("this controller acts, so there is nothing to compare: run it with --mode=shadow (chart value mode) for this report")

// ShadowReport returns what was decided so far in shadow mode beside what was done, or an error where the loop is not
// in shadow mode. It may be called from anywhere.
func (c *Controller) ShadowReport(ctx context.Context) (report.Shadow, error) {
	if c.shadow == nil {
		return report.Shadow{}, errNotInShadow
	}
	return askLoop(ctx, c.changes, func(s *state.State) report.Shadow {
		now := time.Now()
		if c.synced.Load() {
			c.shadow.observe(now, s.Snapshot(now))
		}
		return c.shadow.report(now)
	})
}

// runShadowStep is runStep in shadow mode: what is decided is taken to be under way, and nothing is called.
func (c *Controller) runShadowStep(ctx context.Context, now time.Time, snap *model.Snapshot, req decide.Request) time.Time {
	next := c.drift.checkDrift(cloud.LookOnly(ctx), now, snap)
	c.shadow.keepSnapshot(now, snap)
	c.shadow.observe(now, snap)
	if req.Following == nil {
		req.Following = &decide.Following{}
	}
	req.Following.Dropped = c.shadow.settleCommands(now)
	for _, t := range []time.Time{c.decideInShadow(now, snap, req), now.Add(shadowLook)} {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	return next
}

// decideInShadow decides and takes that to be under way. It returns when to look again though nothing happens; zero: no need.
func (c *Controller) decideInShadow(now time.Time, snap *model.Snapshot, req decide.Request) time.Time {
	out, next := c.decideVerified(now, snap, req)
	c.view.Store(&view.View{Snap: snap, Mem: c.mem, Policy: c.Policy, Classes: c.State.Pools.ListNodeClasses()})
	replaced := map[string][]string{} // by command
	for i := range out.Commands {
		m := &out.Commands[i]
		c.shadow.decideCommand(now, m)
		replaced[m.ID] = candidateUIDs(m)
	}
	for _, a := range out.Actions {
		c.beginShadow(now, a, replaced)
		c.shadow.noteAction(a)
	}
	c.lookAgain = false
	if next.IsZero() || !out.Next.IsZero() && out.Next.Before(next) {
		next = out.Next
	}
	return next
}

// beginShadow takes an action to be under way that nobody here carries out, so that the next decisions are those of a
// loop that has begun it. replaced are the uids of the NodeClaims that commands of this step remove, by command.
func (c *Controller) beginShadow(now time.Time, action plan.Action, replaced map[string][]string) {
	key, s := action.Key(), c.State
	stepOf := func(object state.Object) {
		pause := shadowStep
		if c.shadow.isOfOwnCommand(action) {
			pause = shadowHold
		}
		s.InFlight.BeginAction(key, object, now.Add(pause))
		s.InFlight.AwaitChange(key, now.Add(pause))
	}
	switch a := action.(type) {
	case plan.CreateClaim:
		s.InFlight.BeginAction(key, "", now.Add(shadowHold))
		s.Overlay.AddProvisionalClaim(provisionalClaim(a, now))
		c.shadow.decideLaunch(now, a, replaced[a.Why.Command])
	case plan.DeleteClaim:
		if cl := s.FindClaim(a.Claim); cl != nil && cl.Provisional { // of a command that was taken back
			c.shadow.dropClaim(a.Claim)
			return
		}
		s.InFlight.BeginAction(key, "", now.Add(shadowHold))
		c.shadow.decideDeletion(now, a)
	case plan.Bind:
		s.InFlight.BeginAction(key, "", now.Add(shadowPause))
		s.Overlay.AssumeBinding(a.Namespace+"/"+a.Pod, a.UID, a.Node)
		c.shadow.decideBinding(now, a)
	case plan.LaunchClaim:
		stepOf(state.ClaimObject(a.Claim))
	case plan.UpdateClaim:
		stepOf(state.ClaimObject(a.Claim))
		if a.SetSlots {
			s.Overlay.AssumeSlots(a.Claim, a.Slots)
			if !c.shadow.isOfOwnCommand(action) {
				c.shadow.slots[a.Claim] = now
			}
		}
	case plan.UpdateNode:
		stepOf(state.NodeObject(a.Node))
	default:
		s.InFlight.BeginAction(key, "", now.Add(shadowPause))
	}
}

// errReadOnly: shadow mode calls nothing that changes the cluster.
var errReadOnly = errors.New("shadow mode changes nothing")

// readOnlyCluster is a Cluster that refuses every change and tells nobody anything.
type readOnlyCluster struct{}

// CreateClaim implements Cluster.
func (readOnlyCluster) CreateClaim(context.Context, plan.CreateClaim) (uint64, error) {
	return 0, errReadOnly
}

// DeleteClaim implements Cluster.
func (readOnlyCluster) DeleteClaim(context.Context, plan.DeleteClaim) (uint64, error) {
	return 0, errReadOnly
}

// UpdateClaim implements Cluster.
func (readOnlyCluster) UpdateClaim(context.Context, plan.UpdateClaim) (uint64, error) {
	return 0, errReadOnly
}

// UpdateNode implements Cluster.
func (readOnlyCluster) UpdateNode(context.Context, plan.UpdateNode) (uint64, error) {
	return 0, errReadOnly
}

// DeleteNode implements Cluster.
func (readOnlyCluster) DeleteNode(context.Context, plan.DeleteNode) (uint64, error) {
	return 0, errReadOnly
}

// Bind implements Cluster.
func (readOnlyCluster) Bind(context.Context, plan.Bind) (uint64, error) { return 0, errReadOnly }

// Tolerate implements Cluster.
func (readOnlyCluster) Tolerate(context.Context, plan.Tolerate) (uint64, error) {
	return 0, errReadOnly
}

// Evict implements Cluster.
func (readOnlyCluster) Evict(context.Context, plan.Evict) (uint64, error) { return 0, errReadOnly }

// Restart implements Cluster.
func (readOnlyCluster) Restart(context.Context, plan.Restart) (uint64, error) { return 0, errReadOnly }

// DeletePod implements Cluster.
func (readOnlyCluster) DeletePod(context.Context, plan.DeletePod) (uint64, error) {
	return 0, errReadOnly
}

// UpdatePool implements Cluster.
func (readOnlyCluster) UpdatePool(context.Context, plan.UpdatePool) (uint64, error) {
	return 0, errReadOnly
}

// UpdateBuffer implements Cluster.
func (readOnlyCluster) UpdateBuffer(context.Context, plan.UpdateBuffer) (uint64, error) {
	return 0, errReadOnly
}

// UpdateQuota implements Cluster.
func (readOnlyCluster) UpdateQuota(context.Context, plan.UpdateQuota) (uint64, error) {
	return 0, errReadOnly
}

// UpdateNodeOverlay implements Cluster.
func (readOnlyCluster) UpdateNodeOverlay(context.Context, plan.UpdateNodeOverlay) (uint64, error) {
	return 0, errReadOnly
}

// UpdateNodeClass implements Cluster.
func (readOnlyCluster) UpdateNodeClass(context.Context, plan.UpdateNodeClass) (uint64, error) {
	return 0, errReadOnly
}

// Claimed implements Cluster.
func (readOnlyCluster) Claimed(context.Context, plan.Terminate) (bool, error) {
	return false, errReadOnly
}

// Event implements Cluster.
func (readOnlyCluster) Event(string, string, string, string, bool, string, string) {}

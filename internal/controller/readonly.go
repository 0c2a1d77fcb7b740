// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"errors"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/shadow"
	"github.com/dovetail-sh/dovetail/internal/controller/view"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/report"
	"github.com/dovetail-sh/dovetail/internal/state"
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

// makeReadOnly removes from a controller, before its parts are created, everything that it could write with (shadow mode): it
// decides and verifies as if it acted, and carries out nothing. Its decisions, and what the other autoscaler did instead, are
// kept for ShadowReport.
func (c *Controller) makeReadOnly() {
	c.Cluster, c.Keeper, c.Histories, c.Decisions, c.Savings, c.GroupStatus, c.Background = readOnlyCluster{}, nil, nil, nil, nil, nil, nil
	c.shadow = shadow.New(c.State, shadowLoop{c}, time.Now())
	c.State.BeforeClaim, c.State.BeforeNode = c.shadow.FollowClaim, c.shadow.FollowNode
}

// SetOthersBeside says for the report which other autoscalers are live. It may be called from anywhere.
func (c *Controller) SetOthersBeside(others []string) {
	c.Emit(func(*state.State) {
		if c.shadow != nil {
			c.shadow.SetOthers(others)
		}
	})
}

// errNotInShadow: a loop that acts has nobody to compare itself with.
var errNotInShadow = errors.New("this controller is not in shadow mode, so there is nothing to compare: run it with --mode=shadow (chart value mode) for this report")

// ShadowReport returns what was decided so far in shadow mode beside what was done, or an error where the loop is not
// in shadow mode. It may be called from anywhere.
func (c *Controller) ShadowReport(ctx context.Context) (report.Shadow, error) {
	if c.shadow == nil {
		return report.Shadow{}, errNotInShadow
	}
	return askLoop(ctx, c.changes, func(*state.State) report.Shadow { return c.shadow.Report(time.Now(), c.synced.Load()) })
}

// shadowLoop is the loop as package shadow uses it.
type shadowLoop struct{ c *Controller }

// IsWatching implements shadow.Loop.
func (l shadowLoop) IsWatching() bool { return l.c.synced.Load() && l.c.leading.Load() }

// Decide implements shadow.Loop.
func (l shadowLoop) Decide(now time.Time, snap *model.Snapshot, req decide.Request) (out decide.Output, next time.Time) {
	out, next = l.c.decideVerified(now, snap, req)
	l.c.view.Store(&view.View{Snap: snap, Mem: l.c.mem, Policy: l.c.Policy, Classes: l.c.State.Pools.ListNodeClasses()})
	l.c.lookAgain = false
	return out, next
}

// Try implements shadow.Loop.
func (l shadowLoop) Try(now time.Time, snap *model.Snapshot, req decide.Request) decide.Output {
	out, _, _ := l.c.decideFrom(l.c.mem, snap, now, req)
	return out
}

// CloseBatches implements shadow.Loop.
func (l shadowLoop) CloseBatches(now time.Time) bool {
	due := l.c.batches.check(now).solve
	return l.c.batches.closeAll(now) || due
}

// CheckDrift implements shadow.Loop.
func (l shadowLoop) CheckDrift(now time.Time, snap *model.Snapshot) time.Time {
	return l.c.drift.checkDrift(cloud.LookOnly(l.c.base), now, snap)
}

// Rest implements shadow.Loop.
func (l shadowLoop) Rest(began time.Time) { l.c.rest(began) }

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

// UpdateRequest implements Cluster.
func (readOnlyCluster) UpdateRequest(context.Context, plan.UpdateRequest) (uint64, error) {
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

// WriteReported implements Cluster.
func (readOnlyCluster) WriteReported(string, string, string, string, plan.WriteReport) {}

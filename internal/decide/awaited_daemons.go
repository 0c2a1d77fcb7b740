// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// awaitedDaemons returns how many pods of DaemonSets a new node still waits for and since when none has come, and when a pod of a
// DaemonSet last came to a node that is reserved, this one included.
func (lc *claimLifecycle) awaitedDaemons(c *model.Claim, n *model.Node) (out lifecycle.DaemonWait, landedAt time.Time) {
	landedAt = lc.mem.daemonLandedAt
	if !waitsForDaemons(c, n) {
		return out, landedAt
	}
	for _, p := range n.Pods {
		if p.Bound.After(landedAt) && slices.ContainsFunc(lc.Snapshot.Daemons, func(d *model.Daemon) bool { return d.Runs(p) }) {
			landedAt = p.Bound
		}
	}
	reserved := model.Taint{Key: model.TaintReserved, Value: c.Name, Effect: model.NoSchedule}
	for _, d := range lc.daemonsToCome(c, n) {
		out.Pods++
		out.KeptOff = out.KeptOff || !model.Tolerated(reserved, d.Class.Tolerations)
	}
	out.Since = landedAt
	if last := c.Conditions[lifecycle.Initialized].Since.Add(lc.pol.SlowSchedulerTimeout); out.Since.After(last) {
		out.Since = last
	}
	return out, landedAt
}

// waitsForDaemons reports whether a node is kept until the pods of its DaemonSets have come.
func waitsForDaemons(c *model.Claim, n *model.Node) bool {
	return c.Reserved && (!cluster.IsRegistered(n) || cluster.HasReservedTaint(n, c))
}

// daemonsToCome returns the DaemonSets whose pods a new node still waits for. A DaemonSet's controller makes a pod for a node whose
// labels match its template and whose taints that tolerates; taints that go by themselves, start-up taints and the reservation are
// only in its way for a while. A pod that no longer fits will not come.
func (ix *index) daemonsToCome(c *model.Claim, n *model.Node) (out []*model.Daemon) {
	if len(ix.Snapshot.Daemons) == 0 || !waitsForDaemons(c, n) {
		return nil
	}
	labels := model.MergeLabels(model.MergeLabels(n.Labels, c.Labels), model.RegisteredLabels())
	taints := slices.DeleteFunc(slices.Clone(n.Taints), func(t model.Taint) bool {
		return t.Key == model.TaintReserved && t.Value == c.Name || lifecycle.IsEphemeral(t) || c.IsStartupTaint(t)
	})
	if !cluster.IsRegistered(n) {
		taints = append(taints, c.Taints...)
	}
	free := n.Allocatable.Sub(n.Used)
	for _, d := range ix.Snapshot.Daemons {
		if slices.ContainsFunc(n.Pods, d.Runs) || !standsOn(d.Class, labels, taints, n.Name) || !d.Pod().Requests.Fits(free) {
			continue
		}
		free = free.Sub(d.Pod().Requests)
		out = append(out, d)
	}
	return out
}

// standsOn reports whether the DaemonSet controller makes a pod of a class for a node with these labels and taints.
func standsOn(c *model.Class, labels model.Labels, taints []model.Taint, name string) bool {
	if model.Untolerated(taints, c.Tolerations) != nil {
		return false
	}
	return len(c.Terms) == 0 || slices.ContainsFunc(c.Terms, func(t model.NodeTerm) bool {
		return (len(t.Requirements) > 0 || t.Names != nil) && t.Requirements.Matches(labels) && (t.Names == nil || t.Names.Matches(name, true))
	})
}

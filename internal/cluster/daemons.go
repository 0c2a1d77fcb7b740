// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cluster

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// WaitsForDaemons reports whether a node is reserved until its DaemonSet pods exist.
func WaitsForDaemons(c *model.Claim, n *model.Node) bool {
	return c.Reserved && (!IsRegistered(n) || HasReservedTaint(n, c))
}

// DaemonsToCome returns the DaemonSets whose pods a new node still waits for, in the order of the Snapshot. A DaemonSet's controller
// makes a pod for a node whose labels match its template and whose taints that tolerates; taints that go by themselves,
// start-up taints and the reservation are only in its way for a while. A pod that no longer fits will not come.
func (v *View) DaemonsToCome(c *model.Claim, n *model.Node) (out []*model.Daemon) {
	if len(v.Snapshot.Daemons) == 0 || !WaitsForDaemons(c, n) {
		return nil
	}
	labels := model.MergeLabels(model.MergeLabels(n.Labels, c.Labels), model.RegisteredLabels())
	taints := slices.DeleteFunc(slices.Clone(n.Taints), func(t model.Taint) bool {
		return t.Key == model.TaintReserved && t.Value == c.Name || lifecycle.IsEphemeral(t) || c.IsStartupTaint(t)
	})
	if !IsRegistered(n) {
		taints = append(taints, c.Taints...)
	}
	free := n.Allocatable.Sub(n.Used)
	for _, d := range v.Snapshot.Daemons {
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
	return len(c.Terms) == 0 || slices.ContainsFunc(c.Terms, func(t model.NodeTerm) bool { // former labels come with today's
		return (len(t.Requirements) > 0 || t.Names != nil) && t.Requirements.Matches(labels) && (t.Names == nil || t.Names.Matches(name, true))
	})
}

// MayStandOn reports whether the DaemonSet controller creates a pod of a class for an upcoming node with some values of its
// open labels, but not with others.
func MayStandOn(c *model.Class, labels model.Labels, open model.Requirements, taints []model.Taint) bool {
	if len(open) == 0 || len(c.Terms) == 0 || model.Untolerated(taints, c.Tolerations) != nil {
		return false
	}
	may := false
	for _, t := range c.Terms {
		some, all := t.Names == nil && len(t.Requirements) > 0, true
		for _, q := range t.Requirements {
			o := open.Get(q.Key)
			if o == nil {
				v, ok := labels[q.Key]
				some = some && q.Matches(v, ok)
				continue
			}
			both := o.Intersect(q)
			some, all = some && both.HasValue(), all && both.String() == o.String()
		}
		if some && all {
			return false // whatever they become
		}
		may = may || some
	}
	return may
}

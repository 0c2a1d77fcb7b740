// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package view holds the results of the loop's last step for readers outside the loop: metrics, queries, and the node
// group status. A View is immutable once published, so it is read without a lock.
package view

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/groupstatus"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/report"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// View contains the Snapshot that the last step read, and the state that it keeps.
type View struct {
	Snap   *model.Snapshot
	Mem    decide.Memory
	Policy decide.Policy

	Classes []*state.NodeClass // sorted by group, kind and name
	Divided bool               // whether the NodePools are divided between Dovetail and another autoscaler, and that autoscaler manages at least one object

	Theirs map[string]string // NodePools that are not in Snap, by name, with the name of their manager for messages
	Left   []*model.Pod      // pending pods that are not in Snap, because NodePools in Theirs can launch nodes for them; in the order of the Snapshot
}

// Managers returns the distinct managers of the NodePools in Theirs, sorted, as text for a message.
func (v *View) Managers() string {
	return strings.Join(slices.Compact(slices.Sorted(maps.Values(v.Theirs))), " and ")
}

// NodeGroups returns the distinct node groups of all classes, sorted by name, or nil if there are none.
func (v *View) NodeGroups() []model.NodeGroup { return state.NodeGroups(v.Classes) }

// ObserveGroups returns the status of node groups, including the groups whose nodes recently failed to become usable.
func (v *View) ObserveGroups(groups []model.NodeGroup, now time.Time) *groupstatus.View {
	s := groupstatus.Observe(v.Snap, groups, now)
	for _, f := range v.Mem.FailingGroups(now) {
		s.NoteFailing(f.Group, string(f.Why.Code), report.Sentence(f.Why))
	}
	return s
}

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

// View is what the last step saw and remembers.
type View struct {
	Snap   *model.Snapshot
	Mem    decide.Memory
	Policy decide.Policy

	Classes []*state.NodeClass // by group, kind and name
	Divided bool               // NodePools are divided with another autoscaler, and something is its

	Theirs map[string]string // by name: NodePools that Snap leaves out, and who manages them, for people
	Left   []*model.Pod      // pending pods that Snap leaves out, since NodePools of Theirs can launch nodes for them, in its order
}

// Managers returns who manages the NodePools of Theirs, for people, each once, sorted.
func (v *View) Managers() string {
	return strings.Join(slices.Compact(slices.Sorted(maps.Values(v.Theirs))), " and ")
}

// NodeGroups returns the node groups of all classes, each once, by name; nil if there are none.
func (v *View) NodeGroups() []model.NodeGroup { return state.NodeGroups(v.Classes) }

// ObserveGroups returns how node groups stand, with those whose nodes have not become usable of late.
func (v *View) ObserveGroups(groups []model.NodeGroup, now time.Time) *groupstatus.View {
	s := groupstatus.Observe(v.Snap, groups, now)
	for _, f := range v.Mem.FailingGroups(now) {
		s.NoteFailing(f.Group, string(f.Why.Code), report.Sentence(f.Why))
	}
	return s
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"maps"

	"github.com/dovetail-sh/dovetail/internal/decide/demand"
	"github.com/dovetail-sh/dovetail/internal/decide/unused"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// LearnedCapacity is the part of Memory that must survive a restart, in a form that can be stored. Without it, nodes that are
// smaller than specified would be launched again after each restart.
type LearnedCapacity struct {
	Types []demand.LearnedType `json:"types,omitempty"`
	Pods  []demand.LearnedPod  `json:"pods,omitempty"`

	Launches []unused.Ended        `json:"launches,omitempty"` // launches that ended without any of their pods
	Unused   []unused.LearnedCount `json:"unused,omitempty"`

	Withheld []demand.LearnedWithheld `json:"withheld,omitempty"`

	Drift map[string]driftCount `json:"drift,omitempty"` // by NodePool UID
}

// LearnedChanges returns the number of changes of the result of Learned.
func (m *Memory) LearnedChanges() int {
	return m.shortfalls.Changes() + m.unused.Changes() + m.withholding.Changes() + m.drift.changes
}

// Learned returns what was learned. names are the resource names by Dim.
func (m *Memory) Learned(names []string) LearnedCapacity {
	out := LearnedCapacity{Drift: m.drift.pools}
	out.Types, out.Pods = m.shortfalls.Learned(names)
	out.Launches, out.Unused = m.unused.Learned()
	out.Withheld = m.withholding.Learned()
	return out
}

// WithLearned returns a Memory with the learned data added. dim returns the Dim of a resource name.
func (m Memory) WithLearned(l LearnedCapacity, dim func(name string) model.Dim) Memory {
	m.shortfalls = m.shortfalls.WithLearned(l.Types, l.Pods, dim)
	m.unused = m.unused.WithLearned(l.Launches, l.Unused)
	m.withholding = m.withholding.WithLearned(l.Withheld)
	m.drift.pools = maps.Clone(l.Drift)
	return m
}

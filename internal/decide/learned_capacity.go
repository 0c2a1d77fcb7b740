// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"maps"

	"github.com/dovetail-sh/dovetail/internal/decide/demand"
	"github.com/dovetail-sh/dovetail/internal/decide/unused"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// LearnedCapacity are what Memory must not forget when the process ends, in a form that can be kept: without them
// machines that come short would be bought anew after each restart.
type LearnedCapacity struct {
	Types []demand.LearnedType `json:"types,omitempty"`
	Pods  []demand.LearnedPod  `json:"pods,omitempty"`

	Launches []unused.Ended        `json:"launches,omitempty"` // that have ended without a pod of theirs
	Unused   []unused.LearnedCount `json:"unused,omitempty"`

	Withheld []demand.LearnedWithheld `json:"withheld,omitempty"`

	Drift map[string]driftCount `json:"drift,omitempty"` // by pool uid
}

// LearnedChanges counts the changes of what Learned returns.
func (m *Memory) LearnedChanges() int {
	return m.shortfalls.Changes() + m.unused.Changes() + m.withholding.Changes() + m.drift.changes
}

// Learned are what has been learned; names are the resources by Dim.
func (m *Memory) Learned(names []string) LearnedCapacity {
	out := LearnedCapacity{Drift: m.drift.pools}
	out.Types, out.Pods = m.shortfalls.Learned(names)
	out.Launches, out.Unused = m.unused.Learned()
	out.Withheld = m.withholding.Learned()
	return out
}

// WithLearned is a Memory that has learned all that was told before; dim numbers a resource.
func (m Memory) WithLearned(l LearnedCapacity, dim func(name string) model.Dim) Memory {
	m.shortfalls = m.shortfalls.WithLearned(l.Types, l.Pods, dim)
	m.unused = m.unused.WithLearned(l.Launches, l.Unused)
	m.withholding = m.withholding.WithLearned(l.Withheld)
	m.drift.pools = maps.Clone(l.Drift)
	return m
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package unused

import (
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/plan"
)

// LearnedCount is the count of unused launches for the pods of one template in one NodePool or node group, as stored for the next
// process.
type LearnedCount struct {
	Template string `json:"template,omitempty"`
	Site     string `json:"site,omitempty"` // UID of the NodePool, or the node group
	Group    string `json:"group,omitempty"`
	Count
}

// mostLearnedLaunches is how many launches are told of, the last ones.
const mostLearnedLaunches = 300

// Changes returns the number of changes of the result of Learned.
func (m *Memory) Changes() int { return m.counts.changes + m.ended.changes }

// Learned returns the state to store across restarts: launches that ended without any of their pods, in order, and the counts by
// template, NodePool and node group.
func (m *Memory) Learned() ([]Ended, []LearnedCount) {
	var counts []LearnedCount
	for _, k := range m.counts.sorted() {
		counts = append(counts, LearnedCount{k.template, k.pool, k.group, m.counts.bySite[k]})
	}
	return m.ended.list[max(0, len(m.ended.list)-mostLearnedLaunches):], counts
}

// WithLearned returns a memory with the result of Learned in place of its own state.
func (m Memory) WithLearned(ended []Ended, counts []LearnedCount) Memory {
	m.ended.list, m.counts.bySite = slices.Clone(ended), make(map[launchSite]Count, len(counts))
	for _, v := range counts {
		m.counts.bySite[launchSite{v.Template, v.Site, v.Group}] = v.Count
	}
	return m
}

// FailingGroup is a node group that is tried last because its nodes recently did not become usable.
type FailingGroup struct {
	Group string
	Why   plan.Reason
}

// FailingGroups returns the node groups that are tried last at an instant, sorted by name.
func (m *Memory) FailingGroups(now time.Time) (out []FailingGroup) {
	for k, c := range m.counts.bySite {
		if k.template == "" && k.group != "" && now.Before(c.Until) {
			out = append(out, FailingGroup{k.group, c.Cause})
		}
	}
	slices.SortFunc(out, func(a, b FailingGroup) int { return strings.Compare(a.Group, b.Group) })
	return out
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package unused

import (
	"slices"
	"strings"
)

// LearnedCount is the unused launches for the pods of one template in one pool or node group, as they are kept for the next
// process.
type LearnedCount struct {
	Template string `json:"template,omitempty"`
	Site     string `json:"site,omitempty"` // the pool by uid
	Group    string `json:"group,omitempty"`
	Count
}

// mostLearnedLaunches is how many launches are told of, the last ones.
const mostLearnedLaunches = 300

// Changes counts the changes of what Learned returns.
func (m *Memory) Changes() int { return m.changes }

// Learned returns what must outlive the process: launches that have ended without a pod of theirs, in the order in which they
// ended, and the counts by template, pool and node group.
func (m *Memory) Learned() ([]Ended, []LearnedCount) {
	var counts []LearnedCount
	for k, c := range m.counts {
		counts = append(counts, LearnedCount{k.template, k.pool, k.group, c})
	}
	slices.SortFunc(counts, func(a, b LearnedCount) int {
		return strings.Compare(a.Template+"\x00"+a.Site+"\x00"+a.Group, b.Template+"\x00"+b.Site+"\x00"+b.Group)
	})
	return m.ended[max(0, len(m.ended)-mostLearnedLaunches):], counts
}

// WithLearned returns a memory in which what Learned returned takes the place of what was remembered of it.
func (m Memory) WithLearned(ended []Ended, counts []LearnedCount) Memory {
	m.ended, m.counts = slices.Clone(ended), make(map[launchSite]Count, len(counts))
	for _, v := range counts {
		m.counts[launchSite{v.Template, v.Site, v.Group}] = v.Count
	}
	return m
}

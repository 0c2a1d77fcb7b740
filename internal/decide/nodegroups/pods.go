// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodegroups

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// PodRules are the rules of node groups about when pods get nodes launched. A pod is of no pool before it has a node, so
// a rule holds where all NodePools have it, and the mildest of them counts.
type PodRules struct {
	delay time.Duration // after a pod's creation
}

// NewPodRules reads the rules of pools. None: there is no pool, or one has no such rule.
func NewPodRules(pools []*model.NodePool) (out PodRules) {
	for i, p := range pools {
		if p.Scaling == nil {
			return PodRules{}
		}
		if d := p.Scaling.PodDelay; i == 0 || d < out.delay {
			out.delay = d
		}
	}
	return out
}

// LaunchDue is when a node may be launched for a pod at the earliest; zero: at once. The pod's own annotation can make
// that later than the rule, and not earlier.
func (r PodRules) LaunchDue(p *model.Pod) time.Time {
	if d := max(r.delay, p.ScaleUpDelay); d > 0 {
		return p.Created.Add(d)
	}
	return time.Time{}
}

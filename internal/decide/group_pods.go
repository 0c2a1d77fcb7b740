// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// podRules are the rules of node groups about when pods get nodes launched. A pod is of no pool before it has a node, so
// a rule holds where all NodePools have it, and the mildest of them counts.
type podRules struct {
	delay time.Duration // after a pod's creation
}

// newPodRules reads the rules of pools. None: there is no pool, or one has no such rule.
func newPodRules(pools []*model.NodePool) (out podRules) {
	for i, p := range pools {
		if p.Scaling == nil {
			return podRules{}
		}
		if d := p.Scaling.PodDelay; i == 0 || d < out.delay {
			out.delay = d
		}
	}
	return out
}

// launchDue is when a node may be launched for a pod at the earliest; zero: at once. The pod's own annotation can make
// that later than the rule, and not earlier.
func (r podRules) launchDue(p *model.Pod) time.Time {
	if d := max(r.delay, p.ScaleUpDelay); d > 0 {
		return p.Created.Add(d)
	}
	return time.Time{}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// podRules are the rules of node groups about which pods get nodes launched, and when. A pod is of no pool before it has
// a node, so each rule holds where all NodePools have it, and the mildest of them counts.
type podRules struct {
	delay     time.Duration // after a pod's creation
	hasCutoff bool
	cutoff    int32 // pods of a lower priority get none
}

// newPodRules reads the rules of pools. None: there is no pool, or one has no such rule.
func newPodRules(pools []*model.NodePool) (out podRules) {
	for i, p := range pools {
		if p.Scaling == nil {
			return podRules{}
		}
		s := p.Scaling
		if i == 0 {
			out = podRules{s.PodDelay, s.HasCutoff, s.Cutoff}
			continue
		}
		out.delay = min(out.delay, s.PodDelay)
		out.hasCutoff = out.hasCutoff && s.HasCutoff
		out.cutoff = min(out.cutoff, s.Cutoff)
	}
	return out
}

// isExpendable says whether no node is launched for a pod because of its priority.
func (r podRules) isExpendable(p *model.Pod) bool {
	return r.hasCutoff && p.Class.Priority < r.cutoff
}

// launchDue is when a node may be launched for a pod at the earliest; zero: at once. The pod's own annotation can make
// that later than the rule, and not earlier.
func (r podRules) launchDue(p *model.Pod) time.Time {
	if d := max(r.delay, p.ScaleUpDelay); d > 0 {
		return p.Created.Add(d)
	}
	return time.Time{}
}

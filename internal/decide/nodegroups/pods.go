// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodegroups

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// PodRules are the rules of node groups that delay launches for pods. A pod has no NodePool before it has a node, so a rule applies
// only if all NodePools have it, with the mildest value.
type PodRules struct {
	delay time.Duration // after a pod's creation
}

// NewPodRules returns the rules of pools. The zero value: there is no pool, or one pool has no such rule.
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

// LaunchDue returns the earliest time to launch a node for a pod; zero: at once. An annotation of the pod can delay it further, but
// not bring it forward.
func (r PodRules) LaunchDue(p *model.Pod) time.Time {
	if d := max(r.delay, p.ScaleUpDelay); d > 0 {
		return p.Created.Add(d)
	}
	return time.Time{}
}

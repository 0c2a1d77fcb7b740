// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package replay

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// terminations are how long the containers of deleted pods took to end.
type terminations struct {
	byPod   map[*Pod]time.Duration
	byOwner map[*Owner]time.Duration // the median of its pods
}

func newTerminations(t *Trace) *terminations {
	x := &terminations{byPod: map[*Pod]time.Duration{}, byOwner: map[*Owner]time.Duration{}}
	for _, o := range t.Owners {
		var all []time.Duration
		for _, p := range o.Pods {
			if p.Bound.IsZero() || p.Ended.IsZero() || p.Completed || p.Gone.Before(p.Ended) || p.Disrupted == "NodeLost" {
				continue
			}
			x.byPod[p] = p.Gone.Sub(p.Ended)
			all = append(all, x.byPod[p])
		}
		if len(all) > 0 {
			slices.Sort(all)
			x.byOwner[o] = all[len(all)/2]
		}
	}
	return x
}

// of returns how long a pod's containers take to end: as long as those of the recorded pod, else as those of most pods of its owner, else
// as long as they may.
func (x *terminations) of(s *podState, p *model.Pod) time.Duration {
	if s == nil {
		return p.GracePeriod
	}
	if d, ok := x.byPod[s.life]; ok && s.life.Pod.UID == p.UID {
		return d
	}
	if d, ok := x.byOwner[s.owner.Owner]; ok {
		return d
	}
	return p.GracePeriod
}

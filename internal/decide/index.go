// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// index is what every stage reads: how the cluster stands, and by which policy it is decided.
type index struct {
	*cluster.View
	pol Policy
}

// isReschedulable reports whether a pod needs another node when its node goes: see disrupt.IsReschedulable. One that is
// expendable does not.
func (ix *index) isReschedulable(p *model.Pod) bool {
	return disrupt.IsReschedulable(p) && !ix.Cutoff.IsExpendable(p)
}

// isForeign reports whether a claim is another provider's: of its machine nothing is known here, not even that there is
// none, so it is left to whoever serves its class.
func (ix *index) isForeign(c *model.Claim) bool { return ix.pol.IsForeign(c) }

// isStuck reports whether a claim's node has come and is not initialized in time: see lifecycle.IsStuck.
func (ix *index) isStuck(c *model.Claim) (bool, time.Time) {
	return lifecycle.IsStuck(c, ix.Pool(c.Pool), ix.pol.Lifecycle, ix.Now)
}

// trimZeros takes off trailing zeros, so that equal sums look the same however they came about.
func trimZeros(r model.Resources) model.Resources {
	for len(r) > 0 && r[len(r)-1] == 0 {
		r = r[:len(r)-1]
	}
	if len(r) == 0 {
		return nil
	}
	return r
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// index is what every stage reads: how the cluster stands, and by which policy it is decided.
type index struct {
	*cluster.View
	pol Policy
}

// isForeign reports whether a claim is another provider's: of its machine nothing is known here, not even that there is
// none, so it is left to whoever serves its class.
func (ix *index) isForeign(c *model.Claim) bool { return ix.pol.IsForeign(c) }

// isStuck reports whether a claim's node has come and is not initialized in time: see lifecycle.IsStuck.
func (ix *index) isStuck(c *model.Claim) (bool, time.Time) {
	return lifecycle.IsStuck(c, ix.Pool(c.Pool), ix.pol.Lifecycle, ix.Snapshot.Outages, ix.Now)
}

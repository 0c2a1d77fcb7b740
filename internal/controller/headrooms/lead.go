// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package headrooms

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/headroom"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// leadTimes is how long the nodes of each NodePool took from NodeClaim to Ready, the latest of them.
type leadTimes map[string][]leadTime

// leadTime is that of one NodeClaim.
type leadTime struct {
	uid     string
	created time.Time
	took    time.Duration
}

const (
	leadTimesKept = 100
	// leadMargin is added for what comes before the NodeClaim: the buffer is written and seen, and a decision is made.
	leadMargin = 5 * time.Second
)

// observe takes in NodeClaims that have become Ready.
func (l leadTimes) observe(claims []*model.Claim) {
	for _, c := range claims {
		ready := c.Conditions[lifecycle.Initialized]
		if !ready.True() || c.UID == "" || slices.ContainsFunc(l[c.Pool], func(x leadTime) bool { return x.uid == c.UID }) {
			continue
		}
		list := append(l[c.Pool], leadTime{c.UID, c.Created, max(0, ready.Since.Sub(c.Created))})
		slices.SortFunc(list, func(a, b leadTime) int { return a.created.Compare(b.created) })
		l[c.Pool] = list[max(0, len(list)-leadTimesKept):]
	}
}

// of returns the 95th percentile of the slowest of these NodePools, and what there is to add to it;
// headroom.DefaultLead where no node of theirs was seen.
func (l leadTimes) of(pools []string) time.Duration {
	slowest := time.Duration(-1)
	for _, p := range pools {
		if len(l[p]) == 0 {
			continue
		}
		var took []time.Duration
		for _, x := range l[p] {
			took = append(took, x.took)
		}
		slices.Sort(took)
		slowest = max(slowest, took[(len(took)*95+99)/100-1])
	}
	if slowest < 0 {
		return headroom.DefaultLead
	}
	return slowest + leadMargin
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// driftChecker asks the provider which machines are not what their node classes ask for any more. Only the loop uses it.
type driftChecker struct {
	*edges
	offerings *offerings

	asking  bool
	asked   time.Time // when it was last asked
	fails   int
	classes string // those asked about, by uid and generation
}

// checkDrift asks the provider now and then, and at once when a node class has changed. It says when it has something to do next.
func (d *driftChecker) checkDrift(ctx context.Context, now time.Time, snap *model.Snapshot) time.Time {
	drifter, ok := cloud.As[cloud.Drifter](d.provider)
	if !ok || d.asking {
		return time.Time{}
	}
	classes := ""
	for _, name := range slices.Sorted(maps.Keys(d.offerings.byPool)) {
		classes += d.offerings.byPool[name].class + " "
	}
	due := d.asked.Add(d.config.DriftEvery)
	if d.fails > 0 {
		due = d.asked.Add(retryPause(d.fails, time.Second, time.Minute))
	}
	if classes == d.classes && now.Before(due) {
		return due
	}
	var queries []cloud.DriftQuery
	for _, cl := range snap.Claims {
		if !cl.Is("Launched") || !cl.Deleting.IsZero() {
			continue
		}
		if k := d.state.Pools.FindNodeClass(cl.ClassGroup, cl.ClassKind, cl.ClassName); k != nil {
			queries = append(queries, cloud.DriftQuery{Claim: cl, Class: providerNodeClass(k)})
		}
	}
	d.classes, d.asked = classes, now
	if len(queries) == 0 {
		return now.Add(d.config.DriftEvery)
	}
	d.asking = true
	go func() {
		ctx, cancel := context.WithTimeout(ctx, d.config.CallLimit)
		defer cancel()
		reasons, err := drifter.Drifted(ctx, queries)
		d.metrics.CountCall("IsDrifted", "", time.Since(now), err)
		d.emit(func(s *state.State) {
			d.asking = false
			if err != nil {
				d.fails++
				d.log.Warn("the provider failed to check nodes for drift, trying again", "error", err.Error(), "kind", string(cloud.KindOf(err)))
				return
			}
			d.fails = 0
			out := make(map[string]string, len(queries))
			for i := range queries {
				out[queries[i].Claim.UID] = reasons[i]
			}
			s.SetDrift(out)
		})
	}()
	return time.Time{}
}

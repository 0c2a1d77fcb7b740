// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// instanceLister asks the provider now and then which machines there are. Only the loop uses it.
type instanceLister struct {
	*edges
	teacher   *capacityTeacher
	onlyLooks func() bool // nothing is made or changed: see Controller.onlyLooks

	listing bool
	listed  time.Time // when the last list was asked for
}

// listInstances asks the cloud for its machines now and then, and soon where a claim's end waits for it: that of one which does not know its machine, or
// whose machine may have gone before it. A drain may take hours, and is not waited for so.
func (li *instanceLister) listInstances(ctx context.Context, now time.Time, snap *model.Snapshot) time.Time {
	every := li.config.ListEvery
	for _, cl := range snap.Claims {
		if cl.Deleting.IsZero() || !now.Before(cl.Deleting.Add(time.Minute)) {
			continue
		}
		if n := snap.FindNode(cl.NodeName); cl.ProviderID == "" || n != nil && !n.Ready {
			every = time.Second
			break
		}
	}
	due := li.listed.Add(every)
	if li.listing {
		return time.Time{}
	}
	if now.Before(due) {
		return due
	}
	li.listing, li.listed = true, now
	looks := li.onlyLooks()
	if !looks {
		li.teacher.teachProvider(ctx, snap)
	}
	go func() {
		ctx, cancel := context.WithTimeout(ctx, li.config.CallLimit)
		defer cancel()
		if looks {
			ctx = cloud.LookOnly(ctx)
		}
		list, err := li.provider.List(ctx)
		li.metrics.CountCall("List", "", time.Since(now), err)
		li.emit(func(s *state.State) {
			li.listing = false
			if err != nil {
				s.NoteUnreadInstances(now)
				li.log.Warn("listing instances failed, trying again", "error", err.Error(), "kind", string(cloud.KindOf(err)))
				return
			}
			out := make([]*model.Instance, len(list))
			for i := range list {
				out[i] = &list[i]
			}
			s.SetInstances(out, now)
		})
	}()
	return time.Time{}
}

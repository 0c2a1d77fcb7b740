// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package state

import (
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// instanceTable is the machines that the cloud has last listed, and what it has said since of machines on their way
// out.
type instanceTable struct {
	list  []*model.Instance // by provider id
	at    time.Time         // when the list was asked for
	ended map[string]ended  // by provider id

	unread  time.Time      // since when the cloud has not answered; zero: it has
	outages []model.Outage // that are over, oldest first; replaced, never changed
}

const (
	// leastOutage is how long the cloud must not answer for that to be an outage: a call may fail.
	leastOutage = time.Minute
	// outagesKept is how many outages are remembered. Claims that wait for a machine are not older than a few.
	outagesKept = 16
)

// outagesUntil returns the outages of the cloud, with the one that lasts.
func (t *instanceTable) outagesUntil(now time.Time) []model.Outage {
	if t.unread.IsZero() || now.Sub(t.unread) < leastOutage {
		return t.outages
	}
	return append(slices.Clip(t.outages), model.Outage{From: t.unread, To: now})
}

// endOutage notes that the cloud has answered what it was asked at an instant.
func (t *instanceTable) endOutage(at time.Time) {
	if t.unread.IsZero() || !at.After(t.unread) {
		return
	}
	t.outages = t.outagesUntil(at)
	t.outages = t.outages[max(0, len(t.outages)-outagesKept):]
	t.unread = time.Time{}
}

// ended is when the cloud said that a machine is on its way out, and of which claim it was.
type ended struct {
	claimUID string
	at       time.Time
}

// setInstances replaces the list of machines, as asked for at an instant. What was said of a machine's end holds
// against lists asked for before, and, where a later list leaves it out, for as long as isClaimed says that it has a
// claim.
func (t *instanceTable) setInstances(list []*model.Instance, at time.Time, isClaimed func(providerID string) bool) {
	out := slices.Clone(list)
	listed := map[string]bool{}
	for i, x := range out {
		if e, ok := t.ended[x.ProviderID]; ok {
			listed[x.ProviderID] = true
			if !x.Gone && !at.After(e.at) {
				gone := *x
				gone.Gone, out[i] = true, &gone
			}
		}
	}
	for id, e := range t.ended {
		switch {
		case !isClaimed(id) && at.After(e.at):
			delete(t.ended, id)
		case !listed[id]:
			out = append(out, &model.Instance{ProviderID: id, ClaimUID: e.claimUID, Gone: true})
		}
	}
	slices.SortFunc(out, func(a, b *model.Instance) int { return strings.Compare(a.ProviderID, b.ProviderID) })
	t.list, t.at = out, at
}

// findInstance returns the machine of a provider id that is not on its way out, nil if there is none.
func (t *instanceTable) findInstance(providerID string) *model.Instance {
	for _, x := range t.list {
		if x.ProviderID == providerID && !x.Gone {
			return x
		}
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package replay

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// boots are how long machines took to boot.
type boots struct {
	fixed  time.Duration // negative: as recorded
	byUID  map[string]boot
	byPool map[string]boot
	all    boot
}

// boot is how long after its NodeClaim a node was there, and how long after that it was Ready.
type boot struct{ join, ready time.Duration }

// usualBoot is assumed if nothing was recorded that booted.
var usualBoot = boot{30 * time.Second, 10 * time.Second}

func newBoots(t *Trace, fixed time.Duration) *boots {
	b := &boots{fixed: fixed, byUID: map[string]boot{}, byPool: map[string]boot{}, all: usualBoot}
	byPool, all := map[string][]boot{}, []boot(nil)
	for _, x := range t.Claims {
		if x.Node == nil || x.Node.Seen.IsZero() || x.Node.Ready.IsZero() {
			continue
		}
		k := boot{max(0, x.Node.Seen.Sub(x.Seen)), max(0, x.Node.Ready.Sub(x.Node.Seen))}
		if x.First {
			k.join = max(0, x.Node.Seen.Sub(x.Claim.Created))
		}
		b.byUID[x.Last.UID] = k
		if !x.First {
			byPool[x.Last.Pool], all = append(byPool[x.Last.Pool], k), append(all, k)
		}
	}
	for pool, list := range byPool {
		b.byPool[pool] = middle(list)
	}
	if len(all) > 0 {
		b.all = middle(all)
	}
	return b
}

func middle(list []boot) boot {
	slices.SortFunc(list, func(a, b boot) int { return int((a.join + a.ready) - (b.join + b.ready)) })
	return list[len(list)/2]
}

// of returns how long the machine of a NodeClaim takes to boot: as the recorded one of this uid, else as most of its NodePool.
func (b *boots) of(x *model.Claim) (join, ready time.Duration) {
	if b.fixed >= 0 {
		return b.fixed, 0
	}
	k, ok := b.byUID[x.UID]
	if !ok {
		k, ok = b.byPool[x.Pool]
	}
	if !ok {
		k = b.all
	}
	return k.join, k.ready
}

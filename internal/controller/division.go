// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// division is in force while some NodePools were taken over from another autoscaler and others are that one's, or were
// given back to it. It holds whether or not the other is live just now: an upgrade of it must not hand its pools over.
//
// What is the other's is not decided on: its pools are left out, its NodeClaims are shown as another provider's, and
// pods that fit one of its pools are left to it, since it would launch for them too. Nodes are shown as they are, for
// whatever has room takes pods.
type division struct {
	theirs map[string]bool               // by uid of the pending pods that were looked at: the other launches for them
	claims map[*model.Claim]*model.Claim // the other's, as they are shown
}

// anothersClass is the group of node class that a NodeClaim of the other's is shown with: no provider of ours has it.
const anothersClass = "another.autoscaler"

// isDivided says whether NodePools are divided between Dovetail and another autoscaler.
func isDivided(pools []*model.NodePool) bool {
	return slices.ContainsFunc(pools, func(p *model.NodePool) bool { return p.Taken || p.Manager != "" })
}

// updateDivision takes in whether pools are divided, and whether the loop is passive for it: beside a live autoscaler
// it acts on pools that were taken over, and is passive where there is none.
func (c *Controller) updateDivision(pools []*model.NodePool) {
	switch divided := isDivided(pools); {
	case divided && c.division == nil:
		c.division = &division{theirs: map[string]bool{}, claims: map[*model.Claim]*model.Claim{}}
		c.Log.Info("NodePools are divided with another autoscaler: acting only on those that were taken over")
	case !divided && c.division != nil:
		c.anothers = map[string]bool{}
		for cl := range c.division.claims {
			c.anothers[cl.UID] = true
		}
		c.division = nil
		c.Log.Info("NodePools are not divided with another autoscaler any more")
	}
	others := c.others
	if c.division != nil {
		others = nil
	}
	c.setPassive(c.State, others)
}

// divide returns the part of a snapshot that is Dovetail's to decide on. looks has pending pods looked at that are new;
// until they are they are left alone.
func (c *Controller) divide(now time.Time, snap *model.Snapshot, looks bool) *model.Snapshot {
	d, out := c.division, *snap
	ours, seenThrough, hold := map[string]bool{}, map[string]bool{}, false
	var theirs []*model.NodePool
	out.Pools = nil
	for _, p := range snap.Pools {
		switch {
		case !p.Taken || p.Manager != "":
			theirs = append(theirs, p)
		case p.Release == model.ReleaseHold:
			hold = true
		case p.Release != "":
			seenThrough[p.Name] = true
		default:
			ours[p.Name] = true
			out.Pools = append(out.Pools, p)
		}
	}
	shown := make(map[*model.Claim]*model.Claim, len(d.claims))
	out.Claims = make([]*model.Claim, len(snap.Claims))
	claimed := map[string]bool{}
	for i, cl := range snap.Claims {
		claimed[cl.ProviderID] = true
		out.Claims[i] = cl
		if ours[cl.Pool] || seenThrough[cl.Pool] {
			continue
		}
		have := d.claims[cl]
		if have == nil {
			copied := *cl
			copied.ClassGroup, copied.ClassKind = anothersClass, "NodeClass"
			have = &copied
		}
		shown[cl], out.Claims[i] = have, have
	}
	d.claims = shown
	if hold { // its NodeClaims are being made anew: an instance may be without one for a moment
		out.Instances = slices.DeleteFunc(slices.Clone(snap.Instances), func(i *model.Instance) bool { return !claimed[i.ProviderID] })
	}
	if looks {
		d.theirs = c.podsOfOthers(now, snap, theirs)
	}
	isOurs := func(p *model.Pod) bool {
		theirs, known := d.theirs[p.UID]
		return known && !theirs
	}
	out.Pending = slices.DeleteFunc(slices.Clone(snap.Pending), func(p *model.Pod) bool { return !isOurs(p) })
	out.Making = slices.DeleteFunc(slices.Clone(snap.Making), func(m model.Making) bool { return m.Like == nil || d.theirs[m.Like.UID] })
	return &out
}

// podsOfOthers says of every pending pod whether a pool of the other autoscaler can launch a node for it.
func (c *Controller) podsOfOthers(now time.Time, snap *model.Snapshot, pools []*model.NodePool) map[string]bool {
	out := make(map[string]bool, len(snap.Pending))
	for _, p := range snap.Pending {
		out[p.UID] = false
	}
	if len(pools) == 0 || len(snap.Pending) == 0 {
		return out
	}
	alone := *snap
	alone.Pools, alone.Claims, alone.Nodes, alone.Instances, alone.Making, alone.InFlight = pools, nil, nil, nil, nil, nil
	would, _, _ := c.decideFrom(decide.Memory{}, &alone, now, decide.Request{Solve: true})
	for _, d := range would.Pods {
		if d.Outcome == plan.OnNew {
			out[d.Pod.UID] = true
		}
	}
	return out
}

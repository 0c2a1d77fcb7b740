// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// division is in force while some NodePools were taken over from another autoscaler and others are that one's, or were
// given back to it. It holds whether or not the other is live just now: an upgrade of it must not hand its pools over.
//
// There are two kinds of others: Karpenter, and Cluster Autoscaler, whose node groups are in NodePools of a
// NodeGroupClass. Pools of a kind of which none was taken over or given back are Dovetail's while no other
// autoscaler is live.
//
// What is the other's is not decided on: its pools are left out, its NodeClaims are shown as another provider's, and
// pods that fit one of its pools are left to it, since it would launch for them too. Nodes are shown as they are, for
// whatever has room takes pods.
type division struct {
	theirs map[string]bool               // by uid of the pending pods that were looked at: the other launches for them
	full   map[string]time.Time          // by uid: since when only pools of the other's could hold a pod that have reached a limit
	claims map[*model.Claim]*model.Claim // the other's, as they are shown

	groups, rest bool // of which kinds pools that were not taken over are the other's: of node groups, all others
	alone        bool // the other is Cluster Autoscaler, it is not live, and no pool is its any more
}

// isAnothers reports whether a pool is another autoscaler's.
func (d *division) isAnothers(p *model.NodePool) bool {
	switch {
	case p.Manager != "":
		return true
	case p.Taken:
		return false
	case p.OfGroups:
		return d.groups
	}
	return d.rest
}

// setKinds takes in of which kinds pools were taken over or given back, and whether another autoscaler is live. Node classes
// of other kinds than node groups stay shared with Karpenter when all its pools were taken over.
func (d *division) setKinds(pools []*model.NodePool, live bool) {
	d.groups, d.rest = live, live
	for _, p := range pools {
		if p.Taken || p.Manager != "" {
			d.groups, d.rest = d.groups || p.OfGroups, d.rest || !p.OfGroups
		}
	}
	d.alone = !live && !d.rest && !slices.ContainsFunc(pools, d.isAnothers)
}

// sharesCluster reports whether there is something of another autoscaler's beside NodePools of Dovetail's: what is made for
// node classes, say, or the status of node groups.
func (c *Controller) sharesCluster() bool { return c.division != nil && !c.division.alone }

// fullWait is how long the limits of the other's pools must have kept a pod from getting a node there, with no node of
// these on its way, until Dovetail launches one for it.
const fullWait = 30 * time.Second

// anothersClass is the group of node class that a NodeClaim of the other's is shown with: no provider of ours has it.
const anothersClass = "another.autoscaler"

// isDivided reports whether NodePools are divided between Dovetail and another autoscaler.
func isDivided(pools []*model.NodePool) bool {
	return slices.ContainsFunc(pools, func(p *model.NodePool) bool { return p.Taken || p.Manager != "" })
}

// updateDivision takes in whether pools are divided, and whether the loop is passive for it: beside a live autoscaler
// it acts on pools that were taken over, and is passive where there is none.
func (c *Controller) updateDivision(pools []*model.NodePool) {
	switch divided := isDivided(pools); {
	case divided && c.division == nil:
		c.division = &division{theirs: map[string]bool{}, claims: map[*model.Claim]*model.Claim{}}
		c.Log.Info("another autoscaler manages the other NodePools: acting only on those that were taken over")
	case !divided && c.division != nil:
		c.anothers = map[string]bool{}
		for cl := range c.division.claims {
			c.anothers[cl.UID] = true
		}
		c.division = nil
		c.Log.Info("no other autoscaler manages NodePools any more")
	}
	others := c.others
	if c.division != nil {
		c.division.setKinds(pools, len(others) > 0)
		others = nil
	}
	c.tellManagers(pools)
	c.setPassive(c.State, others)
}

// tellManagers adds to the ledger which NodePools have been taken over or released since it was called last.
func (c *Controller) tellManagers(pools []*model.NodePool) {
	was, is := c.managers, make(map[string]bool, len(pools))
	for _, p := range pools {
		is[p.Name] = p.Manager == "" && p.Taken
		switch old, known := was[p.Name]; {
		case !known || old == is[p.Name]:
		case is[p.Name]:
			c.Ledger.Add(ledger.Entry{At: time.Now(), Kind: "act", Subject: "nodepool/" + p.Name, Outcome: "taken over by Dovetail, with its NodeClaims"})
		default:
			c.Ledger.Add(ledger.Entry{At: time.Now(), Kind: "stand down", Subject: "nodepool/" + p.Name, Outcome: "released to " + otherManager(p) + ", with its NodeClaims"})
		}
	}
	c.managers = is
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
		case d.isAnothers(p):
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
		d.leaveFull(now, c.podsOfOthers(now, snap, withinLimits(theirs, snap.Claims)), isComing(theirs, snap.Claims))
	}
	isOurs := func(p *model.Pod) bool {
		theirs, known := d.theirs[p.UID]
		return known && !theirs
	}
	out.Pending = slices.DeleteFunc(slices.Clone(snap.Pending), func(p *model.Pod) bool { return !isOurs(p) })
	out.Making = slices.DeleteFunc(slices.Clone(snap.Making), func(m model.Making) bool { return m.Like == nil || d.theirs[m.Like.UID] })
	return &out
}

// otherManager names the other autoscaler that a NodePool is of, for people.
func otherManager(p *model.NodePool) string {
	if p.OfGroups {
		return "Cluster Autoscaler"
	}
	return "Karpenter"
}

// leftOut returns what of a Snapshot another autoscaler decides on: who manages its NodePools, by their names, and the pending pods that they can launch
// nodes for.
func (d *division) leftOut(snap *model.Snapshot) (pools map[string]string, pods []*model.Pod) {
	pools = map[string]string{}
	for _, p := range snap.Pools {
		if d.isAnothers(p) || p.Release != "" {
			pools[p.Name] = otherManager(p)
		}
	}
	for _, p := range snap.Pending {
		if d.theirs[p.UID] {
			pods = append(pods, p)
		}
	}
	return pools, pods
}

// leaveFull takes back that the other launches for pods for which its pools have no more left of their limits, once that
// has lasted. fit says of every pending pod whether a pool that is not full can hold it, coming whether a node of the
// other's is on its way, by which the pods may still be meant.
func (d *division) leaveFull(now time.Time, fit map[string]bool, coming bool) {
	next := map[string]time.Time{}
	for uid, theirs := range d.theirs {
		if !theirs || fit[uid] || coming {
			continue
		}
		since, known := d.full[uid]
		if !known {
			since = now
		}
		next[uid] = since
		if now.Sub(since) >= fullWait {
			d.theirs[uid] = false
		}
	}
	d.full = next
}

// withinLimits returns pools with what their NodeClaims leave of their limits.
func withinLimits(pools []*model.NodePool, claims []*model.Claim) []*model.NodePool {
	out, at := make([]*model.NodePool, len(pools)), map[string]int{}
	for i, p := range pools {
		left := *p
		left.Limits, out[i], at[p.Name] = p.Limits.Clone(), &left, i
	}
	for _, cl := range claims {
		i, ok := at[cl.Pool]
		if !ok {
			continue
		}
		p := out[i]
		for d := range p.Limits { // the others have none
			p.Limits[d] -= max(cl.Capacity.At(model.Dim(d)), cl.Requests.At(model.Dim(d)))
		}
		if p.NodeLimit > 0 {
			p.NodeLimit--
		}
	}
	return out
}

// isComing reports whether a NodeClaim of one of the pools has been made and is not Initialized yet.
func isComing(pools []*model.NodePool, claims []*model.Claim) bool {
	return slices.ContainsFunc(claims, func(cl *model.Claim) bool {
		return cl.Deleting.IsZero() && !cl.Is(lifecycle.Initialized) && slices.ContainsFunc(pools, func(p *model.NodePool) bool { return p.Name == cl.Pool })
	})
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

// SetOtherAutoscalers has the loop only say what it would do while others are live, each named for people; with none it acts (again). It may be
// called from anywhere, and before Lead where it is to hold from the beginning.
//
// A loop that never acted touches nothing. One that acted sees the claims through that are there: what is bought becomes a node, lets its
// pods land and loses its taints; what is being deleted is drained and ended. It makes, launches and deletes no claim, and takes back the
// moves that have not begun to delete.
func (c *Controller) SetOtherAutoscalers(others []string) {
	c.Emit(func(s *state.State) {
		c.others = others
		c.updateDivision(s.Pools.ListPools())
	})
}

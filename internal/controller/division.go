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

// division applies while NodePools are divided: Dovetail has taken over some of them from another autoscaler, and the
// other autoscaler manages the rest, or some were released to it. It applies whether or not the other autoscaler is
// running, because upgrading that autoscaler must not transfer its NodePools to Dovetail.
//
// There are two kinds of other autoscalers: Karpenter, and Cluster Autoscaler, whose node groups are in NodePools of a
// NodeGroupClass. If no NodePool of a kind was taken over or released, Dovetail manages all NodePools of that kind
// while no other autoscaler is running.
//
// Dovetail makes no decisions about objects of the other autoscaler:
//
//   - Its NodePools are left out.
//   - Its NodeClaims are shown as those of another provider.
//   - Pods that fit one of its NodePools are left to it, because it would launch nodes for them too.
//
// Nodes are shown unchanged, because pods can use their free capacity.
type division struct {
	theirs map[string]bool               // by UID of the evaluated pending pods: whether the other autoscaler launches a node for the pod
	full   map[string]time.Time          // by UID of the pod: time since which only NodePools of the other autoscaler that have reached a limit fit it
	claims map[*model.Claim]*model.Claim // NodeClaims of the other autoscaler, and the copies that are shown instead

	groups, rest bool // whether the other autoscaler manages the NodePools that were not taken over: those of node groups; all others
	alone        bool // the other autoscaler is Cluster Autoscaler, it is not running, and it no longer manages any NodePool
}

// isAnothers reports whether another autoscaler manages a NodePool.
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

// setKinds determines of which kinds NodePools were taken over or released, given whether another autoscaler is
// running. Node classes other than NodeGroupClasses stay shared with Karpenter when all of its NodePools were taken
// over.
func (d *division) setKinds(pools []*model.NodePool, live bool) {
	d.groups, d.rest = live, live
	for _, p := range pools {
		if p.Taken || p.Manager != "" {
			d.groups, d.rest = d.groups || p.OfGroups, d.rest || !p.OfGroups
		}
	}
	d.alone = !live && !d.rest && !slices.ContainsFunc(pools, d.isAnothers)
}

// sharesCluster reports whether the cluster has objects of another autoscaler, for example objects created for its node
// classes, or the status of its node groups.
func (c *Controller) sharesCluster() bool { return c.division != nil && !c.division.alone }

// fullWait is how long a pod waits for a node if limits keep all matching NodePools of the other autoscaler from
// launching one, and none of their nodes is being launched. After that, Dovetail launches a node for it.
const fullWait = 30 * time.Second

// anothersClass is the node class group that is shown for NodeClaims of the other autoscaler. No provider of Dovetail
// has this group.
const anothersClass = "another.autoscaler"

// isDivided reports whether NodePools are divided between Dovetail and another autoscaler.
func isDivided(pools []*model.NodePool) bool {
	return slices.ContainsFunc(pools, func(p *model.NodePool) bool { return p.Taken || p.Manager != "" })
}

// updateDivision updates the division and passive mode. If NodePools are divided, the loop acts on those that were
// taken over, even if another autoscaler is running. If not, it is passive while another autoscaler is running.
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

// tellManagers adds an entry to the ledger for each NodePool that was taken over or released since the last call.
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

// divide returns the part of a snapshot about which Dovetail decides. If looks is true, it determines anew which
// pending pods are left to the other autoscaler. Pods that have not been evaluated are left out.
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
	if hold { // its NodeClaims are being recreated: an instance may have none for a moment
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

// otherManager returns the name of the other autoscaler that manages a NodePool, for messages.
func otherManager(p *model.NodePool) string {
	if p.OfGroups {
		return "Cluster Autoscaler"
	}
	return "Karpenter"
}

// leftOut returns the parts of a Snapshot that another autoscaler manages: its NodePools, each with the name of the
// manager, and the pending pods for which they can launch nodes.
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

// leaveFull assigns pods to Dovetail if the limits of the other autoscaler's NodePools have prevented a node for them
// for fullWait. fit contains, for each pending pod, whether a NodePool within its limits fits it. coming reports
// whether a node of the other autoscaler is being launched, because it may be for these pods.
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

// withinLimits returns copies of pools whose limits are reduced by the resources of their NodeClaims.
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
		for d := range p.Limits { // other resources are not limited
			p.Limits[d] -= max(cl.Capacity.At(model.Dim(d)), cl.Requests.At(model.Dim(d)))
		}
		if p.NodeLimit > 0 {
			p.NodeLimit--
		}
	}
	return out
}

// isComing reports whether one of the pools has a NodeClaim that is not Initialized yet.
func isComing(pools []*model.NodePool, claims []*model.Claim) bool {
	return slices.ContainsFunc(claims, func(cl *model.Claim) bool {
		return cl.Deleting.IsZero() && !cl.Is(lifecycle.Initialized) && slices.ContainsFunc(pools, func(p *model.NodePool) bool { return p.Name == cl.Pool })
	})
}

// podsOfOthers returns, for each pending pod, whether a NodePool of the other autoscaler can launch a node for it.
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

// SetOtherAutoscalers sets the names of other running autoscalers. While there are any, the loop is passive: it reports
// its decisions, but does not act. If there are none, it acts again. It may be called from any goroutine. To apply from
// the beginning, it must be called before StartActing.
//
// A passive loop that never acted changes nothing. A passive loop that has acted completes existing NodeClaims:
// launched instances become nodes, receive their pods and lose their startup taints, and nodes that are being deleted
// are drained and terminated. It creates, launches and deletes no NodeClaim, and cancels disruption commands that have
// not started to delete.
func (c *Controller) SetOtherAutoscalers(others []string) {
	c.Emit(func(s *state.State) {
		c.others = others
		c.updateDivision(s.Pools.ListPools())
	})
}

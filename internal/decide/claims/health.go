// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package claims

import (
	"cmp"
	"regexp"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// mostUnhealthy is the share of a pool's nodes, in percent and rounded up, that may be broken at once. When more are,
// it is not the nodes that are broken: nothing is repaired.
const mostUnhealthy = 20

// rankAge is the time for which a broken node must wait to be as urgent as one of the next higher priority that has just broken.
const rankAge = 30 * time.Minute

// RepairPolicy defines that a node is broken if a condition has this status for this long, and how long its drain waits for
// pods; 0: not at all. The provider defines the policies.
type RepairPolicy struct {
	Condition, Status string
	Reason            *regexp.Regexp // reason of the condition; nil: any reason that matches no other policy of this condition and status
	After, Drain      time.Duration
	Priority          int  // nodes with higher priority are repaired first
	Reboot            bool // reboot instead of replace, unless a reboot has failed
}

// HealthIn is the input of ReadHealth.
type HealthIn struct {
	Repair   []RepairPolicy // none: no node is repaired
	NoRepair bool           // only nodes of node groups are repaired, according to their options
}

// Health contains the unhealthy nodes. The zero value contains none.
type Health struct {
	byClaim map[string]Ailment     // by claim name
	byPool  map[string]*poolHealth // by pool name
}

// poolHealth counts the nodes of a pool that may be repaired.
type poolHealth struct{ nodes, unhealthy int }

// Ailment is the problem of a node, when the node counts as broken, and how long its drain then waits for pods. An empty
// code: none.
type Ailment struct {
	Cause  plan.Reason
	Due    time.Time
	Drain  time.Duration
	Urgent time.Time // repair priority: the node with the earliest time is repaired first
	Reboot bool      // by all that it is broken by, it is rebooted and not replaced
}

// ReadHealth finds the unhealthy nodes of NodePools, and returns when the next node will have been unhealthy for the toleration
// of its repair policy; zero: none.
func ReadHealth(v *cluster.View, in HealthIn) (h Health, until time.Time) {
	if len(in.Repair) == 0 {
		return h, until
	}
	h = Health{map[string]Ailment{}, map[string]*poolHealth{}}
	ranks := rankPriorities(in.Repair)
	for name, x := range v.Unchanged {
		h.byPool[name] = &poolHealth{nodes: int(x.Count)}
	}
	for _, c := range v.DirtyClaims {
		pool := v.Pool(c.Pool)
		n := v.NodeFor(c)
		if pool == nil || pool.LetGo || n == nil || !CountsForRepair(c) {
			continue
		}
		k := h.byPool[pool.Name]
		if k == nil {
			k = &poolHealth{}
			h.byPool[pool.Name] = k
		}
		k.nodes++
		s, next := in.ailmentOf(c, n, pool, ranks, v.Now)
		if until = model.EarlierOf(until, next); s.Cause.Code != "" {
			k.unhealthy++
			s.Cause.Pool = pool.Name
			h.byClaim[c.Name] = s
		}
	}
	return h, until
}

// rankPriorities returns the rank of each priority among those that the policies have, the lowest being 0.
func rankPriorities(policies []RepairPolicy) map[int]int {
	var all []int
	for _, p := range policies {
		all = append(all, p.Priority)
	}
	slices.Sort(all)
	out := map[int]int{}
	for rank, p := range slices.Compact(all) {
		out[p] = rank
	}
	return out
}

// match is a policy that a node's condition matches, and when the node counts as broken by it.
type match struct {
	policy RepairPolicy
	due    time.Time
	reason plan.OfUnhealthy
}

// ailmentOf merges the policies that a node's conditions match, and returns when another of them begins to count. As long as the
// node is not broken, the ailment is of the policy by which it will be first. From then on it is of the policy with the
// highest priority of those by which it is broken, and the drain is the shortest of theirs; it is rebooted only if all of them say so.
func (in *HealthIn) ailmentOf(c *model.Claim, n *model.Node, pool *model.NodePool, ranks map[int]int, now time.Time) (out Ailment, next time.Time) {
	matches := in.matchesOf(c, n, pool)
	if len(matches) == 0 {
		return out, next
	}
	slices.SortStableFunc(matches, func(a, b match) int {
		return cmp.Or(a.due.Compare(b.due), cmp.Compare(b.policy.Priority, a.policy.Priority), cmp.Compare(a.policy.Condition, b.policy.Condition))
	})
	first := matches[0]
	urgency := func(m match) time.Time { return m.due.Add(-time.Duration(ranks[m.policy.Priority]) * rankAge) }
	out = Ailment{Due: first.due, Drain: first.policy.Drain, Urgent: urgency(first), Reboot: first.policy.Reboot && lifecycle.MayReboot(c, n, now)}
	for _, m := range matches {
		if now.Before(m.due) {
			next = m.due
			break
		}
		out.Reboot = out.Reboot && m.policy.Reboot
		out.Drain, out.Urgent = min(out.Drain, m.policy.Drain), model.EarlierOf(out.Urgent, urgency(m))
		if m.policy.Priority > first.policy.Priority {
			first = m
		}
	}
	out.Cause = plan.Reason{Code: plan.Unhealthy, Subject: plan.ObjectOf("node", n.Name), Detail: first.reason}
	return out, next
}

// matchesOf returns the policies that a node's conditions match: of each condition those for its reason, or else the one for any
// other. A condition is not older than its node, nor than the node's last reboot; of a node whose reboot failed, what it has counts
// from the end of the reboot on.
func (in *HealthIn) matchesOf(claim *model.Claim, n *model.Node, pool *model.NodePool) (out []match) {
	var unready time.Duration // of its node group; 0: none
	if pool != nil && pool.Scaling != nil {
		unready = pool.Scaling.Of(n.Labels[model.LabelNodeGroup]).Unready
	}
	specific := map[string]bool{} // conditions that a policy for their reason matches
	for _, p := range in.Repair {
		c := n.Conditions[p.Condition]
		if p.Reason != nil && c.Status == p.Status && p.Reason.MatchString(c.Reason) {
			specific[p.Condition] = true
		}
	}
	for _, p := range in.Repair {
		c, ok := n.Conditions[p.Condition]
		if !ok || c.Status != p.Status || p.Reason == nil && specific[p.Condition] || p.Reason != nil && !p.Reason.MatchString(c.Reason) {
			continue
		}
		after := p.After
		switch {
		case unready > 0 && p.Condition == "Ready":
			after = unready
		case in.NoRepair:
			continue
		}
		since := model.LaterOf(c.Since, n.Created)
		switch r := claim.Conditions[lifecycle.Rebooting]; {
		case r.Status == "False" && r.Reason == lifecycle.RebootSucceeded:
			since = model.LaterOf(since, r.Since)
		case r.Status == "False":
			since, after = model.LaterOf(since, r.Since), 0
		}
		out = append(out, match{p, since.Add(after), plan.OfUnhealthy{Condition: p.Condition, Status: p.Status, Said: plan.Words(c.Reason), Since: since, After: after}})
	}
	return out
}

// CountsForRepair reports whether a NodeClaim's node counts as one of the nodes of its NodePool that may be repaired.
func CountsForRepair(c *model.Claim) bool { return c.Is(lifecycle.Registered) }

// Of returns the problem of a NodeClaim's node.
func (h *Health) Of(c *model.Claim) Ailment { return h.byClaim[c.Name] }

// IsBroken reports whether a NodeClaim's node counts as broken at a time.
func (h *Health) IsBroken(c *model.Claim, now time.Time) bool {
	s := h.Of(c)
	return s.Cause.Code != "" && !now.Before(s.Due)
}

// RepairRefusal returns why no node of a NodePool is repaired: too many of its nodes are unhealthy. ok is false if nodes may be
// repaired.
func (h *Health) RepairRefusal(pool string) (plan.Reason, bool) {
	k := poolHealth{}
	if x := h.byPool[pool]; x != nil {
		k = *x
	}
	most := (k.nodes*mostUnhealthy + 99) / 100
	return plan.Reason{Code: plan.RepairBlocked, Pool: pool, Subject: plan.ObjectOf("nodepool", pool), Detail: plan.OfRepairBlocked{Most: most, Total: k.nodes, Unhealthy: k.unhealthy}}, k.unhealthy > most
}

// CanReplace reports whether a NodeClaim's node is broken at now and may be repaired by launching a replacement first.
func (h *Health) CanReplace(c *model.Claim, now time.Time) bool {
	if !h.IsBroken(c, now) {
		return false
	}
	_, refused := h.RepairRefusal(c.Pool)
	return !refused
}

// IsDrainBounded reports whether a drain of a broken node that begins now waits for pods no longer than its repair policy allows.
func (h *Health) IsDrainBounded(c *model.Claim, now time.Time) bool {
	end := now.Add(h.Of(c).Drain)
	if t, err := time.Parse(time.RFC3339, c.Annotations[lifecycle.TerminationTime]); err == nil {
		return !t.After(end)
	}
	return c.TerminationGracePeriod >= 0 && c.TerminationGracePeriod <= h.Of(c).Drain
}

// BoundDrain returns the update of a broken node's NodeClaim that sets the termination time allowed by its repair policy.
func (h *Health) BoundDrain(c *model.Claim, now time.Time) plan.UpdateClaim {
	s := h.Of(c)
	return plan.UpdateClaim{Claim: c.Name, UID: c.UID, Annotations: map[string]string{lifecycle.TerminationTime: now.Add(s.Drain).UTC().Format(time.RFC3339)}, Why: s.Cause}
}

// RepairIn is the input of repairs outside of disruption commands.
type RepairIn struct {
	plan.Begun
	Health *Health
	Force  bool          // delete machines that have been broken for longer than Grace, as Karpenter before v1.15 does
	Grace  time.Duration // how long a broken node is repaired within budgets and with its replacement first
	Retry  time.Duration // delay after which a NodeClaim that is being written is evaluated again
}

// ForceRepairs deletes, if in.Force, NodeClaims whose node has been unhealthy for longer than the grace period. Their termination
// time is now, so that pods are deleted regardless of budgets. It removes that time from NodeClaims that are not repaired after
// all, and notes NodePools in which too many nodes are unhealthy to repair any. NodeClaims are evaluated in the order of the
// Snapshot.
func ForceRepairs(v *cluster.View, in RepairIn) (out plan.Part) {
	for _, c := range v.DirtyClaims {
		if lifecycle.IsRebooting(c) {
			continue
		}
		if !in.Health.IsBroken(c, v.Now) || disrupt.ForbidsRepair(v.NodeFor(c), c) || v.Snapshot.ShiftFrom(c.Labels[model.LabelZone]) != nil {
			in.clearTerminationTime(&out, c)
			continue
		}
		if why, refused := in.Health.RepairRefusal(c.Pool); refused {
			in.clearTerminationTime(&out, c)
			n := v.NodeFor(c)
			out.AddNote(plan.Note{Event: "NodeRepairBlocked", Kind: "Node", Name: n.Name, UID: n.UID, Warn: true, Why: why})
			continue
		}
		if !in.Force {
			if cluster.DisruptedBy(c) == "" {
				in.clearTerminationTime(&out, c)
			}
			continue
		}
		s := in.Health.Of(c)
		if due := s.Due.Add(in.Grace); v.Now.Before(due) {
			out.WakeAt(due)
			continue
		}
		if t, err := time.Parse(time.RFC3339, c.Annotations[lifecycle.TerminationTime]); err != nil || t.After(v.Now) {
			if in.IsUpdating(c) {
				out.WakeAt(v.Now.Add(in.Retry))
				continue
			}
			out.Add(plan.UpdateClaim{Claim: c.Name, UID: c.UID, Annotations: map[string]string{lifecycle.TerminationTime: v.Now.UTC().Format(time.RFC3339)}, Why: s.Cause})
			continue // written first: a drain begun without it would not be forced
		}
		if c.Deleting.IsZero() {
			out.Add(plan.DeleteClaim{Claim: c.Name, UID: c.UID, Why: s.Cause})
		}
	}
	return out
}

// clearTerminationTime takes the time of termination off a claim that is not deleted after all: left there, it would
// force a later drain.
func (in *RepairIn) clearTerminationTime(out *plan.Part, c *model.Claim) {
	if !c.Deleting.IsZero() || in.IsDeleting(c) || c.Annotations[lifecycle.TerminationTime] == "" || in.IsUpdating(c) {
		return
	}
	out.Add(plan.UpdateClaim{Claim: c.Name, UID: c.UID, Annotations: map[string]string{lifecycle.TerminationTime: plan.Unset},
		Why: plan.Reason{Code: plan.Aborted, Pool: c.Pool, Subject: plan.ObjectOf("nodeclaim", c.Name)}})
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// nodeHealth is which nodes are unhealthy, and repairs them.
type nodeHealth struct {
	*draft
	memo *unchangedMachines

	byClaim      map[string]unhealthyNode // by claim name
	healthByPool map[string]*[2]int       // by pool: its nodes, and those of them that are unhealthy
}

// mostUnhealthy is the share of a pool's nodes, in percent and rounded up, that may be broken at once. When more are,
// it is not the nodes that are broken: nothing is repaired.
const mostUnhealthy = 20

// unhealthyNode is what is wrong with a node, and when it counts as broken.
type unhealthyNode struct {
	cause plan.Reason // empty code: nothing is
	due   time.Time   // when it counts as broken
}

// unhealthyCondition finds the condition for which a node counts as broken soonest.
func (nh *nodeHealth) unhealthyCondition(n *model.Node, pool *model.NodePool) unhealthyNode {
	var out unhealthyNode
	for _, p := range nh.pol.Repair {
		c, ok := n.Conditions[p.Condition]
		if !ok || c.Status != p.Status {
			continue
		}
		after := p.After
		if pool != nil && pool.Scaling != nil && pool.Scaling.Unready > 0 && p.Condition == "Ready" {
			after = pool.Scaling.Unready
		} else if nh.pol.NoRepair {
			continue
		}
		if due := c.Since.Add(after); out.cause.Code == "" || due.Before(out.due) {
			out = unhealthyNode{due: due, cause: plan.Reason{Code: plan.Unhealthy, Subject: plan.ObjectOf("node", n.Name), Detail: plan.OfUnhealthy{
				Condition: p.Condition, Status: p.Status, Since: c.Since, After: after}}}
		}
	}
	return out
}

// read are the nodes of pools that have something wrong with them, by claim name, and how many of each pool do.
func (nh *nodeHealth) read() {
	if len(nh.pol.Repair) == 0 {
		return
	}
	nh.byClaim = map[string]unhealthyNode{}
	nh.healthByPool = map[string]*[2]int{} // by pool: nodes, and those of them that are unhealthy
	for name, x := range nh.Unchanged {
		nh.healthByPool[name] = &[2]int{int(x.Count), 0}
	}
	for _, c := range nh.DirtyClaims {
		pool := nh.Pool(c.Pool)
		n := nh.NodeFor(c)
		if pool == nil || pool.LetGo || n == nil || !isRepairable(c) {
			continue
		}
		k := nh.healthByPool[pool.Name]
		if k == nil {
			k = &[2]int{}
			nh.healthByPool[pool.Name] = k
		}
		k[0]++
		if s := nh.unhealthyCondition(n, pool); s.cause.Code != "" {
			k[1]++
			s.cause.Pool = pool.Name
			nh.byClaim[c.Name] = s
			if nh.Now.Before(s.due) {
				nh.wakeAt(s.due)
			}
		}
	}
}

// isRepairable reports whether a claim's node is one of those of its pool that may be repaired.
func isRepairable(c *model.Claim) bool { return c.Is(lifecycle.Registered) }

// isRepairAllowed reports whether nodes of a pool may be repaired, and why not.
func (nh *nodeHealth) isRepairAllowed(pool string) (plan.Reason, bool) {
	k := [2]int{}
	if x := nh.healthByPool[pool]; x != nil {
		k = *x
	}
	most := (k[0]*mostUnhealthy + 99) / 100
	return plan.Reason{Code: plan.RepairBlocked, Pool: pool, Subject: plan.ObjectOf("nodepool", pool), Detail: plan.OfRepairBlocked{Most: most, Total: k[0], Unhealthy: k[1]}}, k[1] <= most
}

// brokenNode reports whether a machine is to be repaired now.
func (nh *nodeHealth) brokenNode(c *model.Claim) (unhealthyNode, bool) {
	s, ok := nh.byClaim[c.Name]
	return s, ok && !nh.Now.Before(s.due)
}

// forceRepairs deletes machines that have been broken for longer than Policy.RepairGrace: their time of termination is
// now, so that their pods end past every budget. For pools of which too many nodes are unhealthy it notes that nothing
// is repaired.
func (nh *nodeHealth) forceRepairs() {
	for _, c := range nh.DirtyClaims {
		s, bad := nh.brokenNode(c)
		if !bad {
			nh.clearTerminationTime(c)
			continue
		}
		if why, ok := nh.isRepairAllowed(c.Pool); !ok {
			nh.clearTerminationTime(c)
			n := nh.NodeFor(c)
			nh.addNote(plan.Note{Event: "NodeRepairBlocked", Kind: "Node", Name: n.Name, UID: n.UID, Warn: true, Why: why})
			continue
		}
		if due := s.due.Add(nh.pol.RepairGrace); nh.Now.Before(due) {
			nh.wakeAt(due)
			continue
		}
		if t, err := time.Parse(time.RFC3339, c.Annotations[lifecycle.TerminationTime]); err != nil || t.After(nh.Now) {
			if nh.IsUpdating(c) {
				nh.wakeAt(nh.Now.Add(nh.pol.SearchInterval))
				continue
			}
			nh.addAction(plan.UpdateClaim{Claim: c.Name, UID: c.UID, Annotations: map[string]string{lifecycle.TerminationTime: nh.Now.UTC().Format(time.RFC3339)}, Why: s.cause})
			continue // written first: a drain begun without it would not be forced
		}
		if c.Deleting.IsZero() {
			nh.addAction(plan.DeleteClaim{Claim: c.Name, UID: c.UID, Why: s.cause})
		}
	}
}

// clearTerminationTime takes the time of termination off a claim that is not deleted after all: left there, it would
// force a later drain.
func (nh *nodeHealth) clearTerminationTime(c *model.Claim) {
	if !c.Deleting.IsZero() || nh.IsDeleting(c) || c.Annotations[lifecycle.TerminationTime] == "" || nh.IsUpdating(c) {
		return
	}
	nh.addAction(plan.UpdateClaim{Claim: c.Name, UID: c.UID, Annotations: map[string]string{lifecycle.TerminationTime: plan.Unset},
		Why: plan.Reason{Code: plan.Aborted, Pool: c.Pool, Subject: plan.ObjectOf("nodeclaim", c.Name)}})
}

// canReplaceBroken reports whether a machine is broken and may be repaired with its replacement first.
func (nh *nodeHealth) canReplaceBroken(c *model.Claim) bool {
	if _, bad := nh.brokenNode(c); !bad {
		return false
	}
	_, ok := nh.isRepairAllowed(c.Pool)
	return ok
}

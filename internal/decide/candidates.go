// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/decide/claims"
	"github.com/dovetail-sh/dovetail/internal/decide/nodegroups"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// candidates are the machines of NodePools as disruption looks at them, and how many of each pool its budgets let go.
type candidates struct {
	*draft
	activity     *nodegroups.ActivityMemory
	buffers      *buffers
	driftBackOff *driftBackOff
	health       *claims.Health
	memo         *unchangedMachines
	placements   *placements
	reboots      *reboots

	all          []*disrupt.Candidate         // by node name
	dirty        []*disrupt.Candidate         // those of machines that have changed, by node name
	machines     map[*model.Claim]evaluation  // those of machines that have changed, as the next step may take them over
	budgetCounts map[string]disrupt.NodeCount // by pool
	guard        *disrupt.Eligibility
	groups       nodegroups.Groups
}

// build are the machines of pools with a node, by node name, and how many each pool has for its budgets.
func (ca *candidates) build() {
	ca.budgetCounts = map[string]disrupt.NodeCount{}
	for name, x := range ca.Unchanged {
		ca.budgetCounts[name] = disrupt.NodeCount{Total: x.Count}
	}
	ca.machines = make(map[*model.Claim]evaluation, len(ca.DirtyClaims))
	for _, c := range ca.DirtyClaims {
		pool := ca.Pool(c.Pool)
		if pool == nil || ca.isForeign(c) {
			continue
		}
		n := ca.NodeFor(c)
		initial := c.Is(lifecycle.Initialized)
		if isCounted(c) {
			k := ca.budgetCounts[pool.Name]
			k.Total++
			if !ca.isAvailable(c, n) {
				k.Unavailable++
			}
			if n == nil || !n.Deleting.IsZero() || !ca.isStaying(c) || ca.reboots.isUnderWay(c) {
				k.Going++
			}
			ca.budgetCounts[pool.Name] = k
		}
		if n == nil || !c.Deleting.IsZero() || !n.Deleting.IsZero() {
			continue
		}
		u := ca.memo.unchanged.dirtyCandidates[c.Name]
		if u == nil || u.Claim != c || u.Node != n || u.Pool != pool {
			u = disrupt.NewCandidate(c, n, pool, ca.Cutoff)
			u.UnmetRequirement = unmetRequirement(u)
			u.UnchangedSince, u.Initialized = lifecycle.QuietSince(c, n), initial
		}
		ca.machines[c] = evaluation{u, ca.evaluate(u)}
		v := *u
		v.Occupied = ca.isOccupied(u)
		switch v.CommandID = ca.commands.Of(c); {
		case ca.Interruptions[c.Name] != nil:
			v.CommandID = plan.ByInterruption
		case v.CommandID == "" && ca.IsDeleting(c):
			v.CommandID = plan.ByDeletion
		case v.CommandID == "" && ca.reboots.isUnderWay(c):
			v.CommandID = plan.ByReboot
		}
		v.Nominated = ca.placements.awaitsPods[n.Name] || ca.placements.awaitsPods[c.Name] || ca.reservations.ByClaim[c.Name] != nil
		ca.dirty = append(ca.dirty, &v)
	}
	byNode := func(a, b *disrupt.Candidate) int { return strings.Compare(a.Node.Name, b.Node.Name) }
	slices.SortStableFunc(ca.dirty, byNode)
	// The only thing that can be new of an unchanged machine is that pods are expected on it.
	ca.all = make([]*disrupt.Candidate, 0, len(ca.Snapshot.Nodes))
	rest := ca.dirty
	for p, u := range ca.memo.unchanged.candidates {
		if u != nil {
			ca.all = append(ca.all, u)
		}
		for len(rest) > 0 && rest[0].Node == ca.Snapshot.Nodes[p] {
			ca.all, rest = append(ca.all, rest[0]), rest[1:]
		}
	}
	for name := range ca.placements.awaitsPods {
		at := cluster.None
		if c := ca.FindClaim(name); c >= 0 {
			at = ca.NodeOf(c)
		}
		for _, p := range []int32{ca.FindNode(name), at} {
			if p < 0 || ca.memo.unchanged.candidates[p] == nil {
				continue
			}
			if i := slices.Index(ca.all, ca.memo.unchanged.candidates[p]); i >= 0 { // else it is known to be
				v := *ca.all[i]
				v.Nominated = true
				ca.all[i] = &v
			}
		}
	}
	ca.addVirtualPods()
	ca.guard = ca.newGuard()
}

// addVirtualPods adds to the pods of candidates the virtual ones whose capacity is held on them: they need a place too
// when the node goes.
func (ca *candidates) addVirtualPods() {
	if len(ca.buffers.byNode) == 0 {
		return
	}
	for i, u := range ca.all {
		pods := ca.buffers.byNode[u.Claim.Name]
		if len(pods) == 0 {
			continue
		}
		v := *u
		v.Pods = slices.Concat(u.Pods, pods)
		ca.replace(ca.all[i], &v)
	}
}

// isOccupied reports whether a candidate has workload pods, those included that are being deleted and that it waits for.
func (ca *candidates) isOccupied(u *disrupt.Candidate) bool {
	return len(u.Pods) > 0 || ca.isWaitingFor(u, u.PodsEndBy)
}

// isWaitingFor reports whether a candidate waits for pods that are being deleted on it, the last of whose grace periods ends at a time (zero: there
// are none). A Ready node waits for none whose grace period has long ended: its kubelet or a finalizer may hold it for ever, and a drain would not
// wait for it either. Pods may still run on a node that is not Ready, whose repair has rules of its own.
func (ca *candidates) isWaitingFor(u *disrupt.Candidate, end time.Time) bool {
	until := ca.endOfWait(u, end)
	return !end.IsZero() && (until.IsZero() || ca.Now.Before(until))
}

// endOfWait returns when a candidate stops to wait for pods that are being deleted on it, the last of whose grace periods ends at a time; zero:
// not before they are gone.
func (ca *candidates) endOfWait(u *disrupt.Candidate, end time.Time) time.Time {
	if end.IsZero() || !u.Node.Ready {
		return time.Time{}
	}
	return end.Add(ca.pol.Lifecycle.StuckPod)
}

// isCounted reports whether budgets count a claim's machine.
func isCounted(c *model.Claim) bool {
	return c.Is(lifecycle.Initialized) && !c.Is(lifecycle.Terminating)
}

// isAvailable reports whether a claim's machine is up and stays, as budgets understand it. n is its node; nil: it has none.
func (ca *candidates) isAvailable(c *model.Claim, n *model.Node) bool {
	return n != nil && n.Ready && n.Deleting.IsZero() && ca.isStaying(c) && !ca.reboots.isUnderWay(c)
}

// markStarting returns copies of candidates as those of a disruption command that starts now, and puts them in place of
// the originals, which stay as they are because the memory holds them.
func (ca *candidates) markStarting(units []*disrupt.Candidate) []*disrupt.Candidate {
	out := make([]*disrupt.Candidate, len(units))
	for i, u := range units {
		v := *u
		v.CommandID = plan.ByThisStep
		out[i] = &v
		ca.replace(u, &v)
	}
	return out
}

// replace puts a candidate in the place of another.
func (ca *candidates) replace(u, by *disrupt.Candidate) {
	for _, list := range [][]*disrupt.Candidate{ca.all, ca.dirty} {
		if j := slices.Index(list, u); j >= 0 {
			list[j] = by
		}
	}
}

// budgetLeft is how many more machines of a pool may go for a reason.
func (ca *candidates) budgetLeft(pool *model.NodePool, cause plan.Code) (int64, plan.Reason) {
	return disrupt.AllowedDisruptions(pool, ca.budgetCounts[pool.Name], cause, ca.Now)
}

// isDeadAndEmpty reports whether a machine runs no pods and is not ready: budgets count it as unavailable already, and without it no less is available.
func (ca *candidates) isDeadAndEmpty(u *disrupt.Candidate, cause plan.Code) bool {
	return cause == plan.Empty && isCounted(u.Claim) && !u.Node.Ready && u.IsEmpty()
}

// countDown counts n more machines of a pool as going, for its budgets.
func (ca *candidates) countDown(pool *model.NodePool, n int64) {
	k := ca.budgetCounts[pool.Name]
	k.Unavailable += n
	k.Going += n
	ca.budgetCounts[pool.Name] = k
}

// ofClaim returns a claim's candidate; nil: it has none.
func (ca *candidates) ofClaim(c *model.Claim) *disrupt.Candidate {
	n := ca.NodeFor(c)
	if n == nil {
		return nil
	}
	i, _ := slices.BinarySearchFunc(ca.all, n.Name, func(u *disrupt.Candidate, name string) int { return strings.Compare(u.Node.Name, name) })
	for ; i < len(ca.all) && ca.all[i].Node == n; i++ {
		if ca.all[i].Claim == c {
			return ca.all[i]
		}
	}
	return nil
}

// hasDrifted reports whether the node of a claim has drifted.
func (ca *candidates) hasDrifted(c *model.Claim) bool {
	u := ca.ofClaim(c)
	if u == nil {
		return false
	}
	reason, _ := ca.driftReason(u)
	return reason != ""
}

// budgetLeftFor is how many machines of a pool more may go for a cause, this one first. The repair of one that is not initialized needs no
// budget, since budgets don't count it, and those that are dead and empty do not use the budget up that they need themselves.
func (ca *candidates) budgetLeftFor(u *disrupt.Candidate, cause plan.Code) (int64, plan.Reason) {
	if ca.isDeadAndEmpty(u, cause) {
		n := ca.budgetCounts[u.Pool.Name]
		n.Unavailable = n.Going
		return disrupt.AllowedDisruptions(u.Pool, n, cause, ca.Now)
	}
	left, why := ca.budgetLeft(u.Pool, cause)
	if cause == plan.Unhealthy && !u.Initialized {
		left = max(left, 1)
	}
	return left, why
}

// newGuard is the guard of this step: a PodDisruptionBudget does not keep a pod whose successor comes first.
func (ca *candidates) newGuard() *disrupt.Eligibility {
	g := disrupt.NewEligibility(ca.Snapshot.PDBs, ca.Now)
	g.Cutoff, g.Snapshot = ca.Cutoff, ca.Snapshot
	g.RollsOutFirst = ca.rollouts.SuccessorComesFirst
	g.DriftBackOff = ca.driftBackOff.blocker
	g.Shifts = ca.Snapshot.Shifts
	ca.groups = nodegroups.New(ca.Snapshot, ca.isStaying)
	g.NodeGroups, g.Minimum = ca.groups, ca.clusterMinimum()
	g.Activity, *ca.activity = nodegroups.ReadActivity(ca.View, *ca.activity, ca.groupsGoing())
	g.CountPods = nodegroups.PodCounter(ca.Snapshot)
	return g
}

// groupsGoing returns the node groups of the claims that commands under way delete to consolidate.
func (ca *candidates) groupsGoing() (out []string) {
	for _, m := range ca.commands.ByID {
		for _, c := range m.Candidates {
			if group := c.NodeGroup(); group != "" && disrupt.IsConsolidation(m.Cause) {
				out = append(out, group)
			}
		}
	}
	return out
}

// clusterMinimum is how much the whole cluster keeps, and has in nodes that nothing takes away yet; nil: there is no
// minimum.
func (ca *candidates) clusterMinimum() *disrupt.ClusterMinimum {
	i := slices.IndexFunc(ca.Snapshot.Limits, func(l *model.CapacityLimit) bool { return !l.Least.IsZero() })
	if i < 0 {
		return nil
	}
	out := &disrupt.ClusterMinimum{ResourceNames: ca.Snapshot.ResourceNames, Least: ca.Snapshot.Limits[i].Least}
	for at, n := range ca.Snapshot.Nodes {
		if c := ca.ClaimOf(int32(at)); n.Deleting.IsZero() && (c == cluster.None || ca.isStaying(ca.Snapshot.Claims[c])) {
			out.Staying = out.Staying.AddInto(n.Capacity, 1)
		}
	}
	return out
}

// onNode returns the candidate on a node, by name; nil: there is none.
func (ca *candidates) onNode(node string) *disrupt.Candidate {
	i := slices.IndexFunc(ca.all, func(u *disrupt.Candidate) bool { return u.Node.Name == node })
	if i < 0 {
		return nil
	}
	return ca.all[i]
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// advanceAll takes each disruption command under way one step on, in the order of their ids.
func (dc *disruptionCommands) advanceAll() {
	if following := dc.req.Following; following != nil {
		for _, id := range following.TakenBack {
			if m := dc.commands.ByID[id]; m != nil {
				dc.backOffTakenBack(m)
			}
		}
		return
	}
	dc.taintedAt = map[plan.CommandID]time.Time{}
	for _, id := range dc.commands.IDs() {
		m := dc.commands.ByID[id]
		left := len(m.Candidates)
		for _, c := range m.Candidates {
			if dc.isAboutToBeDeleted(c) {
				left--
			}
		}
		begun := m.Deleting > 0 || left < len(m.Candidates)
		if begun || len(m.Candidates) == 0 {
			dc.hosts.releaseLandedHosts(m)
		}
		switch {
		case len(m.Candidates) == 0 && m.Deleting == 0:
			for _, c := range m.Replacements { // it is over: they are machines like any other
				dc.clearRecord(c, true)
			}
		case begun && dc.isReadyToDelete(m):
			dc.deleteCandidates(m) // begun to delete, though that may not show yet: no way back
		case left == 0: // what may not be deleted any more is not there, and what is can't be taken back
		case dc.req.PassiveReason != "":
			dc.abort(m, plan.Aborted, dc.req.PassiveReason, dc.pol.SearchInterval)
		default:
			dc.advance(m)
		}
	}
	dc.removeStrayTaints()
	dc.mem.taintedAt = dc.taintedAt
}

// backOffTakenBack has the candidates of a command back off that another process takes back, for as long as it has them:
// where nothing else is to be seen that stands against it, a pod has come.
func (dc *disruptionCommands) backOffTakenBack(m *cluster.Command) {
	rest := dc.restAfterChange()
	if _, why := dc.abortCause(m); why != "" {
		rest = dc.pol.BackOff
	}
	for _, c := range m.Candidates {
		dc.backOffs.Hold(c.UID, rest)
	}
	dc.pauseAfterTakenBack(m)
	dc.setHosts(m.ID, nil)
}

// pauseAfterTakenBack stops consolidation from launching replacements for a while in NodePools where it just launched one for a command that was cancelled.
func (dc *disruptionCommands) pauseAfterTakenBack(m *cluster.Command) {
	if disrupt.IsConsolidation(m.Cause) {
		for _, c := range m.Replacements {
			dc.pauseLaunches(c.Pool, dc.Now)
		}
	}
}

// isReadyToDelete reports whether a command has all that it needs before it deletes: its replacements ready and the nodes
// tainted. Where it has not, one of its claims is being deleted by somebody else.
func (dc *disruptionCommands) isReadyToDelete(m *cluster.Command) bool {
	if !m.ReplacementsReady() {
		return false
	}
	for _, c := range m.Candidates {
		if n := dc.NodeFor(c); n != nil && !slices.Contains(n.Taints, disrupt.DisruptedTaint) {
			return false
		}
	}
	return len(m.Replacements) >= m.Of
}

// advance takes a command that has not begun to delete one step on: conditions on its claims, then, when the
// replacements are ready, taints and reservations, then the deletion; or takes it back.
func (dc *disruptionCommands) advance(m *cluster.Command) {
	if code, why := dc.abortCause(m); why != "" {
		dc.abort(m, code, why, dc.pol.BackOff) // what failed once may well fail again
		return
	}
	if slices.ContainsFunc(m.Replacements, func(c *model.Claim) bool { return c.Provisional }) {
		dc.wakeAt(m.Since.Add(dc.pol.CommandTimeout))
		return // the condition alone does not say that there are to be replacements: a process that ends now must not leave it without them
	}
	written := true
	for _, c := range m.Candidates {
		if cluster.DisruptedBy(c) != m.ID {
			dc.markDisrupted(c, m.CommandRecord)
			written = false
		}
	}
	if !m.ReplacementsReady() {
		dc.wakeAt(m.Since.Add(dc.pol.CommandTimeout))
		return
	}
	if dc.hosts.awaitNominated(m) {
		dc.wakeAt(dc.Now.Add(dc.pol.SearchInterval))
		return
	}
	ready := true
	for _, c := range m.Candidates {
		n := dc.NodeFor(c)
		if n == nil || slices.Contains(n.Taints, disrupt.DisruptedTaint) {
			continue
		}
		ready = false
		dc.taintCandidate(n, c, m.CommandRecord)
	}
	reserved, lost := dc.hosts.reserveHosts(m)
	if lost != "" {
		dc.abort(m, plan.Aborted, "the node of NodeClaim "+lost+", which was to take its pods, is gone or being removed", dc.restAfterChange())
		return
	}
	if !ready || !reserved {
		return
	}
	since, ok := dc.mem.taintedAt[m.ID]
	if !ok {
		since = dc.Now
	}
	dc.taintedAt[m.ID] = since
	if due := since.Add(dc.taintDelay(m)); dc.Now.Before(due) {
		dc.wakeAt(due)
		return
	}
	if !written {
		return // what can't be taken back is not begun before it is known to all
	}
	if slices.ContainsFunc(m.HostedOn, func(c *model.Claim) bool { return dc.hostsTaken[c.Name] }) {
		dc.wakeAt(dc.Now.Add(dc.pol.SearchInterval / 10))
		return
	}
	if waits, until := dc.awaitsReplacementsOfOthers(m); waits {
		dc.wakeAt(until)
		return
	}
	p, until := dc.findUnplaceablePod(m)
	if dc.wakeAt(until); p != nil && !dc.isTerminatedFirst(m) {
		dc.abort(m, plan.Aborted, "pod "+p.Key()+" was added to the node, or no longer fits on another node", dc.restAfterChange())
		return
	}
	if disrupt.IsConsolidation(m.Cause) && len(dc.placements.awaitsEnds) > 0 {
		dc.wakeAt(dc.Now.Add(dc.pol.SearchInterval))
		return // pods that wait for others to end may yet need what goes
	}
	dc.deleteCandidates(m)
}

// mostWaitForOthers is how long a command whose own replacements are ready waits for those of others.
const mostWaitForOthers = 30 * time.Second

// awaitsReplacementsOfOthers reports whether a consolidation command whose nodes are closed waits before it drains them, and until when at most: a command that was
// begun no later still waits for its replacements, so its nodes are open, and kube-scheduler may bind a pod that is evicted now to one of them. The pod would
// move twice, and the other command, whose replacements have no place for it, would be taken back.
func (dc *disruptionCommands) awaitsReplacementsOfOthers(m *cluster.Command) (bool, time.Time) {
	if !disrupt.IsConsolidation(m.Cause) {
		return false, time.Time{}
	}
	until := m.Since.Add(dc.pol.CommandTimeout / 2)
	for i, c := range m.Replacements {
		if ready := c.Conditions[lifecycle.Initialized].Since.Add(mostWaitForOthers); i == 0 || ready.After(until) {
			until = ready
		}
	}
	evicted := dc.pods.Evicted(m)
	if len(evicted) == 0 || !dc.Now.Before(until) {
		return false, time.Time{}
	}
	for _, id := range dc.commands.IDs() {
		if o := dc.commands.ByID[id]; o != m && !o.Since.After(m.Since) && dc.isOpenFor(o, evicted) {
			return true, until
		}
	}
	return false, time.Time{}
}

// isOpenFor reports whether a command waits for its replacements, so that its candidates are open, and one of these has free capacity for one of the pods.
func (dc *disruptionCommands) isOpenFor(m *cluster.Command, pods []*model.Pod) bool {
	return (len(m.Replacements) < m.Of || !m.ReplacementsReady()) && slices.ContainsFunc(m.Candidates, func(c *model.Claim) bool {
		n := dc.NodeFor(c)
		if n == nil || slices.Contains(n.Taints, disrupt.DisruptedTaint) {
			return false
		}
		free := n.Allocatable.Sub(n.Used)
		return slices.ContainsFunc(pods, func(p *model.Pod) bool { return p.Class.Requests.Fits(free) })
	})
}

// isTerminatedFirst reports whether a command without replacements may delete its node though pods on it have no place before it is gone: there is
// capacity for its replacement then, and only then.
func (dc *disruptionCommands) isTerminatedFirst(m *cluster.Command) bool {
	if m.Of > 0 || len(m.Candidates) != 1 {
		return false
	}
	u := dc.candidates.ofClaim(m.Candidates[0])
	return u != nil && dc.endsFirst.isConfirmed(u, m.Cause)
}

// restAfterChange is how long candidates back off whose command was taken back because the cluster is another by now: a pod has come, which may
// soon be gone or have a place, or a node has gone, and another has the room.
func (dc *disruptionCommands) restAfterChange() time.Duration { return 5 * dc.pol.SearchInterval }

// taintDelay is how long the nodes of a command have their taint before they are looked at again and deleted.
func (dc *disruptionCommands) taintDelay(m *cluster.Command) time.Duration {
	d := dc.pol.TaintSettleDelay
	for _, c := range m.Candidates {
		if pool := dc.Pool(c.Pool); pool != nil && pool.Scaling != nil {
			d = max(d, pool.Scaling.TaintDelay)
		}
	}
	return d
}

// abortCause returns why a disruption command must be cancelled, with code CommandFailed if it failed or Aborted if the cluster
// has changed; empty: it continues.
func (dc *disruptionCommands) abortCause(m *cluster.Command) (code plan.Code, why string) {
	if len(m.Replacements) < m.Of {
		return plan.CommandFailed, "a replacement NodeClaim was deleted or never created"
	}
	if dc.hosts.lacksHost(m) {
		return plan.Aborted, "a node that was to take its pods is not reserved"
	}
	if !dc.Now.Before(m.Since.Add(dc.pol.CommandTimeout)) {
		return plan.CommandFailed, "it did not complete within " + dc.pol.CommandTimeout.String()
	}
	if m.Cause == plan.Expired {
		return "", ""
	}
	for _, u := range dc.candidates.dirty {
		if u.CommandID != m.ID {
			continue
		}
		if m.Cause == plan.Unhealthy && !dc.health.IsBroken(u.Claim, dc.Now) {
			return plan.Aborted, "node " + u.Node.Name + " is healthy again"
		}
		free := *u
		free.CommandID, free.Nominated, free.Initialized = "", false, true
		for _, r := range dc.candidates.guard.Blockers(&free, m.Cause, false) {
			switch r.Code {
			case plan.Quiet, plan.DriftBackOff, plan.ClusterMinimum, plan.Payback, plan.NoPrice, // decided on before
				plan.DelayAfterAdd, plan.DelayAfterDelete, plan.DelayAfterFailure:
			case plan.DisruptionBudgetPDB:
				if budget := plan.DetailOf[plan.OfPDB](r).Name; dc.isExhaustedAtRest(budget) { // otherwise the drain waits for pods that come back
					return plan.Aborted, string(r.Code) + " " + budget
				}
			case plan.GroupMinimum:
				if x := dc.candidates.guard.NodeGroups[u.NodeGroup()]; x.Staying < x.MinSize { // without what goes; the minimum has been raised since
					return plan.Aborted, string(r.Code) + " " + string(r.Subject)
				}
			default:
				return plan.Aborted, string(r.Code) + " " + string(r.Subject)
			}
		}
	}
	pools := map[string]bool{}
	for _, c := range m.Candidates {
		if pool := dc.Pool(c.Pool); pool != nil && !pools[c.Pool] {
			pools[c.Pool] = true
			left, why := dc.candidates.budgetLeft(pool, m.Cause)
			if u := dc.candidates.ofClaim(c); u != nil {
				left, why = dc.candidates.budgetLeftFor(u, m.Cause)
			}
			if left < 0 {
				return plan.Aborted, string(why.Code) + " " + plan.DetailOf[plan.OfBudget](why).Field()
			}
		}
	}
	return "", ""
}

// isExhaustedAtRest reports whether a PodDisruptionBudget, by namespace and name, allows no eviction however long one waits.
func (dc *disruptionCommands) isExhaustedAtRest(key string) bool {
	i := slices.IndexFunc(dc.Snapshot.PDBs, func(b *model.PDB) bool { return b.Key() == key })
	return i >= 0 && dc.Snapshot.PDBs[i].IsExhaustedAtRest()
}

// findUnplaceablePod returns a pod on a candidate for which too few slots are kept and which may find no place on a
// standing node either (nil: every pod has a place), and until when that is so.
func (dc *disruptionCommands) findUnplaceablePod(m *cluster.Command) (*model.Pod, time.Time) {
	slots := map[cluster.SlotKey]int{}
	for _, c := range slices.Concat(m.Replacements, m.HostedOn) {
		there := map[cluster.SlotKey]int{} // those who were there, and others who have come meanwhile or are to come first
		n := dc.NodeFor(c)
		if n != nil {
			for _, p := range n.Pods {
				if p.Deleting.IsZero() {
					there[dc.SlotKeyOf(p)]++
				}
			}
		}
		for _, p := range dc.commands.PodsBeforeCandidates(dc.View, dc.reservations.ByClaim[c.Name]) {
			there[dc.SlotKeyOf(p)]++
		}
		if n != nil && dc.hosts.lacksCapacityForSlots(c, n) { // of a replacement that is not reserved others may have taken it
			if pods := dc.pods.ToReplace(m); len(pods) > 0 {
				return pods[0], time.Time{}
			}
		}
		for _, s := range c.Slots {
			k := cluster.KeyOf(s)
			slots[k] += max(0, s.Count-there[k])
		}
	}
	var rest []*model.Pod
	var closed []string
	for _, c := range m.Candidates {
		n := dc.NodeFor(c)
		if n == nil {
			continue
		}
		closed = append(closed, n.Name)
		for _, p := range n.Pods {
			if !dc.IsReschedulable(p) {
				continue
			}
			if m.Cause == plan.Empty {
				return p, time.Time{} // wherever it might go: it came before the taint was known, and is not evicted at once
			}
			k := dc.SlotKeyOf(p)
			if slots[k] > 0 {
				slots[k]--
				continue
			}
			rest = append(rest, p)
		}
	}
	if len(rest) == 0 {
		return nil, time.Time{}
	}
	return dc.findUnplaceable(m, closed, rest)
}

// deleteCandidates deletes the claims that go. There is no way back from here; lifecycle drains them.
func (dc *disruptionCommands) deleteCandidates(m *cluster.Command) {
	for _, c := range m.Candidates {
		if m.Cause == plan.Unhealthy && !dc.health.IsDrainBounded(c, dc.Now) {
			if dc.IsUpdating(c) {
				dc.wakeAt(dc.Now.Add(dc.pol.SearchInterval))
			} else {
				dc.addAction(dc.health.BoundDrain(c, dc.Now))
			}
			continue // written first: a drain begun without it would not be bounded
		}
		dc.addAction(plan.DeleteClaim{Claim: c.Name, UID: c.UID, Why: dc.deletionReason(c, m)})
	}
}

// deletionReason returns why a command deletes a claim, as what can still be seen of it says.
func (dc *disruptionCommands) deletionReason(c *model.Claim, m *cluster.Command) plan.Reason {
	r := plan.Reason{Code: m.Cause}
	switch m.Cause {
	case plan.Unhealthy:
		why := plan.DetailOf[plan.OfUnhealthy](dc.health.Of(c).Cause)
		why.After = 0
		r.Detail = why
	case plan.Drifted:
		r.Detail = plan.OfDrifted{Kind: c.Conditions[lifecycle.Drifted].Reason, Said: plan.Words(c.Conditions[lifecycle.Drifted].Message)}
	case plan.Expired:
		r.Detail = plan.OfExpired{After: c.ExpireAfter}
	}
	r.Pool, r.Subject, r.Command = c.Pool, plan.ObjectOf("node", c.NodeName), m.ID
	return r
}

// abort takes a command back: conditions, which say by their reason whether it failed (CommandFailed) or was overtaken
// (Aborted), and taints are removed, and its claims back off for so long. What was bought
// stays, as free capacity like any other. A claim whose deletion has been asked for and does not show yet is left as it
// is: that can't be taken back.
func (dc *disruptionCommands) abort(m *cluster.Command, code plan.Code, why string, rest time.Duration) {
	dc.pauseAfterTakenBack(m)
	reason := plan.Reason{Code: plan.Aborted, Command: m.ID, Detail: plan.OfAborted{Cause: m.Cause, Said: plan.Words(why)}}
	for _, c := range m.Candidates {
		if dc.isAboutToBeDeleted(c) {
			continue
		}
		r := reason
		r.Pool, r.Subject = c.Pool, plan.ObjectOf("nodeclaim", c.Name)
		if c.Is(lifecycle.Disrupted) && dc.IsUpdating(c) {
			dc.wakeAt(dc.Now.Add(dc.pol.SearchInterval / 10))
			continue // both writes or neither: a claim whose condition stays would have its node tainted again
		}
		if n := dc.NodeFor(c); n != nil && slices.Contains(n.Taints, disrupt.DisruptedTaint) {
			dc.addAction(plan.UpdateNode{Node: n.Name, UID: n.UID, RemoveTaints: []model.Taint{disrupt.DisruptedTaint}, Why: r})
		}
		if c.Is(lifecycle.Disrupted) {
			dc.addAction(plan.UpdateClaim{Claim: c.Name, UID: c.UID, Why: r, Conditions: map[string]model.Condition{
				lifecycle.Disrupted: {Status: "False", Reason: string(code), Message: why}}})
		}
		dc.backOffs.Hold(c.UID, rest)
		if _, ok := dc.mem.unwritten[c.UID]; ok {
			dc.mem.unwritten = withoutKey(dc.mem.unwritten, c.UID)
		}
	}
	for _, c := range m.Replacements {
		dc.clearRecord(c, false)
	}
	for _, c := range m.HostedOn {
		r := reason
		r.Pool, r.Subject = c.Pool, plan.ObjectOf("nodeclaim", c.Name)
		dc.hosts.releaseHost(c, r)
	}
	dc.setHosts(m.ID, nil)
}

// withoutKey is a map less one key; the map itself stays as it was.
func withoutKey[T any](m map[string]T, key string) map[string]T {
	out := make(map[string]T, len(m))
	for k, v := range m {
		if k != key {
			out[k] = v
		}
	}
	return out
}

// clearRecord takes the record of a command off a replacement: the command is over (done), or taken back.
func (dc *disruptionCommands) clearRecord(c *model.Claim, done bool) {
	if c.UID == "" {
		return // not seen yet: when it is
	}
	u := plan.UpdateClaim{Claim: c.Name, UID: c.UID, Annotations: map[string]string{cluster.AnnotationCommand: plan.Unset},
		Why: plan.Reason{Code: plan.Landed, Pool: c.Pool, Subject: plan.ObjectOf("nodeclaim", c.Name)}}
	if !done {
		u.Annotations[disrupt.KeepUntil] = plan.Unset
		u.Why.Code = plan.Aborted
	}
	dc.addAction(u)
}

// removeStrayTaints takes the taint of disruption off nodes that no known command deletes.
func (dc *disruptionCommands) removeStrayTaints() {
	for _, u := range dc.candidates.dirty {
		c, n := u.Claim, u.Node
		if u.CommandID == "" && cluster.DisruptedBy(c) == "" && dc.candidates.machines[c].found.tainted {
			dc.addAction(plan.UpdateNode{Node: n.Name, UID: n.UID, RemoveTaints: []model.Taint{disrupt.DisruptedTaint},
				Why: plan.Reason{Code: plan.Aborted, Pool: c.Pool, Subject: plan.ObjectOf("node", n.Name), Detail: plan.OfAborted{Said: "no move"}}})
		}
	}
}

// findUnplaceable returns one of the pods that no slot is kept for and that may find no place on a standing node either
// (nil: each has one), and until when that is so.
func (dc *disruptionCommands) findUnplaceable(m *cluster.Command, closed []string, pods []*model.Pod) (*model.Pod, time.Time) {
	nodes, _, until := dc.nodes.list()
	unbound := dc.transit(dc.placements).Unbound()
	p := disrupt.FindUnplaceable(nodes, dc.Snapshot.Daemons, len(dc.Snapshot.ResourceNames), closed, pods, unbound)
	if p == nil || m.Cause == plan.Underutilized || m.Cause == plan.Empty {
		return p, until
	}
	// A required command goes on when there is one way in which all pods find a place, though kube-scheduler may take
	// another.
	going := make(map[string]bool, len(closed))
	for _, n := range closed {
		going[n] = true
	}
	res, _ := solve.Solve(&solve.Problem{ResourceNames: dc.Snapshot.ResourceNames, Demand: slices.Concat(unbound, pods), Nodes: closeNodes(nodes, going), Daemons: dc.Snapshot.Daemons, Namespaces: dc.Snapshot.Namespaces},
		solve.Memory{}, dc.pol.Solve)
	for _, r := range res.Refused {
		if slices.Contains(pods, r.Pod) {
			return r.Pod, until
		}
	}
	return nil, until
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// solverTarget is what a solve.Room stands for.
type solverTarget struct {
	node  *model.Node
	claim *model.Claim
	held  *reservation
}

// findLostReservations says whether a claim that pods were to come to holds nothing for them any more, because it failed or its reservation is over,
// and some pod has no machine now. Such pods are decided on at once, their batch being long complete. Which pod of many alike has a slot
// changes with every pod that comes, so it is claims that are looked at.
func (st *step) findLostReservations() bool {
	lost := false
	for name := range st.mem.reservedClaims {
		lost = lost || st.reservations[name] == nil
	}
	awaiting := make(map[string]bool, len(st.reservations))
	for name, h := range st.reservations {
		for i := range h.slots {
			if h.slots[i].matched > 0 {
				awaiting[name] = true
			}
		}
	}
	st.mem.reservedClaims = awaiting
	if !lost && !st.shortfallFound {
		return false
	}
	found := false
	for _, p := range st.s.Pending {
		found = found || !st.covered[p.UID] && st.isDemand(p)
	}
	uncovered := func(p *model.Pod) bool { return !st.covered[p.UID] }
	return found || slices.ContainsFunc(st.leavingPods(), uncovered) || slices.ContainsFunc(st.anticipatedPods(), uncovered)
}

// solveDemand finds the pods that need a machine and have none coming, and buys for them.
func (st *step) solveDemand(look bool) {
	if !look {
		st.rememberPlacements(nil)
		return
	}
	leaving := st.leavingPods()
	left := make([]*model.Pod, 0, len(st.s.Pending))
	for _, p := range st.s.Pending {
		if st.isDemand(p) && !st.covered[p.UID] {
			left = append(left, p)
		}
	}
	for _, pods := range [][]*model.Pod{leaving, st.anticipatedPods()} {
		for _, p := range pods {
			if !st.covered[p.UID] {
				left = append(left, p)
			}
		}
	}
	st.out.Solved = true
	left, stopped := st.refuseRepeatedShortfalls(left)
	st.out.Pods = append(st.out.Pods, stopped...)
	if len(left) == 0 {
		st.rememberPlacements(map[string]placement{})
		return
	}
	rooms, what := st.solverNodes()
	left, rooms, refused := st.closeDisagreedNodes(left, rooms)
	problem, res := st.packPods(left, rooms)
	if there, p, r, better := st.packWithoutAnticipated(left, rooms, res); better {
		left, problem, res = there, p, r
	}
	if st.batchOpen {
		if kept, waiting := st.delaySmallNodes(left, res.New); waiting > 0 {
			st.out.Waiting = waiting
			problem, res = st.packPods(kept, rooms)
		}
		st.recordLargestNode(res.New)
	} else {
		st.mem.delayedSince = nil
	}
	st.balanceGroups(res.New)
	st.out.Cost, st.out.Stats = res.Cost, res.Stats
	st.out.Problem, st.out.Result = problem, res

	placed := map[string]placement{}
	st.placeOnNodes(res.OnRooms, what, placed)
	st.createClaims(res.New)
	for _, r := range res.Refused {
		refused = append(refused, plan.PodDecision{Pod: r.Pod, Outcome: plan.Refused, Reasons: r.Reasons})
	}
	st.out.Pods = append(st.out.Pods, refused...)
	st.rememberPlacements(placed)
}

// packPods has the solver place pods on rooms, and on machines to buy.
func (st *step) packPods(pods []*model.Pod, rooms []solve.Room) (*solve.Problem, *solve.Result) {
	problem := &solve.Problem{
		ResourceNames: st.s.ResourceNames, Demand: pods, Rooms: rooms, Pools: st.purchasablePools(), Daemons: st.s.Daemons, Namespaces: st.s.Namespaces,
	}
	problem.Pools = st.rankGroups(problem)
	res, mem := solve.Solve(problem, st.mem.solve, st.pol.Solve)
	st.mem.solve = mem
	return problem, &res
}

// rememberPlacements keeps what pending pods are expected where; nil: as before, less those that are not pending any more.
func (st *step) rememberPlacements(placed map[string]placement) {
	if placed == nil {
		placed = map[string]placement{}
		for _, pods := range [][]*model.Pod{st.s.Pending, st.leavingPods(), st.anticipatedPods()} { // a pod whose drain is held up is still expected
			for _, p := range pods {
				if was, ok := st.mem.placements[p.UID]; ok && !st.covered[p.UID] {
					placed[p.UID] = was
				}
			}
		}
	}
	st.mem.placements = placed
	for _, was := range placed {
		st.awaitsPods[was.node] = true
	}
	for name, h := range st.reservations {
		if h.awaitedPods() > 0 {
			st.awaitsPods[name] = true
		}
	}
	for _, g := range st.mem.hosts {
		for name := range g {
			st.awaitsPods[name] = true
		}
	}
	if len(placed) > 0 {
		st.wakeAt(st.now.Add(st.pol.DisagreementAfter))
	}
}

// maxDisagreements is how many standing nodes kube-scheduler may leave unused for a pod before it is given up on without a purchase.
const maxDisagreements = 6

// countBoughtFor counts, among rooms, the nodes that were bought while the pod waited.
func (st *step) countBoughtFor(p *model.Pod, names []string) int {
	n := 0
	for _, name := range names {
		if i := findNode(st.s, name); i >= 0 && st.claims.claimOf[i] >= 0 && st.s.Claims[st.claims.claimOf[i]].Created.After(p.Created) {
			n++
		}
	}
	return n
}

// closeDisagreedNodes closes standing rooms that kube-scheduler has not used for a pod that we think fits, and gives up on a pod after two
// such rooms: buying a third machine of the kind would not help it.
func (st *step) closeDisagreedNodes(left []*model.Pod, rooms []solve.Room) ([]*model.Pod, []solve.Room, []plan.PodDecision) {
	mismatches := map[string]disagreement{}
	kept := left[:0:0]
	var refused []plan.PodDecision
	for _, p := range left {
		m := st.disagreementOf(p)
		// A pod that kube-scheduler has not looked at has not been refused: it is behind, not of another opinion.
		if was, ok := st.mem.placements[p.UID]; ok && p.Node == "" && !p.Unschedulable.IsZero() && !st.now.Before(was.since.Add(st.pol.DisagreementAfter)) && !slices.Contains(m.nodes, was.node) {
			m.nodes = append(m.nodes[:len(m.nodes):len(m.nodes)], was.node)
			if m.since.IsZero() {
				m.since = st.now
			}
		}
		seen := m.nodes
		if len(seen) > 0 {
			mismatches[p.UID] = m
		}
		if why, given := st.disagreementRefusal(p, m); given {
			refused = append(refused, plan.PodDecision{Pod: p, Outcome: plan.Refused, Reasons: []plan.Reason{why}})
			continue
		}
		kept = append(kept, p)
	}
	closed := map[string]bool{}
	for _, p := range kept {
		for _, name := range mismatches[p.UID].nodes {
			closed[name] = true
		}
	}
	st.mem.disagreements = mismatches
	return kept, closeNodes(rooms, closed), refused
}

// disagreementOf is what is remembered of a pod, as long as the cluster may still be the same.
func (st *step) disagreementOf(p *model.Pod) disagreement {
	m := st.mem.disagreements[p.UID]
	if !m.since.IsZero() && !st.now.Before(m.since.Add(st.pol.DisagreementRetry)) {
		return disagreement{}
	}
	return m
}

// disagreementRefusal says why nothing more is bought for a pod, if that is so.
func (st *step) disagreementRefusal(p *model.Pod, m disagreement) (plan.Reason, bool) {
	if len(m.nodes) == 0 || st.countBoughtFor(p, m.nodes) < 2 && len(m.nodes) < maxDisagreements {
		return plan.Reason{}, false
	}
	if m.why.Code != "" {
		return m.why, true
	}
	return plan.Reason{Code: plan.Mismatch, Subject: "node/" + m.nodes[len(m.nodes)-1], Want: "kube-scheduler to bind the pod",
		Have: "it refused nodes that hold the pod by every check"}, true
}

// closeNodes closes rooms; those given stay as they are, for others may hold them.
func closeNodes(rooms []solve.Room, closed map[string]bool) []solve.Room {
	own := false
	for i := range rooms {
		if len(closed) == 0 || !closed[rooms[i].Name] {
			continue
		}
		if !own {
			rooms, own = slices.Clone(rooms), true
		}
		rooms[i].Closed = true
	}
	return rooms
}

// inFlightNodes are claims in flight, as rooms.
type inFlightNodes map[string]solverTarget

// solverNodes are all standing nodes and all claims in flight, these by name too. They may be those of the last step, and are not to be written to.
func (st *step) solverNodes() ([]solve.Room, inFlightNodes) {
	rooms := st.unchanged.solverNodes
	if len(st.dirtyNodes) > 0 {
		rooms = slices.Clone(rooms)
		for _, p := range st.dirtyNodes {
			n := st.s.Nodes[p]
			c, h := st.claimOfNode(p)
			rooms[p] = st.standingNode(n, c, h)
		}
	}
	var more []solve.Room
	var on inFlightNodes
	for _, c := range st.dirtyClaims {
		if !c.Deleting.IsZero() || st.interrupted[c.Name] != nil || st.nodeOf(c) != nil || c.Is(lifecycle.Registered) {
			continue
		}
		if c.Annotations[model.AnnotationAdopt] != "" {
			continue // its machine is not coming: it stands, and is counted as a node
		}
		r, ok := st.inFlightNode(c)
		if !ok {
			continue
		}
		if findNode(st.s, r.Name) >= 0 {
			r.Name += "#claim"
		}
		if on == nil {
			on = inFlightNodes{}
		}
		on[r.Name] = solverTarget{claim: c, held: st.reservations[c.Name]}
		more = append(more, r)
	}
	if len(more) > 0 {
		rooms = append(rooms[:len(rooms):len(rooms)], more...)
	}
	return rooms, on
}

// claimOfNode is the claim that a node names, and what it holds for pods.
func (st *step) claimOfNode(p int32) (*model.Claim, *reservation) {
	if at := st.claims.claimOf[p]; at >= 0 {
		c := st.s.Claims[at]
		return c, st.reservations[c.Name]
	}
	return nil, nil
}

// targetNamed is what a room stands for.
func (st *step) targetNamed(name string, on inFlightNodes) solverTarget {
	if r, ok := on[name]; ok {
		return r
	}
	p := findNode(st.s, name)
	r := solverTarget{node: st.s.Nodes[p]}
	if r.claim, r.held = st.claimOfNode(p); r.held != nil && r.claim.Reserved && hasReservedTaint(r.node, r.claim) && r.held.awaitedPods() == 0 {
		r.held = nil // its reservation goes: no more slots can be kept there
	}
	return r
}

// unownedNodeGrace is how long a node that is no claim's may yet turn out to be one's.
const unownedNodeGrace = 2 * time.Minute

func (st *step) standingNode(n *model.Node, c *model.Claim, h *reservation) solve.Room {
	r := solve.Room{Name: n.Name, Labels: n.Labels, Taints: n.Taints, Allocatable: n.Allocatable, Pods: n.Pods, NoAnti: n.NoAnti, CSILimits: n.CSILimits,
		Free: n.Allocatable.Sub(n.Used)}
	leaving := !n.Deleting.IsZero() || c != nil && (!c.Deleting.IsZero() || st.interrupted[c.Name] != nil)
	if leaving {
		r.Closed, r.Drained = true, true
		return r
	}
	// A node that nobody has registered and that is known to be no claim's is one whose launch has not been answered yet: its room is its
	// claim's, and counted there.
	r.Closed = c != nil && st.commandOfClaim[c.Name] != "" || c == nil && slices.ContainsFunc(n.Taints, func(t model.Taint) bool { return t.Key == model.TaintUnregistered })
	fresh := c != nil && n.Labels[model.LabelInitialized] != "true" && !st.isStuck(c) || c == nil && st.now.Sub(n.Created) < unownedNodeGrace
	r.Taints = st.lastingTaints(n.Taints, c, fresh, h)
	if h != nil {
		r.InFlight = true
		if !st.isForRevocableCommand(c) {
			st.subtractReservation(&r, h)
		}
		if n.Labels[model.LabelRegistered] != "true" {
			r.Labels = mergeLabels(n.Labels, c.Labels)
			r.Taints = append(r.Taints[:len(r.Taints):len(r.Taints)], c.Taints...)
		}
	}
	return r
}

// subtractReservation takes the room of a claim's slots, less what stands there already, off what is free.
func (st *step) subtractReservation(r *solve.Room, h *reservation) {
	r.Free = r.Free.Clone()
	for _, s := range h.slots {
		r.Free = r.Free.AddInto(s.Requests, -int64(s.Count-s.bound))
	}
	if len(h.pods) > 0 {
		r.Pods, r.NoAnti = append(r.Pods[:len(r.Pods):len(r.Pods)], h.pods...), false
	}
}

// lastingTaints are the taints that will still be there when pods come.
func (st *step) lastingTaints(taints []model.Taint, c *model.Claim, fresh bool, h *reservation) []model.Taint {
	var out []model.Taint
	for _, t := range taints {
		if t.Key == model.TaintReserved && (h != nil || c != nil && t.Value == c.Name) {
			continue // pods that are put here are let in; where nothing is held any more, it is being taken off
		}
		if fresh && lifecycle.Ephemeral(t) {
			continue
		}
		if fresh && c != nil && isStartupTaint(c, t) {
			continue
		}
		out = append(out, t)
	}
	return out
}

func isStartupTaint(c *model.Claim, t model.Taint) bool {
	for _, s := range c.StartupTaints {
		if s.Key == t.Key && s.Effect == t.Effect {
			return true
		}
	}
	return false
}

func mergeLabels(a, b model.Labels) model.Labels {
	out := make(model.Labels, len(a)+len(b))
	for k, v := range a {
		out[k] = v
	}
	for k, v := range b {
		out[k] = v
	}
	return out
}

// inFlightNode is a machine that is coming: what is certain about it. Several types still possible means the least of each.
func (st *step) inFlightNode(c *model.Claim) (solve.Room, bool) {
	r := solve.Room{Name: c.Name, InFlight: true, Taints: c.Taints, Allocatable: c.Allocatable}
	labels := mergeLabels(c.Labels, model.Labels{model.LabelHostname: c.Name})
	for _, q := range c.Requirements {
		if _, ok := labels[q.Key]; ok {
			continue
		}
		if !q.Complement && len(q.Values) == 1 {
			labels[q.Key] = q.Values[0]
		} else {
			r.Open = append(r.Open, q)
		}
	}
	r.Labels = labels
	if !c.Is(lifecycle.Launched) {
		least, _, n := st.sizeRange(c)
		if n == 0 {
			return r, false
		}
		r.Allocatable = least
	}
	r.Free = r.Allocatable
	if h := st.reservations[c.Name]; h != nil {
		st.subtractReservation(&r, h)
	} else {
		r.Free = r.Allocatable.Sub(c.Requests)
	}
	return r, true
}

// sizeRange is the least allocatable and the most capacity over the types a claim may become, and how many those are.
func (st *step) sizeRange(c *model.Claim) (least, most model.Resources, n int) {
	pool := st.poolByName[c.Pool]
	q := c.Requirements.Get(model.LabelInstanceType)
	if pool == nil || q == nil {
		return nil, nil, 0
	}
	for _, t := range pool.Types {
		if !q.Matches(t.Name, true) {
			continue
		}
		if n == 0 {
			least, most = t.Allocatable, t.Capacity
		} else {
			least, most = least.Min(t.Allocatable), most.Max(t.Capacity)
		}
		n++
	}
	return least, most, n
}

// purchasablePools are the pools that may buy, with what is left of their limits and of their node groups.
func (st *step) purchasablePools() []solve.Pool {
	used := map[string]model.Resources{}
	count := map[string]int64{}
	for name, x := range st.unchanged.sums {
		used[name], count[name] = x.capacity.Clone(), x.count
	}
	for _, c := range st.dirtyClaims {
		if c.Pool == "" {
			continue
		}
		count[c.Pool]++
		size := c.Capacity
		if size.IsZero() {
			// It may come as any of the types that it was decided on with, though some, or all, are not offered any more.
			_, most, _ := st.sizeRange(c)
			size = most.Max(st.mem.claimSizes[c.Name]).Max(c.Requests)
		}
		used[c.Pool] = used[c.Pool].AddInto(size, 1)
	}
	var out []solve.Pool
	for _, p := range st.s.Pools {
		if p.Deleting || p.Replicas >= 0 {
			continue
		}
		sp := solve.Pool{NodePool: p, NodesLeft: -1, Left: p.Limits.Sub(trimZeros(used[p.Name]))}
		if p.NodeLimit >= 0 {
			sp.NodesLeft = max(0, p.NodeLimit-count[p.Name])
		}
		out = append(out, sp)
	}
	return st.withinGroupMaximums(out)
}

// rememberClaimSizes remembers how large the machines may become that have not come yet.
func (st *step) rememberClaimSizes() {
	next := map[string]model.Resources{}
	for name, size := range st.mem.claimSizes {
		if c := st.claimNamed(name); c != nil && c.Capacity.IsZero() {
			next[name] = size
		}
	}
	for _, a := range st.out.Actions {
		if a, ok := a.(plan.CreateClaim); ok {
			var most model.Resources
			for _, t := range a.Types {
				most = most.Max(t.Capacity)
			}
			next[a.Name] = most
		}
	}
	st.mem.claimSizes = next
}

// placeOnNodes records what goes to machines that are there or coming, and widens the slots of those that are reserved.
func (st *step) placeOnNodes(on []solve.Assignment, what inFlightNodes, placed map[string]placement) {
	for _, a := range on {
		w := st.targetNamed(a.Room, what)
		if w.held == nil {
			for _, p := range a.Pods {
				st.out.Pods = append(st.out.Pods, plan.PodDecision{Pod: p, Outcome: plan.OnNode, Target: a.Room})
				placed[p.UID] = placement{node: a.Room, since: st.placedSince(p, a.Room)}
			}
			continue
		}
		for _, p := range a.Pods {
			st.out.Pods = append(st.out.Pods, plan.PodDecision{Pod: p, Outcome: plan.OnClaim, Target: w.claim.Name})
		}
		if w.claim.UID == "" {
			continue // not created yet: the next step has it
		}
		st.addAction(plan.UpdateClaim{Claim: w.claim.Name, UID: w.claim.UID, SetSlots: true, Slots: mergeSlots(w.claim.Slots, a.Pods),
			Why: plan.Reason{Code: plan.Demand, Pool: w.claim.Pool, Subject: w.claim.Name}})
	}
}

// createClaims makes a claim for each new machine.
func (st *step) createClaims(nodes []solve.NewNode) {
	for i := range nodes {
		n := &nodes[i]
		pool := st.poolByName[n.Pool]
		why := st.reservationRefusal(pool, n.Requests, n.Pods)
		a := plan.CreateClaim{
			Name: st.newClaimName(n.Pool, n.Pods), Pool: pool, Requirements: n.Requirements, Requests: n.Requests,
			Slots: slotsForPods(n.Pods), Reserved: why.Code == "", NoReserve: why, Pods: n.Pods,
			Type: n.Type.Name, Types: n.Choices, Zone: n.Offering.Zone, CapacityType: n.Offering.CapacityType, PriceMicro: n.PriceMicro,
			Why: plan.Reason{Code: plan.Demand, Pool: n.Pool},
		}
		st.addAction(a)
		for _, p := range n.Pods {
			st.out.Pods = append(st.out.Pods, plan.PodDecision{Pod: p, Outcome: plan.OnNew, Target: a.Name})
		}
	}
}

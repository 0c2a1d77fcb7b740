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
func (rt *reservations) findLost() bool {
	lost := false
	for name := range rt.mem.awaited {
		lost = lost || rt.byClaim[name] == nil
	}
	awaiting := make(map[string]bool, len(rt.byClaim))
	for name, h := range rt.byClaim {
		for i := range h.slots {
			if h.slots[i].matched > 0 {
				awaiting[name] = true
			}
		}
	}
	rt.mem.awaited = awaiting
	if !lost && !rt.shortfalls.found {
		return false
	}
	found := false
	for _, p := range rt.s.Pending {
		found = found || !rt.pods.covered[p.UID] && rt.pods.isDemand(p)
	}
	uncovered := func(p *model.Pod) bool { return !rt.pods.covered[p.UID] }
	return found || slices.ContainsFunc(rt.pods.leavingPods(), uncovered) || slices.ContainsFunc(rt.pods.anticipatedPods(), uncovered)
}

// solveDemand finds the pods that need a machine and have none coming, and buys for them.
func (dm *demandStage) solve(look bool) {
	if !look {
		dm.rememberPlacements(nil)
		return
	}
	leaving := dm.pods.leavingPods()
	left := make([]*model.Pod, 0, len(dm.s.Pending))
	for _, p := range dm.s.Pending {
		if dm.pods.isDemand(p) && !dm.pods.covered[p.UID] {
			left = append(left, p)
		}
	}
	for _, pods := range [][]*model.Pod{leaving, dm.pods.anticipatedPods()} {
		for _, p := range pods {
			if !dm.pods.covered[p.UID] {
				left = append(left, p)
			}
		}
	}
	dm.out.Solved = true
	left, stopped := dm.shortfalls.refuseRepeated(left)
	dm.out.Pods = append(dm.out.Pods, stopped...)
	if len(left) == 0 {
		dm.rememberPlacements(map[string]placement{})
		return
	}
	rooms, what := dm.nodes.list()
	left, rooms, refused := dm.disagreements.closeNodes(left, rooms)
	problem, res := dm.packPods(left, rooms)
	if there, p, r, better := dm.packWithoutAnticipated(left, rooms, res); better {
		left, problem, res = there, p, r
	}
	if dm.batchOpen {
		if kept, waiting := dm.delaySmallNodes(left, res.New); waiting > 0 {
			dm.out.Waiting = waiting
			problem, res = dm.packPods(kept, rooms)
		}
		dm.recordLargestNode(res.New)
	} else {
		dm.mem.delayedSince = nil
	}
	dm.balanceGroups(res.New)
	dm.out.Cost, dm.out.Stats = res.Cost, res.Stats
	dm.out.Problem, dm.out.Result = problem, res

	placed := map[string]placement{}
	dm.placeOnNodes(res.OnRooms, what, placed)
	dm.purchases.createClaims(res.New)
	for _, r := range res.Refused {
		refused = append(refused, plan.PodDecision{Pod: r.Pod, Outcome: plan.Refused, Reasons: r.Reasons})
	}
	dm.out.Pods = append(dm.out.Pods, refused...)
	dm.rememberPlacements(placed)
}

// packPods has the solver place pods on rooms, and on machines to buy.
func (dm *demandStage) packPods(pods []*model.Pod, rooms []solve.Room) (*solve.Problem, *solve.Result) {
	problem := &solve.Problem{
		ResourceNames: dm.s.ResourceNames, Demand: pods, Rooms: rooms, Pools: dm.purchases.pools(), Daemons: dm.s.Daemons, Namespaces: dm.s.Namespaces,
	}
	problem.Pools = dm.rankGroups(problem)
	res, mem := solve.Solve(problem, dm.mem.solve, dm.pol.Solve)
	dm.mem.solve = mem
	return problem, &res
}

// rememberPlacements keeps what pending pods are expected where; nil: as before, less those that are not pending any more.
func (dm *demandStage) rememberPlacements(placed map[string]placement) {
	if placed == nil {
		placed = map[string]placement{}
		for _, pods := range [][]*model.Pod{dm.s.Pending, dm.pods.leavingPods(), dm.pods.anticipatedPods()} { // a pod whose drain is held up is still expected
			for _, p := range pods {
				if was, ok := dm.mem.placements[p.UID]; ok && !dm.pods.covered[p.UID] {
					placed[p.UID] = was
				}
			}
		}
	}
	dm.mem.placements = placed
	for _, was := range placed {
		dm.awaitsPods[was.node] = true
	}
	for name, h := range dm.reservations.byClaim {
		if h.awaitedPods() > 0 {
			dm.awaitsPods[name] = true
		}
	}
	for _, g := range dm.commands.mem.hosts {
		for name := range g {
			dm.awaitsPods[name] = true
		}
	}
	if len(placed) > 0 {
		dm.wakeAt(dm.now.Add(dm.pol.DisagreementAfter))
	}
}

// maxDisagreements is how many standing nodes kube-scheduler may leave unused for a pod before it is given up on without a purchase.
const maxDisagreements = 6

// countBoughtFor counts, among rooms, the nodes that were bought while the pod waited.
func (sd *schedulerDisagreements) countBoughtFor(p *model.Pod, names []string) int {
	n := 0
	for _, name := range names {
		if i := findNode(sd.s, name); i >= 0 && sd.claims.claimOf[i] >= 0 && sd.s.Claims[sd.claims.claimOf[i]].Created.After(p.Created) {
			n++
		}
	}
	return n
}

// closeDisagreedNodes closes standing rooms that kube-scheduler has not used for a pod that we think fits, and gives up on a pod after two
// such rooms: buying a third machine of the kind would not help it.
func (sd *schedulerDisagreements) closeNodes(left []*model.Pod, rooms []solve.Room) ([]*model.Pod, []solve.Room, []plan.PodDecision) {
	mismatches := map[string]disagreement{}
	kept := left[:0:0]
	var refused []plan.PodDecision
	for _, p := range left {
		m := sd.of(p)
		// A pod that kube-scheduler has not looked at has not been refused: it is behind, not of another opinion.
		if was, ok := sd.demand.mem.placements[p.UID]; ok && p.Node == "" && !p.Unschedulable.IsZero() && !sd.now.Before(was.since.Add(sd.pol.DisagreementAfter)) && !slices.Contains(m.nodes, was.node) {
			m.nodes = append(m.nodes[:len(m.nodes):len(m.nodes)], was.node)
			if m.since.IsZero() {
				m.since = sd.now
			}
		}
		seen := m.nodes
		if len(seen) > 0 {
			mismatches[p.UID] = m
		}
		if why, given := sd.refusal(p, m); given {
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
	sd.mem.byPod = mismatches
	return kept, closeNodes(rooms, closed), refused
}

// disagreementOf is what is remembered of a pod, as long as the cluster may still be the same.
func (sd *schedulerDisagreements) of(p *model.Pod) disagreement {
	m := sd.mem.byPod[p.UID]
	if !m.since.IsZero() && !sd.now.Before(m.since.Add(sd.pol.DisagreementRetry)) {
		return disagreement{}
	}
	return m
}

// disagreementRefusal says why nothing more is bought for a pod, if that is so.
func (sd *schedulerDisagreements) refusal(p *model.Pod, m disagreement) (plan.Reason, bool) {
	if len(m.nodes) == 0 || sd.countBoughtFor(p, m.nodes) < 2 && len(m.nodes) < maxDisagreements {
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
func (sv *solverView) list() ([]solve.Room, inFlightNodes) {
	rooms := sv.memo.unchanged.solverNodes
	if len(sv.dirtyNodes) > 0 {
		rooms = slices.Clone(rooms)
		for _, p := range sv.dirtyNodes {
			n := sv.s.Nodes[p]
			c, h := sv.reservations.claimOfNode(p)
			rooms[p] = sv.standingNode(n, c, h)
		}
	}
	var more []solve.Room
	var on inFlightNodes
	for _, c := range sv.dirtyClaims {
		if !c.Deleting.IsZero() || sv.interruptions.byClaim[c.Name] != nil || sv.nodeOf(c) != nil || c.Is(lifecycle.Registered) {
			continue
		}
		if c.Annotations[model.AnnotationAdopt] != "" {
			continue // its machine is not coming: it stands, and is counted as a node
		}
		r, ok := sv.inFlightNode(c)
		if !ok {
			continue
		}
		if findNode(sv.s, r.Name) >= 0 {
			r.Name += "#claim"
		}
		if on == nil {
			on = inFlightNodes{}
		}
		on[r.Name] = solverTarget{claim: c, held: sv.reservations.byClaim[c.Name]}
		more = append(more, r)
	}
	if len(more) > 0 {
		rooms = append(rooms[:len(rooms):len(rooms)], more...)
	}
	return rooms, on
}

// claimOfNode is the claim that a node names, and what it holds for pods.
func (rt *reservations) claimOfNode(p int32) (*model.Claim, *reservation) {
	if at := rt.claims.claimOf[p]; at >= 0 {
		c := rt.s.Claims[at]
		return c, rt.byClaim[c.Name]
	}
	return nil, nil
}

// targetNamed is what a room stands for.
func (sv *solverView) targetNamed(name string, on inFlightNodes) solverTarget {
	if r, ok := on[name]; ok {
		return r
	}
	p := findNode(sv.s, name)
	r := solverTarget{node: sv.s.Nodes[p]}
	if r.claim, r.held = sv.reservations.claimOfNode(p); r.held != nil && r.claim.Reserved && hasReservedTaint(r.node, r.claim) && r.held.awaitedPods() == 0 {
		r.held = nil // its reservation goes: no more slots can be kept there
	}
	return r
}

// unownedNodeGrace is how long a node that is no claim's may yet turn out to be one's.
const unownedNodeGrace = 2 * time.Minute

func (sv *solverView) standingNode(n *model.Node, c *model.Claim, h *reservation) solve.Room {
	r := solve.Room{Name: n.Name, Labels: n.Labels, Taints: n.Taints, Allocatable: n.Allocatable, Pods: n.Pods, NoAnti: n.NoAnti, CSILimits: n.CSILimits,
		Free: n.Allocatable.Sub(n.Used)}
	leaving := !n.Deleting.IsZero() || c != nil && (!c.Deleting.IsZero() || sv.interruptions.byClaim[c.Name] != nil)
	if leaving {
		r.Closed, r.Drained = true, true
		return r
	}
	// A node that nobody has registered and that is known to be no claim's is one whose launch has not been answered yet: its room is its
	// claim's, and counted there.
	r.Closed = c != nil && sv.commands.ofClaim[c.Name] != "" || c == nil && slices.ContainsFunc(n.Taints, func(t model.Taint) bool { return t.Key == model.TaintUnregistered })
	fresh := c != nil && n.Labels[model.LabelInitialized] != "true" && !sv.reservations.isStuck(c) || c == nil && sv.now.Sub(n.Created) < unownedNodeGrace
	r.Taints = sv.lastingTaints(n.Taints, c, fresh, h)
	if h != nil {
		r.InFlight = true
		if !sv.commands.isRevocable(c) {
			sv.subtractReservation(&r, h)
		}
		if n.Labels[model.LabelRegistered] != "true" {
			r.Labels = mergeLabels(n.Labels, c.Labels)
			r.Taints = append(r.Taints[:len(r.Taints):len(r.Taints)], c.Taints...)
		}
	}
	return r
}

// subtractReservation takes the room of a claim's slots, less what stands there already, off what is free.
func (sv *solverView) subtractReservation(r *solve.Room, h *reservation) {
	r.Free = r.Free.Clone()
	for _, s := range h.slots {
		r.Free = r.Free.AddInto(s.Requests, -int64(s.Count-s.bound))
	}
	if len(h.pods) > 0 {
		r.Pods, r.NoAnti = append(r.Pods[:len(r.Pods):len(r.Pods)], h.pods...), false
	}
}

// lastingTaints are the taints that will still be there when pods come.
func (sv *solverView) lastingTaints(taints []model.Taint, c *model.Claim, fresh bool, h *reservation) []model.Taint {
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
func (sv *solverView) inFlightNode(c *model.Claim) (solve.Room, bool) {
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
		least, _, n := sv.purchases.sizeRange(c)
		if n == 0 {
			return r, false
		}
		r.Allocatable = least
	}
	r.Free = r.Allocatable
	if h := sv.reservations.byClaim[c.Name]; h != nil {
		sv.subtractReservation(&r, h)
	} else {
		r.Free = r.Allocatable.Sub(c.Requests)
	}
	return r, true
}

// sizeRange is the least allocatable and the most capacity over the types a claim may become, and how many those are.
func (pu *purchases) sizeRange(c *model.Claim) (least, most model.Resources, n int) {
	pool := pu.poolByName[c.Pool]
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
func (pu *purchases) pools() []solve.Pool {
	used := map[string]model.Resources{}
	count := map[string]int64{}
	for name, x := range pu.memo.unchanged.sums {
		used[name], count[name] = x.capacity.Clone(), x.count
	}
	for _, c := range pu.dirtyClaims {
		if c.Pool == "" {
			continue
		}
		count[c.Pool]++
		size := c.Capacity
		if size.IsZero() {
			// It may come as any of the types that it was decided on with, though some, or all, are not offered any more.
			_, most, _ := pu.sizeRange(c)
			size = most.Max(pu.mem.claimSizes[c.Name]).Max(c.Requests)
		}
		used[c.Pool] = used[c.Pool].AddInto(size, 1)
	}
	var out []solve.Pool
	for _, p := range pu.s.Pools {
		if p.Deleting || p.Replicas >= 0 {
			continue
		}
		sp := solve.Pool{NodePool: p, NodesLeft: -1, Left: p.Limits.Sub(trimZeros(used[p.Name]))}
		if p.NodeLimit >= 0 {
			sp.NodesLeft = max(0, p.NodeLimit-count[p.Name])
		}
		out = append(out, sp)
	}
	return pu.withinGroupMaximums(out)
}

// rememberClaimSizes remembers how large the machines may become that have not come yet.
func (pu *purchases) rememberClaimSizes() {
	next := map[string]model.Resources{}
	for name, size := range pu.mem.claimSizes {
		if c := pu.claimNamed(name); c != nil && c.Capacity.IsZero() {
			next[name] = size
		}
	}
	for _, a := range pu.out.Actions {
		if a, ok := a.(plan.CreateClaim); ok {
			var most model.Resources
			for _, t := range a.Types {
				most = most.Max(t.Capacity)
			}
			next[a.Name] = most
		}
	}
	pu.mem.claimSizes = next
}

// placeOnNodes records what goes to machines that are there or coming, and widens the slots of those that are reserved.
func (dm *demandStage) placeOnNodes(on []solve.Assignment, what inFlightNodes, placed map[string]placement) {
	for _, a := range on {
		w := dm.nodes.targetNamed(a.Room, what)
		if w.held == nil {
			for _, p := range a.Pods {
				dm.out.Pods = append(dm.out.Pods, plan.PodDecision{Pod: p, Outcome: plan.OnNode, Target: a.Room})
				placed[p.UID] = placement{node: a.Room, since: dm.placedSince(p, a.Room)}
			}
			continue
		}
		for _, p := range a.Pods {
			dm.out.Pods = append(dm.out.Pods, plan.PodDecision{Pod: p, Outcome: plan.OnClaim, Target: w.claim.Name})
		}
		if w.claim.UID == "" {
			continue // not created yet: the next step has it
		}
		dm.addAction(plan.UpdateClaim{Claim: w.claim.Name, UID: w.claim.UID, SetSlots: true, Slots: mergeSlots(w.claim.Slots, a.Pods),
			Why: plan.Reason{Code: plan.Demand, Pool: w.claim.Pool, Subject: w.claim.Name}})
	}
}

// createClaims makes a claim for each new machine.
func (pu *purchases) createClaims(nodes []solve.NewNode) {
	for i := range nodes {
		n := &nodes[i]
		pool := pu.poolByName[n.Pool]
		why := pu.reservations.reservationRefusal(pool, n.Requests, n.Pods)
		a := plan.CreateClaim{
			Name: pu.newClaimName(n.Pool, n.Pods), Pool: pool, Requirements: n.Requirements, Requests: n.Requests,
			Slots: slotsForPods(n.Pods), Reserved: why.Code == "", NoReserve: why, Pods: n.Pods,
			Type: n.Type.Name, Types: n.Choices, Zone: n.Offering.Zone, CapacityType: n.Offering.CapacityType, PriceMicro: n.PriceMicro,
			Why: plan.Reason{Code: plan.Demand, Pool: n.Pool},
		}
		pu.addAction(a)
		for _, p := range n.Pods {
			pu.out.Pods = append(pu.out.Pods, plan.PodDecision{Pod: p, Outcome: plan.OnNew, Target: a.Name})
		}
	}
}

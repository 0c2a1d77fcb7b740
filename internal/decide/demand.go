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

// room is what a solve.Room stands for.
type room struct {
	node  *model.Node
	claim *model.Claim
	held  *holding
}

// bereft says whether a claim that pods were to come to holds nothing for them any more, because it failed or its reservation is over,
// and some pod has no machine now. Such pods are decided on at once, their batch being long complete. Which pod of many alike has a slot
// changes with every pod that comes, so it is claims that are looked at.
func (st *step) bereft() bool {
	lost := false
	for name := range st.mem.awaiting {
		lost = lost || st.held[name] == nil
	}
	awaiting := make(map[string]bool, len(st.held))
	for name, h := range st.held {
		for i := range h.slots {
			if h.slots[i].matched > 0 {
				awaiting[name] = true
			}
		}
	}
	st.mem.awaiting = awaiting
	if !lost && !st.less {
		return false
	}
	found := false
	for _, p := range st.s.Pending {
		found = found || !st.cover[p.UID] && st.wanted(p)
	}
	uncovered := func(p *model.Pod) bool { return !st.cover[p.UID] }
	return found || slices.ContainsFunc(st.leaving(), uncovered) || slices.ContainsFunc(st.expected(), uncovered)
}

// demand finds the pods that need a machine and have none coming, and buys for them.
func (st *step) demand(look bool) {
	if !look {
		st.remember(nil, nil)
		return
	}
	leaving := st.leaving()
	left := make([]*model.Pod, 0, len(st.s.Pending))
	for _, p := range st.s.Pending {
		if st.wanted(p) && !st.cover[p.UID] {
			left = append(left, p)
		}
	}
	for _, pods := range [][]*model.Pod{leaving, st.expected()} {
		for _, p := range pods {
			if !st.cover[p.UID] {
				left = append(left, p)
			}
		}
	}
	st.out.Solved = true
	left, stopped := st.deserving(left)
	st.out.Pods = append(st.out.Pods, stopped...)
	if len(left) == 0 {
		st.remember(map[string]placement{}, stopped)
		return
	}
	rooms, what := st.rooms()
	left, rooms, refused := st.distrust(left, rooms)
	problem, res := st.pack(left, rooms)
	if there, p, r, better := st.present(left, rooms, res); better {
		left, problem, res = there, p, r
	}
	if st.more {
		if kept, waiting := st.company(left, res.New); waiting > 0 {
			st.out.Waiting = waiting
			problem, res = st.pack(kept, rooms)
		}
		st.crowd(res.New)
	} else {
		st.mem.waits = nil
	}
	st.balance(res.New)
	st.out.Cost, st.out.Stats = res.Cost, res.Stats
	st.out.Problem, st.out.Result = problem, res

	placed := map[string]placement{}
	st.standing(res.OnRooms, what, placed)
	st.buy(res.New)
	for _, r := range res.Refused {
		refused = append(refused, plan.PodDecision{Pod: r.Pod, Outcome: plan.Refused, Reasons: r.Reasons})
	}
	st.out.Pods = append(st.out.Pods, refused...)
	refused = slices.DeleteFunc(append(stopped, refused...), func(d plan.PodDecision) bool { return d.Pod.Expected })
	st.remember(placed, refused)
}

// pack has the solver place pods on rooms, and on machines to buy.
func (st *step) pack(pods []*model.Pod, rooms []solve.Room) (*solve.Problem, *solve.Result) {
	problem := &solve.Problem{
		ResourceNames: st.s.ResourceNames, Demand: pods, Rooms: rooms, Pools: st.buyable(), Daemons: st.s.Daemons, Namespaces: st.s.Namespaces,
	}
	problem.Pools = st.expand(problem)
	res, mem := solve.Solve(problem, st.mem.solve, st.pol.Solve)
	st.mem.solve = mem
	return problem, &res
}

// remember keeps what pending pods are expected where; nil: as before, less those that are not pending any more.
func (st *step) remember(placed map[string]placement, refused []plan.PodDecision) {
	if placed == nil {
		placed = map[string]placement{}
		for _, pods := range [][]*model.Pod{st.s.Pending, st.leaving(), st.expected()} { // a pod whose drain is held up is still expected
			for _, p := range pods {
				if was, ok := st.mem.onRoom[p.UID]; ok && !st.cover[p.UID] {
					placed[p.UID] = was
				}
			}
		}
	} else {
		st.mem.refusals = refused
	}
	st.mem.onRoom = placed
	for _, was := range placed {
		st.busy[was.room] = true
	}
	for name, h := range st.held {
		if h.awaited() > 0 {
			st.busy[name] = true
		}
	}
	for _, g := range st.mem.hosts {
		for name := range g {
			st.busy[name] = true
		}
	}
	if len(placed) > 0 {
		st.wakeAt(st.now.Add(st.pol.DisagreementAfter))
	}
}

// manyRooms is how many standing nodes kube-scheduler may leave unused for a pod before it is given up on without a purchase.
const manyRooms = 6

// boughtFor counts, among rooms, the nodes that were bought while the pod waited.
func (st *step) boughtFor(p *model.Pod, names []string) int {
	n := 0
	for _, name := range names {
		if i := findNode(st.s, name); i >= 0 && st.claims.claimOf[i] >= 0 && st.s.Claims[st.claims.claimOf[i]].Created.After(p.Created) {
			n++
		}
	}
	return n
}

// distrust closes standing rooms that kube-scheduler has not used for a pod that we think fits, and gives up on a pod after two
// such rooms: buying a third machine of the kind would not help it.
func (st *step) distrust(left []*model.Pod, rooms []solve.Room) ([]*model.Pod, []solve.Room, []plan.PodDecision) {
	mismatches := map[string]mismatch{}
	kept := left[:0:0]
	var refused []plan.PodDecision
	for _, p := range left {
		m := st.mismatched(p)
		// A pod that kube-scheduler has not looked at has not been refused: it is behind, not of another opinion.
		if was, ok := st.mem.onRoom[p.UID]; ok && p.Node == "" && !p.Unschedulable.IsZero() && !st.now.Before(was.since.Add(st.pol.DisagreementAfter)) && !slices.Contains(m.rooms, was.room) {
			m.rooms = append(m.rooms[:len(m.rooms):len(m.rooms)], was.room)
			if m.since.IsZero() {
				m.since = st.now
			}
		}
		seen := m.rooms
		if len(seen) > 0 {
			mismatches[p.UID] = m
		}
		if why, given := st.givenUp(p, m); given {
			refused = append(refused, plan.PodDecision{Pod: p, Outcome: plan.Refused, Reasons: []plan.Reason{why}})
			continue
		}
		kept = append(kept, p)
	}
	closed := map[string]bool{}
	for _, p := range kept {
		for _, name := range mismatches[p.UID].rooms {
			closed[name] = true
		}
	}
	st.mem.mismatches = mismatches
	return kept, shut(rooms, closed), refused
}

// mismatched is what is remembered of a pod, as long as the cluster may still be the same.
func (st *step) mismatched(p *model.Pod) mismatch {
	m := st.mem.mismatches[p.UID]
	if !m.since.IsZero() && !st.now.Before(m.since.Add(st.pol.DisagreementRetry)) {
		return mismatch{}
	}
	return m
}

// givenUp says why nothing more is bought for a pod, if that is so.
func (st *step) givenUp(p *model.Pod, m mismatch) (plan.Reason, bool) {
	if len(m.rooms) == 0 || st.boughtFor(p, m.rooms) < 2 && len(m.rooms) < manyRooms {
		return plan.Reason{}, false
	}
	if m.why.Code != "" {
		return m.why, true
	}
	return plan.Reason{Code: plan.Mismatch, Subject: "node/" + m.rooms[len(m.rooms)-1], Want: "kube-scheduler to bind the pod",
		Have: "it refused nodes that hold the pod by every check"}, true
}

// shut closes rooms; those given stay as they are, for others may hold them.
func shut(rooms []solve.Room, closed map[string]bool) []solve.Room {
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

// coming are claims in flight, as rooms.
type coming map[string]room

// rooms are all standing nodes and all claims in flight, these by name too. They may be those of the last step, and are not to be written to.
func (st *step) rooms() ([]solve.Room, coming) {
	rooms := st.unchanged.solverNodes
	if len(st.dirtyNodes) > 0 {
		rooms = slices.Clone(rooms)
		for _, p := range st.dirtyNodes {
			n := st.s.Nodes[p]
			c, h := st.holder(p)
			rooms[p] = st.nodeRoom(n, c, h)
		}
	}
	var more []solve.Room
	var on coming
	for _, c := range st.dirtyClaims {
		if !c.Deleting.IsZero() || st.taken[c.Name] != nil || st.nodeOf(c) != nil || c.Is(lifecycle.Registered) {
			continue
		}
		if c.Annotations[model.AnnotationAdopt] != "" {
			continue // its machine is not coming: it stands, and is counted as a node
		}
		r, ok := st.claimRoom(c)
		if !ok {
			continue
		}
		if findNode(st.s, r.Name) >= 0 {
			r.Name += "#claim"
		}
		if on == nil {
			on = coming{}
		}
		on[r.Name] = room{claim: c, held: st.held[c.Name]}
		more = append(more, r)
	}
	if len(more) > 0 {
		rooms = append(rooms[:len(rooms):len(rooms)], more...)
	}
	return rooms, on
}

// holder is the claim that a node names, and what it holds for pods.
func (st *step) holder(p int32) (*model.Claim, *holding) {
	if at := st.claims.claimOf[p]; at >= 0 {
		c := st.s.Claims[at]
		return c, st.held[c.Name]
	}
	return nil, nil
}

// roomOf is what a room stands for.
func (st *step) roomOf(name string, on coming) room {
	if r, ok := on[name]; ok {
		return r
	}
	p := findNode(st.s, name)
	r := room{node: st.s.Nodes[p]}
	if r.claim, r.held = st.holder(p); r.held != nil && r.claim.Reserved && hasReservation(r.node, r.claim) && r.held.awaited() == 0 {
		r.held = nil // its reservation goes: no more slots can be kept there
	}
	return r
}

// unownedNodeGrace is how long a node that is no claim's may yet turn out to be one's.
const unownedNodeGrace = 2 * time.Minute

func (st *step) nodeRoom(n *model.Node, c *model.Claim, h *holding) solve.Room {
	r := solve.Room{Name: n.Name, Labels: n.Labels, Taints: n.Taints, Allocatable: n.Allocatable, Pods: n.Pods, NoAnti: n.NoAnti, CSILimits: n.CSILimits,
		Free: n.Allocatable.Sub(n.Used)}
	leaving := !n.Deleting.IsZero() || c != nil && (!c.Deleting.IsZero() || st.taken[c.Name] != nil)
	if leaving {
		r.Closed, r.Drained = true, true
		return r
	}
	// A node that nobody has registered and that is known to be no claim's is one whose launch has not been answered yet: its room is its
	// claim's, and counted there.
	r.Closed = c != nil && st.moveOf[c.Name] != "" || c == nil && slices.ContainsFunc(n.Taints, func(t model.Taint) bool { return t.Key == model.TaintUnregistered })
	fresh := c != nil && n.Labels[model.LabelInitialized] != "true" && !st.stuck(c) || c == nil && st.now.Sub(n.Created) < unownedNodeGrace
	r.Taints = st.lasting(n.Taints, c, fresh, h)
	if h != nil {
		r.InFlight = true
		if !st.tentative(c) {
			st.hold1(&r, h)
		}
		if n.Labels[model.LabelRegistered] != "true" {
			r.Labels = mergeLabels(n.Labels, c.Labels)
			r.Taints = append(r.Taints[:len(r.Taints):len(r.Taints)], c.Taints...)
		}
	}
	return r
}

// hold1 takes the room of a claim's slots, less what stands there already, off what is free.
func (st *step) hold1(r *solve.Room, h *holding) {
	r.Free = r.Free.Clone()
	for _, s := range h.slots {
		r.Free = r.Free.AddInto(s.Requests, -int64(s.Count-s.bound))
	}
	if len(h.pods) > 0 {
		r.Pods, r.NoAnti = append(r.Pods[:len(r.Pods):len(r.Pods)], h.pods...), false
	}
}

// lasting are the taints that will still be there when pods come.
func (st *step) lasting(taints []model.Taint, c *model.Claim, fresh bool, h *holding) []model.Taint {
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

// claimRoom is a machine that is coming: what is certain about it. Several types still possible means the least of each.
func (st *step) claimRoom(c *model.Claim) (solve.Room, bool) {
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
		least, _, n := st.span(c)
		if n == 0 {
			return r, false
		}
		r.Allocatable = least
	}
	r.Free = r.Allocatable
	if h := st.held[c.Name]; h != nil {
		st.hold1(&r, h)
	} else {
		r.Free = r.Allocatable.Sub(c.Requests)
	}
	return r, true
}

// span is the least allocatable and the most capacity over the types a claim may become, and how many those are.
func (st *step) span(c *model.Claim) (least, most model.Resources, n int) {
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

// buyable are the pools that may buy, with what is left of their limits and of their node groups.
func (st *step) buyable() []solve.Pool {
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
			_, most, _ := st.span(c)
			size = most.Max(st.mem.sizes[c.Name]).Max(c.Requests)
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
	return st.unpromised(out)
}

// sized remembers how large the machines may become that have not come yet.
func (st *step) sized() {
	next := map[string]model.Resources{}
	for name, size := range st.mem.sizes {
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
	st.mem.sizes = next
}

// standing records what goes to machines that are there or coming, and widens the slots of those that are reserved.
func (st *step) standing(on []solve.Assignment, what coming, placed map[string]placement) {
	for _, a := range on {
		w := st.roomOf(a.Room, what)
		if w.held == nil {
			for _, p := range a.Pods {
				st.out.Pods = append(st.out.Pods, plan.PodDecision{Pod: p, Outcome: plan.OnNode, Target: a.Room})
				placed[p.UID] = placement{room: a.Room, since: st.since(p, a.Room)}
			}
			continue
		}
		for _, p := range a.Pods {
			st.out.Pods = append(st.out.Pods, plan.PodDecision{Pod: p, Outcome: plan.OnClaim, Target: w.claim.Name})
		}
		if w.claim.UID == "" {
			continue // not created yet: the next step has it
		}
		st.addAction(plan.UpdateClaim{Claim: w.claim.Name, UID: w.claim.UID, SetSlots: true, Slots: addSlots(w.claim.Slots, a.Pods),
			Why: plan.Reason{Code: plan.Demand, Pool: w.claim.Pool, Subject: w.claim.Name}})
	}
}

// buy makes a claim for each new machine.
func (st *step) buy(nodes []solve.NewNode) {
	for i := range nodes {
		n := &nodes[i]
		pool := st.poolByName[n.Pool]
		why := st.noReserve(pool, n.Requests, n.Pods)
		a := plan.CreateClaim{
			Name: st.claimName(n.Pool, n.Pods), Pool: pool, Requirements: n.Requirements, Requests: n.Requests,
			Slots: slotsFor(n.Pods), Reserved: why.Code == "", NoReserve: why, Pods: n.Pods,
			Type: n.Type.Name, Types: n.Choices, Zone: n.Offering.Zone, CapacityType: n.Offering.CapacityType, PriceMicro: n.PriceMicro,
			Why: plan.Reason{Code: plan.Demand, Pool: n.Pool},
		}
		st.addAction(a)
		for _, p := range n.Pods {
			st.out.Pods = append(st.out.Pods, plan.PodDecision{Pod: p, Outcome: plan.OnNew, Target: a.Name})
		}
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide/demand"
	"github.com/dovetail-sh/dovetail/internal/decide/nodegroups"
	"github.com/dovetail-sh/dovetail/internal/decide/requests"
	"github.com/dovetail-sh/dovetail/internal/decide/shares"
	"github.com/dovetail-sh/dovetail/internal/decide/unused"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// demandStage finds the pods that need a machine and have none coming, and buys for them.
type demandStage struct {
	*draft
	mem           *demandMemory
	buffers       *buffers
	disagreements *demand.Disagreements
	expander      *nodegroups.Expander
	hosts         *commandHosts
	nodes         *solverView
	placements    *placements
	purchases     *purchases
	shortfalls    *demand.Shortfalls
	unused        *unused.Launches
	requests      *requests.Memory
	bookings      *bookingMemory
	withholding   *demand.Withholding
	smallNodes    *demand.SmallNodeMemory

	lost        bool // pods have lost their slot and have no machine now
	interrupted bool // pods of newly interrupted machines are decided on in this step

	held     func(*model.Pod) bool                        // pods that may have a place on reserved nodes only; nil: there are none, or all nodes may be reserved
	booked   map[string]demand.Placement                  // by uid: placeholders that keep their place on a standing node
	aside    []plan.PodDecision                           // pods that were refused before anything was solved, beside those of out
	heldBack map[*solve.Result]map[*model.Pod]plan.Reason // pods that wait for what comes of other nodes: see unused.Bars.HoldBack, demand.HoldBackStorage
}

// demandMemory is what demandStage remembers from step to step.
type demandMemory struct {
	solve     solve.Memory
	work      shares.WorkMemory
	resources shares.ResourceMemory
	waits     demand.Wait // for pods to end
}

// solve finds the pods that need a machine and have none coming, and buys for them.
func (dm *demandStage) solve() {
	if !dm.heed(dm.isWanted()) {
		dm.rememberPlacements(nil)
		return
	}
	left, until := dm.slots.WithoutMachine()
	dm.wakeAt(until)
	dm.out.Solved, dm.mem.waits = true, demand.Wait{}
	dm.unused.Wake(nil)
	left, stopped := dm.shortfalls.RefuseRepeated(left)
	dm.out.Pods = append(dm.out.Pods, stopped...)
	left = dm.leaveUndecided(left)
	if !dm.req.whatIf {
		var aside []plan.PodDecision
		left, aside, dm.mem.work = shares.Work(shares.WorkInput{Now: dm.Now, StepWork: dm.pol.StepWork, Pools: dm.Snapshot.Pools, Nodes: dm.Snapshot.Nodes}, dm.mem.work, left, dm.out.Left)
		dm.wakeAt(dm.mem.work.Retry.At)
		dm.out.Pods = append(dm.out.Pods, aside...)
	}
	left, booked, until := dm.splitBooked(left)
	dm.wakeAt(until)
	if len(left) == 0 && len(dm.Snapshot.Buffers) == 0 {
		dm.mem.resources = dm.mem.resources.Forget(dm.out.Left)
		dm.wakeAt(dm.mem.resources.Retry.At)
		dm.rememberPlacements(map[string]demand.Placement{})
		return
	}
	nodes, what, until := dm.nodes.list()
	dm.wakeAt(until)
	nodes = dm.markUnheld(subtractBooked(nodes, booked), left)
	left, resting, waits := dm.unused.Bars.FindResting(left, dm.disagreements.HasLeftNodes)
	left, closed, refused := dm.disagreements.FindRefused(left, slices.Concat(dm.out.Left, resting), dm.placements.mem.byPod)
	refused = append(refused, waits...)
	nodes = closeNodes(nodes, closed)
	var over shares.SetAside
	if !dm.req.whatIf {
		over, dm.mem.resources = shares.Resources(dm.Now, dm.mem.resources, dm.out.Left, append(left[:len(left):len(left)], dm.buffers.virtualPods()...), nodes, dm.purchases.pools())
		dm.wakeAt(dm.mem.resources.Retry.At)
		var aside []plan.PodDecision
		left, aside = over.Split(left)
		refused = append(refused, aside...)
	}
	real, whole := left, nodes
	if len(dm.Snapshot.Buffers) > 0 {
		virtual, aside := over.Split(dm.buffers.besideDemand(left, nodes))
		left, refused = append(left[:len(left):len(left)], virtual...), append(refused, aside...)
		nodes = dm.buffers.subtract(nodes)
	}
	if len(left) == 0 {
		dm.out.Pods = append(dm.out.Pods, refused...)
		dm.unused.Wake(refused)
		dm.rememberPlacements(map[string]demand.Placement{})
		return
	}
	dm.aside = refused
	problem, res := dm.packPods(left, nodes)
	if len(dm.buffers.byNode) > 0 && slices.ContainsFunc(res.Refused, func(r solve.Refusal) bool { return !r.Pod.IsVirtual() }) {
		// What virtual pods still hold might be all that it lacks.
		virtual, _ := over.Split(dm.buffers.releaseAll())
		left, nodes = append(real[:len(real):len(real)], virtual...), whole
		problem, res = dm.packPods(left, nodes)
	}
	pk := dm.packOpenSlots(packing{left, nodes, problem, res}, what)
	left, nodes, problem, res = pk.pods, pk.nodes, pk.problem, pk.result
	ending := dm.waitForEnding(left, nodes, res)
	if ending != nil {
		nodes = ending.AddTo(nodes)
		problem, res = dm.packPods(left, nodes)
	}
	if there, p, r, better := dm.packWithoutAnticipated(left, nodes, res); better {
		left, problem, res = there, p, r
	}
	if len(dm.req.Streaming) > 0 {
		small := demand.SmallNodes{Now: dm.Now, Delay: dm.pol.SmallNodeDelay, Streaming: dm.req.Streaming}
		kept, waiting, next := small.DelayPods(*dm.smallNodes, left, dm.out.Left, res.New)
		if waiting > 0 {
			dm.out.Waiting = waiting
			problem, res = dm.packPods(kept, nodes)
		}
		*dm.smallNodes = small.Launched(next, res.New)
	} else {
		*dm.smallNodes = dm.smallNodes.Forget(dm.out.Left)
	}
	for i := range maxPricedSolves + 1 {
		cheaper, dropped := dm.buffers.withoutTooDear(left, res, i == maxPricedSolves)
		if !dropped {
			break
		}
		left = cheaper
		problem, res = dm.packPods(left, nodes)
	}
	dm.expander.Balance(problem, res.New)
	dm.out.Cost, dm.out.Stats = res.Cost, res.Stats
	dm.out.Problem, dm.out.Result = problem, res

	placed := map[string]demand.Placement{}
	if ending != nil {
		dm.mem.waits = ending.WaitFor(res.OnNodes)
		dm.wakeAt(dm.mem.waits.Until)
	}
	dm.placeOnNodes(res.OnNodes, what, placed)
	dm.purchases.createClaims(res.New)
	dm.out.Query = dm.expander.Query()
	final, waiting := dm.expander.Refuse(problem, dm.purchases.pools(), res.Refused)
	dm.out.Waiting += waiting
	for _, r := range final {
		refused = append(refused, plan.PodDecision{Pod: r.Pod, Outcome: plan.Refused, Reasons: demand.NamedNodeReasons(dm.View, r.Pod.Class, r.Reasons)})
	}
	for _, p := range slices.SortedFunc(maps.Keys(dm.heldBack[res]), model.ComparePodKeys) {
		refused = append(refused, plan.PodDecision{Pod: p, Outcome: plan.Refused, Reasons: []plan.Reason{dm.heldBack[res][p]}})
	}
	dm.out.Pods = append(dm.out.Pods, refused...)
	dm.unused.Wake(refused)
	dm.rememberPlacements(placed)
}

// leaveUndecided returns the demand without the pods of namespaces that are not decided on in this step; those stay as
// they were decided on before. Pods that are expected on a standing node are decided on all the same, so that no place
// there is given twice.
func (dm *demandStage) leaveUndecided(demand []*model.Pod) []*model.Pod {
	if len(dm.req.Undecided) == 0 {
		return demand
	}
	kept := make([]*model.Pod, 0, len(demand))
	for _, p := range demand {
		if _, placed := dm.placements.mem.byPod[p.UID]; dm.req.Undecided[p.Namespace] && p.Node == "" && !placed && !p.Placeholder {
			dm.out.Left = append(dm.out.Left, p)
			continue
		}
		kept = append(kept, p)
	}
	return kept
}

// isWanted reports whether demand is solved in this step, and when it will be: it was asked for, pods that had been placed
// have lost their machine, which does not wait for the end of a batch, or something is tried again.
func (dm *demandStage) isWanted() (wanted bool, until time.Time) {
	if dm.req.whatIf {
		return true, time.Time{}
	}
	refill, until := dm.buffers.areDue()
	late := !dm.mem.waits.Until.IsZero() && !dm.Now.Before(dm.mem.waits.Until)
	if !late {
		until = model.EarlierOf(until, dm.mem.waits.Until)
	}
	switch {
	case dm.req.OngoingOnly:
		return false, until
	case requests.AreDue(dm.View, *dm.requests, dm.slots.Covered, dm.placements.nodeOf, dm.pol.BufferRetry):
		return true, until
	case dm.req.Solve, dm.lost, dm.interrupted, late:
		return true, until
	}
	retry, at := dm.unused.AreDue()
	return retry || refill || dm.withholding.IsDue() || len(dm.req.NotBound) > 0 || dm.mem.work.Retry.IsDue(dm.Now) || dm.mem.resources.Retry.IsDue(dm.Now), model.EarlierOf(until, at)
}

// packPods solves for pods on given nodes and on machines to buy. Enough pods of each gang are placed, or none.
func (dm *demandStage) packPods(pods []*model.Pod, nodes []solve.ExistingNode) (*solve.Problem, *solve.Result) {
	gangs := dm.gangsOf(pods)
	if len(gangs) == 0 {
		return dm.packSingly(pods, nodes, nil)
	}
	pack := func(pods []*model.Pod, pins demand.Pins) demand.GangTrial {
		problem, res := dm.packSingly(pods, nodes, pins)
		return demand.GangTrial{Problem: problem, Result: res, Lacks: func(gang string) (*model.Pod, []plan.Reason) { return dm.whyLeftOut(gang, res) }}
	}
	t, refused := demand.NewGangChoice(gangs, pods, dm.roomFor(nodes), pack, func(domain string) []string { return dm.domainsOf(domain, nodes) }).Place()
	for _, r := range refused {
		t.Problem.Demand, t.Result.Refused = append(slices.Clip(t.Problem.Demand), r.Pod), append(t.Result.Refused, r)
	}
	return t.Problem, t.Result
}

// packSingly solves for pods without regard to how many of a gang are placed; pinned gangs are placed where their pins say. Where launches for them were unused before, it solves again until nothing
// is launched that is to wait.
func (dm *demandStage) packSingly(pods []*model.Pod, nodes []solve.ExistingNode, pins demand.Pins) (*solve.Problem, *solve.Result) {
	pods, withheld := dm.withholding.SplitPods(pods)
	held := map[*model.Pod]plan.Reason{}
	for {
		problem := &solve.Problem{
			ResourceNames: dm.Snapshot.ResourceNames, Demand: pods, Nodes: nodes, Pools: dm.purchases.pools(), Daemons: dm.Snapshot.Daemons, Namespaces: dm.Snapshot.Namespaces, Limits: dm.purchases.limitUses(),
			Static: dm.purchases.staticPools(),
		}
		problem.Pools = dm.expander.Rank(problem)
		var original map[*model.Pod]*model.Pod
		problem.Pools = barLaunches(problem.Pools, requests.Bars(dm.View, pods))
		problem.Demand, problem.Pools, original = pinned(pods, pins, dm.held, problem.Pools)
		res, mem := solve.Solve(problem, dm.mem.solve, dm.pol.Solve)
		dm.mem.solve, problem.Demand = mem, pods
		unpin(&res, original)
		if dm.unused.Review(res.New, dm.disagreements.WhyNotBound) || dm.unused.Bars.Soften(res.Refused) {
			continue
		}
		more := dm.unused.Bars.HoldBack(res.New)
		if more == nil {
			more = demand.HoldBackStorage(res.New, dm.reservations.ByClaim)
		}
		if len(more) > 0 {
			maps.Copy(held, more)
			pods = slices.DeleteFunc(slices.Clone(pods), func(p *model.Pod) bool { _, waits := more[p]; return waits })
			continue
		}
		if len(held) > 0 {
			if dm.heldBack == nil {
				dm.heldBack = map[*solve.Result]map[*model.Pod]plan.Reason{}
			}
			dm.heldBack[&res] = held
		}
		dm.withholding.Explain(res.Refused)
		for _, r := range withheld {
			problem.Demand, res.Refused = append(slices.Clip(problem.Demand), r.Pod), append(res.Refused, r)
		}
		return problem, &res
	}
}

// rememberPlacements keeps what pending pods are expected where; nil: as before, less those that are not pending any
// more.
func (dm *demandStage) rememberPlacements(placed map[string]demand.Placement) {
	if placed == nil {
		placed = map[string]demand.Placement{}
		for _, pods := range [][]*model.Pod{dm.Snapshot.Pending, dm.pods.Leaving(), dm.anticipated} { // a pod whose drain is held up is still expected
			for _, p := range pods {
				if was, ok := dm.placements.mem.byPod[p.UID]; ok && !dm.slots.Covered[p.UID] {
					placed[p.UID] = was
				}
			}
		}
	}
	maps.Copy(placed, dm.booked)
	dm.placements.mem.byPod = placed
	for _, p := range dm.Snapshot.Pending {
		if was, ok := placed[p.UID]; ok && p.Placeholder {
			dm.placements.booked[was.Node] = append(dm.placements.booked[was.Node], p)
		}
	}
	for _, was := range placed {
		dm.placements.awaitsPods[was.Node] = true
		if !was.Ends.IsZero() {
			dm.placements.awaitsEnds[was.Node] = true
		}
	}
	for name := range dm.NominatedPods() {
		dm.placements.awaitsPods[name] = true
	}
	for name, h := range dm.reservations.ByClaim {
		if h.AwaitedPods() > 0 {
			dm.placements.awaitsPods[name] = true
		}
	}
	for _, g := range dm.hosts.mem.hosts {
		for name := range g {
			dm.placements.awaitsPods[name] = true
		}
	}
	for name, until := range dm.unused.Bars.NodesInPause() {
		dm.placements.awaitsPods[name] = true
		dm.wakeAt(until)
	}
	if len(placed) > 0 {
		dm.wakeAt(dm.Now.Add(dm.pol.DisagreementAfter))
	}
}

// placeOnNodes records what goes to machines that are there or coming, and widens the slots of those that are reserved.
func (dm *demandStage) placeOnNodes(on []solve.Assignment, what inFlightNodes, placed map[string]demand.Placement) {
	for _, a := range on {
		w := dm.nodes.targetNamed(a.Node, what)
		if w.reservation == nil {
			for _, p := range a.Pods {
				dm.out.Pods = append(dm.out.Pods, plan.PodDecision{Pod: p, Outcome: plan.OnNode, Target: a.Node})
				if !p.IsVirtual() {
					ends := dm.mem.waits.ByNode[a.Node]
					placed[p.UID] = demand.Placement{Node: a.Node, Since: model.LaterOf(dm.placedSince(p, a.Node), ends), Ends: ends}
				}
			}
			continue
		}
		for _, p := range a.Pods {
			dm.out.Pods = append(dm.out.Pods, plan.PodDecision{Pod: p, Outcome: plan.OnClaim, Target: w.claim.Name})
		}
		real := model.RealPods(a.Pods)
		if w.claim.UID == "" || len(real) == 0 {
			continue // not created yet: the next step has it
		}
		dm.addAction(plan.UpdateClaim{Claim: w.claim.Name, UID: w.claim.UID, SetSlots: true, Slots: dm.hosts.widenSlots(w, real),
			Why: plan.Reason{Code: plan.Demand, Pool: w.claim.Pool, Subject: plan.ObjectOf("", w.claim.Name)}})
	}
}

// placedSince is when a pod was first expected on a standing node.
func (dm *demandStage) placedSince(p *model.Pod, node string) time.Time {
	if was, ok := dm.placements.mem.byPod[p.UID]; ok && was.Node == node {
		return was.Since
	}
	return dm.Now
}

// waitForEnding returns the capacity of ending pods that some of the pods can wait for, so that no node needs to be launched
// for them; nil: there is none, or it saves nothing. res is how the pods are packed without it.
func (dm *demandStage) waitForEnding(left []*model.Pod, nodes []solve.ExistingNode, res *solve.Result) *demand.Ending {
	if len(res.New) == 0 {
		return nil
	}
	var launchedFor []*model.Pod
	for i := range res.New {
		launchedFor = append(launchedFor, res.New[i].Pods...)
	}
	ending := demand.FindEnding(dm.View, nodes, launchedFor, dm.View.BootTime())
	for !ending.IsEmpty() {
		_, with := dm.packPods(left, ending.AddTo(nodes))
		if ending.Exclude(with.OnNodes) {
			continue
		}
		if len(with.New) >= len(res.New) && with.Cost.NewMicroPerHour >= res.Cost.NewMicroPerHour || len(with.Refused) > len(res.Refused) {
			return nil
		}
		return ending
	}
	return nil
}

// packWithoutAnticipated solves again without the anticipated pods, and reports whether that serves an existing pod which
// finds no machine otherwise: the anticipated ones may have taken all that can be had. It returns the demand, problem
// and result of that.
func (dm *demandStage) packWithoutAnticipated(left []*model.Pod, nodes []solve.ExistingNode, with *solve.Result) ([]*model.Pod, *solve.Problem, *solve.Result, bool) {
	expected := func(p *model.Pod) bool { return p.Expected }
	short := func(r solve.Refusal) bool {
		return !r.Pod.Expected && slices.ContainsFunc(r.Reasons, func(w plan.Reason) bool { return slices.Contains(contentionCodes, w.Code) })
	}
	if !slices.ContainsFunc(with.Refused, short) || !slices.ContainsFunc(left, (*model.Pod).IsVirtual) && !slices.ContainsFunc(with.New, func(n solve.NewNode) bool { return slices.ContainsFunc(n.Pods, expected) }) &&
		!slices.ContainsFunc(with.OnNodes, func(a solve.Assignment) bool { return slices.ContainsFunc(a.Pods, expected) }) {
		return nil, nil, nil, false
	}
	there := slices.DeleteFunc(slices.Clone(left), expected)
	problem, res := dm.packPods(there, nodes)
	refused := make(map[*model.Pod]bool, len(res.Refused))
	for _, r := range res.Refused {
		refused[r.Pod] = true
	}
	return there, problem, res, slices.ContainsFunc(with.Refused, func(r solve.Refusal) bool { return !r.Pod.Expected && !refused[r.Pod] })
}

// contentionCodes are the reasons for which a pod may be refused because of where others are to go.
var contentionCodes = []plan.Code{plan.Limit, plan.SharedLimit, plan.GroupMaximum, plan.OutOfCapacity, plan.TopologySpread, plan.PodAntiAffinity, plan.HostPortConflict,
	plan.VolumeTopology, plan.VolumeLimit, plan.VolumeExclusive, plan.VolumeStorage}

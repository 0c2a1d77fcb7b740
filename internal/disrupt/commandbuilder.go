// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// commandBuilder finds where the pods of a set of candidates can go: existing nodes first, by the free-capacity
// index, and new nodes, by solve.
type commandBuilder struct {
	in          *Input
	solvePolicy solve.Policy
	capacity    *freeCapacity
	pricing     *pricing

	// arrivals are the pods unbound in transit, by the index of the node that they are taken to come to.
	arrivals map[int][]*model.Pod
	// arrivalsUnknown: some of them need the solver, so that where they will come to is not known.
	arrivalsUnknown bool

	// kept is what the index keeps for pods of DaemonSets, by node, in the command that is built.
	kept map[int]model.Resources

	steps       int64         // of solves, and pods looked at
	lastRefusal solve.Refusal // the last pod that solve found no node for
}

// newCommandBuilder gives free capacity to the pods unbound in transit first. The builder is for the given candidates.
func newCommandBuilder(in *Input, policy Policy, solvePolicy solve.Policy, duals dualPrices, capacity *freeCapacity, candidates []*Candidate) *commandBuilder {
	solvePolicy.Work = min(solvePolicy.Work, policy.SolveWork)
	b := &commandBuilder{in: in, solvePolicy: solvePolicy, capacity: capacity, pricing: newPricing(in, policy, duals, capacity),
		arrivals: map[int][]*model.Pod{}}
	for _, p := range in.UnboundInTransit {
		if capacity.needsSolver(p.Class) {
			b.arrivalsUnknown = true
		} else if i := capacity.placePod(p.Class); i >= 0 {
			b.arrivals[i] = append(b.arrivals[i], p)
		}
	}
	var classes []*model.Class
	known := map[*model.Class]bool{}
	for _, c := range candidates {
		for _, p := range c.Pods {
			if !known[p.Class] {
				known[p.Class] = true
				classes = append(classes, p.Class)
			}
		}
	}
	capacity.noteUnplaceable(classes)
	return b
}

// maxDaemonRounds is how often the pods of a command are placed anew because nodes lack capacity for pods of DaemonSets that are still to come.
const maxDaemonRounds = 16

// build is the command that takes a set of candidates, with a place for every pod; or nil and which pod has none. The
// command is cause Underutilized, and whether it is worthwhile is for whyNotWorthwhile to say.
func (b *commandBuilder) build(set []*Candidate) (*Command, plan.Reason) {
	cmd := &Command{Cause: plan.Underutilized, Candidates: slices.Clone(set)}
	slices.SortFunc(cmd.Candidates, func(x, y *Candidate) int { return strings.Compare(x.Node.Name, y.Node.Name) })
	for _, c := range set {
		cmd.OldMicroPerHour += max(c.PriceMicro, 0)
	}
	defer b.capacity.rollback(b.capacity.mark())
	pods, displaced := b.closeCandidates(cmd.Candidates)
	if displaced != nil {
		return nil, plan.Reason{Code: plan.NoHome, Subject: plan.ObjectOf("pod", displaced.Key())}
	}
	b.steps += int64(len(pods))
	b.kept = map[int]model.Resources{}
	begin := b.capacity.mark()
	mark := begin
	placed, rest := b.capacity.placePods(pods)
	for rounds := 0; b.capacity.keepForDaemons(placed, mark, b.kept); rounds++ {
		if rounds == maxDaemonRounds {
			return nil, plan.Reason{Code: plan.NoHome, Subject: plan.ObjectOf("pod", pods[0].Key())}
		}
		mark = b.capacity.mark()
		b.steps += int64(len(pods))
		placed, rest = b.capacity.placePods(pods)
	}
	if len(placed) > 0 && !b.in.Binds(pods) {
		b.kept = nil
		if b.capacity.rollback(begin); len(rest) > 0 || !b.capacity.fitsHoweverPlaced(pods) {
			placed, rest = nil, pods
		}
	}
	for i, list := range placed {
		cmd.OnExisting = append(cmd.OnExisting, solve.Assignment{Node: b.capacity.nodes[i].Name, Pods: list})
	}
	if len(rest) > 0 {
		if why := b.launchFor(cmd, rest); why.Code != "" {
			return nil, why
		}
	}
	cmd.OnExisting = mergeByNode(cmd.OnExisting)
	for _, a := range cmd.OnExisting {
		cmd.PodsOnExisting += len(a.Pods)
	}
	cmd.CostMicro = b.pricing.commandCost(set, cmd.NewMicroPerHour, len(cmd.Replacements))
	return cmd, plan.Reason{}
}

// closeCandidates takes the nodes of a set out of the index and returns the pods on them. Pods in transit that would
// have come to these nodes are placed elsewhere; displaced is one that no other node holds, nil where all are held.
func (b *commandBuilder) closeCandidates(set []*Candidate) (pods []*model.Pod, displaced *model.Pod) {
	var arriving []*model.Pod
	for _, c := range set {
		b.capacity.closeNode(c.Node.Name)
		pods = append(pods, c.Pods...)
		if i, ok := b.capacity.indexOf[c.Node.Name]; ok {
			arriving = append(arriving, b.arrivals[i]...)
		}
	}
	for _, p := range arriving {
		if b.capacity.placePod(p.Class) < 0 && displaced == nil {
			displaced = p
		}
	}
	return pods, displaced
}

// mergeByNode has one assignment for each node, by name.
func mergeByNode(list []solve.Assignment) (out []solve.Assignment) {
	slices.SortStableFunc(list, func(a, b solve.Assignment) int { return strings.Compare(a.Node, b.Node) })
	for _, a := range list {
		if n := len(out); n > 0 && out[n-1].Node == a.Node {
			out[n-1].Pods = slices.Concat(out[n-1].Pods, a.Pods)
		} else {
			out = append(out, a)
		}
	}
	return out
}

// launchFor has solve find replacements for pods, and existing nodes for those that only the solver can place. The
// reason names the pod for which there is neither; an empty code: there is a node for each.
func (b *commandBuilder) launchFor(cmd *Command, pods []*model.Pod) plan.Reason {
	problem := b.newProblem(pods, nil)
	if slices.ContainsFunc(pods, func(p *model.Pod) bool { return b.capacity.needsSolver(p.Class) }) {
		problem.Nodes = b.nodesWithout(cmd.Candidates, b.in.Binds(PodsOf(cmd.Candidates)))
	}
	// Without a memory: what an earlier search knew must not change what this one finds.
	res, _ := solve.Solve(problem, solve.Memory{}, b.solvePolicy)
	b.steps += res.Stats.Work + int64(len(problem.Demand)+len(problem.Nodes))
	if len(res.Refused) > 0 {
		r := res.Refused[0]
		b.lastRefusal = r
		why := plan.Reason{Code: plan.NoHome, Subject: plan.ObjectOf("pod", r.Pod.Key())}
		if len(r.Reasons) > 0 {
			x := r.Reasons[0]
			why.Detail = plan.NoHomeFor(x)
		}
		return why
	}
	cmd.OnExisting = append(cmd.OnExisting, res.OnNodes...)
	cmd.Replacements, cmd.NewMicroPerHour, cmd.Result = res.New, res.Cost.NewMicroPerHour, &res
	return plan.Reason{}
}

func (b *commandBuilder) newProblem(pods []*model.Pod, nodes []solve.ExistingNode) *solve.Problem {
	return &solve.Problem{ResourceNames: b.in.ResourceNames, Demand: pods, Nodes: nodes, Pools: b.in.Pools, Daemons: b.in.Daemons, Namespaces: b.in.Namespaces, Limits: b.in.Limits}
}

// nodesWithout are all nodes as solve needs them for rules between pods: with the capacity that is free now, and the
// nodes of a set drained. None takes pods while it is not known where pods in transit come to, or successors are not
// bound.
func (b *commandBuilder) nodesWithout(set []*Candidate, binds bool) []solve.ExistingNode {
	going := nodeNames(set)
	nodes := slices.Clone(b.in.Nodes)
	for i := range nodes {
		node := &nodes[i]
		switch at, open := b.capacity.indexOf[node.Name]; {
		case going[node.Name]:
			node.Closed, node.Drained = true, true
		case !open || b.arrivalsUnknown || !binds:
			node.Closed = true
		default:
			node.Free = model.Resources(b.capacity.freeOf(at)).Add(b.kept[at]) // solve keeps it by itself
		}
	}
	return nodes
}

// recordPlacement writes down where all pods of a command go, as a problem and its result, for a check that shares no
// code with the search. A command without pods gets neither.
func (b *commandBuilder) recordPlacement(cmd *Command) {
	pods := PodsOf(cmd.Candidates)
	res := solve.Result{OnNodes: cmd.OnExisting, New: cmd.Replacements}
	if cmd.Result != nil {
		res.Cost, res.Stats = cmd.Result.Cost, cmd.Result.Stats
	}
	if cmd.Result = nil; len(pods) == 0 {
		return
	}
	going := nodeNames(cmd.Candidates)
	nodes := slices.Clone(b.in.Nodes)
	for i := range nodes {
		if going[nodes[i].Name] {
			nodes[i].Closed, nodes[i].Drained = true, true
		}
	}
	cmd.Problem, cmd.Result = b.newProblem(pods, nodes), &res
}

// nodeNames are the names of the nodes of a set.
func nodeNames(set []*Candidate) map[string]bool {
	names := make(map[string]bool, len(set))
	for _, c := range set {
		names[c.Node.Name] = true
	}
	return names
}

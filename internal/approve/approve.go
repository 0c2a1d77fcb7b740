// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package approve

import (
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/decide/demand"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/verify"
)

// StepFunc is decide.Step, or a replacement in tests.
type StepFunc func(*model.Snapshot, decide.Memory, time.Time, decide.Policy, decide.Request) (decide.Output, decide.Memory)

// VerifyFunc is Verify, or a replacement in tests.
type VerifyFunc func(*model.Snapshot, *decide.Output) Opinion

// Decision is a verified decision, and what was dropped from it.
type Decision struct {
	Output decide.Output
	Memory decide.Memory
	First  decide.Output // the decision before anything was dropped

	Refused  []Refused               // parts of the plan for pods that verify rejected
	Moves    []RefusedMove           // disruption commands that verify rejected
	Bindings []decide.RefusedBinding // bindings that verify rejected; if their pods were evaluated again, they have no slot any more

	Fault any    // the value of a panic during the decision; nil: none
	Stack string // stack of the panic
	// Isolated: the withheld part caused the panic, and the rest was decided. Otherwise nothing is launched or disrupted.
	Isolated bool

	// GaveUp: no part explains the violation, so nothing is done for pods in this step.
	GaveUp bool
}

// maxRounds is how often a step is decided again without what was refused: the smallest parts twice, then whole NodePools.
const maxRounds = 4

// Step makes a decision that verify accepts. If no part of the demand explains a failure, the decision is repeated once
// without demand (decide.Request.OngoingOnly); a panic in that repetition is not recovered.
func Step(step StepFunc, check VerifyFunc, snap *model.Snapshot, mem decide.Memory, now time.Time, pol decide.Policy, req decide.Request) Decision {
	var d Decision
	run := func(req decide.Request) (decide.Output, decide.Memory, any) {
		out, mem, fault, stack := protect(func() (decide.Output, decide.Memory) { return step(snap, mem, now, pol, req) })
		if d.Stack == "" {
			d.Stack = stack
		}
		return out, mem, fault
	}
	d.Output, d.Memory, d.Fault = run(req)
	if d.Fault != nil {
		if req.OngoingOnly {
			panic(d.Fault)
		}
		parts := isolate(snap, d.Fault, func(withheld []demand.Withheld) bool {
			with := req
			with.Withhold = append(slices.Clip(req.Withhold), withheld...)
			_, _, fault := run(with)
			return fault != nil
		})
		if parts == nil {
			d.Output, d.Memory = step(snap, mem, now, pol, withoutDemand(req))
			d.First = d.Output
			return d
		}
		d.Isolated = true
		for _, x := range parts {
			req.Withhold = append(slices.Clip(req.Withhold), x.Withheld)
		}
		d.Refused = parts
		d.Output, d.Memory, _ = run(req)
	}
	d.First = d.Output
	left := leftOut{pods: map[*model.Pod]int{}, pools: map[string]int{}}
	for round := 0; ; round++ {
		o := check(snap, &d.Output)
		var again []decide.RefusedBinding
		if round == 0 {
			d.Bindings = o.Bindings
			for _, b := range o.Bindings {
				if !b.KeepsSlot() {
					again = append(again, b)
				}
			}
		}
		d.Moves = append(d.Moves, o.Moves...)
		if len(o.Violations) > 0 && !slices.ContainsFunc(o.Violations, func(v verify.Violation) bool { return v.Rule != verify.Price }) {
			// The sums are wrong and no part of the plan is: it is done, and nothing is said of its cost.
			d.Refused = append(d.Refused, Refused{Unit: "cost", Withheld: demand.Withheld{Why: reasonOf(o)}})
			d.Output.Cost, o.Demand = plan.Cost{}, nil
		}
		if o.Err() == nil && len(again) == 0 {
			break
		}
		req.NotBound, req.AskExpander, req.NoteBlockers = append(slices.Clip(req.NotBound), again...), false, false
		req.Refused = append(slices.Clip(req.Refused), claimsOf(o.Moves)...)
		parts := left.choose(o.Violations, &d.Output, round)
		if d.GaveUp = round == maxRounds || o.Demand != nil && len(parts) == 0; d.GaveUp {
			d.Refused = append(d.Refused, Refused{Unit: "plan", Withheld: demand.Withheld{Why: reasonOf(o)}})
			d.Output, d.Memory = step(snap, mem, now, pol, withoutDemand(req))
			break
		}
		for _, x := range parts {
			req.Withhold = append(slices.Clip(req.Withhold), x.Withheld)
		}
		d.Refused = append(d.Refused, parts...)
		var fault any
		if d.Output, d.Memory, fault = run(req); fault != nil {
			d.Fault, d.Isolated = fault, false
			d.Output, d.Memory = step(snap, mem, now, pol, withoutDemand(req))
			break
		}
	}
	if len(d.Bindings) > 0 {
		d.Output.Actions = WithoutRefusedBindings(snap, d.Output.Actions)
	}
	return d
}

// WhatIf is decide.WhatIf with verification. Pods whose plan verify rejects are refused: all pods if no part of the plan
// explains the violation, which is also an error.
func WhatIf(snap *model.Snapshot, now time.Time, pol decide.Policy) (decide.Output, error) {
	return whatIf(decide.WhatIfWithout, snap, now, pol)
}

// whatIf is WhatIf with decide.WhatIfWithout, or with what stands in for it in a test.
func whatIf(without func(*model.Snapshot, time.Time, decide.Policy, []demand.Withheld) decide.Output, snap *model.Snapshot, now time.Time, pol decide.Policy) (decide.Output, error) {
	d := Step(func(s *model.Snapshot, _ decide.Memory, now time.Time, pol decide.Policy, req decide.Request) (decide.Output, decide.Memory) {
		if req.OngoingOnly {
			return decide.Output{}, decide.Memory{}
		}
		return without(s, now, pol, req.Withhold), decide.Memory{}
	}, Verify, snap, decide.Memory{}, now, pol, decide.Request{Solve: true})
	var why plan.Reason
	var err error
	switch {
	case d.Fault != nil && !d.Isolated:
		why = plan.Reason{Code: plan.PlanRefused, Detail: plan.OfPlanRefused{Rule: plan.Panic, Said: plan.Words(fmt.Sprint(d.Fault))}}
		err = fmt.Errorf("planning failed: %v", d.Fault)
	case d.GaveUp:
		why = d.Refused[len(d.Refused)-1].Why
		err = fmt.Errorf("the plan failed verification: %s", plan.DetailOf[plan.OfPlanRefused](why).Said)
	}
	if err != nil {
		d.Output, _, _, _ = protect(func() (decide.Output, decide.Memory) {
			return decide.WhatIfWithout(snap, now, pol, []demand.Withheld{{Pods: snap.Pending, Why: why}}), decide.Memory{}
		})
	}
	for _, p := range d.Output.Pods {
		for i := range p.Reasons {
			if r, ok := p.Reasons[i].Detail.(plan.OfPlanRefused); ok {
				r.Until = time.Time{} // nothing is tried again
				p.Reasons[i].Detail = r
			}
		}
	}
	return d.Output, err
}

// withoutDemand is a request that plans nothing for pods.
func withoutDemand(req decide.Request) decide.Request {
	req.Solve, req.OngoingOnly = false, true
	return req
}

// protect returns what a decision panics with and where, nil if it does not.
func protect(run func() (decide.Output, decide.Memory)) (out decide.Output, mem decide.Memory, fault any, stack string) {
	defer func() {
		if fault = recover(); fault != nil {
			stack = string(debug.Stack())
		}
	}()
	out, mem = run()
	return out, mem, nil, ""
}

// claimsOf are the uids of the claims that disruption commands were to remove.
func claimsOf(moves []RefusedMove) (uids []string) {
	for _, m := range moves {
		for _, u := range m.Candidates {
			uids = append(uids, u.Claim.UID)
		}
	}
	return uids
}

// reasonOf is what verify has against the plan for pods.
func reasonOf(o Opinion) plan.Reason {
	why := plan.OfPlanRefused{Said: plan.Words(o.Demand.Error())}
	if len(o.Violations) > 0 {
		why.Rule = string(o.Violations[0].Rule)
	}
	return plan.Reason{Code: plan.PlanRefused, Detail: why}
}

// leftOut is what was left out in this step, and in which round.
type leftOut struct {
	pods  map[*model.Pod]int
	pools map[string]int
}

// choose returns, for each violation, the smallest part of the demand that explains it and was not left out in a round
// before. From the third round on it is the largest: leaving out its parts one by one has not done.
func (l *leftOut) choose(found []verify.Violation, out *decide.Output, round int) (parts []Refused) {
	if out.Problem == nil {
		return nil
	}
	demand := make(map[*model.Pod]bool, len(out.Problem.Demand))
	for _, p := range out.Problem.Demand {
		demand[p] = true
	}
	for _, v := range found {
		units := unitsOf(v, out)
		if round >= 2 && len(units) > 0 {
			units = units[len(units)-1:]
		}
		for i := range units {
			u, explained := &units[i], false
			var pods []*model.Pod
			for _, p := range u.Pods {
				if in, before := l.pods[p]; before {
					explained = explained || in == round // for another violation
				} else if demand[p] {
					l.pods[p], pods = round, append(pods, p)
				}
			}
			if in, before := l.pools[u.Pool]; u.Pool != "" && before {
				explained = explained || in == round
				u.Pool = ""
			} else if u.Pool != "" {
				l.pools[u.Pool] = round
			}
			if u.Pods = pods; len(pods) > 0 || u.Pool != "" {
				parts = append(parts, *u)
			} else if !explained {
				continue
			}
			break
		}
	}
	return parts
}

// unitsOf lists what may be left out because of a violation, the smallest first: the pod that it names, the pods of the
// NodeClaim, the NodePool; or the pods of the node, all pods that ask for the same.
func unitsOf(v verify.Violation, out *decide.Output) (units []Refused) {
	add := func(unit, pool string, pods ...*model.Pod) {
		why := plan.Reason{Code: plan.PlanRefused, Pool: pool, Detail: plan.OfPlanRefused{Rule: string(v.Rule), Said: plan.Words(v.Detail)}}
		own := pool
		if unit != "nodepool" {
			own = ""
		}
		units = append(units, Refused{demand.Withheld{Pods: pods, Pool: own, Why: why}, unit})
	}
	res, machines, node := out.Result, v.Site.Machines, v.Site.Node
	if v.Pod != nil && len(machines) == 0 && node == "" { // wherever it is planned
		for i := range res.New {
			if slices.Contains(res.New[i].Pods, v.Pod) {
				machines = append(slices.Clip(machines), i)
			}
		}
		for _, a := range res.OnNodes {
			if slices.Contains(a.Pods, v.Pod) {
				node = a.Node
			}
		}
	}
	var pods []*model.Pod
	var pools []string
	for _, i := range machines {
		n := &res.New[i]
		pods = append(pods, n.Pods...)
		if !slices.Contains(pools, n.Pool) {
			pools = append(pools, n.Pool)
		}
	}
	first := v.Site.Pool
	if len(pools) > 0 {
		first = pools[0]
	}
	if v.Pod != nil {
		add("pod", first, v.Pod)
	}
	if len(pods) > 0 {
		add("nodeclaim", first, pods...)
	}
	for _, a := range res.OnNodes {
		if a.Node != node {
			continue
		}
		add("node", "", a.Pods...)
		var alike []*model.Pod
		for _, p := range out.Problem.Demand {
			if slices.ContainsFunc(a.Pods, func(q *model.Pod) bool { return q.Class == p.Class }) {
				alike = append(alike, p)
			}
		}
		add("class", "", alike...)
	}
	if len(pools) == 0 && v.Site.Pool != "" {
		pools = []string{v.Site.Pool}
	}
	for _, name := range pools {
		add("nodepool", name)
	}
	return units
}

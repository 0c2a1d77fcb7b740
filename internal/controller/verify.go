// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/report"
	"github.com/dovetail-sh/dovetail/internal/solve"
	"github.com/dovetail-sh/dovetail/internal/verify"
)

// Opinion is what the second opinion has against a decision. A move that is wrong says nothing against what is bought for pods, and the
// other way round.
type Opinion struct {
	Demand error         // what is placed and launching nodes for pending pods; nil: nothing is wrong
	Moves  []RefusedMove // moves begun that are wrong
	// Bindings are those that a filter of kube-scheduler is against now. That happens to honest plans, when a node has changed since its
	// pods were planned on it, so it is no error: the pods are decided on again.
	Bindings []decide.RefusedBinding
}

// RefusedMove is a move that is not begun.
type RefusedMove struct {
	decide.StartedCommand
	Err error
}

// VerifyPlan asks the second opinion about a plan for a Snapshot (contract 2).
func VerifyPlan(snap *model.Snapshot, out *decide.Output) Opinion {
	o := Opinion{Bindings: refusedBindings(snap, out.Actions)}
	if out.Problem != nil {
		o.Demand = joinViolations(verify.Plan(verifyInput(out.Problem, out.Result)))
	}
	for _, m := range out.Commands {
		if m.Problem == nil {
			continue
		}
		if err := joinViolations(verify.Plan(verifyInput(m.Problem, m.Result))); err != nil {
			o.Moves = append(o.Moves, RefusedMove{m, err})
		}
	}
	return o
}

// refusedBindings checks bindings in their order, each beside those before it and those that are under way.
func refusedBindings(snap *model.Snapshot, actions []plan.Action) (out []decide.RefusedBinding) {
	var check *verify.BindingCheck
	pending := map[string]*model.Pod{} // by uid
	for _, a := range actions {
		b, ok := a.(plan.Bind)
		if !ok {
			continue
		}
		if check == nil {
			check = verify.NewBindingCheck(snap.ResourceNames, snap.Nodes, snap.Namespaces)
			for _, p := range snap.Pending {
				pending[p.UID] = p
				if p.Binding != "" {
					check.Bind(p, p.Binding)
				}
			}
		}
		p := pending[b.UID]
		switch {
		case p == nil:
			out = append(out, decide.RefusedBinding{Pod: b.UID, Key: b.Namespace + "/" + b.Pod, Node: b.Node, Why: plan.Reason{Code: plan.NotBindable, Subject: "pod/" + b.Namespace + "/" + b.Pod,
				Key: "pod", Want: "pending", Have: "not in the Snapshot"}})
		case p.Binding == b.Node: // asked again, the answer having been lost: it counts already
		default:
			if why := check.Refusal(p, b.Node); why.Code != "" {
				out = append(out, decide.RefusedBinding{Pod: b.UID, Key: p.Key(), Node: b.Node, Why: why})
				continue
			}
			check.Bind(p, b.Node)
		}
	}
	return out
}

// refuseBindings tells of the bindings that the second opinion is against, and returns those whose pods are to be decided on again.
func (rec *recorder) refuseBindings(now time.Time, refused []decide.RefusedBinding) (again []decide.RefusedBinding) {
	for _, r := range refused {
		if r.KeepsSlot() {
			continue
		}
		again = append(again, r)
		rec.metrics.countUnfitBinding()
		text := report.Sentence(r.Why)
		rec.log.Info("pod can't be bound as planned", "pod", r.Key, "node", r.Node, "because", text)
		rec.ledger.Add(ledger.Entry{At: now, Kind: "bind", Subject: "pod/" + r.Key, Why: []plan.Reason{r.Why}, Outcome: "not bound to node " + r.Node})
	}
	return again
}

// dropRefusedBindings drops the bindings that the second opinion is against.
func dropRefusedBindings(snap *model.Snapshot, actions []plan.Action) []plan.Action {
	refused := map[string]bool{} // by uid of the pod
	for _, r := range refusedBindings(snap, actions) {
		refused[r.Pod] = true
	}
	if len(refused) == 0 {
		return actions
	}
	return slices.DeleteFunc(actions, func(a plan.Action) bool {
		b, ok := a.(plan.Bind)
		return ok && refused[b.UID]
	})
}

// Err is all that is wrong but bindings; nil: nothing is.
func (o Opinion) Err() error {
	errs := []error{o.Demand}
	for _, m := range o.Moves {
		errs = append(errs, fmt.Errorf("move %s: %w", m.ID, m.Err))
	}
	return errors.Join(errs...)
}

func joinViolations(found []verify.Violation) error {
	if len(found) == 0 {
		return nil
	}
	text := make([]string, 0, 4)
	for i, v := range found {
		if i == 3 {
			text = append(text, fmt.Sprintf("and %d more", len(found)-i))
			break
		}
		text = append(text, v.String())
	}
	return errors.New(strings.Join(text, "; "))
}

// verifyInput is a plan in the values of verify, which shares no code with solve.
func verifyInput(p *solve.Problem, r *solve.Result) *verify.Input {
	in := &verify.Input{
		ResourceNames: p.ResourceNames, Daemons: p.Daemons, Namespaces: p.Namespaces, Demand: p.Demand, Cost: r.Cost,
		Limits: p.Limits, Nodes: p.Nodes, Pools: make([]verify.Pool, len(p.Pools)),
	}
	for i, x := range p.Pools {
		in.Pools[i] = verify.Pool{NodePool: x.NodePool, Left: x.Left, NodesLeft: x.NodesLeft, RelaxMinValues: x.RelaxMinValues}
	}
	for _, a := range r.OnNodes {
		in.OnNodes = append(in.OnNodes, verify.Placement{Node: a.Node, Pods: a.Pods})
	}
	for _, n := range r.New {
		in.New = append(in.New, verify.Machine{Pool: n.Pool, Type: n.Type, Choices: n.Choices, Zones: n.Zones, CapacityTypes: n.CapacityTypes,
			Requirements: n.Requirements, Pods: n.Pods, PriceMicro: n.PriceMicro})
	}
	for _, x := range r.Refused {
		in.Refused = append(in.Refused, verify.Refusal{Pod: x.Pod, Reasons: x.Reasons})
	}
	return in
}

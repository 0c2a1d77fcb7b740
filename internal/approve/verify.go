// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package approve

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
	"github.com/dovetail-sh/dovetail/internal/verify"
)

// Opinion is the result of a verification. Violations of disruption commands do not affect launches for pods, and vice versa.
type Opinion struct {
	Demand     error              // error in placements and launches for pending pods; nil: none
	Violations []verify.Violation // the violations in Demand
	Moves      []RefusedMove      // invalid disruption commands of this step
	// Bindings are bindings that a kube-scheduler filter rejects now. This happens to valid plans if a node changed after its
	// pods were planned on it, so it is no error: the pods are evaluated again.
	Bindings []decide.RefusedBinding
}

// RefusedMove is a disruption command that is not started.
type RefusedMove struct {
	decide.StartedCommand
	Err error
}

// Err returns all violations except those of bindings; nil: none.
func (o Opinion) Err() error {
	errs := []error{o.Demand}
	for _, m := range o.Moves {
		errs = append(errs, fmt.Errorf("move %s: %w", m.ID, m.Err))
	}
	return errors.Join(errs...)
}

// Verify verifies a plan for a Snapshot (contract 2).
func Verify(snap *model.Snapshot, out *decide.Output) Opinion {
	o := Opinion{Bindings: refusedBindings(snap, out.Actions)}
	if out.Problem != nil {
		in := input(out.Problem, out.Result)
		addClaims(in, snap, out)
		o.Violations = append(verify.Plan(in), verify.Gangs(snap, in, refusedPods(out))...)
		o.Demand = joinViolations(o.Violations)
	}
	taken := map[string]plan.CommandID{} // by uid of the claim that is to go: the command
	for _, m := range out.Commands {
		if m.Command == nil {
			continue
		}
		var err error
		if m.Problem != nil {
			err = joinViolations(verify.Plan(input(m.Problem, m.Result)))
		}
		var going []verify.Leaving
		for _, u := range m.Candidates {
			if by, twice := taken[u.Claim.UID]; twice {
				err = errors.Join(err, fmt.Errorf("node %s is command %s's to remove", u.Node.Name, by))
			}
			taken[u.Claim.UID] = m.ID
			going = append(going, verify.Leaving{Pool: u.Pool, Claim: u.Claim})
		}
		if slices.Contains(disrupt.Budgeted, m.Cause) && !slices.ContainsFunc(m.Candidates, func(u *disrupt.Candidate) bool { return m.Cause == plan.Drifted && u.Claim.TerminationGracePeriod >= 0 }) {
			err = errors.Join(err, joinViolations(verify.GangsApart(snap, going))) // others go whatever is on them
		}
		if slices.Contains(disrupt.Budgeted, m.Cause) {
			err = errors.Join(err, joinViolations(verify.Budgets(snap.Claims, going, string(m.Cause))))
		}
		if err != nil {
			o.Moves = append(o.Moves, RefusedMove{m, err})
		}
	}
	return o
}

// refusedPods returns the pods that a step refuses.
func refusedPods(out *decide.Output) map[*model.Pod]bool {
	refused := map[*model.Pod]bool{}
	for _, d := range out.Pods {
		if d.Outcome == plan.Refused {
			refused[d.Pod] = true
		}
	}
	return refused
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
			out = append(out, decide.RefusedBinding{Pod: b.UID, Key: model.PodKey(b.Namespace, b.Pod), Node: b.Node, Why: plan.Reason{Code: plan.NotBindable, Subject: plan.ObjectOf("pod", model.PodKey(b.Namespace, b.Pod)),
				Detail: plan.OfNotBindable{Field: "pod", Gone: true}}})
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

// WithoutRefusedBindings returns the actions without the bindings that verify rejected.
func WithoutRefusedBindings(snap *model.Snapshot, actions []plan.Action) []plan.Action {
	refused := map[string]bool{} // by uid of the pod
	for _, r := range refusedBindings(snap, actions) {
		refused[r.Pod] = true
	}
	if len(refused) == 0 {
		return actions
	}
	kept := actions[:0:0]
	for _, a := range actions {
		if b, ok := a.(plan.Bind); !ok || !refused[b.UID] {
			kept = append(kept, a)
		}
	}
	return kept
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

// input is a plan in the values of verify, which shares no code with solve.
func input(p *solve.Problem, r *solve.Result) *verify.Input {
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

// addClaims adds the NodeClaims that are made for machines, and the names of those that there are.
func addClaims(in *verify.Input, snap *model.Snapshot, out *decide.Output) {
	byPod := map[*model.Pod]int{} // by the first pod of a machine
	for i := range in.New {
		if len(in.New[i].Pods) > 0 {
			byPod[in.New[i].Pods[0]] = i
		}
	}
	for _, a := range out.Actions {
		c, ok := a.(plan.CreateClaim)
		if !ok || len(c.Pods) == 0 {
			continue
		}
		if i, ok := byPod[c.Pods[0]]; ok && in.New[i].Claim == nil {
			in.New[i].Claim = &verify.Claim{Name: c.Name, Slots: c.Slots}
		}
	}
	in.ClaimNames = make(map[string]bool, len(snap.Claims))
	for _, c := range snap.Claims {
		if !c.Provisional {
			in.ClaimNames[c.Name] = true
		}
	}
}

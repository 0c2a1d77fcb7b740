// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/decide/pools"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// terminateFirst finds the nodes that are terminated before their replacement is launched, because only their own termination makes capacity for
// it: nodes of a static NodePool at its limit of nodes, and nodes of a capacity reservation that is full. Nothing of this is remembered. It is
// asked when the disruption command begins, and again before the node is deleted.
type terminateFirst struct {
	*draft
	candidates *candidates
	input      *searchInput
	nodes      *solverView
	purchases  *purchases
	placements *placements
}

// isOn reports whether nodes that must go for a cause may be terminated first.
func (tf *terminateFirst) isOn(cause plan.Code) bool {
	return cause == plan.Drifted && tf.pol.TerminateFirstDrift || cause == plan.Unhealthy && tf.pol.TerminateFirstRepair
}

// command returns the disruption command that terminates a node for which no replacement can be launched; nil: its termination would make no
// capacity for one, or its feature gate is off. A reason: as many nodes of its NodePool as its budgets allow are missing, and it is to wait.
func (tf *terminateFirst) command(u *disrupt.Candidate, cause plan.Code) (m *disrupt.Command, wait plan.Reason) {
	if !tf.isOn(cause) {
		return nil, plan.Reason{}
	}
	m = &disrupt.Command{Cause: cause, Candidates: []*disrupt.Candidate{u}, OldMicroPerHour: max(u.PriceMicro, 0), NewMicroPerHour: max(u.PriceMicro, 0)}
	var missing int64
	if m.TerminateFirst, missing = tf.cause(u, m); m.TerminateFirst == "" {
		return nil, plan.Reason{}
	}
	left, why := tf.candidates.budgetLeftFor(u, cause)
	if !u.Initialized || left > missing { // with a node that is not initialized, nothing is lost
		return m, plan.Reason{}
	}
	d := plan.DetailOf[plan.OfBudget](why)
	d.Unavailable += missing
	why.Detail = d
	return nil, why
}

// isConfirmed reports whether a node of a command under way is still to be terminated before its replacement is launched: a replacement can't be launched now
// either.
func (tf *terminateFirst) isConfirmed(u *disrupt.Candidate, cause plan.Code) bool {
	if !tf.isOn(cause) {
		return false
	}
	why, missing := tf.cause(u, &disrupt.Command{})
	left, _ := tf.candidates.budgetLeftFor(u, cause)
	if why == "" || u.Initialized && left < missing { // it is counted as going already
		return false
	}
	if u.Pool.Replicas >= 0 {
		return true
	}
	v := *u
	v.Pods = model.RealPods(u.Pods) // virtual ones do not keep what must go
	m, _ := tf.input.replacement(&v, cause)
	return m == nil
}

// cause returns why a node is terminated before its replacement is launched, and how many nodes of its NodePool are missing that budgets do not count; empty: a
// replacement can be launched, or could not be launched then either. A command is told where the pods go.
func (tf *terminateFirst) cause(u *disrupt.Candidate, m *disrupt.Command) (why disrupt.TerminateFirst, missing int64) {
	if u.Pool.Replicas >= 0 {
		return tf.staticCause(u), tf.missing(u.Pool)
	}
	comesBack, owed := tf.comesBack(u, m)
	if !comesBack {
		return "", 0
	}
	return disrupt.NoReservedCapacity, tf.missing(u.Pool) + owed
}

// missing returns how many nodes of a NodePool budgets do not count, because they are not initialized yet or their instance is being terminated; or
// that a static NodePool has still to launch.
func (tf *terminateFirst) missing(p *model.NodePool) (n int64) {
	all := int64(0)
	for _, c := range tf.Snapshot.Claims {
		if c.Pool != p.Name {
			continue
		}
		if all++; !isCounted(c) {
			n++
		}
	}
	if want := p.Replicas; want >= 0 {
		if p.NodeLimit >= 0 {
			want = min(want, p.NodeLimit)
		}
		n += max(0, want-all)
	}
	return n
}

// staticCause returns why a static NodePool can launch no node in addition to one of its nodes, where it can when that is gone; empty: it can now, or
// could not then.
func (tf *terminateFirst) staticCause(u *disrupt.Candidate) disrupt.TerminateFirst {
	p, all := u.Pool, int64(0)
	for _, c := range tf.Snapshot.Claims {
		if c.Pool == p.Name {
			all++
		}
	}
	if !p.Ready || p.Deleting || all > p.Replicas { // more: a replacement has been launched, and there is a place for another when the node that it replaces is gone
		return ""
	}
	_, launches := pools.StaticClaim(tf.View, p, tf.pol.Solve.MaxTypes, tf.Decided, plan.Reason{})
	switch why := tf.purchases.staticRefusal(p); {
	case why.Code == "":
	case (why.Code == plan.NoInstanceType || why.Code == plan.OutOfCapacity) && tf.heldOffering(p, u) != nil:
		return disrupt.NoReservedCapacity
	case why.Code == plan.Limit && plan.DetailOf[plan.OfLimit](why).Replacing != "" && (launches || tf.heldOffering(p, u) != nil):
		return disrupt.StaticAtLimit
	}
	return ""
}

// heldOffering returns the offering of a capacity reservation that a NodePool is still offered and that a node is part of; nil: there is none.
func (tf *terminateFirst) heldOffering(p *model.NodePool, u *disrupt.Candidate) *model.Offering {
	return reservedOffering(disrupt.FindInstanceType(p, u.Labels[model.LabelInstanceType]), u.Labels)
}

// reservedOffering returns the offering of a type whose capacity reservation a node with these labels is part of; nil: there is none.
func reservedOffering(t *model.InstanceType, l model.Labels) *model.Offering {
	if t == nil || l[model.LabelCapacityType] != model.Reserved {
		return nil
	}
	for i := range t.Offerings {
		if o := &t.Offerings[i]; o.CapacityType == model.Reserved && o.Zone == l[model.LabelZone] && o.Remaining >= 0 && len(o.Labels) > 0 && isPartOf(l, o.Labels) {
			return o
		}
	}
	return nil
}

// isPartOf reports whether labels include others.
func isPartOf(l, others model.Labels) bool {
	for k, v := range others {
		if l[k] != v {
			return false
		}
	}
	return true
}

// comesBack reports whether all pods of a node of a capacity reservation have a place when the node is gone, and all other pods that wait for one have it that would
// have it then without these. Instances of the reservation that are on their way out make capacity too. Owed is how many nodes pending pods wait for that can
// be launched then. The command is told where the pods go.
func (tf *terminateFirst) comesBack(u *disrupt.Candidate, m *disrupt.Command) (places bool, owed int64) {
	if tf.heldOffering(u.Pool, u) == nil {
		return false, 0
	}
	free := int64(1)
	for _, c := range tf.DirtyClaims {
		if n := tf.NodeFor(c); n != nil && c != u.Claim && (!c.Deleting.IsZero() || tf.isAboutToBeDeleted(c)) && !c.Is(lifecycle.Terminating) {
			l := disrupt.MachineLabels(c, n)
			if o := tf.heldOffering(u.Pool, u); l[model.LabelInstanceType] == u.Labels[model.LabelInstanceType] && l[model.LabelZone] == o.Zone && l[model.LabelCapacityType] == model.Reserved && isPartOf(l, o.Labels) {
				free++
			}
		}
	}
	nodes, _, until := tf.nodes.list()
	tf.wakeAt(until)
	going := map[string]bool{u.Node.Name: true}
	for _, o := range tf.candidates.all {
		if o.CommandID != "" {
			going[o.Node.Name] = true
		}
	}
	nodes = slices.Clone(nodes)
	for i := range nodes {
		if going[nodes[i].Name] {
			nodes[i].Closed, nodes[i].Drained = true, nodes[i].Name == u.Node.Name
		}
	}
	waiting, _ := tf.slots.WithoutMachine()
	for _, p := range tf.transit(tf.placements).Unbound() {
		if !slices.Contains(waiting, p) {
			waiting = append(waiting, p)
		}
	}
	solved := func(pods []*model.Pod) *solve.Result {
		m.Problem = &solve.Problem{ResourceNames: tf.Snapshot.ResourceNames, Demand: pods, Nodes: nodes, Pools: tf.withFreed(u, free), Daemons: tf.Snapshot.Daemons,
			Namespaces: tf.Snapshot.Namespaces, Limits: tf.purchases.limitUses()}
		res, _ := solve.Solve(m.Problem, solve.Memory{}, tf.pol.Solve)
		m.Result = &res
		return m.Result
	}
	without := solved(waiting)
	for _, r := range solved(slices.Concat(waiting, u.Pods)).Refused {
		if !slices.ContainsFunc(without.Refused, func(o solve.Refusal) bool { return o.Pod == r.Pod }) {
			return false, 0
		}
	}
	for i := range without.New {
		if !slices.ContainsFunc(without.New[i].Pods, func(p *model.Pod) bool { return p.Node != "" }) { // those of a node that is being drained are counted with it
			owed++
		}
	}
	return true, owed
}

// withFreed returns the NodePools that launch nodes, each with so many more of the instances of a node's capacity reservation.
func (tf *terminateFirst) withFreed(u *disrupt.Candidate, n int64) []solve.Pool {
	out := slices.Clone(tf.purchases.pools())
	for i := range out {
		at := slices.IndexFunc(out[i].Types, func(t *model.InstanceType) bool {
			return t.Name == u.Labels[model.LabelInstanceType] && reservedOffering(t, u.Labels) != nil
		})
		if at < 0 {
			continue
		}
		p, t := *out[i].NodePool, *out[i].Types[at]
		p.Types, t.Offerings = slices.Clone(p.Types), slices.Clone(t.Offerings)
		o := reservedOffering(&t, u.Labels)
		o.Remaining, o.Available = o.Remaining+n, true
		p.Types[at] = &t
		out[i].NodePool = &p
	}
	return out
}

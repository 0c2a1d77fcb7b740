// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// pin leaves a claim of a move that is to save money only those types and zones with which the move still saves enough, whichever of them
// its cloud takes; otherwise a plan's saving could be lost to the choice that the claim leaves. Where a pool wants several values of a
// label kept nothing may be taken away, and the dearest choice must do.
func (s *search) pin(m *Command) plan.Reason {
	spare := m.SavingMicroPerHour() - s.least(m.OldMicroPerHour)
	if len(m.Replacements) == 0 || m.NewMicroPerHour <= 0 || spare < 0 {
		return plan.Reason{}
	}
	share := float64(spare) / float64(m.NewMicroPerHour)
	m.Replacements = slices.Clone(m.Replacements)
	worst := int64(0)
	for i := range m.Replacements {
		n := &m.Replacements[i]
		if s.pinned(n.Pool) {
			worst += dearest(n)
			continue
		}
		most := n.PriceMicro + int64(float64(n.PriceMicro)*share)
		narrow(n, most)
		worst += dearest(n)
	}
	if m.OldMicroPerHour-worst < s.least(m.OldMicroPerHour) {
		return plan.Reason{Code: plan.DoesNotPay, Want: "at least " + dollars(s.least(m.OldMicroPerHour)) + " an hour with any of the types kept by minValues",
			Have: dollars(m.OldMicroPerHour-worst) + " an hour"}
	}
	return plan.Reason{}
}

// pinned says whether the choices of a pool's claims must stay as they are.
func (s *search) pinned(pool string) bool {
	for i := range s.in.Pools {
		if p := &s.in.Pools[i]; p.Name == pool {
			return slices.ContainsFunc(p.Requirements, func(r model.Requirement) bool { return r.MinValues > 0 })
		}
	}
	return true
}

// offers calls f with each offering that a machine may become in a zone as one of its types.
func offers(n *solve.NewNode, t *model.InstanceType, zone string, f func(*model.Offering)) {
	for i := range t.Offerings {
		if o := &t.Offerings[i]; o.Available && o.Zone == zone && o.CapacityType == n.Offering.CapacityType {
			f(o)
		}
	}
}

// dearest is what the dearest choice of a machine costs.
func dearest(n *solve.NewNode) int64 {
	most := n.PriceMicro
	for _, t := range n.Choices {
		for _, z := range n.Zones {
			offers(n, t, z, func(o *model.Offering) { most = max(most, o.PriceMicro) })
		}
	}
	return most
}

// narrow takes away from a machine first the zones in which its cheapest type costs more than so much, then the types that do anywhere in
// what is left.
func narrow(n *solve.NewNode, most int64) {
	costs := func(t *model.InstanceType, zone string) (out int64) {
		offers(n, t, zone, func(o *model.Offering) { out = max(out, o.PriceMicro) })
		return out
	}
	zones := slices.DeleteFunc(slices.Clone(n.Zones), func(z string) bool { return z != n.Offering.Zone && costs(n.Type, z) > most })
	types := slices.DeleteFunc(slices.Clone(n.Choices), func(t *model.InstanceType) bool {
		return t != n.Type && slices.ContainsFunc(zones, func(z string) bool { return costs(t, z) > most })
	})
	if slices.ContainsFunc(zones, func(z string) bool { return costs(n.Type, z) > most }) {
		zones = []string{n.Offering.Zone}
	}
	if len(zones) == len(n.Zones) && len(types) == len(n.Choices) {
		return
	}
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = t.Name
	}
	reqs := []model.Requirement{model.OneOf(model.LabelInstanceType, names...)}
	if len(zones) > 0 && zones[0] != "" {
		reqs = append(reqs, model.OneOf(model.LabelZone, zones...))
	}
	n.Zones, n.Choices, n.Requirements = zones, types, n.Requirements.With(reqs...)
}

// lands says why the pods of a move may not come to stand as planned; an empty code: they will. A machine that can be kept to its pods is
// theirs. On one that can't, kube-scheduler puts what it likes: then only one machine that holds all pods of the move by itself will do,
// for wherever some of them go, and in whichever order, there is room on it for the others.
func (s *search) lands(m *Command) plan.Reason {
	open, why := s.open(m)
	if len(open) == 0 || len(m.Replacements) == 1 && m.PodsOnExisting == 0 {
		return plan.Reason{}
	}
	n := &m.Replacements[open[0]]
	return plan.Reason{Code: plan.NotKept, Pool: n.Pool, Subject: "pod/" + n.Pods[0].Key(), Key: string(why.Code),
		Want: "one machine for all pods of the move, or machines kept to theirs", Have: "machines that can't be kept to their pods"}
}

// open are the machines of a move that can't be kept to their pods, and why the first can't.
func (s *search) open(m *Command) (out []int, why plan.Reason) {
	if s.in.WhyUnreservable == nil {
		return nil, why
	}
	for i := range m.Replacements {
		if r := s.in.WhyUnreservable(&m.Replacements[i]); r.Code != "" {
			if out = append(out, i); len(out) == 1 {
				why = r
			}
		}
	}
	return out, why
}

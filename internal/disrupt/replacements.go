// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// narrowReplacements leaves to the replacements of a command only those instance types and zones with which it still
// saves enough, whichever of them the cloud takes. Where a pool wants several values of a label kept (minValues)
// nothing may be taken away, and the dearest choice must do; nor where a node group launches the node, which chooses among
// its own instance types and capacity types itself. The reason says when the dearest choice does not save enough. An empty
// code: the command saves enough.
func (j *judge) narrowReplacements(cmd *Command) plan.Reason {
	least := j.pricing.minSaving(cmd.OldMicroPerHour)
	spare := cmd.SavingMicroPerHour() - least
	if len(cmd.Replacements) == 0 || cmd.NewMicroPerHour <= 0 || spare < 0 {
		return plan.Reason{}
	}
	share := float64(spare) / float64(cmd.NewMicroPerHour)
	cmd.Replacements = slices.Clone(cmd.Replacements)
	worst := int64(0)
	for i := range cmd.Replacements {
		n := &cmd.Replacements[i]
		if group := n.Offering.Labels[model.LabelNodeGroup]; group != "" {
			worst += j.dearestMemberMicro(n, group)
			continue
		}
		if !j.keepsChoices(n.Pool) {
			narrowChoices(n, n.PriceMicro+int64(float64(n.PriceMicro)*share))
		}
		worst += dearestChoiceMicro(n)
	}
	if cmd.OldMicroPerHour-worst < least {
		return plan.Reason{Code: plan.DoesNotPay, Detail: plan.OfDoesNotPay{
			Least: plan.Micro(least), Saving: plan.Micro(max(0, cmd.OldMicroPerHour-worst)), AnyType: true}}
	}
	return plan.Reason{}
}

// keepsChoices reports whether a pool has a requirement with minValues, or is not known: then nothing is taken from the
// choices of its claims.
func (j *judge) keepsChoices(pool string) bool {
	p := j.poolNamed(pool)
	return p == nil || slices.ContainsFunc(p.Requirements, func(r model.Requirement) bool { return r.MinValues > 0 })
}

// poolNamed returns a pool of the input by its name; nil: there is none.
func (j *judge) poolNamed(name string) *solve.Pool {
	for i := range j.in.Pools {
		if j.in.Pools[i].Name == name {
			return &j.in.Pools[i]
		}
	}
	return nil
}

// choiceMicro is the price of the dearest offering that a node may become as an instance type in a zone, in
// micro-dollars an hour; 0 where there is none.
func choiceMicro(n *solve.NewNode, t *model.InstanceType, zone string) int64 {
	most := int64(0)
	for i := range t.Offerings {
		if o := &t.Offerings[i]; o.Available && o.Zone == zone && o.CapacityType == n.Offering.CapacityType {
			most = max(most, o.PriceMicro)
		}
	}
	return most
}

// dearestChoiceMicro is the price of the dearest choice of a node, in micro-dollars an hour.
func dearestChoiceMicro(n *solve.NewNode) int64 {
	most := n.PriceMicro
	for _, t := range n.Choices {
		for _, z := range n.Zones {
			most = max(most, choiceMicro(n, t, z))
		}
	}
	return most
}

// dearestMemberMicro is the price of the dearest machine that a node group may launch for a node of its pool, in micro-dollars an hour: of any instance type,
// zone and capacity type that the group offers now.
func (j *judge) dearestMemberMicro(n *solve.NewNode, group string) int64 {
	most := n.PriceMicro
	p := j.poolNamed(n.Pool)
	if p == nil {
		return most
	}
	for _, t := range p.Types {
		for k := range t.Offerings {
			if o := &t.Offerings[k]; o.Available && o.Labels[model.LabelNodeGroup] == group {
				most = max(most, o.PriceMicro)
			}
		}
	}
	return most
}

// narrowChoices takes away from a node first the zones in which its own type costs more than so much, then the types
// that cost more in any zone left. Its own type and zone stay.
func narrowChoices(n *solve.NewNode, mostMicro int64) {
	tooDear := func(t *model.InstanceType, zone string) bool { return choiceMicro(n, t, zone) > mostMicro }
	zones := slices.DeleteFunc(slices.Clone(n.Zones), func(z string) bool { return z != n.Offering.Zone && tooDear(n.Type, z) })
	types := slices.DeleteFunc(slices.Clone(n.Choices), func(t *model.InstanceType) bool {
		return t != n.Type && slices.ContainsFunc(zones, func(z string) bool { return tooDear(t, z) })
	})
	if slices.ContainsFunc(zones, func(z string) bool { return tooDear(n.Type, z) }) {
		zones = []string{n.Offering.Zone}
	}
	if len(zones) == len(n.Zones) && len(types) == len(n.Choices) {
		return
	}
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = t.Name
	}
	requirements := []model.Requirement{model.OneOf(model.LabelInstanceType, names...)}
	if len(zones) > 0 && zones[0] != "" {
		requirements = append(requirements, model.OneOf(model.LabelZone, zones...))
	}
	n.Zones, n.Choices, n.Requirements = zones, types, n.Requirements.With(requirements...)
}

// whyNotLanding is why the pods of a command may not come to run where it puts them; an empty code: they will. A
// replacement that is reserved belongs to its pods. On one that cannot be reserved kube-scheduler places what it
// likes: then only a single replacement for all pods of the command will do, which has capacity for the others
// wherever some of them go.
func (j *judge) whyNotLanding(cmd *Command) plan.Reason {
	if j.in.WhyUnreservable == nil || len(cmd.Replacements) == 1 && cmd.PodsOnExisting == 0 {
		return plan.Reason{}
	}
	for i := range cmd.Replacements {
		n := &cmd.Replacements[i]
		if why := j.in.WhyUnreservable(n); why.Code != "" {
			return plan.Reason{Code: plan.NotKept, Pool: n.Pool, Subject: plan.ObjectOf("pod", n.Pods[0].Key()), Detail: plan.OfNotKept{Because: why.Code}}
		}
	}
	return plan.Reason{}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodegroups

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Offerings implements cloud.Provider.
func (p *Provider) Offerings(ctx context.Context, pool *model.NodePool, class cloud.NodeClass) ([]*model.InstanceType, error) {
	s, err := p.selectGroups(ctx, class)
	if err != nil {
		return nil, classify(ctx, "offerings", class.Name, err)
	}
	types, err := p.typesOf(s, pool)
	if err != nil {
		return nil, classify(ctx, "offerings", class.Name, err)
	}
	return types, ctxError(ctx, class.Name)
}

// typesOf returns the offerings of a class's groups for a pool, which may be nil: the same slice while they are
// unchanged.
func (p *Provider) typesOf(s *selected, pool *model.NodePool) ([]*model.InstanceType, error) {
	key, why := s.class.Kind+"/"+s.class.Name, slices.Clone(s.absent)
	if pool != nil {
		key += fmt.Sprint("/", pool.Taints, pool.StartupTaints)
	}
	var usable []*groupInfo
	var from strings.Builder
	for _, g := range s.groups {
		problem := g.problem()
		if g.template != nil && problem == g.silent { // what it offers is known, but nothing can be had now
			problem = ""
		}
		if t := untolerated(g, pool); problem == "" && t != "" {
			problem = "its nodes have taint " + t + ", which spec.template.spec.taints of NodePool " + pool.Name + " lacks; add it"
		}
		if problem != "" {
			why = append(why, "group "+g.Name+": "+problem)
			continue
		}
		usable = append(usable, g)
		fmt.Fprintf(&from, "%s %d %d %t %+v\n", g.Name, g.Max, g.target, g.silent == "", *g.template)
	}
	if len(usable) == 0 {
		return nil, notReady("%s %s: %s", s.class.Kind, s.class.Name, strings.Join(why, "; "))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if have := p.offered[key]; have != nil && have.from == from.String() {
		return have.types, nil
	}
	out := buildTypes(usable)
	p.offered[key] = &offered{from.String(), out}
	return out, nil
}

// untolerated is a taint of a group's nodes that a pool lacks; empty: there is none. Pods would be planned onto nodes that keep
// them out.
func untolerated(g *groupInfo, pool *model.NodePool) string {
	if pool == nil || g.template == nil {
		return ""
	}
	for _, t := range g.template.taints {
		if t.Effect != model.PreferNoSchedule && !slices.Contains(pool.Taints, t) && !slices.Contains(pool.StartupTaints, t) {
			return t.Key + "=" + t.Value + ":" + t.Effect
		}
	}
	return ""
}

// buildTypes returns the types of groups. A type that several groups have is as large as the least of them.
func buildTypes(groups []*groupInfo) []*model.InstanceType {
	by := map[string]*model.InstanceType{}
	for _, g := range groups {
		t := by[g.template.typeName]
		if t == nil {
			t = &model.InstanceType{Name: g.template.typeName, Labels: g.template.typeLabels, Capacity: g.template.resources, Allocatable: g.template.allocatable,
				CSILimits: maps.Clone(g.template.csiLimits), DriverGPUs: maps.Clone(g.template.devices)}
			by[t.Name] = t
		}
		for driver, n := range g.template.csiLimits {
			if have, ok := t.CSILimits[driver]; !ok || n < have {
				if t.CSILimits == nil {
					t.CSILimits = map[string]int64{}
				}
				t.CSILimits[driver] = n
			}
		}
		for driver, n := range t.DriverGPUs {
			t.DriverGPUs[driver] = min(n, g.template.devices[driver])
		}
		t.Capacity, t.Allocatable = t.Capacity.Min(g.template.resources), t.Allocatable.Min(g.template.allocatable)
		t.Offerings = append(t.Offerings, g.offering())
	}
	out := slices.SortedFunc(maps.Values(by), func(a, b *model.InstanceType) int { return strings.Compare(a.Name, b.Name) })
	for _, t := range out {
		slices.SortFunc(t.Offerings, func(a, b model.Offering) int {
			return cmp.Or(strings.Compare(a.Zone, b.Zone), strings.Compare(a.CapacityType, b.CapacityType), strings.Compare(a.Labels[model.LabelNodeGroup], b.Labels[model.LabelNodeGroup]))
		})
	}
	return out
}

func (g *groupInfo) offering() model.Offering {
	labels := maps.Clone(g.template.nodeLabels)
	labels[model.LabelNodeGroup] = g.label
	return model.Offering{Zone: g.template.zone, CapacityType: g.template.capacity, PriceMicro: g.template.priceMicro, Available: g.Max > g.target && g.silent == "",
		Labels: labels, Remaining: max(0, g.Max-g.target), Most: g.Max}
}

// option is an offering that a request allows.
type option struct {
	group      string // its name
	label      string // and what it is labelled
	key        cloud.OfferingKey
	priceMicro int64
}

// keyOf returns the name of an option as its group's alone: another group of the same instance type may have capacity. full: the group has
// as many machines as it may.
func (o *option) keyOf(full bool) cloud.OfferingKey {
	k := o.key
	k.Group, k.Full = o.label, full
	return k
}

// optionsOf are the offerings that a request allows, cheapest first.
func optionsOf(s *selected, types []*model.InstanceType, r *cloud.LaunchRequest) []option {
	names := map[string]string{}
	for _, g := range s.groups {
		names[g.label] = g.Name
	}
	given := map[string]bool{model.LabelNodeGroup: true, model.LabelZone: true, model.LabelCapacityType: true}
	for _, t := range types {
		for k := range t.Labels {
			given[k] = true
		}
		for i := range t.Offerings {
			for k := range t.Offerings[i].Labels {
				given[k] = true
			}
		}
	}
	allowed := func(list []string, v string) bool { return len(list) == 0 || slices.Contains(list, v) }
	var out []option
	for _, t := range types {
		if !allowed(r.Types, t.Name) || !r.Requests.Fits(t.Allocatable) {
			continue
		}
		for i := range t.Offerings {
			o := &t.Offerings[i]
			if !allowed(r.Zones, o.Zone) || !allowed(r.CapacityTypes, o.CapacityType) || slices.ContainsFunc(r.Requirements, func(q model.Requirement) bool {
				v, ok := valueOf(t, o, q.Key, r.NodeLabels)
				return given[q.Key] && !q.Matches(v, ok)
			}) {
				continue
			}
			label := o.Labels[model.LabelNodeGroup]
			out = append(out, option{names[label], label, cloud.OfferingKey{InstanceType: t.Name, Zone: o.Zone, CapacityType: o.CapacityType}, r.PriceMicro(t.Name, o)})
		}
	}
	slices.SortStableFunc(out, func(a, b option) int {
		return cmp.Or(cmp.Compare(a.priceMicro, b.priceMicro), strings.Compare(a.key.String(), b.key.String()), strings.Compare(a.group, b.group))
	})
	return out
}

// valueOf is the value of a label that a node of an offering has: from the group, or else from the pool.
func valueOf(t *model.InstanceType, o *model.Offering, key string, pool model.Labels) (string, bool) {
	switch key {
	case model.LabelZone:
		return o.Zone, true
	case model.LabelCapacityType:
		return o.CapacityType, true
	}
	for _, from := range []model.Labels{o.Labels, t.Labels, pool} {
		if v, ok := from[key]; ok {
			return v, true
		}
	}
	return "", false
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// groupOffers are the offerings of a class's groups.
func (p *Provider) groupOffers(ctx context.Context, pool *model.NodePool, c *groupClass) (*offer, *chosen, error) {
	const op = "offerings"
	ch, err := p.choose(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	g, err := p.goods(ctx, false)
	if err != nil {
		return nil, nil, failed(ctx, op, c.name, err)
	}
	if err := p.learned.load(ctx); err != nil {
		p.log.Warn("what was learned of nodes' memory can't be read, estimates are used", "error", err)
	}
	var usable []*autoGroup
	var why []string
	for _, cond := range conditionsOf(ch.problems) {
		why = append(why, cond.Message)
	}
	for _, a := range ch.groups {
		wrong := a.problem
		if t := untolerated(a, pool); wrong == "" && t != "" {
			wrong = "its nodes bear the taint " + t + " (tag " + dovetailv1alpha1.TagNodeTemplateTaint + "…), which spec.template.spec.taints of NodePool " + pool.Name + " lacks; add it"
		}
		if wrong != "" {
			why = append(why, "group "+a.name+": "+wrong)
			continue
		}
		usable = append(usable, a)
	}
	if len(usable) == 0 {
		return nil, nil, notReady(op, c.name, "NodeGroupClass %s: %s", c.name, strings.Join(why, "; "))
	}
	var of strings.Builder
	fmt.Fprintf(&of, "%s %d %d", c.id, g.version, p.learned.version())
	for _, a := range usable {
		fmt.Fprintf(&of, " %s %d %d %v %v %v %v %v", a.name, a.max, max(0, a.max-a.desired), a.types, a.capacityTypes, a.zones, a.tags, a.template)
		if a.data != nil {
			fmt.Fprintf(&of, " %s", deref(a.data.ImageId))
		}
	}
	key := "group/" + c.name
	if pool != nil {
		key += "/" + fmt.Sprint(pool.Taints, pool.StartupTaints)
	}
	p.offers.mu.Lock()
	have := p.offers.m[key]
	p.offers.mu.Unlock()
	if have != nil && have.of == of.String() {
		return have, ch, nil
	}
	out := &offer{of: of.String(), by: map[string]*offered{}}
	for _, a := range usable {
		p.offerGroup(g, a, out)
	}
	sortBy(out.types, func(t *model.InstanceType) string { return t.Name })
	for _, t := range out.types {
		slices.SortFunc(t.Offerings, func(a, b model.Offering) int {
			return cmp.Or(strings.Compare(a.Zone, b.Zone), strings.Compare(a.CapacityType, b.CapacityType), strings.Compare(a.Labels[model.LabelNodeGroup], b.Labels[model.LabelNodeGroup]))
		})
	}
	p.offers.mu.Lock()
	defer p.offers.mu.Unlock()
	if now := p.offers.m[key]; now != nil && now.of == out.of {
		return now, ch, nil
	}
	p.offers.m[key] = out
	return out, ch, nil
}

func conditionsOf(m map[string]model.Condition) []model.Condition {
	var out []model.Condition
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[k])
	}
	return out
}

// untolerated is a taint that a group's tags announce and its pool does not know of; empty: none. Pods would be planned onto nodes that
// keep them out.
func untolerated(a *autoGroup, pool *model.NodePool) string {
	if pool == nil {
		return ""
	}
	for _, t := range a.taints {
		if t.Effect == model.PreferNoSchedule || slices.Contains(pool.Taints, t) || slices.Contains(pool.StartupTaints, t) {
			continue
		}
		return t.Key + "=" + t.Value + ":" + t.Effect
	}
	return ""
}

// offerGroup adds a group's types. Which of its types a mixed group launches is its own to decide, and so nothing can be planned on more
// than all of them have: each is offered as large as the least of them in each dimension. A machine that has come counts as what it is.
func (p *Provider) offerGroup(g *goods, a *autoGroup, out *offer) {
	var list []*offered
	for _, name := range a.types {
		if t := g.find(name); t != nil {
			if o := p.groupType(a, t); o != nil {
				list = append(list, o)
			}
		}
	}
	if len(list) == 0 {
		return
	}
	capacity, allocatable := list[0].it.Capacity, list[0].it.Allocatable
	for _, o := range list[1:] {
		capacity, allocatable = capacity.Min(o.it.Capacity), allocatable.Min(o.it.Allocatable)
	}
	for _, o := range list {
		have := out.by[o.name]
		if have == nil {
			have = &offered{machineType: o.machineType, image: o.image, pods: o.pods, it: &model.InstanceType{Name: o.name, Labels: o.it.Labels, Capacity: capacity, Allocatable: allocatable, Boots: o.it.Boots}}
			out.by[o.name] = have
			out.types = append(out.types, have.it)
		} else { // of another group, too, which may say something else of it
			if have.it.Boots != o.it.Boots {
				have.it.Boots = ""
			}
			have.it.Capacity, have.it.Allocatable = have.it.Capacity.Min(capacity), have.it.Allocatable.Min(allocatable)
		}
		for _, zone := range a.zones {
			if !slices.Contains(g.zones[o.name], zone) {
				continue
			}
			for _, ct := range a.capacityTypes {
				price, modelled := g.price(o.machineType, zone, ct)
				if price == 0 {
					continue
				}
				labels := maps.Clone(a.labels)
				labels[model.LabelNodeGroup] = a.name
				have.it.Offerings = append(have.it.Offerings, model.Offering{
					Zone: zone, CapacityType: ct, PriceMicro: price, Available: a.max > a.desired, Labels: labels, Remaining: max(0, a.max-a.desired), Most: a.max, Modelled: modelled,
				})
			}
		}
	}
	out.types = slices.DeleteFunc(out.types, func(t *model.InstanceType) bool { return len(t.Offerings) == 0 })
	for _, o := range list {
		if b := out.by[o.name]; b != nil && len(b.it.Offerings) == 0 {
			delete(out.by, o.name)
		}
	}
}

// price is what a type costs, 0 where it can't be had so.
func (g *goods) price(t *machineType, zone, capacityType string) (micro int64, modelled bool) {
	if capacityType == model.Spot {
		if !t.spot {
			return 0, false
		}
		return g.spot[t.name+"/"+zone], g.spotMade
	}
	if !t.onDemand {
		return 0, false
	}
	return g.onDemand[t.name], !g.onDemandPublished
}

// find is a type by its name; nil where there is none.
func (g *goods) find(name string) *machineType {
	i, ok := slices.BinarySearchFunc(g.types, name, func(t *machineType, n string) int { return strings.Compare(t.name, n) })
	if !ok {
		return nil
	}
	return g.types[i]
}

// groupType is a type as a group launches it: from the launch template and the tags of the group, as nothing else is known before a node
// was seen. nil where pods would have no room.
func (p *Provider) groupType(a *autoGroup, t *machineType) *offered {
	c := class{family: familyAL2023, kubelet: &kubelet{}} // whatever boots there, the rules of EKS's own images are the best guess
	boots, storage := image{}, int64(20*gib)
	if a.data != nil {
		boots.id = deref(a.data.ImageId)
		for _, m := range a.data.BlockDeviceMappings {
			if name := deref(m.DeviceName); (name == rootDevice(c.family) || name == "/dev/sda1") && m.Ebs != nil && deref(m.Ebs.VolumeSize) > 0 {
				storage = int64(*m.Ebs.VolumeSize) * gib
			}
		}
	}
	out := &offered{machineType: t, image: &boots, pods: c.kubelet.pods(t, c.family, int64(p.config.ReservedENIs))}
	it := &model.InstanceType{Name: t.name, Labels: maps.Clone(t.labels), Boots: boots.id}
	it.Labels[model.LabelOS] = c.os()
	memory, ok := p.learned.memory(t.name, boots.id)
	if !ok {
		memory = guessMemory(t, p.config.VMMemoryOverhead)
	}
	it.Capacity = model.Resources{model.CPU: t.cpus * 1000, model.Memory: memory, model.EphemeralStorage: storage, model.Pods: out.pods}
	for _, name := range slices.Sorted(maps.Keys(t.extended)) {
		it.Capacity = it.Capacity.With(p.resources.Dim(name), t.extended[name])
	}
	for _, key := range slices.Sorted(maps.Keys(a.tags)) {
		name, ok := strings.CutPrefix(key, dovetailv1alpha1.TagNodeTemplateResource)
		if !ok || name == "" {
			continue
		}
		if v, err := catalog.ParseQuantity(name, a.tags[key]); err == nil && v >= 0 {
			it.Capacity = it.Capacity.With(p.resources.Dim(name), v)
		}
	}
	it.Allocatable = it.Capacity.Sub(c.kubelet.overhead(it.Capacity))
	for d, v := range it.Allocatable {
		it.Allocatable[d] = max(0, v)
	}
	if it.Allocatable.At(model.CPU) == 0 || it.Allocatable.At(model.Memory) == 0 || it.Allocatable.At(model.Pods) == 0 {
		return nil
	}
	out.it = it
	return out
}

// groupCandidates are the offerings of groups that a request allows, cheapest first.
func (o *offer) groupCandidates(r cloud.LaunchRequest) []candidate {
	given := map[string]bool{model.LabelNodeGroup: true}
	for _, it := range o.types {
		for i := range it.Offerings {
			for k := range it.Offerings[i].Labels {
				given[k] = true
			}
		}
	}
	var list []model.Requirement
	for _, q := range r.Requirements {
		if given[q.Key] {
			list = append(list, q)
		}
	}
	return slices.DeleteFunc(o.candidates(r), func(c candidate) bool {
		for _, q := range list {
			v, ok := c.o.Labels[q.Key]
			if !ok { // the pool's own label then
				v, ok = r.NodeLabels[q.Key]
			}
			if !q.Matches(v, ok) {
				return true
			}
		}
		return false
	})
}

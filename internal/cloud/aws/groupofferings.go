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

// offeringsOf are the offerings of a class's groups.
func (p *groupProvider) offeringsOf(ctx context.Context, pool *model.NodePool, c *nodeGroupClass) (*offeringSet, *selectedGroups, error) {
	const op = "offerings"
	ch, err := p.selectGroups(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	g, err := p.catalogue.load(ctx, false)
	if err != nil {
		return nil, nil, classifyError(ctx, op, c.name, err)
	}
	p.types.loadMemory(ctx)
	var usable []*scalingGroup
	var why []string
	for _, cond := range sortedConditions(ch.problems) {
		why = append(why, cond.Message)
	}
	for _, a := range ch.groups {
		wrong := a.problem
		if t := untoleratedTaint(a, pool); wrong == "" && t != "" {
			wrong = "its nodes bear the taint " + t + " (tag " + dovetailv1alpha1.TagNodeTemplateTaint + "…), which spec.template.spec.taints of NodePool " + pool.Name + " lacks; add it"
		}
		if wrong != "" {
			why = append(why, "group "+a.name+": "+wrong)
			continue
		}
		usable = append(usable, a)
	}
	if len(usable) == 0 {
		return nil, nil, notReadyError(op, c.name, "NodeGroupClass %s: %s", c.name, strings.Join(why, "; "))
	}
	var of strings.Builder
	fmt.Fprintf(&of, "%s %d %d", c.generationKey, g.version, p.types.memory.changeCount())
	for _, a := range usable {
		fmt.Fprintf(&of, " %s %d %d %v %v %v %v %v", a.name, a.max, max(0, a.max-a.desired), a.instanceTypes, a.capacityTypes, a.zones, a.tags, a.template)
		if a.templateData != nil {
			fmt.Fprintf(&of, " %s", deref(a.templateData.ImageId))
		}
	}
	key := "group/" + c.name
	if pool != nil {
		key += "/" + fmt.Sprint(pool.Taints, pool.StartupTaints)
	}
	if have := p.offerings.get(key, of.String()); have != nil {
		return have, ch, nil
	}
	out := &offeringSet{builtFrom: of.String(), byName: map[string]*offeredType{}}
	for _, a := range usable {
		p.addOfferings(g, a, out)
	}
	sortByKey(out.types, func(t *model.InstanceType) string { return t.Name })
	for _, t := range out.types {
		slices.SortFunc(t.Offerings, func(a, b model.Offering) int {
			return cmp.Or(strings.Compare(a.Zone, b.Zone), strings.Compare(a.CapacityType, b.CapacityType), strings.Compare(a.Labels[model.LabelNodeGroup], b.Labels[model.LabelNodeGroup]))
		})
	}
	return p.offerings.put(key, out), ch, nil
}

// untoleratedTaint is a taint that a group's tags announce and its pool does not know of; empty: none. Pods would be planned onto nodes that
// keep them out.
func untoleratedTaint(a *scalingGroup, pool *model.NodePool) string {
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

// addOfferings adds a group's types. Which of its types a mixed group launches is its own to decide, and so nothing can be planned on more
// than all of them have: each is offered as large as the least of them in each dimension. A machine that has come counts as what it is.
func (p *groupProvider) addOfferings(g *catalogue, a *scalingGroup, out *offeringSet) {
	var list []*offeredType
	for _, name := range a.instanceTypes {
		if t := g.findType(name); t != nil {
			if o := p.buildType(a, t); o != nil {
				list = append(list, o)
			}
		}
	}
	if len(list) == 0 {
		return
	}
	capacity, allocatable := list[0].instanceType.Capacity, list[0].instanceType.Allocatable
	for _, o := range list[1:] {
		capacity, allocatable = capacity.Min(o.instanceType.Capacity), allocatable.Min(o.instanceType.Allocatable)
	}
	for _, o := range list {
		have := out.byName[o.name]
		if have == nil {
			have = &offeredType{typeInfo: o.typeInfo, imageID: o.imageID, maxPods: o.maxPods, instanceType: &model.InstanceType{Name: o.name, Labels: o.instanceType.Labels, Capacity: capacity, Allocatable: allocatable, Boots: o.instanceType.Boots}}
			out.byName[o.name] = have
			out.types = append(out.types, have.instanceType)
		} else { // of another group, too, which may say something else of it
			if have.instanceType.Boots != o.instanceType.Boots {
				have.instanceType.Boots = ""
			}
			have.instanceType.Capacity, have.instanceType.Allocatable = have.instanceType.Capacity.Min(capacity), have.instanceType.Allocatable.Min(allocatable)
		}
		for _, zone := range a.zones {
			if !slices.Contains(g.zones[o.name], zone) {
				continue
			}
			for _, ct := range a.capacityTypes {
				price, modelled := g.priceMicro(o.typeInfo, zone, ct)
				if price == 0 {
					continue
				}
				labels := maps.Clone(a.labels)
				labels[model.LabelNodeGroup] = a.name
				have.instanceType.Offerings = append(have.instanceType.Offerings, model.Offering{
					Zone: zone, CapacityType: ct, PriceMicro: price, Available: a.max > a.desired, Labels: labels, Remaining: max(0, a.max-a.desired), Most: a.max, Modelled: modelled,
				})
			}
		}
	}
	out.types = slices.DeleteFunc(out.types, func(t *model.InstanceType) bool { return len(t.Offerings) == 0 })
	for _, o := range list {
		if b := out.byName[o.name]; b != nil && len(b.instanceType.Offerings) == 0 {
			delete(out.byName, o.name)
		}
	}
}

// buildType is a type as a group launches it: from the launch template and the tags of the group, as nothing else is known before a node
// was seen: whatever boots there, the rules of EKS's own images are the best guess. nil where pods would have no room.
func (p *groupProvider) buildType(a *scalingGroup, t *typeInfo) *offeredType {
	spec := nodeSpec{os: "linux", family: familyAL2023, kubelet: &kubeletConfig{}, storage: 20 * gib, resources: map[string]int64{}}
	if a.templateData != nil {
		spec.imageID = deref(a.templateData.ImageId)
		for _, m := range a.templateData.BlockDeviceMappings {
			if name := deref(m.DeviceName); (name == rootDevice(spec.family) || name == "/dev/sda1") && m.Ebs != nil && deref(m.Ebs.VolumeSize) > 0 {
				spec.storage = int64(*m.Ebs.VolumeSize) * gib
			}
		}
	}
	for key, text := range a.tags {
		name, ok := strings.CutPrefix(key, dovetailv1alpha1.TagNodeTemplateResource)
		if !ok || name == "" {
			continue
		}
		if v, err := catalog.ParseQuantity(name, text); err == nil && v >= 0 {
			spec.resources[name] = v
		}
	}
	return p.types.build(t, spec)
}

// groupLaunchOptions are the offerings of groups that a request allows, cheapest first.
func groupLaunchOptions(o *offeringSet, r cloud.LaunchRequest) []launchOption {
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
	return slices.DeleteFunc(o.launchOptions(r), func(c launchOption) bool {
		for _, q := range list {
			v, ok := c.offering.Labels[q.Key]
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

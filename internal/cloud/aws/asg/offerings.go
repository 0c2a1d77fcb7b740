// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package asg

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/catalogue"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/nodeclass"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/offering"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// offeringsOf returns the offerings of a class's groups for a pool, and the groups. While nothing changes, it returns
// the same set. If pool is nil, taints are ignored. It returns NotReady if no group can be used.
func (p *Provider) offeringsOf(ctx context.Context, pool *model.NodePool, c *nodeClass) (*offering.Set, *selectedGroups, error) {
	const op = "offerings"
	ch, err := p.selectGroups(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	cat, err := p.catalogue.Load(ctx, false)
	if err != nil {
		return nil, nil, awsapi.ClassifyError(ctx, op, c.name, err)
	}
	p.types.LoadMemory(ctx)
	var usable []*group
	var why []string
	for _, cond := range sortedConditions(ch.problems) {
		why = append(why, cond.Message)
	}
	for _, a := range ch.groups {
		wrong := a.problem
		if t := untoleratedTaint(a, pool); wrong == "" && t != "" {
			wrong = "its nodes have taint " + t + " (" + taintSource(a) + "), which spec.template.spec.taints of NodePool " + pool.Name + " lacks; add it"
		}
		if wrong != "" {
			why = append(why, "group "+a.name+": "+wrong)
			continue
		}
		usable = append(usable, a)
	}
	if len(usable) == 0 {
		return nil, nil, awsapi.NotReadyError(op, c.name, "NodeGroupClass %s: %s", c.name, strings.Join(why, "; "))
	}
	var builtFrom strings.Builder
	fmt.Fprintf(&builtFrom, "%s %d %d", c.generationKey, cat.Version, p.types.Version())
	for _, a := range usable {
		fmt.Fprintf(&builtFrom, " %s %d %d %v %v %v %v %v %v %v", a.name, a.max, max(0, a.max-a.desired), a.instanceTypes, a.capacityTypes, a.zones, a.tags, a.template, a.labels, a.taints)
		if a.templateData != nil {
			fmt.Fprintf(&builtFrom, " %s", awsapi.Deref(a.templateData.ImageId))
		}
		for _, name := range slices.Sorted(maps.Keys(a.ownTemplateData)) {
			fmt.Fprintf(&builtFrom, " %s %s %s", name, a.ownTemplates[name], awsapi.Deref(a.ownTemplateData[name].ImageId))
		}
	}
	key := "group/" + c.name
	if pool != nil {
		key += "/" + fmt.Sprint(pool.Taints, pool.StartupTaints)
	}
	if have := p.offerings.Get(key, builtFrom.String()); have != nil {
		return have, ch, nil
	}
	out := &offering.Set{BuiltFrom: builtFrom.String(), ByName: map[string]*offering.Type{}}
	for _, a := range usable {
		p.addOfferings(cat, a, out)
	}
	awsapi.SortByKey(out.Types, func(t *model.InstanceType) string { return t.Name })
	for _, t := range out.Types {
		slices.SortFunc(t.Offerings, func(a, b model.Offering) int {
			return cmp.Or(strings.Compare(a.Zone, b.Zone), strings.Compare(a.CapacityType, b.CapacityType), strings.Compare(a.Labels[model.LabelNodeGroup], b.Labels[model.LabelNodeGroup]))
		})
	}
	return p.offerings.Put(key, out), ch, nil
}

// untoleratedTaint is a taint that a group's tags announce and its pool does not have; empty: none. Pods would be
// planned onto nodes that keep them out.
func untoleratedTaint(a *group, pool *model.NodePool) string {
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

// taintSource returns where the taints of a group's nodes are defined.
func taintSource(a *group) string {
	if a.managed != nil && len(a.managed.taints) > 0 {
		return "tag " + dovetailv1alpha1.TagNodeTemplateTaint + "…, or EKS managed node group " + a.managed.name
	}
	return "tag " + dovetailv1alpha1.TagNodeTemplateTaint + "…"
}

// addOfferings adds the types of a group to a set. A mixed group chooses among its types itself, so plans may only
// assume what all of them have: each type is offered with the minimum over all types in each dimension. An existing
// machine counts with its own size.
func (p *Provider) addOfferings(cat *catalogue.Catalogue, a *group, out *offering.Set) {
	var list []*offering.Type
	for _, name := range a.instanceTypes {
		if t := cat.FindType(name); t != nil {
			if o := p.buildType(a, t); o != nil {
				list = append(list, o)
			}
		}
	}
	if len(list) == 0 {
		return
	}
	capacity, allocatable := list[0].InstanceType.Capacity, list[0].InstanceType.Allocatable
	for _, o := range list[1:] {
		capacity, allocatable = capacity.Min(o.InstanceType.Capacity), allocatable.Min(o.InstanceType.Allocatable)
	}
	for _, o := range list {
		have := out.ByName[o.Name]
		if have == nil {
			have = &offering.Type{TypeInfo: o.TypeInfo, ImageID: o.ImageID, MaxPods: o.MaxPods, InstanceType: &model.InstanceType{Name: o.Name, Labels: o.InstanceType.Labels, Capacity: capacity, Allocatable: allocatable, Boots: o.InstanceType.Boots}}
			out.ByName[o.Name] = have
			out.Types = append(out.Types, have.InstanceType)
		} else { // of another group, too, which may say something else of it
			if have.InstanceType.Boots != o.InstanceType.Boots {
				have.InstanceType.Boots = ""
			}
			have.InstanceType.Capacity, have.InstanceType.Allocatable = have.InstanceType.Capacity.Min(capacity), have.InstanceType.Allocatable.Min(allocatable)
		}
		for _, zone := range a.zones {
			if !slices.Contains(cat.Zones[o.Name], zone) {
				continue
			}
			for _, ct := range a.capacityTypes {
				if ct == model.Spot && !o.Spot || ct == model.OnDemand && !o.OnDemand {
					continue // it is not sold so
				}
				price, modelled := cat.PriceMicro(o.TypeInfo, zone, ct) // 0: not known
				labels := maps.Clone(a.labels)
				labels[model.LabelNodeGroup] = a.name
				have.InstanceType.Offerings = append(have.InstanceType.Offerings, model.Offering{
					Zone: zone, CapacityType: ct, PriceMicro: price, Available: a.max > a.desired, Labels: labels, Remaining: max(0, a.max-a.desired), Most: a.max, Modelled: modelled,
				})
			}
		}
	}
	out.Types = slices.DeleteFunc(out.Types, func(t *model.InstanceType) bool { return len(t.Offerings) == 0 })
	for _, o := range list {
		if b := out.ByName[o.Name]; b != nil && len(b.InstanceType.Offerings) == 0 {
			delete(out.ByName, o.Name)
		}
	}
}

// buildType is a type as a group launches it: from the launch template and the tags of the group, as nothing else is
// known before a node was seen. Whatever boots there, the rules of EKS's own images are the best guess. nil where
// pods would have no room.
func (p *Provider) buildType(a *group, t *catalogue.TypeInfo) *offering.Type {
	spec := offering.NodeSpec{OS: "linux", Family: nodeclass.FamilyAL2023, Kubelet: &nodeclass.KubeletConfig{}, Podless: int64(p.aws.Config.ReservedENIs), Storage: 20 * catalogue.GiB, Resources: a.resources}
	data := a.templateData
	if own := a.ownTemplateData[t.Name]; own != nil {
		data = own
	}
	if data != nil {
		spec.ImageID = awsapi.Deref(data.ImageId)
		for _, m := range data.BlockDeviceMappings {
			if name := awsapi.Deref(m.DeviceName); (name == nodeclass.RootDevice(spec.Family) || name == "/dev/sda1") && m.Ebs != nil && awsapi.Deref(m.Ebs.VolumeSize) > 0 {
				spec.Storage = int64(*m.Ebs.VolumeSize) * catalogue.GiB
			}
		}
	}
	return p.types.Build(t, spec)
}

// launchOptions are the offerings of groups that a request allows, cheapest first: those whose group's labels, or
// else the pool's, meet the requirements as well.
func launchOptions(o *offering.Set, r cloud.LaunchRequest) []offering.Option {
	given := map[string]bool{model.LabelNodeGroup: true}
	for _, it := range o.Types {
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
	return slices.DeleteFunc(o.Options(r), func(c offering.Option) bool {
		for _, q := range list {
			v, ok := c.Offering.Labels[q.Key]
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

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// typesOfNodes returns instance types for nodes of a cloud that the catalogue is not of: as large as the smallest node of each, with the prices of the list,
// in the zones and capacity types of nodes; by name. If some nodes are of types that the catalogue has, or the list prices no node, it returns nil.
func typesOfNodes(nodes []*model.Node, cat *catalog.Catalog, list *catalog.PriceList) []*model.InstanceType {
	by := map[string]*model.InstanceType{}
	for _, n := range nodes {
		name, zone, kind := n.Labels[model.LabelInstanceType], n.Labels[model.LabelZone], cmp.Or(model.CapacityTypeOf(n.Labels), model.OnDemand)
		if cat.Find(name) != nil {
			return nil
		}
		price, known := list.PriceMicro(name, zone, kind)
		if name == "" || !known {
			continue
		}
		t := by[name]
		if t == nil {
			t = &model.InstanceType{Name: name, Capacity: n.Capacity, Allocatable: n.Allocatable,
				Labels: model.Labels{model.LabelInstanceType: name, model.LabelArch: cmp.Or(n.Labels[model.LabelArch], "amd64"), model.LabelOS: cmp.Or(n.Labels[model.LabelOS], "linux")}}
			by[name] = t
		}
		t.Capacity, t.Allocatable = t.Capacity.Min(n.Capacity), t.Allocatable.Min(n.Allocatable)
		if !slices.ContainsFunc(t.Offerings, func(o model.Offering) bool { return o.Zone == zone && o.CapacityType == kind }) {
			t.Offerings = append(t.Offerings, model.Offering{Zone: zone, CapacityType: kind, PriceMicro: price, Available: true, Remaining: -1})
		}
	}
	out := slices.SortedFunc(maps.Values(by), func(a, b *model.InstanceType) int { return strings.Compare(a.Name, b.Name) })
	for _, t := range out {
		slices.SortFunc(t.Offerings, func(a, b model.Offering) int {
			return cmp.Or(strings.Compare(a.Zone, b.Zone), strings.Compare(a.CapacityType, b.CapacityType))
		})
	}
	return out
}

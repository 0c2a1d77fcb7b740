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

// nodePrices are the prices of nodes of a cloud that the catalog is not of: of a price file, which may be nil, else what the node's NodeClaim says that
// it cost at launch, which the controller has from the node group, else that of the node's annotation.
type nodePrices struct {
	list   *catalog.PriceList
	claims map[string]*model.Claim // by node name
}

// pricesOfNodes returns the prices of the nodes of a snapshot.
func pricesOfNodes(s *model.Snapshot, list *catalog.PriceList) nodePrices {
	out := nodePrices{list, map[string]*model.Claim{}}
	for _, c := range s.Claims {
		if c.NodeName != "" {
			out.claims[c.NodeName] = c
		}
	}
	return out
}

// priceCounts counts the nodes whose price is from another source than lists.
type priceCounts struct{ byClaim, byNode int }

// of returns the price of a node in micro-dollars an hour, 0 if nobody knows it, and counts it.
func (p nodePrices) of(n *model.Node, counts *priceCounts) int64 {
	if micro, ok := p.list.PriceMicro(n.Labels[model.LabelInstanceType], n.Labels[model.LabelZone], cmp.Or(model.CapacityTypeOf(n.Labels), model.OnDemand)); ok {
		return micro
	}
	if micro := p.claims[n.Name].LaunchPriceMicro(); micro > 0 {
		counts.byClaim++
		return micro
	}
	micro := model.AnnotatedPriceMicro(n.Annotations)
	if micro > 0 {
		counts.byNode++
	}
	return micro
}

// typesOfNodes returns instance types for nodes of a cloud that the catalog is not of: as large as the smallest node of each, with the prices of nodes,
// in their zones, capacity types and node groups; by name. isForeign reports whether the nodes are of such a cloud: no node is of a type that the catalog has.
func typesOfNodes(nodes []*model.Node, cat *catalog.Catalog, prices nodePrices) (types []*model.InstanceType, isForeign bool, counts priceCounts) {
	by := map[string]*model.InstanceType{}
	isForeign = len(nodes) > 0
	for _, n := range nodes {
		name, zone, kind := n.Labels[model.LabelInstanceType], n.Labels[model.LabelZone], cmp.Or(model.CapacityTypeOf(n.Labels), model.OnDemand)
		if cat.Find(name) != nil {
			isForeign = false
			continue
		}
		price := prices.of(n, &counts)
		if name == "" || price == 0 { // without a type, it can't be told what else would do
			continue
		}
		t := by[name]
		if t == nil {
			t = &model.InstanceType{Name: name, Capacity: n.Capacity, Allocatable: n.Allocatable,
				Labels: model.Labels{model.LabelInstanceType: name, model.LabelArch: cmp.Or(n.Labels[model.LabelArch], "amd64"), model.LabelOS: cmp.Or(n.Labels[model.LabelOS], "linux")}}
			by[name] = t
		}
		t.Capacity, t.Allocatable = t.Capacity.Min(n.Capacity), t.Allocatable.Min(n.Allocatable)
		group := n.Labels[model.LabelNodeGroup]
		o := model.Offering{Zone: zone, CapacityType: kind, PriceMicro: price, Available: true, Remaining: -1}
		if group != "" {
			o.Labels = model.Labels{model.LabelNodeGroup: group}
		}
		if i := slices.IndexFunc(t.Offerings, func(o model.Offering) bool {
			return o.Zone == zone && o.CapacityType == kind && o.Labels[model.LabelNodeGroup] == group
		}); i < 0 {
			t.Offerings = append(t.Offerings, o)
		} else if t.Offerings[i].PriceMicro < price { // launched at different prices
			t.Offerings[i] = o
		}
	}
	if !isForeign {
		return nil, false, counts
	}
	types = slices.SortedFunc(maps.Values(by), func(a, b *model.InstanceType) int { return strings.Compare(a.Name, b.Name) })
	for _, t := range types {
		slices.SortFunc(t.Offerings, func(a, b model.Offering) int {
			return cmp.Or(strings.Compare(a.Zone, b.Zone), strings.Compare(a.CapacityType, b.CapacityType), strings.Compare(a.Labels[model.LabelNodeGroup], b.Labels[model.LabelNodeGroup]))
		})
	}
	return types, true, counts
}

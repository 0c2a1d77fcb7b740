// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package simulated

import (
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
)

// Quantities returns amounts as Kubernetes quantities.
func Quantities(a catalog.Amounts) map[string]string {
	out := make(map[string]string, len(a))
	for r, v := range a {
		out[r] = catalog.FormatQuantity(r, v)
	}
	return out
}

// offeringList is the catalog on the wire.
func offeringList(c *catalog.Catalog) machines.OfferingList {
	list := machines.OfferingList{Catalog: c.Name, Region: c.Region, PricesAsOf: c.PricesAsOf, Types: make([]machines.InstanceType, len(c.Types))}
	for i, t := range c.Types {
		out := machines.InstanceType{Name: t.Name, Labels: t.Labels, Capacity: Quantities(t.Capacity), Allocatable: Quantities(t.Allocatable)}
		for _, o := range t.Offerings {
			out.Offerings = append(out.Offerings, machines.Offering{Zone: o.Zone, CapacityType: o.CapacityType, PriceMicro: o.PriceMicro, Modelled: o.Modelled, Available: o.Available, Labels: o.Labels})
		}
		list.Types[i] = out
	}
	return list
}

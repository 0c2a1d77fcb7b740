// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package catalog

import (
	"maps"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// InZones returns the catalog for a cluster with nodes in these zones. elsewhere: none of the zones is in the catalog,
// so the prices are those of another region, and each zone gets the offerings of one zone of the catalog.
func (c *Catalog) InZones(zones []string) (local *Catalog, elsewhere bool) {
	own := map[string]bool{}
	for i := range c.Types {
		for _, o := range c.Types[i].Offerings {
			own[o.Zone] = true
		}
	}
	zones = slices.Compact(slices.Sorted(slices.Values(zones)))
	zones = slices.DeleteFunc(zones, func(z string) bool { return z == "" })
	if len(zones) == 0 || len(own) == 0 || slices.ContainsFunc(zones, func(z string) bool { return own[z] }) {
		return c, false
	}
	from, copied := slices.Sorted(maps.Keys(own)), *c
	copied.Types = slices.Clone(c.Types)
	for i := range copied.Types {
		t := &copied.Types[i]
		var offerings []model.Offering
		for j, z := range zones {
			for _, o := range t.Offerings {
				if o.Zone == from[j%len(from)] {
					o.Zone = z
					offerings = append(offerings, o)
				}
			}
		}
		t.Offerings = offerings
	}
	return &copied, true
}

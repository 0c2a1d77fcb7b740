// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// BuyableTypes returns up to the given number of instance types that a pool may launch now, cheapest first, with their zones
// and capacity types, sorted, and the price of the cheapest in micro-dollars per hour. All are empty if there are none.
func BuyableTypes(p *model.NodePool, most int) (list []*model.InstanceType, zones, capacityTypes []string, cheapestMicro int64) {
	type pricedType struct {
		t          *model.InstanceType
		priceMicro int64
	}
	var priced []pricedType
	for _, t := range p.Types {
		if !p.MayBuyType(t) {
			continue
		}
		if price := cheapestOfferingMicro(p, t); price >= 0 {
			priced = append(priced, pricedType{t, price})
		}
	}
	slices.SortStableFunc(priced, func(a, b pricedType) int { return cmp.Compare(a.priceMicro, b.priceMicro) })
	if len(priced) > most {
		priced = priced[:most]
	}
	for _, x := range priced {
		list = append(list, x.t)
		for i := range x.t.Offerings {
			if o := &x.t.Offerings[i]; o.Available && p.MayBuyOffering(o) {
				zones, capacityTypes = append(zones, o.Zone), append(capacityTypes, o.CapacityType)
			}
		}
	}
	if len(priced) > 0 {
		cheapestMicro = priced[0].priceMicro
	}
	slices.Sort(zones)
	slices.Sort(capacityTypes)
	return list, slices.Compact(zones), slices.Compact(capacityTypes), cheapestMicro
}

// cheapestOfferingMicro is the price of the cheapest offering of a type that a pool may buy now, in micro-dollars an
// hour; -1 where it may buy none.
func cheapestOfferingMicro(p *model.NodePool, t *model.InstanceType) int64 {
	least := int64(-1)
	for i := range t.Offerings {
		if o := &t.Offerings[i]; o.Available && p.MayBuyOffering(o) && (least < 0 || o.PriceMicro < least) {
			least = o.PriceMicro
		}
	}
	return least
}

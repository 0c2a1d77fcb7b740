// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"cmp"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
	"github.com/dovetail-sh/dovetail/internal/solve/topology"
)

// PreferencesOf reports which preferences a problem has. Node preferences are a preferred node affinity, or a pool with
// a taint PreferNoSchedule. Preferences about other pods are a spread with ScheduleAnyway, or a preferred pod affinity
// or anti-affinity.
func PreferencesOf(p *problem.Problem) (forNodes, aboutPods bool) {
	for i := range p.Pools {
		forNodes = forNodes || slices.ContainsFunc(p.Pools[i].Taints, func(x model.Taint) bool { return x.Effect == model.PreferNoSchedule })
	}
	var last *model.Class
	for _, pod := range p.Demand {
		c := pod.Class
		if c == last {
			continue
		}
		last = c
		forNodes = forNodes || len(c.Preferred) > 0
		aboutPods = aboutPods || len(c.PreferredAffinity)+len(c.PreferredAntiAffinity) > 0 ||
			slices.ContainsFunc(c.Spread, func(x model.SpreadConstraint) bool { return !x.Hard })
	}
	return forNodes, aboutPods
}

// zonePreference is a preference of a class for zones by their pods: as few as possible of those that the selector
// selects or, with a negative weight, many.
type zonePreference struct {
	selector model.Selector
	weight   int64
	counts   map[string]int64 // of the pods that it chooses, by zone
}

// spreadWeight is the weight of a spread with ScheduleAnyway, as of a preferred term.
const spreadWeight = 100

// zonePreferencesOf lists the preferences of a class over zones.
func zonePreferencesOf(c *model.Class) (out []*zonePreference) {
	for i := range c.Spread {
		if x := &c.Spread[i]; !x.Hard && x.TopologyKey == model.LabelZone {
			out = append(out, &zonePreference{model.Selector{Namespaces: []string{c.Namespace}, Pods: x.Selector}, spreadWeight, map[string]int64{}})
		}
	}
	add := func(list []model.WeightedPodTerm, sign int64) {
		for i := range list {
			if list[i].Term.TopologyKey == model.LabelZone {
				out = append(out, &zonePreference{list[i].Term.Selector, sign * int64(list[i].Weight), map[string]int64{}})
			}
		}
	}
	add(c.PreferredAffinity, -1)
	add(c.PreferredAntiAffinity, 1)
	return out
}

// zoneChooser counts pods by zone for the preferences of classes.
type zoneChooser struct {
	topology.Compiled
	plan        *Planner
	preferences [][]*zonePreference                // by class of the demand
	choosing    map[*model.Class][]*zonePreference // those that choose pods of a class
}

// ChooseZonesByPreference restricts machines to launch that have several zones at the same price to the zone that best
// satisfies the preferences of their pods. It adds no cost.
func (s *Planner) ChooseZonesByPreference() {
	x := zoneChooser{Compiled: s.Compiled, plan: s, preferences: make([][]*zonePreference, len(s.Inst.Classes)), choosing: map[*model.Class][]*zonePreference{}}
	some := false
	for i, c := range s.Inst.Classes {
		x.preferences[i] = zonePreferencesOf(c.Spec)
		some = some || len(x.preferences[i]) > 0
	}
	if !some {
		return
	}
	for i := range s.In.Given.Nodes {
		for _, p := range s.In.Given.Nodes[i].Pods {
			x.count(s.In.Given.Nodes[i].Labels[model.LabelZone], p.Class, 1)
		}
	}
	for _, p := range s.Placement.OnNodes {
		x.count(s.Inst.Nodes.List[p.Node].Labels[model.LabelZone], s.Inst.Classes[p.Class].Spec, int64(p.Count))
	}
	bins := s.Placement.Bins
	s.Placement.Bins = nil
	prefers := func(b *Bin) bool {
		return slices.ContainsFunc(b.Items, func(it binItem) bool { return len(x.preferences[it.Class]) > 0 })
	}
	left := int64(0) // machines whose pods prefer something, and which are still to be looked at
	for _, b := range bins {
		if prefers(b) {
			left += b.Copies
		}
	}
	for _, b := range bins {
		zones := x.zonesAtSamePrice(b)
		if len(zones) == 1 {
			x.countBin(zones[0].name, b, b.Copies)
		}
		if !prefers(b) {
			s.Placement.Bins = append(s.Placement.Bins, b)
			continue
		}
		left -= b.Copies
		if len(zones) < 2 || b.Copies == 1 && left == 0 && x.isIndifferent(zones, b) {
			s.Placement.Bins = append(s.Placement.Bins, b)
			continue
		}
		for range b.Copies {
			best := slices.MinFunc(zones, func(a, b2 zoneOffers) int { return cmp.Compare(x.disfavour(a.name, b), x.disfavour(b2.name, b)) })
			one := *b
			one.Copies, one.offers = 1, best.offers
			x.countBin(best.name, &one, 1)
			s.Placement.Bins = append(s.Placement.Bins, &one)
		}
	}
	s.Placement.mergeEqualBins()
}

// zoneOffers is the offers of a bin in one zone.
type zoneOffers struct {
	name   string
	offers *problem.OfferSet
}

// zonesAtSamePrice lists the zones, by name, in which the cheapest machine that holds a bin costs as little as anywhere. A bin of a
// limited quantity, or of a pool that asks for several values of a label, stays as it is.
func (x *zoneChooser) zonesAtSamePrice(b *Bin) (out []zoneOffers) {
	if b.quantity >= 0 || len(x.Catalog.WantedMinValues(b.Pool)) > 0 {
		return nil
	}
	least := x.plan.Purchases.leastBinPrice(b)
	bits := map[string][]uint64{}
	for i := range x.Catalog.Offers {
		if b.offers.Contains(i) {
			z := x.Catalog.Offers[i].Offering.Zone
			if bits[z] == nil {
				bits[z] = make([]uint64, len(b.offers.Bits))
			}
			bits[z][i>>6] |= 1 << (i & 63)
		}
	}
	for z, set := range bits {
		one := *b
		if one.offers = x.Catalog.InternOfferSet(set); x.plan.Purchases.leastBinPrice(&one) == least {
			out = append(out, zoneOffers{z, one.offers})
		}
	}
	slices.SortFunc(out, func(a, b zoneOffers) int { return strings.Compare(a.name, b.name) })
	return out
}

// count adds pods of a class in a zone.
func (x *zoneChooser) count(zone string, c *model.Class, n int64) {
	list, known := x.choosing[c]
	if !known {
		for _, of := range x.preferences {
			for _, w := range of {
				if x.In.SelectorMatches(&w.selector, c) {
					list = append(list, w)
				}
			}
		}
		x.choosing[c] = list
	}
	for _, w := range list {
		w.counts[zone] += n
	}
}

// isIndifferent reports whether the pods of a bin have as much against each of the zones.
func (x *zoneChooser) isIndifferent(zones []zoneOffers, b *Bin) bool {
	return !slices.ContainsFunc(zones, func(z zoneOffers) bool { return x.disfavour(z.name, b) != x.disfavour(zones[0].name, b) })
}

func (x *zoneChooser) countBin(zone string, b *Bin, copies int64) {
	for _, it := range b.Items {
		x.count(zone, x.Inst.Classes[it.Class].Spec, it.Count*copies)
	}
}

// disfavour returns the penalty of a zone for the pods of a bin: the weight of each preference times the number of pods
// that it selects there.
func (x *zoneChooser) disfavour(zone string, b *Bin) (sum int64) {
	for _, it := range b.Items {
		for _, w := range x.preferences[it.Class] {
			sum += w.weight * w.counts[zone] * it.Count
		}
	}
	return sum
}

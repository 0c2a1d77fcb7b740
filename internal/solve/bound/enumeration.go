// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package bound

import "github.com/dovetail-sh/dovetail/internal/solve/pack"

// boundByEnumeration returns the lowest cost of machines for the demand, found by enumeration: see pack.Enumeration. It
// ignores what other bounds ignore, and first fills existing nodes with as many pods of each class as they could hold of
// that class alone, so it is a valid bound. It returns 0 if there are too many combinations.
func (s *bounder) boundByEnumeration() (sum int64) {
	for _, g := range s.Groups {
		var demands []*pack.Demand
		var pods []int64
		for _, c := range g.Classes {
			if n := int64(c.Assigned) - s.podsNodesHold(c); n > 0 {
				demands, pods = append(demands, &pack.Demand{Class: c, Offers: c.Filter.Offers, Unbought: n}), append(pods, n)
			}
		}
		if len(demands) == 0 {
			continue
		}
		p := s.plan.Purchases.NewPackingFor(g.Level, demands, false)
		e, ok := pack.NewEnumeration(p, pods, p.Market.OwnHostLimit, func(m *pack.Machine) int64 { return m.Price })
		if !ok {
			return 0
		}
		least, ok := e.LeastCost()
		if !ok {
			return 0
		}
		sum += least
	}
	return sum
}

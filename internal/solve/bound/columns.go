// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package bound

import (
	"github.com/dovetail-sh/dovetail/internal/solve/pack"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// boundByColumns is the bound from the duals of the program over columns, and by resource prices for pods that it
// doesn't know. Pods worth nothing, which free capacity holds anyway, are left out of the proof.
func (s *bounder) boundByColumns() int64 {
	if len(s.useful)*len(s.boundClasses) > maxNodeClassPairs {
		return 0
	}
	kinds := 0
	classes, worths := make([][]*problem.Class, len(s.Groups)), make([][]int64, len(s.Groups))
	for gi, g := range s.Groups {
		for _, c := range g.Classes {
			worth, ok := s.plan.Purchases.ColumnDuals[c.ID]
			if !ok {
				worth = s.In.ResourceCost(c, &g.prices)
			}
			if worth > 0 {
				classes[gi], worths[gi] = append(classes[gi], c), append(worths[gi], worth)
			}
		}
		kinds += len(pack.GroupEquivalentClasses(classes[gi], make([]int64, len(classes[gi]))))
	}
	if kinds > pack.MaxBoundRows {
		return 0
	}
	saved := int64(0)
	by := map[int]int64{} // by class
	for gi, g := range s.Groups {
		if len(classes[gi]) == 0 {
			continue
		}
		scaled, stocked := s.CertifyDuals(g.Level, classes[gi], worths[gi])
		saved += stocked
		for i, v := range scaled {
			by[classes[gi][i].ID] = v
		}
	}
	return max(0, s.lessFreeCapacity(by)-saved) >> problem.DualShift
}

// CertifyDuals computes a lower bound from the value of one pod of each class (micro-dollars << DualShift). No pattern
// of a machine is worth more than its PatternCeiling; scaled down until that is at most the price, for every machine,
// the duals are a certificate (Farley's bound): no plan costs less than the total value of the pods. All arithmetic is
// in integers and rounded against the bound. stocked is the maximum saving by machines of limited quantity, in the same
// unit.
func (s *bounder) CertifyDuals(l problem.Level, classes []*problem.Class, worth []int64) (scaled []int64, stocked int64) {
	groups := pack.GroupEquivalentClasses(classes, worth)
	firsts := make([]*problem.Class, len(groups))
	for i, x := range groups {
		firsts[i] = classes[x[0]]
	}
	p, whole := newProofPacking(s.plan.Purchases, l, firsts)
	p.Prices.Dual = make([]int64, len(groups))
	for i, x := range groups {
		p.Prices.Dual[i], whole[i] = worth[x[0]], 0
		for _, j := range x {
			whole[i] += int64(classes[j].Assigned)
		}
	}
	num, den := int64(1), int64(1) // the least of price / ceiling
	for _, m := range p.Market.Machines {
		if m.Quantity >= 0 {
			continue
		}
		price := m.Price << pack.CeilingShift
		top, _, _ := p.Prices.PatternCeiling(m, whole, price)
		if top > price && problem.FractionLess(price, top, num, den) {
			num, den = price, top
		}
	}
	scaled = make([]int64, len(worth))
	for i, v := range worth {
		scaled[i] = problem.MulDiv(v, num, den)
	}
	for i, x := range groups {
		p.Prices.Dual[i] = scaled[x[0]]
	}
	best := make([]int64, len(s.Inst.InitialQuantities)) // what one of a limited quantity can save, offered by whichever pool
	for _, m := range p.Market.Machines {
		if m.Quantity >= 0 {
			top, _, _ := p.Prices.PatternCeiling(m, whole, 1<<62)
			best[m.Quantity] = max(best[m.Quantity], top-m.Price<<pack.CeilingShift)
		}
	}
	for i, v := range best {
		stocked += v * min(s.Inst.InitialQuantities[i], int64(len(s.In.Given.Demand)))
	}
	return scaled, stocked
}

// lessFreeCapacity is what pods of so much worth prove (by class id, micro-dollars << DualShift), less what those are
// worth that free capacity could hold. At resource prices it holds what is free, and of each class as many pods as
// fit alone, at what a pod is worth beyond its resources. Duals may be lowered: of each class the one that proves
// most counts, all of it, its resources or nothing. Prices of 0 do as well, and better where much is free.
func (s *bounder) lessFreeCapacity(worth map[int]int64) int64 {
	var free problem.Sum128
	for _, node := range s.useful {
		for k, v := range s.Inst.InitialFree[node*s.In.NumDims : node*s.In.NumDims+s.In.NumDims] {
			if v > 0 {
				free.AddProduct(s.prices[k], v)
			}
		}
	}
	plain, atPrices := int64(0), -(free.Dual() + 1)
	for _, c := range s.boundClasses {
		y := worth[c.ID]
		if y <= 0 {
			continue
		}
		n, in := int64(c.Assigned), s.podsNodesHold(c)
		q := min(y, s.In.ResourceCost(c, &s.prices))
		plain += y * max(0, n-in)
		atPrices += max(q*n, y*n-(y-q)*in)
	}
	return max(plain, atPrices)
}

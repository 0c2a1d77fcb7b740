// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

// boundByColumns is the bound from the duals of the program over columns, and by resource prices for pods that it
// doesn't know. Pods worth nothing, which free capacity holds anyway, are left out of the proof.
func (s *bounder) boundByColumns() int64 {
	if len(s.useful)*len(s.boundClasses) > maxNodeClassPairs {
		return 0
	}
	kinds := 0
	classes, worths := make([][]*class, len(s.groups)), make([][]int64, len(s.groups))
	for gi, g := range s.groups {
		for _, c := range g.classes {
			worth, ok := s.columnDuals[c.id]
			if !ok {
				worth = s.resourceCost(c, &g.prices)
			}
			if worth > 0 {
				classes[gi], worths[gi] = append(classes[gi], c), append(worths[gi], worth)
			}
		}
		kinds += len(groupEquivalentClasses(classes[gi], make([]int64, len(classes[gi]))))
	}
	if kinds > maxBoundRows {
		return 0
	}
	saved := int64(0)
	by := map[int]int64{} // by class
	for gi, g := range s.groups {
		if len(classes[gi]) == 0 {
			continue
		}
		scaled, stocked := s.certifyDuals(g.level, classes[gi], worths[gi])
		saved += stocked
		for i, v := range scaled {
			by[classes[gi][i].id] = v
		}
	}
	return max(0, s.lessFreeCapacity(by)-saved) >> dualShift
}

// certifyDuals makes a lower bound of what each pod of each class is said to be worth (micro-dollars << dualShift).
// No machine can be filled with more than patternCeiling says; scaled down until that is at most its price, for every
// machine, the duals are a certificate in the way of Farley: what the pods are worth together, no plan can undercut.
// Everything is integer and rounded against the bound. stocked is what machines of limited quantity could save, in
// the same unit.
func (s *bounder) certifyDuals(l level, classes []*class, worth []int64) (scaled []int64, stocked int64) {
	groups := groupEquivalentClasses(classes, worth)
	firsts := make([]*class, len(groups))
	for i, x := range groups {
		firsts[i] = classes[x[0]]
	}
	p, whole := s.newProofPacking(l, firsts)
	p.dual = make([]int64, len(groups))
	for i, x := range groups {
		p.dual[i], whole[i] = worth[x[0]], 0
		for _, j := range x {
			whole[i] += int64(classes[j].assigned)
		}
	}
	num, den := int64(1), int64(1) // the least of price / ceiling
	for _, m := range p.machines {
		if m.quantity >= 0 {
			continue
		}
		price := m.price << ceilingShift
		top, _, _ := p.patternCeiling(m, whole, price)
		if top > price && fractionLess(price, top, num, den) {
			num, den = price, top
		}
	}
	scaled = make([]int64, len(worth))
	for i, v := range worth {
		scaled[i] = mulDiv(v, num, den)
	}
	for i, x := range groups {
		p.dual[i] = scaled[x[0]]
	}
	best := make([]int64, len(s.initialQuantities)) // what one of a limited quantity can save, offered by whichever pool
	for _, m := range p.machines {
		if m.quantity >= 0 {
			top, _, _ := p.patternCeiling(m, whole, 1<<62)
			best[m.quantity] = max(best[m.quantity], top-m.price<<ceilingShift)
		}
	}
	for i, v := range best {
		stocked += v * min(s.initialQuantities[i], int64(len(s.input.Demand)))
	}
	return scaled, stocked
}

// resourceCost is what the resources of a pod cost at prices u, rounded down, micro-dollars << dualShift.
func (s *problemInput) resourceCost(c *class, u *[maxDims]int64) int64 {
	var v sum128
	for k := range s.numDims {
		v.addProduct(u[k], c.req[k])
	}
	return v.dual()
}

// lessFreeCapacity is what pods of so much worth prove (by class id, micro-dollars << dualShift), less what those are
// worth that free capacity could hold. At resource prices it holds what is free, and of each class as many pods as
// fit alone, at what a pod is worth beyond its resources. Duals may be lowered: of each class the one that proves
// most counts, all of it, its resources or nothing. Prices of 0 do as well, and better where much is free.
func (s *bounder) lessFreeCapacity(worth map[int]int64) int64 {
	var free sum128
	for _, node := range s.useful {
		for k, v := range s.initialFree[node*s.numDims : node*s.numDims+s.numDims] {
			if v > 0 {
				free.addProduct(s.prices[k], v)
			}
		}
	}
	plain, atPrices := int64(0), -(free.dual() + 1)
	for _, c := range s.boundClasses {
		y := worth[c.id]
		if y <= 0 {
			continue
		}
		n, in := int64(c.assigned), s.podsNodesHold(c)
		q := min(y, s.resourceCost(c, &s.prices))
		plain += y * max(0, n-in)
		atPrices += max(q*n, y*n-(y-q)*in)
	}
	return max(plain, atPrices)
}

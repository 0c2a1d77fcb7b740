// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

// fractionalClasses is what pods are worth where there are too many classes for a column each. Pods that may go to
// the same machines and ask for resources in nearly the same proportion are one fractional class, of which a machine
// holds any amount: as much of each resource as the pod of it that asks for least, in proportion. Unlike at prices of
// resources, a fractional class must find all it asks for on one machine; unlike columns of pods, it knows nothing of
// what is left over between them.
type fractionalClasses struct {
	p       *pricedPacking // of fractional classes: amounts are << fractionShift
	classOf []int          // by demand: its fractional class, -1: none
	amount  []int64        // by demand: how much one pod is of its fractional class, << amountShift
}

const (
	fractionShift        = 10
	amountShift          = 30
	maxFractionalClasses = 256
)

// boundByFractionalClasses is the bound from what pods are worth as amounts of fractional classes.
func (s *bounder) boundByFractionalClasses() int64 {
	if len(s.useful)*len(s.boundClasses) > maxNodeClassPairs || len(s.initialQuantities) > 0 {
		return 0
	}
	var worth []int64
	by := map[int]int64{}
	for _, g := range s.groups {
		if len(g.classes) == 0 {
			continue
		}
		p, whole := s.newProofPacking(g.level, g.classes)
		b := p.newFractionalClasses(whole)
		if b == nil {
			return 0
		}
		if worth = b.findDuals(min(s.steps+s.policy.Work/8, s.stepLimit)); worth == nil {
			return 0
		}
		for i, c := range g.classes {
			by[c.id] = worth[i]
		}
	}
	return max(0, s.lessFreeCapacity(by)) >> dualShift
}

// newFractionalClasses groups a packing's demands; nil where there is nothing to group, or where machines are limited
// in number.
func (p *pricedPacking) newFractionalClasses(whole []int64) *fractionalClasses {
	for _, m := range p.machines {
		if m.quantity >= 0 {
			return nil // it would have to be seen what these can save
		}
	}
	x := p.feasibilityClassesOf(whole)
	b := &fractionalClasses{classOf: make([]int, len(p.demands)), amount: make([]int64, len(p.demands))}
	shape := b.proportions(p, x, whole)
	for digits := 5; digits >= 0; digits-- {
		classes := b.groupDemands(p, x, shape, whole, digits)
		if len(classes.demands) > maxFractionalClasses {
			continue
		}
		if len(classes.demands) == 0 {
			return nil
		}
		for i, m := range p.machines {
			c := &machine{price: m.price, adjustedCost: m.price, quantity: -1, admits: []uint64{0}}
			for k := range p.s.numDims {
				c.available[k] = m.available[k] << fractionShift
			}
			for j := range x.classes {
				if x.classes[j].includes(i) {
					c.admits[0] |= 1 << j
				}
			}
			classes.machines = append(classes.machines, c)
		}
		classes.dual = make([]int64, len(classes.demands))
		b.p = classes
		return b
	}
	return nil
}

// proportions finds by demand what its pods ask for in proportion to each other, the largest being 1 << amountShift, and how much one pod
// is of that.
func (b *fractionalClasses) proportions(p *pricedPacking, x *feasibilityClasses, whole []int64) (shape []vec) {
	nd := p.s.numDims
	var mean vec // what a pod asks for on the whole: in that measure proportions are told apart
	pods := int64(0)
	for d, y := range p.demands {
		pods += whole[d]
		for k := range nd {
			mean[k] += whole[d] * y.class.req[k]
		}
	}
	for k := range nd {
		if mean[k] > 0 {
			mean[k] = max(1, mean[k]/pods)
		}
	}
	shape = make([]vec, len(p.demands))
	for d, y := range p.demands {
		if x.classOf[d] < 0 {
			continue
		}
		for k := range nd {
			if y.class.req[k] > 0 && mean[k] > 0 {
				b.amount[d] = max(b.amount[d], mulDiv(y.class.req[k], 1<<amountShift, mean[k]))
			}
		}
		for k := range nd {
			if b.amount[d] > 0 && y.class.req[k] > 0 && mean[k] > 0 {
				shape[d][k] = mulDiv(mulDiv(y.class.req[k], 1<<amountShift, mean[k]), 1<<amountShift, b.amount[d])
			}
		}
	}
	return shape
}

// groupDemands makes one demand of those of one feasibility class whose proportions are the same to so many binary digits.
func (b *fractionalClasses) groupDemands(p *pricedPacking, x *feasibilityClasses, shape []vec, whole []int64, digits int) *pricedPacking {
	type key struct {
		feasibility int
		shape       vec
	}
	out := &pricedPacking{packingProblem: packingProblem{s: p.s}}
	ids := map[key]int{}
	for d, y := range p.demands {
		if b.classOf[d] = -1; x.classOf[d] < 0 || b.amount[d] == 0 {
			continue
		}
		k := key{x.classOf[d], shape[d]}
		for i, v := range k.shape {
			k.shape[i] = v >> (amountShift - digits)
		}
		at, ok := ids[k]
		if !ok {
			at = len(out.demands)
			ids[k] = at
			out.demands = append(out.demands, &demand{class: &class{}})
			out.setOf = append(out.setOf, k.feasibility)
			out.restricted = append(out.restricted, false)
		}
		b.classOf[d] = at
		c := out.demands[at].class
		for i := range p.s.numDims {
			least := mulDiv(y.class.req[i], 1<<(amountShift+fractionShift), b.amount[d])
			if !ok || least < c.req[i] {
				c.req[i] = least
			}
		}
		out.demands[at].unbought += whole[d] * b.amount[d]
	}
	return out
}

// findDuals solves the program over fractional classes and returns what a pod of each demand is worth, micro-dollars
// << dualShift: a certificate. nil where no machine holds some class. It ends early when the steps allowed are done.
func (b *fractionalClasses) findDuals(until int64) []int64 {
	p := b.p
	t, held := b.newProgram()
	if t == nil {
		return nil
	}
	most := make([][]int64, len(p.machines)) // by machine and demand that it may hold
	for mi, m := range p.machines {
		for _, d := range held[mi] {
			most[mi] = append(most[mi], timesIn(&p.demands[d].class.req, &m.available, p.s.numDims)+1)
		}
	}
	best, share := -1.0, 0.0
	proven, scaled := make([]float64, len(t.rows)), make([]int64, len(t.rows))
	for p.s.steps < until {
		for i := range t.rows {
			p.dual[i] = int64((float64(share*proven[i]) + float64((1-share)*max(0, t.y[i]))) * (1 << dualShift))
		}
		num, den := int64(1), int64(1)
		var found []column
		for mi, m := range p.machines {
			w, amount := p.relaxKnapsack(m, held[mi], nil)
			top := p.ceilingAtPrices(m, held[mi], most[mi], &w)
			if price := m.price << ceilingShift; top > price && fractionLess(price, top, num, den) {
				num, den = price, top
			}
			c := column{machine: mi}
			for i, d := range held[mi] {
				if amount[i] > 1e-9 {
					c.items, c.fractions = append(c.items, item{demand: d}), append(c.fractions, amount[i])
				}
			}
			if len(c.items) > 0 {
				found = append(found, c)
			}
		}
		bound := 0.0
		for i := range t.rows {
			bound += float64(float64(p.dual[i]) * t.need[i])
		}
		if bound *= float64(num) / float64(den) / (1 << dualShift); bound > best {
			best = bound
			for i := range t.rows {
				proven[i] = float64(p.dual[i]) / (1 << dualShift)
				scaled[i] = mulDiv(p.dual[i], num, den)
			}
		}
		var done bool
		if share, done = t.addRound(found, best, share); done {
			break
		}
	}
	out := make([]int64, len(b.classOf))
	for d, at := range b.classOf {
		if at >= 0 {
			out[d] = mulDiv(scaled[at], b.amount[d], 1<<amountShift)
		}
	}
	return out
}

// newProgram begins with a machine full of each fractional class, the cheapest for its amount, and lists by machine the classes that it may
// hold; nil where no machine holds some class.
func (b *fractionalClasses) newProgram() (t *coveringProgram, held [][]int) {
	p := b.p
	t, held = &coveringProgram{s: &p.s.problemInput, machines: p.machines, pricesOnly: true}, make([][]int, len(p.machines))
	for d, y := range p.demands {
		best, bestN := -1, 0.0
		for i, m := range p.machines {
			if !p.machineAdmits(m, d) {
				continue
			}
			n := p.amountHeld(m, d)
			if n > 0 {
				held[i] = append(held[i], d)
			}
			if n > 0 && (best < 0 || n*float64(p.machines[best].price) > bestN*float64(m.price)) {
				best, bestN = i, n
			}
		}
		if best < 0 {
			return nil, nil
		}
		t.rowOf, t.rows, t.need = append(t.rowOf, d), append(t.rows, d), append(t.need, float64(y.unbought)/(1<<amountShift))
		t.cols = append(t.cols, column{machine: best, items: []item{{demand: d}}, fractions: []float64{bestN}})
	}
	t.initBasis()
	return t, held
}

// amountHeld is how much of a fractional class a machine holds.
func (p *packingProblem) amountHeld(m *machine, d int) float64 {
	n := -1.0
	for k, r := range p.demands[d].class.req[:p.s.numDims] {
		if r > 0 {
			if v := float64(max(0, m.available[k])) / float64(r); n < 0 || v < n {
				n = v
			}
		}
	}
	return n
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import "math/bits"

// pooledCapacity is free capacity that the same feasibility classes may use, taken as one machine: of it there is
// one, and it costs nothing.
type pooledCapacity struct {
	classes uint64 // as a bitmap
	free    vec
}

// maxPricingRounds bounds the rounds of solvePrices; a few do, mostly.
const maxPricingRounds = 100

// solvePrices solves the program for the demand less what free capacity will hold of each resource, and rounds so
// that the prices are a certificate. vacant is free capacity that the program itself gives to feasibility classes.
func (x *feasibilityClasses) solvePrices(free []float64, vacant []pooledCapacity) {
	p, nd := x.p, x.p.s.numDims
	t := x.newProgram(free, len(vacant))
	may := make([]uint64, len(p.machines)) // by machine: feasibility classes
	for mi := range p.machines {
		for i := range x.classes {
			if x.classes[i].includes(mi) {
				may[mi] |= 1 << i
			}
		}
	}
	var c column
	for range maxPricingRounds {
		t.recompute()
		better := false
		for mi, m := range p.machines {
			if m.quantity >= 0 {
				continue
			}
			c.machine = mi
			t.giveToHighest(&c, may[mi], &m.available)
			if t.tryColumn(c) {
				better, c = true, column{}
			}
		}
		for v := range vacant {
			c.machine = -1
			t.giveToHighest(&c, vacant[v].classes, &vacant[v].free)
			c.items, c.fractions = append(c.items, item{demand: t.firstVacant + v}), append(c.fractions, -1)
			if t.tryColumn(c) {
				better, c = true, column{}
			}
		}
		p.s.steps += int64(len(p.machines) * len(t.row))
		t.enterSurplus()
		if !better {
			break
		}
	}
	t.recompute()
	x.prices = make([][maxDims]int64, len(x.classes))
	for at, r := range t.row {
		if r >= 0 {
			if v := t.y[r] * (1 << priceShift); v > 0 && v < 1<<60 {
				x.prices[at/nd][at%nd] = int64(v)
			}
		}
	}
	for i := range p.machines {
		x.lowerPrices(i)
	}
}

// feasibilityProgram is the program behind feasibilityClasses: a row for each feasibility class and resource, and one for each pooled
// capacity.
type feasibilityProgram struct {
	coveringProgram
	numDims     int
	row         []int // by feasibility class and resource; -1: none
	firstVacant int   // the row of the first pooled capacity
}

// newProgram begins with the cheapest machine for each row, and rows for so many pooled capacities.
func (x *feasibilityClasses) newProgram(free []float64, vacant int) *feasibilityProgram {
	p, nd := x.p, x.p.s.numDims
	var total [maxDims]float64
	for _, g := range x.classes {
		for k := range nd {
			total[k] += float64(g.requests[k])
		}
	}
	t := &feasibilityProgram{numDims: nd, row: make([]int, len(x.classes)*nd)}
	t.coveringProgram = coveringProgram{s: &p.s.problemInput, machines: p.machines, pricesOnly: true}
	for i := range x.classes {
		for k := range nd {
			at := i*nd + k
			t.row[at] = -1
			need := float64(x.classes[i].requests[k])
			if total[k] > 0 {
				need *= max(0, 1-free[k]/total[k])
			}
			m := x.cheapestSource(i, k)
			if need <= 0 || m < 0 {
				continue
			}
			t.row[at] = len(t.rows)
			t.rowOf, t.rows, t.need = append(t.rowOf, len(t.rows)), append(t.rows, len(t.rows)), append(t.need, need)
			t.cols = append(t.cols, column{machine: m, items: []item{{demand: t.row[at]}}, fractions: []float64{float64(p.machines[m].available[k])}})
		}
	}
	t.firstVacant = len(t.rows)
	for range vacant { // behind the others: no more than all of it is used
		t.rowOf, t.rows, t.need = append(t.rowOf, len(t.rows)), append(t.rows, len(t.rows)), append(t.need, -1)
	}
	t.initBasis()
	return t
}

// giveToHighest has a column give each resource of an amount to the feasibility class, of some, whose dual is highest.
func (t *feasibilityProgram) giveToHighest(c *column, classes uint64, amount *vec) {
	c.items, c.fractions = c.items[:0], c.fractions[:0]
	for k := range t.numDims {
		best := -1
		for b := classes; b != 0 && amount[k] > 0; b &= b - 1 {
			if r := t.row[bits.TrailingZeros64(b)*t.numDims+k]; r >= 0 && t.y[r] > 0 && (best < 0 || t.y[r] > t.y[best]) {
				best = r
			}
		}
		if best >= 0 {
			c.items, c.fractions = append(c.items, item{demand: best}), append(c.fractions, float64(amount[k]))
		}
	}
}

// cheapestSource is the machine that holds feasibility class i at the least price for a unit of resource k, -1 where
// none has any.
func (x *feasibilityClasses) cheapestSource(i, k int) int {
	best := -1
	for mi, m := range x.p.machines {
		if x.classes[i].includes(mi) && m.available[k] > 0 && (best < 0 || ratioLess(x.p.machines[best].available[k], x.p.machines[best].price, m.available[k], m.price)) {
			best = mi
		}
	}
	return best
}

// lowerPrices takes prices down until the capacity of a machine is worth no more than it costs.
func (x *feasibilityClasses) lowerPrices(mi int) {
	m, nd := x.p.machines[mi], x.p.s.numDims
	if m.quantity >= 0 {
		return
	}
	for {
		var v sum128
		for k := range nd {
			if u := x.highestPrice(k, func(g *feasibilityClass) bool { return g.includes(mi) }); u > 0 && m.available[k] > 0 {
				v.addProduct(u, m.available[k])
			}
		}
		limit := priceSum(m.price)
		if !limit.less(v) {
			return
		}
		for i := range x.classes {
			if x.classes[i].includes(mi) {
				scaleDown(&x.prices[i], limit, v, nd)
			}
		}
	}
}

// highestPrice is the highest price of a resource among the feasibility classes chosen.
func (x *feasibilityClasses) highestPrice(k int, which func(*feasibilityClass) bool) (u int64) {
	for i := range x.prices {
		if x.prices[i][k] > u && which(&x.classes[i]) {
			u = x.prices[i][k]
		}
	}
	return u
}

// totalWorth is what all pods are worth.
func (x *feasibilityClasses) totalWorth() (sum sum128) {
	for i := range x.classes {
		for k := range x.p.s.numDims {
			sum.addProduct(x.prices[i][k], x.classes[i].requests[k])
		}
	}
	return sum
}

// freeCapacityWorth is at least what pods of some feasibility classes on so much free capacity are worth.
func freeCapacityWorth(all []*feasibilityClasses, free []int64) (sum sum128) {
	for k, v := range free {
		u := int64(0)
		for _, x := range all {
			u = max(u, x.highestPrice(k, func(g *feasibilityClass) bool { return fitsSlice(&g.leastRequest, free) }))
		}
		if v > 0 {
			sum.addProduct(u, v)
		}
	}
	return sum
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"math/bits"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/lp"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// pooledCapacity is free capacity that the same feasibility classes may use, taken as one machine: of it there is
// one, and it costs nothing.
type pooledCapacity struct {
	Classes uint64 // bitmap of classes
	Free    problem.Vec
}

// maxPricingRounds bounds the rounds of SolvePrices; a few do, mostly.
const maxPricingRounds = 100

// SolvePrices solves the program for the demand minus the free capacity of each resource, and rounds so that the prices
// are a certificate. vacant is free capacity that the program assigns to feasibility classes.
func (x *FeasibilityClasses) SolvePrices(free []float64, vacant []pooledCapacity) {
	p, nd := x.p, x.p.In.NumDims
	t := x.newProgram(free, len(vacant))
	may := make([]uint64, len(p.Machines)) // by machine: feasibility classes
	for mi := range p.Machines {
		for i := range x.Classes {
			if x.Classes[i].Includes(mi) {
				may[mi] |= 1 << i
			}
		}
	}
	var c lp.Column
	for range maxPricingRounds {
		t.program.Recompute()
		better := false
		for mi, m := range p.Machines {
			if m.Quantity >= 0 {
				continue
			}
			c.Machine = mi
			t.giveToHighest(&c, may[mi], &m.Available)
			if t.program.TryColumn(c) {
				better, c = true, lp.Column{}
			}
		}
		for v := range vacant {
			c.Machine = -1
			t.giveToHighest(&c, vacant[v].Classes, &vacant[v].Free)
			c.Items, c.Fractions = append(c.Items, Item{Demand: t.firstVacant + v}), append(c.Fractions, -1)
			if t.program.TryColumn(c) {
				better, c = true, lp.Column{}
			}
		}
		p.Work.Steps += int64(len(p.Machines) * len(t.row))
		t.program.EnterSurplus()
		if !better {
			break
		}
	}
	t.program.Recompute()
	x.prices = make([][problem.MaxDims]int64, len(x.Classes))
	for at, r := range t.row {
		if r >= 0 {
			if v := t.program.Y[r] * (1 << problem.PriceShift); v > 0 && v < 1<<60 {
				x.prices[at/nd][at%nd] = int64(v)
			}
		}
	}
	for i := range p.Machines {
		x.lowerPrices(i)
	}
}

// cheapestSource returns the machine that holds feasibility class i with the lowest price per unit of resource k, -1 if
// there is none.
func (x *FeasibilityClasses) cheapestSource(i, k int) int {
	best := -1
	for mi, m := range x.p.Machines {
		if x.Classes[i].Includes(mi) && m.Available[k] > 0 && (best < 0 || problem.RatioLess(x.p.Machines[best].Available[k], x.p.Machines[best].Price, m.Available[k], m.Price)) {
			best = mi
		}
	}
	return best
}

// lowerPrices takes prices down until the capacity of a machine is worth no more than it costs.
func (x *FeasibilityClasses) lowerPrices(mi int) {
	m, nd := x.p.Machines[mi], x.p.In.NumDims
	if m.Quantity >= 0 {
		return
	}
	for {
		var v problem.Sum128
		for k := range nd {
			if u := x.HighestPrice(k, func(g *FeasibilityClass) bool { return g.Includes(mi) }); u > 0 && m.Available[k] > 0 {
				v.AddProduct(u, m.Available[k])
			}
		}
		limit := problem.PriceSum(m.Price)
		if !limit.Less(v) {
			return
		}
		for i := range x.Classes {
			if x.Classes[i].Includes(mi) {
				scaleDown(&x.prices[i], limit, v, nd)
			}
		}
	}
}

// HighestPrice returns the highest price of a resource among the selected feasibility classes.
func (x *FeasibilityClasses) HighestPrice(k int, which func(*FeasibilityClass) bool) (u int64) {
	for i := range x.prices {
		if x.prices[i][k] > u && which(&x.Classes[i]) {
			u = x.prices[i][k]
		}
	}
	return u
}

// TotalWorth returns the total value of all pods.
func (x *FeasibilityClasses) TotalWorth() (sum problem.Sum128) {
	for i := range x.Classes {
		for k := range x.p.In.NumDims {
			sum.AddProduct(x.prices[i][k], x.Classes[i].requests[k])
		}
	}
	return sum
}

// FreeCapacityWorth returns an upper bound on the value of pods of some feasibility classes on this free capacity.
func FreeCapacityWorth(all []*FeasibilityClasses, free []int64) (sum problem.Sum128) {
	for k, v := range free {
		u := int64(0)
		for _, x := range all {
			u = max(u, x.HighestPrice(k, func(g *FeasibilityClass) bool { return problem.FitsSlice(&g.leastRequest, free) }))
		}
		if v > 0 {
			sum.AddProduct(u, v)
		}
	}
	return sum
}

// feasibilityProgram is the program behind FeasibilityClasses: a row for each feasibility class and resource, and one
// for each pooled capacity.
type feasibilityProgram struct {
	program     *lp.CoveringProgram
	numDims     int
	row         []int // by feasibility class and resource; -1: none
	firstVacant int   // the row of the first pooled capacity
}

// newProgram returns a program with the cheapest machine for each row, and rows for the pooled capacities.
func (x *FeasibilityClasses) newProgram(free []float64, vacant int) *feasibilityProgram {
	p, nd := x.p, x.p.In.NumDims
	var total [problem.MaxDims]float64
	for _, g := range x.Classes {
		for k := range nd {
			total[k] += float64(g.requests[k])
		}
	}
	t := &feasibilityProgram{numDims: nd, row: make([]int, len(x.Classes)*nd)}
	t.program = &lp.CoveringProgram{Steps: &p.Work.Steps, Cost: PricesOf(p.Machines)}
	for i := range x.Classes {
		for k := range nd {
			at := i*nd + k
			t.row[at] = -1
			need := float64(x.Classes[i].requests[k])
			if total[k] > 0 {
				need *= max(0, 1-free[k]/total[k])
			}
			m := x.cheapestSource(i, k)
			if need <= 0 || m < 0 {
				continue
			}
			t.row[at] = len(t.program.Rows)
			t.program.RowOf, t.program.Rows, t.program.Need = append(t.program.RowOf, len(t.program.Rows)), append(t.program.Rows, len(t.program.Rows)), append(t.program.Need, need)
			t.program.Cols = append(t.program.Cols, lp.Column{Machine: m, Items: []Item{{Demand: t.row[at]}}, Fractions: []float64{float64(p.Machines[m].Available[k])}})
		}
	}
	t.firstVacant = len(t.program.Rows)
	for range vacant { // behind the others: no more than all of it is used
		t.program.RowOf, t.program.Rows, t.program.Need = append(t.program.RowOf, len(t.program.Rows)), append(t.program.Rows, len(t.program.Rows)), append(t.program.Need, -1)
	}
	t.program.InitBasis()
	return t
}

// giveToHighest has a column give each resource of an amount to the feasibility class, of some, whose dual is highest.
func (t *feasibilityProgram) giveToHighest(c *lp.Column, classes uint64, amount *problem.Vec) {
	c.Items, c.Fractions = c.Items[:0], c.Fractions[:0]
	for k := range t.numDims {
		best := -1
		for b := classes; b != 0 && amount[k] > 0; b &= b - 1 {
			if r := t.row[bits.TrailingZeros64(b)*t.numDims+k]; r >= 0 && t.program.Y[r] > 0 && (best < 0 || t.program.Y[r] > t.program.Y[best]) {
				best = r
			}
		}
		if best >= 0 {
			c.Items, c.Fractions = append(c.Items, Item{Demand: best}), append(c.Fractions, float64(amount[k]))
		}
	}
}

// PoolFreeCapacity combines the free capacity of nodes that the same feasibility classes may use. For each node, at most
// the capacity that fitting pods could use counts.
func (x *FeasibilityClasses) PoolFreeCapacity(useful []int, whole []int64) (out []pooledCapacity) {
	p, s, nd := x.p, x.p.Purchases, x.p.In.NumDims
	at := map[uint64]int{}
	for _, node := range useful {
		free := s.Inst.InitialFree[node*nd : node*nd+nd]
		on := uint64(0)
		var used problem.Vec
		for d, y := range p.Demands {
			if whole[d] <= 0 || x.ClassOf[d] < 0 || !problem.FitsSlice(&y.Class.Req, free) || !s.Inst.NodeAdmits(y.Class.Filter, node) {
				continue
			}
			on |= 1 << x.ClassOf[d]
			n := whole[d]
			for k, v := range free {
				if q := y.Class.Req[k]; q > 0 {
					n = min(n, v/q)
				}
			}
			for k := range nd {
				used[k] += y.Class.Req[k] * n
			}
		}
		if on == 0 {
			continue
		}
		i, ok := at[on]
		if !ok {
			i = len(out)
			at[on] = i
			out = append(out, pooledCapacity{Classes: on})
		}
		for k, v := range free {
			out[i].Free[k] += max(0, min(v, used[k]))
		}
	}
	s.Work.Steps += int64(len(useful) * len(p.Demands))
	if len(out) > maxPooledCapacities { // few rows: what little the others have goes to all feasibility classes that may have any of it
		slices.SortStableFunc(out, func(a, b pooledCapacity) int { return bits.OnesCount64(b.Classes) - bits.OnesCount64(a.Classes) })
		last := &out[maxPooledCapacities-1]
		for _, v := range out[maxPooledCapacities:] {
			last.Classes |= v.Classes
			for k := range nd {
				last.Free[k] += v.Free[k]
			}
		}
		out = out[:maxPooledCapacities]
	}
	return out
}

// maxPooledCapacities bounds the rows that free capacity adds to the program.
const maxPooledCapacities = 64

// DearestPriceAmong returns the highest price of a resource among feasibility classes in a bitmap.
func (x *FeasibilityClasses) DearestPriceAmong(k int, on uint64) (u int64) {
	for ; on != 0; on &= on - 1 {
		u = max(u, x.prices[bits.TrailingZeros64(on)][k])
	}
	return u
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"math/bits"

	"github.com/dovetail-sh/dovetail/internal/solve/lp"
)

// weightShift is the number of binary digits behind the point in a resource's price: a byte of memory costs a few millionths of a
// micro-dollar an hour.
const weightShift = 36

// wide is a sum of products of amounts and prices, 128 bits, not negative.
type wide struct{ hi, lo uint64 }

func (w *wide) addMul(a, b int64) {
	h, l := bits.Mul64(uint64(a), uint64(b))
	var c uint64
	w.lo, c = bits.Add64(w.lo, l, 0)
	w.hi, _ = bits.Add64(w.hi, h, c)
}

func (w *wide) add(o wide) {
	var c uint64
	w.lo, c = bits.Add64(w.lo, o.lo, 0)
	w.hi, _ = bits.Add64(w.hi, o.hi, c)
}

// times is the sum n times, for a product that fits.
func (w wide) times(n int64) wide {
	hi, lo := bits.Mul64(w.lo, uint64(n))
	return wide{hi + w.hi*uint64(n), lo}
}

func (w wide) less(o wide) bool { return w.hi < o.hi || w.hi == o.hi && w.lo < o.lo }

func (w wide) sub(o wide) wide {
	lo, b := bits.Sub64(w.lo, o.lo, 0)
	hi, _ := bits.Sub64(w.hi, o.hi, b)
	return wide{hi, lo}
}

// micro is the sum in micro-dollars, rounded down.
func (w wide) micro() int64 { return int64(w.hi<<(64-weightShift) | w.lo>>weightShift) }

func priceWide(price int64) wide {
	return wide{uint64(price) >> (64 - weightShift), uint64(price) << weightShift}
}

// prices solves the resource-price program: what is a unit of each resource worth, at most, such that no machine is worth more than
// it costs, and the amounts in total are worth as much as possible. The answer is integer and exactly feasible: rounded down, then
// scaled down until no machine is worth more than its price.
func prices(sizes []vec, cost []int64, total []float64, nd int) [maxDims]int64 {
	return pricingOf(sizes, cost, nd).at(total)
}

// pricing is that program for any amounts.
type pricing struct {
	sizes []vec
	cost  []int64
	rows  [][]float64
	limit []float64
	nd    int

	cheapest [maxDims]int64 // least price of a unit of each resource, also where stock is limited; -1: no machine has it
	largest  vec            // the most of it that a machine has
}

func pricingOf(sizes []vec, cost []int64, nd int) *pricing {
	x := &pricing{sizes: sizes, cost: cost, rows: make([][]float64, len(sizes)), limit: make([]float64, len(sizes)), nd: nd}
	all := make([]float64, len(sizes)*nd)
	for i := range sizes {
		row := all[i*nd : i*nd+nd]
		for k := range row {
			row[k] = float64(max(0, sizes[i][k]))
		}
		x.rows[i], x.limit[i] = row, float64(cost[i])
	}
	return x
}

func (x *pricing) at(total []float64) (u [maxDims]int64) {
	worth, _, _, _ := lp.Maximize(total[:x.nd], x.rows, x.limit, 1000)
	for k, v := range worth {
		if v *= 1 << weightShift; v > 0 && v < 1<<60 {
			u[k] = int64(v)
		}
	}
	lower(&u, x.sizes, x.cost, x.nd)
	return u
}

// ofMachines is the pricing of the machines that are to be packed.
func (p *packing) ofMachines() *pricing {
	if p.pricing != nil {
		return p.pricing
	}
	var sizes []vec
	var cost []int64
	for _, m := range p.machines {
		if n := len(sizes) - 1; m.stock >= 0 || n >= 0 && cost[n] == m.price && sizes[n] == m.avail {
			continue // of those of limited stock there are too few to set prices, and of those alike one is enough
		}
		sizes, cost = append(sizes, m.avail), append(cost, m.price)
	}
	x := pricingOf(sizes, cost, p.s.nd)
	for k := range p.s.nd {
		x.cheapest[k] = -1
		for _, m := range p.machines {
			if m.avail[k] > 0 {
				if v := mulDiv(m.price, 1<<weightShift, m.avail[k]); x.cheapest[k] < 0 || v < x.cheapest[k] {
					x.cheapest[k] = v
				}
				x.largest[k] = max(x.largest[k], m.avail[k])
			}
		}
	}
	p.pricing = x
	return x
}

// lower takes any prices down until no machine is worth more than it costs: from then on they are a certificate, wherever they came from.
func lower(u *[maxDims]int64, sizes []vec, cost []int64, nd int) {
	for i := range sizes {
		for {
			var v wide
			for k := range nd {
				if sizes[i][k] > 0 {
					v.addMul(u[k], sizes[i][k])
				}
			}
			limit := priceWide(cost[i])
			if !limit.less(v) {
				break
			}
			shrink(u, limit, v, nd)
		}
	}
}

// shrink scales prices by limit/value, rounding down, and by a little more so that it ends.
func shrink(u *[maxDims]int64, limit, value wide, nd int) {
	for value.hi>>20 != 0 { // keep 84 bits: enough digits, and room to divide
		limit, value = wide{limit.hi >> 1, limit.lo>>1 | limit.hi<<63}, wide{value.hi >> 1, value.lo>>1 | value.hi<<63}
	}
	for value.hi != 0 {
		limit, value = wide{limit.hi >> 1, limit.lo>>1 | limit.hi<<63}, wide{value.hi >> 1, value.lo>>1 | value.hi<<63}
	}
	for k := range nd {
		if u[k] > 0 {
			hi, lo := bits.Mul64(uint64(u[k]), limit.lo)
			q, _ := bits.Div64(hi, lo, value.lo+1)
			u[k] = max(0, int64(q)-1)
		}
	}
}

// price sets what resources are worth in a packing: the dual prices, and a little of what each costs at least, so that what
// is plentiful does not seem free. It returns what the pods left cost at least.
func (p *packing) price(left []int64) int64 {
	nd := p.s.nd
	total := make([]float64, nd)
	for d, n := range left {
		for k, v := range p.req(d) {
			total[k] += float64(v) * float64(n)
		}
	}
	for k := range nd {
		total[k] = max(0, total[k]-p.free[k])
	}
	p.weight = p.ofMachines().at(total)
	var floor wide
	for d, n := range left {
		for k, v := range p.req(d) {
			floor.addMul(p.weight[k], v*n)
		}
	}
	least := max(floor.micro(), p.dearest(left))
	if p.crowded {
		p.steady(total)
	}
	p.priceCliques(left)
	for k := range p.s.dims {
		p.weight[k] += max(0, p.pricing.cheapest[k]) / 64
	}
	was := p.largest
	for k := range nd {
		p.largest[k] = max(p.largest[k], p.pricing.largest[k])
	}
	if n := len(p.demands); p.worth == nil {
		p.worth, p.plain, p.lean = make([]int64, n), make([]int64, n), make([]int64, n)
	}
	for d := range p.demands {
		var v wide
		share := p.share(d)
		for k, q := range p.req(d) {
			v.addMul(p.weight[k], q)
			if p.largest[k] != was[k] && k < len(share) {
				share[k] = min(mulDiv(q, 1<<shareShift, p.largest[k]), 1<<shareShift)
			}
		}
		p.worth[d] = max(1, int64(v.hi<<(64-weightShift+worthShift)|v.lo>>(weightShift-worthShift)))
	}
	p.strata = &strata{}
	if !p.flat {
		p.strata = p.strataOf(left)
	}
	if x := p.strata; len(x.list) > 1 {
		x.price(p.free[:nd], nil)
		v := x.worth().micro()
		p.flat = v-least <= mulDiv(least, p.s.pol.MaxGapPPM, 1_000_000)
		if v > least {
			least = v
			for d, at := range x.of {
				if at < 0 {
					continue
				}
				var v wide
				for k := range nd {
					v.addMul(x.u[at][k], p.demands[d].c.req[k])
				}
				p.worth[d] = max(p.worth[d], int64(v.hi<<(64-weightShift+worthShift)|v.lo>>(weightShift-worthShift)))
			}
		}
	}
	for d, v := range p.dear {
		p.worth[d] = max(1, int64(float64(p.worth[d])*v))
	}
	for d := range p.demands {
		p.plain[d], p.lean[d] = p.worth[d], p.worth[d]>>leanShift+1
	}
	return least
}

// steady takes for the price of resources the mean of what it would be were there an eighth more of one or of another of them. Of two that are nearly
// as scarce all of the price falls on one, and fills would waste the other, and then the other way round.
func (p *packing) steady(total []float64) {
	var sum [maxDims]int64
	n, nd := int64(0), p.s.nd
	for k := range p.s.dims {
		if total[k] == 0 {
			continue
		}
		was := total[k]
		total[k] += was / 8
		u := p.ofMachines().at(total)
		total[k] = was
		n++
		for j := range nd {
			sum[j] += u[j]
		}
	}
	for j := range nd {
		if n > 0 {
			p.weight[j] = sum[j] / n
		}
	}
}

// leanShift takes digits off a worth, so that its product with a share does not overflow.
const leanShift = 8

// dearest is the price of the cheapest machine that holds one pod of a demand, for the demand where that is most: whatever the plan, it
// has such a machine.
func (p *packing) dearest(left []int64) (most int64) {
	if len(left) > 64 {
		return 0 // among so many one machine is nothing
	}
	for d, n := range left {
		least := int64(-1)
		for _, m := range p.machines {
			if n > 0 && p.admits(m, d) && (least < 0 || m.price < least) && fitsIn(&p.demands[d].c.req, &m.avail, p.s.nd) {
				least = m.price
			}
		}
		most = max(most, least)
	}
	return most
}

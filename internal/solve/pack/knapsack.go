// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/lp"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// knapsack finds the pattern of one machine that is worth most. Its relaxation gives each resource of the machine a
// price; a pattern's worth is then what it uses at these prices, less what each pod falls short of paying for that.
// So the best pattern is the one with the least loss: what is left over, at these prices, and pods worth less than
// they use.
type knapsack struct {
	p       *Packing
	machine *Machine
	whole   []int64
	prices  [problem.MaxDims]int64 // micro-dollars << PriceShift
	items   []knapsackItem
	free    problem.Vec
	counts  []int64 // by item
	best    []int64
	least   int64 // loss of best, micro-dollars << DualShift
	nodes   int
}

// knapsackItem is a demand in a knapsack.
type knapsackItem struct {
	demand int
	at     int // place in the list it was taken from
	req    *problem.Vec
	most   int64
	base   int64 // what the relaxation takes, rounded down
	loss   int64 // of one pod; negative: worth more than it uses, which happens where few may be taken
	size   int64 // the largest part of the machine's resources that a pod takes, in parts of 1<<20
}

// maxKnapsackItems and maxKnapsackNodes limit the search for one pattern.
const (
	maxKnapsackItems = 28
	maxKnapsackNodes = 400
)

// prepareItems solves the relaxation and lists the demands whose values come closest to the price of what they use.
func (k *knapsack) prepareItems() {
	p, nd := k.p, k.p.In.NumDims
	var ds []int
	for d, n := range k.whole {
		if n > 0 && p.Market.MachineAdmits(k.machine, d) && problem.IsWithin(&p.Market.Demands[d].Class.Req, &k.machine.Available, nd) {
			ds = append(ds, d)
		}
	}
	var amount []float64
	var upper []int64
	if p.Market.maxEach != nil {
		upper = make([]int64, len(ds))
		for i, d := range ds {
			upper[i] = min(p.Market.maxEach[d], problem.TimesIn(&p.Market.Demands[d].Class.Req, &k.machine.Available, nd))
		}
	}
	k.prices, amount = p.Prices.RelaxKnapsack(k.machine, ds, upper)
	type near struct {
		by int64 // what it falls short of paying, in proportion to its room
		i  int
	}
	list := make([]near, 0, len(ds))
	all := make([]knapsackItem, len(ds))
	for i, d := range ds {
		req := &p.Market.Demands[d].Class.Req
		most := min(k.whole[d], problem.TimesIn(req, &k.machine.Available, nd), p.Market.maxPodsOf(d))
		if p.Market.Restricted[d] {
			most = min(most, p.podsNeighboursAllow(d, k.machine, &problem.Occupancy{Ports: k.machine.ports}))
		}
		if most <= 0 {
			continue
		}
		it := knapsackItem{demand: d, req: req, most: most, base: min(most, int64(amount[i])), loss: k.capacityCost(req) - p.Prices.Dual[d]}
		for j := range nd {
			if k.machine.Available[j] > 0 {
				it.size = max(it.size, problem.MulDiv(req[j], 1<<20, k.machine.Available[j]))
			}
		}
		all[i] = it
		list = append(list, near{it.loss * (1 << 20) / (it.size + 1), i})
	}
	p.Work.Steps += int64(len(ds) * nd * 4)
	slices.SortFunc(list, func(a, b near) int { return cmp.Or(cmp.Compare(a.by, b.by), cmp.Compare(a.i, b.i)) })
	k.items = k.items[:0]
	for _, x := range list[:min(len(list), maxKnapsackItems)] {
		k.items = append(k.items, all[x.i])
	}
	slices.SortStableFunc(k.items, func(a, b knapsackItem) int { return cmp.Compare(b.size, a.size) })
}

// RelaxKnapsack solves the fractional knapsack of one machine over the demands ds. most limits the number of pods of
// each demand; nil means no limit. It returns prices of the machine's resources (micro-dollars << PriceShift) and the
// amount of each demand. Any prices give a valid bound; these prices make it tight.
func (p *Prices) RelaxKnapsack(m *Machine, ds []int, most []int64) (w [problem.MaxDims]int64, amount []float64) {
	nd := p.In.NumDims
	gain, rows, limit := make([]float64, len(ds)), make([][]float64, nd), make([]float64, nd)
	for j := range rows {
		rows[j], limit[j] = make([]float64, len(ds)), 1
	}
	var upper []float64
	if most != nil {
		upper = make([]float64, len(ds))
	}
	for i, d := range ds {
		gain[i] = float64(p.Dual[d])
		for j := range nd {
			if m.Available[j] > 0 {
				rows[j][i] = float64(p.Market.Demands[d].Class.Req[j]) / float64(m.Available[j])
			}
		}
		if most != nil {
			upper[i] = float64(most[i])
		}
	}
	amount, dual, pivots, _ := lp.MaximizeWithin(gain, rows, limit, upper, 60+4*len(upper))
	p.Work.Steps += int64(pivots * nd * len(ds))
	for j := range nd {
		if m.Available[j] > 0 {
			if v := dual[j] / float64(m.Available[j]) * (1 << (problem.PriceShift - problem.DualShift)); v > 0 && v < 1<<60 {
				w[j] = int64(v)
			}
		}
	}
	return w, amount
}

// capacityCost is what an amount of resources costs at w, micro-dollars << DualShift.
func (k *knapsack) capacityCost(v *problem.Vec) int64 {
	var sum problem.Sum128
	for j := range k.p.In.NumDims {
		if v[j] > 0 {
			sum.AddProduct(k.prices[j], v[j])
		}
	}
	return sum.Dual()
}

// search starts from what the relaxation takes, rounded down, less a pod or two of each to make room for others, and
// fills the rest by trying counts, large pods first and many before few. It keeps the pattern with the least loss.
func (k *knapsack) search(f *Pattern) {
	k.prepareItems()
	k.counts, k.best = make([]int64, len(k.items)), make([]int64, len(k.items))
	k.least = k.capacityCost(&k.machine.Available) + 1
	for less := range int64(3) {
		k.free, k.nodes = k.machine.Available, 0
		loss := int64(0)
		for i := range k.items {
			it := &k.items[i]
			k.counts[i] = max(0, it.base-less)
			loss += it.loss * k.counts[i]
			for j := range k.p.In.NumDims {
				k.free[j] -= it.req[j] * k.counts[i]
			}
		}
		k.branch(0, loss)
		k.p.Work.Steps += int64(k.nodes * (k.p.In.NumDims + 2))
	}
	f.items, f.worth = f.items[:0], 0
	for i, n := range k.best {
		if n > 0 {
			f.items = append(f.items, Item{Demand: k.items[i].demand, Count: n})
			f.worth += k.p.Prices.Dual[k.items[i].demand] * n
		}
	}
	slices.SortFunc(f.items, func(a, b Item) int { return cmp.Compare(a.Demand, b.Demand) })
}

// branch tries counts of the items from i on.
func (k *knapsack) branch(i int, loss int64) {
	k.nodes++
	if i == len(k.items) {
		if total := loss + k.capacityCost(&k.free); total < k.least {
			k.least = total
			copy(k.best, k.counts)
		}
		return
	}
	if loss >= k.least || k.nodes > maxKnapsackNodes {
		return
	}
	it, nd := &k.items[i], k.p.In.NumDims
	if !problem.IsWithin(it.req, &k.free, nd) || k.counts[i] >= it.most {
		k.branch(i+1, loss)
		return
	}
	base := k.counts[i]
	most := min(it.most-base, problem.TimesIn(it.req, &k.free, nd))
	for n := most; n >= 0 && k.nodes <= maxKnapsackNodes; n-- {
		k.counts[i] = base + n
		for j := range nd {
			k.free[j] -= it.req[j] * n
		}
		k.branch(i+1, loss+it.loss*n)
		for j := range nd {
			k.free[j] += it.req[j] * n
		}
	}
	k.counts[i] = base
}

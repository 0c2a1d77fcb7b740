// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// CeilingShift is the number of fractional bits of a ceiling, in micro-dollars per hour.
const CeilingShift = problem.DualShift

// PatternCeiling returns an upper bound on the value of any pattern of the machine at the duals, micro-dollars <<
// CeilingShift: the value of its capacity at some resource prices plus, for each demand worth more than its resources,
// the difference times the maximum number in a pattern. Any prices give a valid ceiling; good ones are found by relaxing
// the pattern. ds and amount are the pattern behind it, possibly fractional.
func (p *Prices) PatternCeiling(m *Machine, whole []int64, price int64) (top int64, ds []int, amount []float64) {
	var most []int64
	ds, most = p.Market.patternCandidates(m, whole)
	var w [problem.MaxDims]int64
	w, amount = p.RelaxKnapsack(m, ds, most)
	top = p.CeilingAtPrices(m, ds, most, &w)
	if top > price && !m.searchFutile && p.In.Runs(stageCeilingSearch) && p.Market.isSearchable(m, ds) && p.Work.Steps < p.Work.StepLimit {
		v, whole, done := p.lowerCeiling(m, ds, most, price, top)
		if v < top {
			top = v
		}
		if whole != nil {
			amount = whole
		}
		m.searchFutile = !done // not to be tried again: the bound will make do with fractions
	}
	return top, ds, amount
}

// CeilingAtPrices returns the ceiling at given resource prices, rounded up.
func (p *Prices) CeilingAtPrices(m *Machine, ds []int, most []int64, w *[problem.MaxDims]int64) int64 {
	nd := p.In.NumDims
	up := func(v problem.Sum128) int64 { // to DualShift digits
		lo, c := bits.Add64(v.Lo, 1<<(problem.PriceShift-problem.DualShift)-1, 0)
		return int64((v.Hi+c)<<(64-problem.PriceShift+problem.DualShift) | lo>>(problem.PriceShift-problem.DualShift))
	}
	var room problem.Sum128
	for k := range nd {
		if m.Available[k] > 0 {
			room.AddProduct(w[k], m.Available[k])
		}
	}
	sum := up(room)
	for i, d := range ds {
		var v problem.Sum128
		for k := range nd {
			v.AddProduct(w[k], p.Market.Demands[d].Class.Req[k])
		}
		down := v.Dual()
		if gain := p.Dual[d] - down; gain > 0 {
			sum += gain * most[i]
		}
	}
	return sum
}

// lowerCeiling lowers a ceiling by trying patterns. amount is the best one found that is worth more than the price,
// nil if none is. Where trying all that might be worth more than the price takes too many steps, those are tried that
// might be worth a little more than it, and more and more; done says that one of these came to an end. What could not
// be shown stays as it was.
func (p *Prices) lowerCeiling(m *Machine, ds []int, most []int64, price, ceiling int64) (top int64, amount []float64, done bool) {
	x := ceilingSearch{p: p, numDims: p.In.NumDims}
	x.prepareItems(m, ds, most)
	x.counts, x.best = make([]int64, len(x.items)), make([]int64, len(x.items))
	for _, ppm := range [...]int64{0, 2_000, 5_000, 10_000, 20_000, 40_000} {
		x.target = max(x.target, price+problem.MulDiv(price, ppm, 1_000_000))
		if x.target >= ceiling || p.Work.Steps >= p.Work.StepLimit {
			break
		}
		x.steps, x.free = maxSearchSteps, m.Available
		done = x.branch(0, 0)
		p.Work.Steps += (maxSearchSteps - max(0, x.steps)) * int64(len(x.prices)*x.numDims)
		if done {
			ceiling = x.target
			break
		}
	}
	if x.found {
		amount = make([]float64, len(ds))
		for i, n := range x.best {
			amount[x.items[i].at] = float64(n)
		}
	}
	return ceiling, amount, done
}

// maxSearchItems is the maximum number of demands in a search: with more, it rarely finishes. For a machine that holds
// at most maxSearchPods pods, it is maxSearchItemsFewPods.
const (
	maxSearchItems        = 40
	maxSearchItemsFewPods = 80
	maxSearchPods         = 5
)

// isSearchable reports whether a search of the machine's patterns has a chance to end.
func (p *Market) isSearchable(m *Machine, ds []int) bool {
	if len(ds) <= maxSearchItems {
		return true
	}
	if len(ds) > maxSearchItemsFewPods {
		return false
	}
	for _, d := range ds {
		if problem.TimesIn(&p.Demands[d].Class.Req, &m.Available, p.In.NumDims) > maxSearchPods {
			return false
		}
	}
	return true
}

// maxSearchSteps bounds one try of lowerCeiling.
const maxSearchSteps = int64(20_000)

// ceilingSearch is the branch and bound behind lowerCeiling. At each node it knows, for what is free and the items
// still to come, several ceilings, each by its own resource prices, and gives a branch up as soon as one of them
// shows it hopeless.
type ceilingSearch struct {
	p       *Prices
	numDims int
	items   []knapsackItem
	prices  [][problem.MaxDims]int64
	gain    [][]int64 // by prices and item: what this item and those after it may be worth beyond their resources
	rare    int       // the resource that fewest items ask for, -1 if all ask for all; those that do come first
	common  [problem.MaxDims]int64
	unit    []int64 // by item: what a unit of the rare resource is worth at most from here on, at common prices
	rest    []int64 // and what the items that do not ask for it are worth beyond their resources
	free    problem.Vec
	target  int64
	steps   int64
	counts  []int64 // by item: in the pattern being tried
	best    []int64 // the last fill that was worth more than the target
	found   bool
}

// prepareItems orders the items: those that ask for what others do not first, large before small; and finds prices
// for the whole and for the ends of the list.
func (x *ceilingSearch) prepareItems(m *Machine, ds []int, most []int64) {
	var asked [problem.MaxDims]int
	for i, d := range ds {
		it := knapsackItem{demand: d, at: i, req: &x.p.Market.Demands[d].Class.Req, most: most[i]}
		for k := range x.numDims {
			if it.req[k] > 0 {
				asked[k]++
			}
			if m.Available[k] > 0 {
				it.size = max(it.size, problem.MulDiv(it.req[k], 1<<20, m.Available[k]))
			}
		}
		x.items = append(x.items, it)
	}
	x.rare = -1
	for k := range x.p.In.Dims {
		if asked[k] > 0 && asked[k] < len(ds) && (x.rare < 0 || asked[k] < asked[x.rare]) {
			x.rare = k
		}
	}
	isRare := func(it *knapsackItem) bool { return x.rare >= 0 && it.req[x.rare] > 0 }
	slices.SortStableFunc(x.items, func(a, b knapsackItem) int {
		if ra, rb := isRare(&a), isRare(&b); ra != rb {
			if ra {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.size, a.size)
	})
	n, rare := len(x.items), 0
	for rare < n && isRare(&x.items[rare]) {
		rare++
	}
	common := x.pricesFrom(m, rare)
	x.orderRare(rare, &common)
	for _, from := range [...]int{0, rare, rare + (n-rare)/8, rare + (n-rare)/4, rare + (n-rare)/2} {
		if from < n {
			x.prices = append(x.prices, x.pricesFrom(m, from))
		}
	}
	for _, w := range x.prices {
		gain := make([]int64, n+1)
		for i := n - 1; i >= 0; i-- {
			it := &x.items[i]
			gain[i] = gain[i+1] + max(0, x.p.Dual[it.demand]-costAt(&w, it.req, x.numDims))*it.most
		}
		x.gain = append(x.gain, gain)
	}
}

// orderRare puts the items that ask for the rare resource in the order of what they are worth beyond their other
// resources, for a unit of it: from any of them on, none makes more of a unit than the first.
func (x *ceilingSearch) orderRare(rare int, common *[problem.MaxDims]int64) {
	x.common, x.unit = *common, make([]int64, len(x.items)+1)
	if rare == 0 {
		return
	}
	x.common[x.rare] = 0
	each := func(it *knapsackItem) int64 {
		return max(0, x.p.Dual[it.demand]-costAt(&x.common, it.req, x.numDims))/it.req[x.rare] + 1
	}
	slices.SortStableFunc(x.items[:rare], func(a, b knapsackItem) int { return cmp.Compare(each(&b), each(&a)) })
	for i := rare - 1; i >= 0; i-- {
		x.unit[i] = max(x.unit[i+1], each(&x.items[i]))
	}
	x.rest = make([]int64, len(x.items)+1)
	for i := len(x.items) - 1; i >= rare; i-- {
		it := &x.items[i]
		x.rest[i] = x.rest[i+1] + max(0, x.p.Dual[it.demand]-costAt(&x.common, it.req, x.numDims))*it.most
	}
	for i := range rare {
		x.rest[i] = x.rest[rare]
	}
}

// pricesFrom are resource prices of the machine for the items from one on.
func (x *ceilingSearch) pricesFrom(m *Machine, from int) [problem.MaxDims]int64 {
	var ds []int
	var most []int64
	for _, it := range x.items[from:] {
		ds, most = append(ds, it.demand), append(most, it.most)
	}
	w, _ := x.p.RelaxKnapsack(m, ds, most)
	return w
}

// branch tries all ways to go on from item i, in patterns worth this much so far, that may be worth more than the
// target, and raises the target to the most that it finds. It reports whether it came to an end within the steps
// allowed.
func (x *ceilingSearch) branch(i int, worth int64) bool {
	if x.steps--; x.steps < 0 {
		return false
	}
	for j := range x.prices {
		if worth+costAt(&x.prices[j], &x.free, x.numDims)+1+x.gain[j][i] <= x.target {
			return true
		}
	}
	if x.rest != nil && worth+costAt(&x.common, &x.free, x.numDims)+1+x.unit[i]*max(0, x.free[x.rare])+x.rest[i] <= x.target {
		return true
	}
	for i < len(x.items) && !problem.IsWithin(x.items[i].req, &x.free, x.numDims) {
		i++
		x.steps--
	}
	if i == len(x.items) {
		if worth > x.target {
			x.target, x.found = worth, true
			copy(x.best, x.counts)
		}
		return true
	}
	it := &x.items[i]
	was := x.free
	for n := min(it.most, problem.TimesIn(it.req, &x.free, x.numDims)); n >= 0; n-- {
		x.free, x.counts[i] = was, n
		for k := range x.numDims {
			x.free[k] -= it.req[k] * n
		}
		if !x.branch(i+1, worth+x.p.Dual[it.demand]*n) {
			x.counts[i] = 0
			return false
		}
		if i+1 == len(x.items) {
			break // fewer of the last are worth less
		}
	}
	x.free, x.counts[i] = was, 0
	return true
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/lp"
)

// knapsack finds the fill of one machine that is worth most. Its relaxation gives each resource of the machine a price w; a fill's
// worth is then w times the room it uses, less what each pod falls short of the room it takes. So the best fill is the one with the
// least loss: room left over, at w, and pods worth less than their room.
type knapsack struct {
	p     *packing
	m     *machine
	whole []int64
	w     [maxDims]int64 // micro-dollars << weightShift
	items []sackItem
	rem   vec
	n     []int64 // by item
	best  []int64
	least int64 // loss of best, micro-dollars << worthShift
	nodes int
}

type sackItem struct {
	d    int
	at   int // place in the list it was taken from
	req  *vec
	most int64
	base int64 // what the relaxation takes, rounded down
	loss int64 // of one pod; negative: worth more than its room, which happens where few may be taken
	size int64
}

// maxSackItems and maxSackNodes bound the search of one fill.
const (
	maxSackItems = 28
	maxSackNodes = 400
)

// relax solves the relaxation and lists the demands that come nearest to paying for their room.
func (k *knapsack) relax() {
	p, nd := k.p, k.p.s.nd
	var ds []int
	for d, n := range k.whole {
		if n > 0 && p.admits(k.m, d) && fitsIn(&p.demands[d].c.req, &k.m.avail, nd) {
			ds = append(ds, d)
		}
	}
	var amount []float64
	var upper []int64
	if p.most != nil {
		upper = make([]int64, len(ds))
		for i, d := range ds {
			upper[i] = min(p.most[d], timesIn(&p.demands[d].c.req, &k.m.avail, nd))
		}
	}
	k.w, amount = p.relax(k.m, ds, upper)
	type near struct {
		by int64 // what it falls short of paying, in proportion to its room
		i  int
	}
	list := make([]near, 0, len(ds))
	all := make([]sackItem, len(ds))
	for i, d := range ds {
		req := &p.demands[d].c.req
		most := min(k.whole[d], timesIn(req, &k.m.avail, nd), p.atMost(d))
		if p.hosted[d] {
			most = min(most, p.hostRoom(d, k.m, &guests{ports: k.m.ports}))
		}
		if most <= 0 {
			continue
		}
		it := sackItem{d: d, req: req, most: most, base: min(most, int64(amount[i])), loss: k.room(req) - p.worth[d]}
		for j := range nd {
			if k.m.avail[j] > 0 {
				it.size = max(it.size, mulDiv(req[j], 1<<20, k.m.avail[j]))
			}
		}
		all[i] = it
		list = append(list, near{it.loss * (1 << 20) / (it.size + 1), i})
	}
	p.s.work += int64(len(ds) * nd * 4)
	slices.SortFunc(list, func(a, b near) int { return cmp.Or(cmp.Compare(a.by, b.by), cmp.Compare(a.i, b.i)) })
	k.items = k.items[:0]
	for _, x := range list[:min(len(list), maxSackItems)] {
		k.items = append(k.items, all[x.i])
	}
	slices.SortStableFunc(k.items, func(a, b sackItem) int { return cmp.Compare(b.size, a.size) })
}

// relax relaxes the knapsack of one machine over some demands: fractions of pods, and no more than most of each, nil: as many as have room. It
// returns the prices of the machine's resources (any would do for a bound, these make it tight) and the amounts taken.
func (p *packing) relax(m *machine, ds []int, most []int64) (w [maxDims]int64, amount []float64) {
	nd := p.s.nd
	gain, rows, limit := make([]float64, len(ds)), make([][]float64, nd), make([]float64, nd)
	for j := range rows {
		rows[j], limit[j] = make([]float64, len(ds)), 1
	}
	var upper []float64
	if most != nil {
		upper = make([]float64, len(ds))
	}
	for i, d := range ds {
		gain[i] = float64(p.worth[d])
		for j := range nd {
			if m.avail[j] > 0 {
				rows[j][i] = float64(p.demands[d].c.req[j]) / float64(m.avail[j])
			}
		}
		if most != nil {
			upper[i] = float64(most[i])
		}
	}
	amount, dual, pivots, _ := lp.MaximizeWithin(gain, rows, limit, upper, 60+4*len(upper))
	p.s.work += int64(pivots * nd * len(ds))
	for j := range nd {
		if m.avail[j] > 0 {
			if v := dual[j] / float64(m.avail[j]) * (1 << (weightShift - worthShift)); v > 0 && v < 1<<60 {
				w[j] = int64(v)
			}
		}
	}
	return w, amount
}

// room is what an amount of resources costs at w, micro-dollars << worthShift.
func (k *knapsack) room(v *vec) int64 {
	var sum wide
	for j := range k.p.s.nd {
		if v[j] > 0 {
			sum.addMul(k.w[j], v[j])
		}
	}
	return int64(sum.hi<<(64-weightShift+worthShift) | sum.lo>>(weightShift-worthShift))
}

// search starts from what the relaxation takes, rounded down, less a pod or two of each to make room for others, and fills the rest by
// trying counts, the large ones first and many before few. It keeps the fill with the least loss.
func (k *knapsack) search(f *fill) {
	k.relax()
	k.n, k.best = make([]int64, len(k.items)), make([]int64, len(k.items))
	k.least = k.room(&k.m.avail) + 1
	for less := range int64(3) {
		k.rem, k.nodes = k.m.avail, 0
		loss := int64(0)
		for i := range k.items {
			it := &k.items[i]
			k.n[i] = max(0, it.base-less)
			loss += it.loss * k.n[i]
			for j := range k.p.s.nd {
				k.rem[j] -= it.req[j] * k.n[i]
			}
		}
		k.try(0, loss)
		k.p.s.work += int64(k.nodes * (k.p.s.nd + 2))
	}
	f.items, f.value = f.items[:0], 0
	for i, n := range k.best {
		if n > 0 {
			f.items = append(f.items, item{k.items[i].d, n})
			f.value += k.p.worth[k.items[i].d] * n
		}
	}
	slices.SortFunc(f.items, func(a, b item) int { return cmp.Compare(a.d, b.d) })
}

func (k *knapsack) try(i int, loss int64) {
	k.nodes++
	if i == len(k.items) {
		if total := loss + k.room(&k.rem); total < k.least {
			k.least = total
			copy(k.best, k.n)
		}
		return
	}
	if loss >= k.least || k.nodes > maxSackNodes {
		return
	}
	it, nd := &k.items[i], k.p.s.nd
	if !fitsIn(it.req, &k.rem, nd) || k.n[i] >= it.most {
		k.try(i+1, loss)
		return
	}
	base := k.n[i]
	most := min(it.most-base, timesIn(it.req, &k.rem, nd))
	for n := most; n >= 0 && k.nodes <= maxSackNodes; n-- {
		k.n[i] = base + n
		for j := range nd {
			k.rem[j] -= it.req[j] * n
		}
		k.try(i+1, loss+it.loss*n)
		for j := range nd {
			k.rem[j] += it.req[j] * n
		}
	}
	k.n[i] = base
}

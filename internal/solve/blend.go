// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

// blend is what pods are worth where there are too many classes for a column each. Pods that may go to the same machines and ask for resources
// in nearly the same proportion are one mixture, of which a machine holds any amount: as much of each resource as the pod of it that asks for
// least, in proportion. Unlike prices of resources, a mixture must find all it asks for on one machine; unlike columns of pods, it knows nothing of
// what is left over between them.
type blend struct {
	p      *packing // of mixtures: amounts are << blendShift
	of     []int    // by demand: its mixture, -1: none
	amount []int64  // by demand: how much one pod is of its mixture, << amountShift
}

const (
	blendShift  = 10
	amountShift = 30
	maxBlends   = 256
)

// blended makes the mixtures of a packing's demands; nil where there are none to speak of.
func (p *packing) blended(whole []int64) *blend {
	x := p.strataOf(whole)
	nd := p.s.nd
	var mean vec // what a pod asks for on the whole: in that measure proportions are told apart
	pods := int64(0)
	for d, y := range p.demands {
		pods += whole[d]
		for k := range nd {
			mean[k] += whole[d] * y.c.req[k]
		}
	}
	for k := range nd {
		if mean[k] > 0 {
			mean[k] = max(1, mean[k]/pods)
		}
	}
	b := &blend{of: make([]int, len(p.demands)), amount: make([]int64, len(p.demands))}
	shape := make([]vec, len(p.demands)) // parts of the amount, << amountShift
	for d, y := range p.demands {
		if b.of[d] = -1; x.of[d] < 0 {
			continue
		}
		for k := range nd {
			if y.c.req[k] > 0 && mean[k] > 0 {
				b.amount[d] = max(b.amount[d], mulDiv(y.c.req[k], 1<<amountShift, mean[k]))
			}
		}
		for k := range nd {
			if b.amount[d] > 0 && y.c.req[k] > 0 && mean[k] > 0 {
				shape[d][k] = mulDiv(mulDiv(y.c.req[k], 1<<amountShift, mean[k]), 1<<amountShift, b.amount[d])
			}
		}
	}
	type key struct {
		stratum int
		shape   vec
	}
	for digits := 5; digits >= 0; digits-- {
		q := &packing{s: p.s}
		ids := map[key]int{}
		for d, y := range p.demands {
			if x.of[d] < 0 || b.amount[d] == 0 {
				continue
			}
			k := key{x.of[d], shape[d]}
			for i, v := range k.shape {
				k.shape[i] = v >> (amountShift - digits)
			}
			at, ok := ids[k]
			if !ok {
				at = len(q.demands)
				ids[k] = at
				q.demands = append(q.demands, &demand{c: &class{}})
				q.maskOf = append(q.maskOf, k.stratum)
				q.hosted = append(q.hosted, false)
			}
			b.of[d] = at
			c := q.demands[at].c
			for i := range nd {
				least := mulDiv(y.c.req[i], 1<<(amountShift+blendShift), b.amount[d])
				if !ok || least < c.req[i] {
					c.req[i] = least
				}
			}
			q.demands[at].n += whole[d] * b.amount[d]
		}
		if len(q.demands) > maxBlends {
			continue
		}
		if len(q.demands) == 0 {
			return nil
		}
		for i, m := range p.machines {
			if m.stock >= 0 {
				return nil // it would have to be seen what these can save
			}
			c := &machine{price: m.price, effort: m.price, stock: -1, admits: []uint64{0}}
			for k := range nd {
				c.avail[k] = m.avail[k] << blendShift
			}
			for j := range x.list {
				if x.list[j].has(i) {
					c.admits[0] |= 1 << j
				}
			}
			q.machines = append(q.machines, c)
		}
		q.worth = make([]int64, len(q.demands))
		b.p = q
		return b
	}
	return nil
}

// price solves the program over mixtures and returns what a pod of each demand is worth, micro-dollars << worthShift: a certificate. It ends early when the work allowed is done.
func (b *blend) price(until int64) []int64 {
	q := b.p
	t := &master{p: q, bare: true}
	by := make([][]int, len(q.machines)) // what each may hold
	for d, y := range q.demands {
		best, bestN := -1, 0.0
		for i, m := range q.machines {
			if !q.admits(m, d) {
				continue
			}
			n := q.holds(m, d)
			if n > 0 {
				by[i] = append(by[i], d)
			}
			if n > 0 && (best < 0 || n*float64(q.machines[best].price) > bestN*float64(m.price)) {
				best, bestN = i, n
			}
		}
		if best < 0 {
			return nil
		}
		t.rowOf, t.rows, t.need = append(t.rowOf, d), append(t.rows, d), append(t.need, float64(y.n)/(1<<amountShift))
		t.cols = append(t.cols, column{m: best, items: []item{{d: d}}, part: []float64{bestN}})
	}
	most := make([][]int64, len(q.machines))
	for mi, m := range q.machines {
		for _, d := range by[mi] {
			most[mi] = append(most[mi], timesIn(&q.demands[d].c.req, &m.avail, q.s.nd)+1)
		}
	}
	t.begin()
	best, held := -1.0, 0.0
	proven, scaled := make([]float64, len(t.rows)), make([]int64, len(t.rows))
	for q.s.work < until {
		for i := range t.rows {
			q.worth[i] = int64((float64(held*proven[i]) + float64((1-held)*max(0, t.y[i]))) * (1 << worthShift))
		}
		num, den := int64(1), int64(1)
		var found []column
		for mi, m := range q.machines {
			w, amount := q.relax(m, by[mi], nil)
			top := q.ceilingAt(m, by[mi], most[mi], &w)
			if price := m.price << ceilingShift; top > price && less(price, top, num, den) {
				num, den = price, top
			}
			c := column{m: mi}
			for i, d := range by[mi] {
				if amount[i] > 1e-9 {
					c.items, c.part = append(c.items, item{d: d}), append(c.part, amount[i])
				}
			}
			if len(c.items) > 0 {
				found = append(found, c)
			}
		}
		bound := 0.0
		for i := range t.rows {
			bound += float64(float64(q.worth[i]) * t.need[i])
		}
		if bound *= float64(num) / float64(den) / (1 << worthShift); bound > best {
			best = bound
			for i := range t.rows {
				proven[i] = float64(q.worth[i]) / (1 << worthShift)
				scaled[i] = mulDiv(q.worth[i], num, den)
			}
		}
		var done bool
		if held, done = t.again(found, best, held); done {
			break
		}
	}
	out := make([]int64, len(b.of))
	for d, at := range b.of {
		if at >= 0 {
			out[d] = mulDiv(scaled[at], b.amount[d], 1<<amountShift)
		}
	}
	return out
}

// holds is how much of a mixture a machine holds.
func (p *packing) holds(m *machine, d int) float64 {
	n := -1.0
	for k, r := range p.demands[d].c.req[:p.s.nd] {
		if r > 0 {
			if v := float64(max(0, m.avail[k])) / float64(r); n < 0 || v < n {
				n = v
			}
		}
	}
	return n
}

// boundByBlends is the bound from what pods are worth as parts of mixtures.
func (s *solver) boundByBlends(groups []*boundGroup, ls []level, useful []int, u *[maxDims]int64) int64 {
	if len(useful)*len(s.proven) > maxAsked || len(s.start.stock) > 0 {
		return 0
	}
	var worth []int64
	by := map[int]int64{}
	for gi, g := range groups {
		if len(g.classes) == 0 {
			continue
		}
		p, whole := s.provingOf(ls[gi], g.classes)
		b := p.blended(whole)
		if b == nil {
			return 0
		}
		if worth = b.price(min(s.work+s.pol.Work/8, s.deadline)); worth == nil {
			return 0
		}
		for i, c := range g.classes {
			by[c.id] = worth[i]
		}
	}
	return max(0, s.lessRooms(by, useful, u)) >> worthShift
}

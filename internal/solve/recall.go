// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

// relaxShift says how near to the program's value the bound is to come, and how much above its price a machine's fills may be left until
// then: a part in so many powers of two.
const relaxShift = 10

// maxHeld is how much of the worths asked at are those that have proved most so far.
const maxHeld = 0.8

// recall looks for what pods are worth together at most, for the proof. The program counts prices alone now, and its columns are the best
// fills that can't be shown impossible, in fractions where need be: no plan comes of it any more. Each round asks at a mean of the
// program's prices and of those that have proved most, and mends them: see mend. It ends when nothing more can be proved, when the
// plan's cost is proven near enough, or when the work allowed is done.
func (t *master) recall(cost, until int64) {
	p, s := t.p, t.p.s
	t.bare, p.proving = true, true
	t.settle()
	whole := t.whole()
	best, held := -1.0, 0.0
	proven := make([]float64, len(t.rows)) // the worths behind best
	enough := float64(cost) / (1 + float64(s.pol.MaxGapPPM)/1e6)
	for s.work < until && best < enough {
		for i, d := range t.rows {
			p.worth[d] = int64((float64(held*proven[i]) + float64((1-held)*max(0, t.y[i]))) * (1 << worthShift))
		}
		scale := 1.0
		var found []column
		for mi, m := range p.machines {
			if m.stock < 0 {
				scale = min(scale, t.mend(mi, m, whole, &found))
			}
		}
		bound := 0.0
		for i, d := range t.rows {
			bound += float64(float64(p.worth[d]) * t.need[i])
		}
		if bound *= scale / (1 << worthShift); bound > best {
			best = bound
			for i, d := range t.rows {
				proven[i] = float64(p.worth[d]) / (1 << worthShift)
			}
		}
		var done bool
		if held, done = t.again(found, best, held); done {
			break
		}
	}
	if s.bare == nil {
		s.bare = map[int]int64{}
	}
	for i, d := range t.rows {
		id := p.demands[d].c.id
		v := int64(proven[i] * (1 << worthShift))
		if was, ok := s.bare[id]; ok {
			v = min(v, was)
		}
		s.bare[id] = v
	}
}

// maxMends is how many fills of a machine are made to pay in one round.
const maxMends = 20

// again adds the columns of a round and prices anew. It says how much of the next round's worths are to be those that have proved most,
// and whether there is none: what is proven is near enough to the program's value, or nothing new was found at its own prices.
func (t *master) again(found []column, best, held float64) (next float64, done bool) {
	better := false
	for _, c := range found {
		better = t.offer(c) || better
	}
	t.surplus()
	t.settle()
	switch {
	case best >= t.value()*(1-1.0/(1<<relaxShift)), !better && held == 0:
		return 0, true
	case better:
		return maxHeld, false
	case held > 0.1:
		return held / 2, false
	}
	return 0, false
}

// mend lowers worths until no fill of the machine is worth more than its price. Of the demands in a fill that is, the one gives way that
// there is least of for its part of the fill, for the bound loses least by it. The fills met go to found. What is returned is by how
// much all worths would have to be scaled where that was not enough.
func (t *master) mend(mi int, m *machine, whole []int64, found *[]column) float64 {
	p := t.p
	price := m.price << ceilingShift
	for range maxMends {
		top, ds, amount := p.ceiling(m, whole, price)
		if top <= price {
			return 1
		}
		c := column{m: mi}
		low, at := 0.0, -1
		for i, d := range ds {
			if amount[i] <= 1e-9 {
				continue
			}
			c.items, c.part = append(c.items, item{d: d}), append(c.part, amount[i])
			if q := t.need[t.rowOf[d]] / amount[i]; p.worth[d] > 0 && (at < 0 || q < low) {
				low, at = q, i
			}
		}
		if top > price+price>>relaxShift {
			*found = append(*found, c)
		}
		if at < 0 {
			break
		}
		p.worth[ds[at]] = max(0, p.worth[ds[at]]-int64(float64(top-price)/amount[at])-1)
	}
	top, _, _ := p.ceiling(m, whole, price)
	return min(1, float64(price)/float64(max(1, top)))
}

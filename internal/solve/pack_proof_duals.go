// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

// findProofDuals looks for the duals that prove most. The program counts prices alone now, and its columns are the
// best patterns that can't be shown impossible, in fractions where need be: no plan comes of it any more. Each round
// asks at a mean of the program's duals and of those that have proved most, and repairs them: see repairDuals. It
// ends when nothing more can be proved, when the plan's cost is proven near enough, or when the steps allowed are
// done. The duals are left in purchases.columnDuals.
func (t *master) findProofDuals(cost, until int64) {
	p, s := t.p, t.p.s
	t.pricesOnly, p.relaxed = true, true
	t.recompute()
	whole := t.demandTotals()
	best, held := -1.0, 0.0
	proven := make([]float64, len(t.rows)) // the dual prices behind best
	enough := float64(cost) / (1 + float64(s.policy.MaxGapPPM)/1e6)
	for s.steps < until && best < enough {
		for i, d := range t.rows {
			p.dual[d] = int64((float64(held*proven[i]) + float64((1-held)*max(0, t.y[i]))) * (1 << dualShift))
		}
		scale := 1.0
		var found []column
		for mi, m := range p.machines {
			if m.quantity < 0 {
				scale = min(scale, t.repairDuals(mi, m, whole, &found))
			}
		}
		bound := 0.0
		for i, d := range t.rows {
			bound += float64(float64(p.dual[d]) * t.need[i])
		}
		if bound *= scale / (1 << dualShift); bound > best {
			best = bound
			for i, d := range t.rows {
				proven[i] = float64(p.dual[d]) / (1 << dualShift)
			}
		}
		var done bool
		if held, done = t.addRound(found, best, held); done {
			break
		}
	}
	if s.columnDuals == nil {
		s.columnDuals = map[int]int64{}
	}
	for i, d := range t.rows {
		id := p.demands[d].class.id
		v := int64(proven[i] * (1 << dualShift))
		if was, ok := s.columnDuals[id]; ok {
			v = min(v, was)
		}
		s.columnDuals[id] = v
	}
}

// maxDualRepairs is how many patterns of a machine are made to pay in one round.
const maxDualRepairs = 20

// repairDuals lowers duals until no pattern of the machine is worth more than its price. Of the demands in a pattern
// that is, the one gives way that there is least of for its part of the pattern, for the bound loses least by it. The
// patterns met go to found. It returns by how much all duals would have to be scaled where that was not enough.
func (t *master) repairDuals(mi int, m *machine, whole []int64, found *[]column) float64 {
	p := t.p
	price := m.price << ceilingShift
	for range maxDualRepairs {
		top, ds, amount := p.patternCeiling(m, whole, price)
		if top <= price {
			return 1
		}
		c := column{machine: mi}
		low, at := 0.0, -1
		for i, d := range ds {
			if amount[i] <= 1e-9 {
				continue
			}
			c.items, c.fractions = append(c.items, item{demand: d}), append(c.fractions, amount[i])
			if q := t.need[t.rowOf[d]] / amount[i]; p.dual[d] > 0 && (at < 0 || q < low) {
				low, at = q, i
			}
		}
		if top > price+price>>toleranceShift {
			*found = append(*found, c)
		}
		if at < 0 {
			break
		}
		p.dual[ds[at]] = max(0, p.dual[ds[at]]-int64(float64(top-price)/amount[at])-1)
	}
	top, _, _ := p.patternCeiling(m, whole, price)
	return min(1, float64(price)/float64(max(1, top)))
}

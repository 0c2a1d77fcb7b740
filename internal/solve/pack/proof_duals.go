// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"github.com/dovetail-sh/dovetail/internal/solve/lp"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// findProofDuals looks for the duals that prove most. The program counts prices alone now, and its columns are the
// best patterns that can't be shown impossible, in fractions where need be: no plan comes of it any more. Each round
// asks at a mean of the program's duals and of those that have proved most, and repairs them: see repairDuals. It
// ends when nothing more can be proved, when the plan's cost is proven near enough, or when the steps allowed are
// done. The duals are left in Purchases.ColumnDuals.
func (t *master) findProofDuals(cost, until int64) {
	p, s := t.p, t.p.Market.Purchases
	t.Program.Cost, p.Market.Relaxed = PricesOf(p.Market.Machines), true
	t.Program.Recompute()
	whole := t.demandTotals()
	best, held := -1.0, 0.0
	proven := make([]float64, len(t.Program.Rows)) // the dual prices behind best
	enough := float64(cost) / (1 + float64(s.In.Policy.MaxGapPPM)/1e6)
	for s.Work.Steps < until && best < enough {
		for i, d := range t.Program.Rows {
			p.Prices.Dual[d] = int64((float64(held*proven[i]) + float64((1-held)*max(0, t.Program.Y[i]))) * (1 << problem.DualShift))
		}
		scale := 1.0
		var found []lp.Column
		for mi, m := range p.Market.Machines {
			if m.Quantity < 0 {
				scale = min(scale, t.repairDuals(mi, m, whole, &found))
			}
		}
		bound := 0.0
		for i, d := range t.Program.Rows {
			bound += float64(float64(p.Prices.Dual[d]) * t.Program.Need[i])
		}
		if bound *= scale / (1 << problem.DualShift); bound > best {
			best = bound
			for i, d := range t.Program.Rows {
				proven[i] = float64(p.Prices.Dual[d]) / (1 << problem.DualShift)
			}
		}
		var done bool
		if held, done = t.Program.AddRound(found, best, held); done {
			break
		}
	}
	if s.ColumnDuals == nil {
		s.ColumnDuals = map[int]int64{}
	}
	for i, d := range t.Program.Rows {
		id := p.Market.Demands[d].Class.ID
		v := int64(proven[i] * (1 << problem.DualShift))
		if was, ok := s.ColumnDuals[id]; ok {
			v = min(v, was)
		}
		s.ColumnDuals[id] = v
	}
}

// maxDualRepairs is how many patterns of a machine are made to pay in one round.
const maxDualRepairs = 20

// repairDuals lowers duals until no pattern of the machine is worth more than its price. Of the demands in a pattern
// that is, the one gives way that there is least of for its part of the pattern, for the bound loses least by it. The
// patterns met go to found. It returns by how much all duals would have to be scaled where that was not enough.
func (t *master) repairDuals(mi int, m *Machine, whole []int64, found *[]lp.Column) float64 {
	p := t.p
	price := m.Price << CeilingShift
	for range maxDualRepairs {
		top, ds, amount := p.Prices.PatternCeiling(m, whole, price)
		if top <= price {
			return 1
		}
		c := lp.Column{Machine: mi}
		low, at := 0.0, -1
		for i, d := range ds {
			if amount[i] <= 1e-9 {
				continue
			}
			c.Items, c.Fractions = append(c.Items, Item{Demand: d}), append(c.Fractions, amount[i])
			if q := t.Program.Need[t.Program.RowOf[d]] / amount[i]; p.Prices.Dual[d] > 0 && (at < 0 || q < low) {
				low, at = q, i
			}
		}
		if top > price+price>>lp.ToleranceShift {
			*found = append(*found, c)
		}
		if at < 0 {
			break
		}
		p.Prices.Dual[ds[at]] = max(0, p.Prices.Dual[ds[at]]-int64(float64(top-price)/amount[at])-1)
	}
	top, _, _ := p.Prices.PatternCeiling(m, whole, price)
	return min(1, float64(price)/float64(max(1, top)))
}

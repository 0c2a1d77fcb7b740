// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// copiesAvailable returns the first pool of a machine's family whose limits allow more machines, and the number of
// machines that these limits and the limited quantity allow.
func (p *Market) copiesAvailable(m *Machine) (pool int, n int64) {
	for _, pool = range p.Catalog.Families[m.pool].Pools {
		if n = p.Purchases.Limits[pool].CopiesAllowed(m.capacity); n > 0 {
			break
		}
	}
	if m.Quantity >= 0 {
		n = min(n, p.Purchases.Quantities[m.Quantity])
	}
	return pool, n
}

// chargeMachines charges machines to limits and limited quantities. A negative number of copies refunds them.
func (p *Market) chargeMachines(m *Machine, pool int, copies int64) {
	p.Purchases.Limits[pool].Charge(m.capacity, copies)
	if m.Quantity >= 0 {
		p.Purchases.Quantities[m.Quantity] -= copies
	}
}

// buyCopies buys copies of a pattern within the limits. If the limits allow none, it returns a zero batch.
func (p *Market) buyCopies(mi int, items []Item, copies int64, remaining []int64) batch {
	m := p.Machines[mi]
	pool, most := p.copiesAvailable(m)
	copies = min(copies, most)
	if copies <= 0 {
		return batch{}
	}
	for _, it := range items {
		remaining[it.Demand] -= it.Count * copies
	}
	p.chargeMachines(m, pool, copies)
	return batch{machine: m, pool: pool, items: slices.Clone(items), copies: copies}
}

// chargeBatches charges limits for batches that were refunded.
func (p *Market) chargeBatches(batches []batch) {
	for _, b := range batches {
		p.chargeMachines(b.machine, b.pool, b.copies)
	}
}

// refundBatches refunds the charges of batches to limits.
func (p *Market) refundBatches(batches []batch) {
	for _, b := range batches {
		p.chargeMachines(b.machine, b.pool, -b.copies)
	}
}

// adjustedCostOf returns the cost by which plans are compared: for each pattern, the adjusted cost of the machine that
// holds it at the lowest adjusted cost. That machine will be bought, whichever machine the pattern was made for. See
// moveToCheapestHolders.
func (p *Market) adjustedCostOf(batches []batch) (sum int64) {
	for i := range batches {
		sum += p.cheapestHolder(&batches[i]).AdjustedCost * batches[i].copies
	}
	return sum
}

// moveToCheapestHolders moves batches to their cheapest machines if these are in another pool, within its limits.
// Within a pool, a bin uses the cheapest machine anyway.
func (p *Market) moveToCheapestHolders(batches []batch) []batch {
	for i := range batches {
		b := &batches[i]
		m := p.cheapestHolder(b)
		for m.pool != b.machine.pool && b.copies > 0 {
			pool, n := p.copiesAvailable(m)
			if n = min(n, b.copies); n <= 0 {
				break
			}
			p.chargeMachines(b.machine, b.pool, -n)
			p.chargeMachines(m, pool, n)
			b.copies -= n
			batches = append(batches, batch{machine: m, pool: pool, items: b.items, copies: n})
			b = &batches[i]
		}
	}
	return slices.DeleteFunc(batches, func(b batch) bool { return b.copies == 0 })
}

// cheapestHolder returns the machine that holds a batch's pattern at the lowest adjusted cost. If the quantity of the
// batch's own machine is limited, it returns that machine, and otherwise a machine of unlimited quantity.
func (p *Market) cheapestHolder(b *batch) *Machine {
	least := b.machine
	if b.machine.Quantity >= 0 {
		return least
	}
	var sum problem.Vec
	for _, it := range b.items {
		c := p.Demands[it.Demand].Class
		if c.Occupies {
			return least
		}
		for k, v := range c.Req[:p.In.NumDims] {
			sum[k] += v * it.Count
		}
	}
	p.Work.Steps += int64(len(p.Machines)) / 4
	for _, m := range p.Machines {
		if m.AdjustedCost < least.AdjustedCost && m.Quantity < 0 && problem.IsWithin(&sum, &m.Available, p.In.NumDims) && !slices.ContainsFunc(b.items, func(it Item) bool { return !p.MachineAdmits(m, it.Demand) }) {
			least = m
		}
	}
	return least
}

// countPodsIn returns the number of pods in batches.
func countPodsIn(batches []batch) (n int64) {
	for _, b := range batches {
		for _, it := range b.items {
			n += it.Count * b.copies
		}
	}
	return n
}

// totalPrice returns the price of batches in micro-dollars per hour.
func totalPrice(batches []batch) (sum int64) {
	for _, b := range batches {
		sum += b.machine.Price * b.copies
	}
	return sum
}

// leavesNoMore reports whether a has no more remaining pods than b for any demand.
func leavesNoMore(a, b []int64) bool {
	for i := range a {
		if a[i] > b[i] {
			return false
		}
	}
	return true
}

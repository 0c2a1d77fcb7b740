// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"cmp"
	"slices"
)

// repair takes the machines that are used worst out of the plan, with a few others beside them, packs their pods again, and keeps
// what is cheaper; again and again until the work allowed is done or nothing more comes of it.
func (p *packing) repair(batches []batch, until int64) []batch {
	misses, enough := 0, p.floor+mulDiv(p.floor, p.s.pol.MaxGapPPM, 1_000_000)
	for round := 0; p.s.work < until && misses < maxMisses && priceOf(batches) > enough; round++ {
		keep, out := p.ruin(batches, round)
		left := make([]int64, len(p.demands))
		for _, b := range out {
			for _, it := range b.items {
				left[it.d] += it.n * b.copies
			}
		}
		was := p.effortOf(out)
		p.refund(out)
		p.price(left)
		again := p.pack(slices.Clone(left))
		if placed(again) != placed(out) || p.effortOf(again) >= was {
			p.refund(again)
			p.charge(out)
			misses++
			continue
		}
		misses = 0
		batches = append(keep, again...)
	}
	return batches
}

// maxMisses is how often in a row a repair may come to nothing.
const maxMisses = 12

// ruin splits off single copies: those with the lowest worth for their price, and every few of the others. How many and which others
// changes with the round.
func (p *packing) ruin(batches []batch, round int) (keep, out []batch) {
	type scored struct {
		i     int
		ratio float64
	}
	total := int64(0)
	list := make([]scored, len(batches))
	for i, b := range batches {
		v := int64(0)
		for _, it := range b.items {
			v += p.worth[it.d] * it.n
		}
		list[i] = scored{i, float64(v) / float64(b.m.effort)}
		total += b.copies
	}
	slices.SortStableFunc(list, func(a, b scored) int { return cmp.Compare(a.ratio, b.ratio) })
	worst := int64(4 + round%5*4)
	stride := 3 + int64(round*7)%11
	others, seen := int64(2+round%3*3), int64(0)
	for _, x := range list {
		b := batches[x.i]
		n := min(b.copies, worst)
		worst -= n
		if rest := b.copies - n; rest > 0 && others > 0 && worst == 0 {
			if seen += rest; seen > stride {
				seen = 0
				n++
				others--
			}
		}
		if n > 0 {
			out = append(out, batch{m: b.m, pool: b.pool, items: b.items, copies: n})
		}
		if n < b.copies {
			keep = append(keep, batch{m: b.m, pool: b.pool, items: b.items, copies: b.copies - n})
		}
	}
	return keep, out
}

// placed is how many pods batches hold.
func placed(batches []batch) (n int64) {
	for _, b := range batches {
		for _, it := range b.items {
			n += it.n * b.copies
		}
	}
	return n
}

// charge is the reverse of refund.
func (p *packing) charge(batches []batch) {
	for _, b := range batches {
		p.take(b.m, b.pool, b.copies)
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package problem

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// MinValues are the requirements of a pool with minValues: a minimum number of distinct values of a label among the
// instance types that a NodeClaim allows.
type MinValues []model.Requirement

// MinValuesOf returns the requirements of a pool with enforced minValues; nil if it has none or relaxes them.
func (s *Catalog) MinValuesOf(pool int) MinValues {
	if s.in.Given.Pools[pool].RelaxMinValues {
		return nil
	}
	return s.WantedMinValues(pool)
}

// WantedMinValues returns the requirements of a pool with minValues, enforced or not; nil if it has none.
func (s *Catalog) WantedMinValues(pool int) MinValues {
	for i := len(s.minValuesByPool); i < len(s.in.Given.Pools); i++ {
		var out MinValues
		for _, r := range s.in.Given.Pools[i].Requirements {
			if r.MinValues > 0 {
				out = append(out, r)
			}
		}
		s.minValuesByPool = append(s.minValuesByPool, out)
	}
	return s.minValuesByPool[pool]
}

// valueTable is the value that each offer of a pool has of each key with minValues, as a number.
type valueTable struct {
	keys    MinValues
	first   int     // the pool's first offer
	numbers []int32 // by offer from first, then by key; -1: the offer lacks the label, or the value is not allowed
	starts  []int   // by key: its first bit in ValueCount.seen
	bits    int
}

// valuesOf returns the table of a pool, nil if none of its requirements has minValues. A label counts if the instance
// type or the offering sets it: those are the values that the cloud chooses among.
func (s *Catalog) valuesOf(pool int) *valueTable {
	keys := s.WantedMinValues(pool)
	if len(keys) == 0 {
		return nil
	}
	of := s.EquivalentPool[pool] // asks for the same
	if t := s.valueTables[of]; t != nil {
		return t
	}
	lo, hi := s.PoolOfferRange(of)
	t := &valueTable{keys: keys, first: lo, numbers: make([]int32, 0, (hi-lo)*len(keys)), starts: make([]int, len(keys))}
	known := make([]map[string]int32, len(keys))
	for i := lo; i < hi; i++ {
		o := &s.Offers[i]
		for k := range keys {
			v, ok := o.InstanceType.Label(keys[k].Key, o.Offering)
			if !ok || !keys[k].Matches(v, true) {
				t.numbers = append(t.numbers, -1)
				continue
			}
			if known[k] == nil {
				known[k] = map[string]int32{}
			}
			n, seen := known[k][v]
			if !seen {
				n = int32(len(known[k]))
				known[k][v] = n
			}
			t.numbers = append(t.numbers, n)
		}
	}
	for k := range keys {
		t.starts[k] = t.bits
		t.bits += len(known[k])
	}
	if s.valueTables == nil {
		s.valueTables = map[int]*valueTable{}
	}
	s.valueTables[of] = t
	return t
}

// ValueCount counts the distinct values of keys with minValues among offers of a pool, which are added one by one. The
// zero value is for a pool without minValues.
type ValueCount struct {
	table *valueTable
	seen  []uint64 // bitmap of the values counted
	have  []int    // by key
	unmet int      // keys that lack values
}

// CountValues returns an empty count for a pool.
func (s *Catalog) CountValues(pool int) ValueCount {
	t := s.valuesOf(pool)
	if t == nil {
		return ValueCount{}
	}
	return ValueCount{table: t, seen: make([]uint64, (t.bits+63)/64), have: make([]int, len(t.keys)), unmet: len(t.keys)}
}

// Reset removes all offers.
func (c *ValueCount) Reset() {
	clear(c.seen)
	clear(c.have)
	c.unmet = len(c.have)
}

// Add adds the values of an offer.
func (c *ValueCount) Add(offer int) {
	for k := range c.have {
		n := c.table.numbers[(offer-c.table.first)*len(c.have)+k]
		if n < 0 {
			continue
		}
		bit := c.table.starts[k] + int(n)
		if c.seen[bit>>6]>>(bit&63)&1 != 0 {
			continue
		}
		c.seen[bit>>6] |= 1 << (bit & 63)
		if c.have[k]++; c.have[k] == c.table.keys[k].MinValues {
			c.unmet--
		}
	}
}

// Gains reports whether an offer has a value that is still missing.
func (c *ValueCount) Gains(offer int) bool {
	if c.unmet == 0 {
		return false
	}
	for k := range c.have {
		if c.have[k] >= c.table.keys[k].MinValues {
			continue
		}
		if n := c.table.numbers[(offer-c.table.first)*len(c.have)+k]; n >= 0 {
			if bit := c.table.starts[k] + int(n); c.seen[bit>>6]>>(bit&63)&1 == 0 {
				return true
			}
		}
	}
	return false
}

// AreAlike reports whether two offers have the same values.
func (c *ValueCount) AreAlike(i, j int) bool {
	n := len(c.have)
	return n == 0 || slices.Equal(c.table.numbers[(i-c.table.first)*n:][:n], c.table.numbers[(j-c.table.first)*n:][:n])
}

// IsMet reports whether no key lacks values.
func (c *ValueCount) IsMet() bool { return c.unmet == 0 }

// Lacking returns the total number of missing values of all keys.
func (c *ValueCount) Lacking() (n int) {
	for k := range c.have {
		n += max(0, c.table.keys[k].MinValues-c.have[k])
	}
	return n
}

// FirstUnmet returns the first requirement with missing values, and how many it has; nil if there is none.
func (c *ValueCount) FirstUnmet() (r *model.Requirement, have int) {
	for k := range c.have {
		if r := &c.table.keys[k]; c.have[k] < r.MinValues {
			return r, c.have[k]
		}
	}
	return nil, 0
}

// Relax lowers minValues of unmet requirements to the values counted, and reports whether it changed any.
func (c *ValueCount) Relax(requirements model.Requirements) (out model.Requirements, relaxed bool) {
	for k := range c.have {
		r := &c.table.keys[k]
		if c.have[k] >= r.MinValues {
			continue
		}
		if !relaxed {
			requirements, relaxed = slices.Clone(requirements), true
		}
		for i := range requirements {
			if requirements[i].Key == r.Key {
				requirements[i].MinValues = c.have[k]
			}
		}
	}
	return requirements, relaxed
}

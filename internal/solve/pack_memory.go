// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import "slices"

// rememberedColumns is the columns in the basis of the last refined plan, by name, so that they mean something in
// another problem.
type rememberedColumns struct {
	columns []rememberedColumn
}

// rememberedColumn is so many pods of some classes on a machine.
type rememberedColumn struct {
	pool, instanceType string
	classes            []string // keys
	counts             []int64
}

// maxRememberedColumns bounds a memory.
const maxRememberedColumns = 1024

// recallColumns offers the program the columns of the last solve that can still be made: the machine is there, the
// classes wait, and it all fits.
func (t *master) recallColumns(mem *rememberedColumns) {
	if mem == nil {
		return
	}
	p := t.p
	demandsOf := map[string][]int{}
	for d, x := range p.demands {
		if t.rowOf[d] >= 0 && !p.restricted[d] {
			demandsOf[x.class.spec.Key] = append(demandsOf[x.class.spec.Key], d)
		}
	}
	machinesOf := map[[2]string][]int{}
	for i, m := range p.machines {
		k := [2]string{p.s.input.Pools[m.pool].Name, m.instanceType.Name}
		machinesOf[k] = append(machinesOf[k], i)
	}
	for i := range mem.columns {
		f := &mem.columns[i]
		for _, mi := range machinesOf[[2]string{f.pool, f.instanceType}] {
			if c, ok := p.rebuildColumn(f, mi, demandsOf); ok {
				t.tryColumn(c)
				break
			}
		}
	}
}

// rebuildColumn is a remembered column on machine mi; false where it can't be made.
func (p *packingProblem) rebuildColumn(f *rememberedColumn, mi int, demandsOf map[string][]int) (column, bool) {
	m := p.machines[mi]
	rem := m.available
	c := column{machine: mi}
	for i, key := range f.classes {
		found := false
		for _, d := range demandsOf[key] {
			if found = p.machineAdmits(m, d); found {
				if j := slices.IndexFunc(c.items, func(it item) bool { return it.demand == d }); j >= 0 {
					c.items[j].count += f.counts[i] // two demands then that are one now
				} else {
					c.items = append(c.items, item{d, f.counts[i]})
				}
				for k := range p.s.numDims {
					rem[k] -= p.demands[d].class.req[k] * f.counts[i]
				}
				break
			}
		}
		if !found || m.quantity >= 0 {
			return c, false
		}
	}
	for k := range p.s.numDims {
		if rem[k] < 0 {
			return c, false
		}
	}
	for _, it := range c.items {
		if it.count > p.maxPodsOf(it.demand) {
			return c, false
		}
	}
	return c, len(c.items) > 0
}

// rememberColumns keeps the columns of the basis.
func (t *master) rememberColumns(mem *rememberedColumns) {
	p := t.p
	for i, b := range t.basic {
		if b < 0 || t.x[i] <= 0 || t.cols[b].fractions != nil || len(mem.columns) >= maxRememberedColumns {
			continue
		}
		c := &t.cols[b]
		m := p.machines[c.machine]
		f := rememberedColumn{pool: p.s.input.Pools[m.pool].Name, instanceType: m.instanceType.Name}
		for _, it := range c.items {
			f.classes = append(f.classes, p.demands[it.demand].class.spec.Key)
			f.counts = append(f.counts, it.count)
		}
		mem.columns = append(mem.columns, f)
	}
}

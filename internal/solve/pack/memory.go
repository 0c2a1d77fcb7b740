// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/lp"
)

// maxRememberedColumns bounds a memory.
const maxRememberedColumns = 1024

// recallColumns offers the program the columns of the last solve that can still be made: the machine is there, the
// classes wait, and it all fits.
func (t *master) recallColumns(mem *RememberedColumns) {
	if mem == nil {
		return
	}
	p := t.p
	demandsOf := map[string][]int{}
	for d, x := range p.Market.Demands {
		if t.Program.RowOf[d] >= 0 && !p.Market.Restricted[d] {
			demandsOf[x.Class.Spec.Key] = append(demandsOf[x.Class.Spec.Key], d)
		}
	}
	machinesOf := map[[2]string][]int{}
	for i, m := range p.Market.Machines {
		k := [2]string{p.In.Given.Pools[m.pool].Name, m.instanceType.Name}
		machinesOf[k] = append(machinesOf[k], i)
	}
	for i := range mem.Columns {
		f := &mem.Columns[i]
		for _, mi := range machinesOf[[2]string{f.Pool, f.InstanceType}] {
			if c, ok := p.Market.RebuildColumn(f, mi, demandsOf); ok {
				t.Program.TryColumn(c)
				break
			}
		}
	}
}

// RebuildColumn returns a remembered column on machine mi; false if it cannot be built.
func (p *Market) RebuildColumn(f *RememberedColumn, mi int, demandsOf map[string][]int) (lp.Column, bool) {
	m := p.Machines[mi]
	rem := m.Available
	c := lp.Column{Machine: mi}
	for i, key := range f.Classes {
		found := false
		for _, d := range demandsOf[key] {
			if found = p.MachineAdmits(m, d); found {
				if j := slices.IndexFunc(c.Items, func(it Item) bool { return it.Demand == d }); j >= 0 {
					c.Items[j].Count += f.Counts[i] // two demands then that are one now
				} else {
					c.Items = append(c.Items, Item{Demand: d, Count: f.Counts[i]})
				}
				for k := range p.In.NumDims {
					rem[k] -= p.Demands[d].Class.Req[k] * f.Counts[i]
				}
				break
			}
		}
		if !found || m.Quantity >= 0 {
			return c, false
		}
	}
	for k := range p.In.NumDims {
		if rem[k] < 0 {
			return c, false
		}
	}
	for _, it := range c.Items {
		if it.Count > p.maxPodsOf(it.Demand) {
			return c, false
		}
	}
	return c, len(c.Items) > 0
}

// rememberColumns keeps the columns of the basis.
func (t *master) rememberColumns(mem *RememberedColumns) {
	p := t.p
	for i, b := range t.Program.Basic {
		if b < 0 || t.Program.X[i] <= 0 || t.Program.Cols[b].Fractions != nil || len(mem.Columns) >= maxRememberedColumns {
			continue
		}
		c := &t.Program.Cols[b]
		m := p.Market.Machines[c.Machine]
		f := RememberedColumn{Pool: p.In.Given.Pools[m.pool].Name, InstanceType: m.instanceType.Name}
		for _, it := range c.Items {
			f.Classes = append(f.Classes, p.Market.Demands[it.Demand].Class.Spec.Key)
			f.Counts = append(f.Counts, it.Count)
		}
		mem.Columns = append(mem.Columns, f)
	}
}

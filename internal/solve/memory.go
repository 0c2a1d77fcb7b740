// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import "slices"

// columnPool is the fills that the last refined plan was made of, by name, so that they mean something in another problem.
type columnPool struct {
	fills []namedFill
}

type namedFill struct {
	pool, kind string
	classes    []string // keys
	counts     []int64
}

// maxRemembered bounds a memory.
const maxRemembered = 1024

// recollect offers the program the fills of the last solve that can still be made: the machine is there, the classes wait, and it
// all fits.
func (t *master) recollect(mem *columnPool) {
	if mem == nil {
		return
	}
	p := t.p
	demandsOf := map[string][]int{}
	for d, x := range p.demands {
		if t.rowOf[d] >= 0 && !p.hosted[d] {
			demandsOf[x.c.c.Key] = append(demandsOf[x.c.c.Key], d)
		}
	}
	machinesOf := map[[2]string][]int{}
	for i, m := range p.machines {
		k := [2]string{p.s.in.Pools[m.pool].Name, m.t.Name}
		machinesOf[k] = append(machinesOf[k], i)
	}
	for i := range mem.fills {
		f := &mem.fills[i]
		for _, mi := range machinesOf[[2]string{f.pool, f.kind}] {
			if c, ok := p.remake(f, mi, demandsOf); ok {
				t.offer(c)
				break
			}
		}
	}
}

// remake is the fill on a machine of now.
func (p *packing) remake(f *namedFill, mi int, demandsOf map[string][]int) (column, bool) {
	m := p.machines[mi]
	rem := m.avail
	c := column{m: mi}
	for i, key := range f.classes {
		found := false
		for _, d := range demandsOf[key] {
			if found = p.admits(m, d); found {
				if j := slices.IndexFunc(c.items, func(it item) bool { return it.d == d }); j >= 0 {
					c.items[j].n += f.counts[i] // two demands then that are one now
				} else {
					c.items = append(c.items, item{d, f.counts[i]})
				}
				for k := range p.s.nd {
					rem[k] -= p.demands[d].c.req[k] * f.counts[i]
				}
				break
			}
		}
		if !found || m.stock >= 0 {
			return c, false
		}
	}
	for k := range p.s.nd {
		if rem[k] < 0 {
			return c, false
		}
	}
	for _, it := range c.items {
		if it.n > p.atMost(it.d) {
			return c, false
		}
	}
	return c, len(c.items) > 0
}

// memorize keeps the fills of the program's basis.
func (t *master) memorize(mem *columnPool) {
	p := t.p
	for i, b := range t.basic {
		if b < 0 || t.x[i] <= 0 || t.cols[b].part != nil || len(mem.fills) >= maxRemembered {
			continue
		}
		c := &t.cols[b]
		m := p.machines[c.m]
		f := namedFill{pool: p.s.in.Pools[m.pool].Name, kind: m.t.Name}
		for _, it := range c.items {
			f.classes = append(f.classes, p.demands[it.d].c.c.Key)
			f.counts = append(f.counts, it.n)
		}
		mem.fills = append(mem.fills, f)
	}
}

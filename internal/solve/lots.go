// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

// lot is demands that a packing need not tell apart: their pods ask for the same, may go to the same offers, and no rule between pods says
// who may be beside whom. Real clusters have many workloads of the same few sizes; taken together they are few enough to refine.
type lot []*demand

// lotsOf groups demands into lots, in the order of their first.
func lotsOf(demands []*demand) (out []lot) {
	type key struct {
		req        vec
		mask, full int
	}
	at := map[key]int{}
	out = make([]lot, 0, len(demands))
	for i, d := range demands {
		one := demands[i : i+1 : i+1]
		if d.c.hosted() || d.c.apart.most > 0 {
			out = append(out, one)
			continue
		}
		k := key{req: d.c.req, mask: d.mask.id, full: -1}
		if d.full != nil {
			k.full = d.full.id
		}
		if i, ok := at[k]; ok {
			out[i] = append(out[i], d)
			continue
		}
		at[k] = len(out)
		out = append(out, one)
	}
	return out
}

// hosted says whether rules, ports or volumes say which pods may be on a machine with those of the class.
func (c *class) hosted() bool {
	return len(c.topo.host) > 0 || len(c.topo.bumpHost) > 0 || len(c.ports) > 0 || len(c.attach) > 0
}

// compileLoners finds the classes whose rules over hosts concern nobody else, and how many of their pods a new machine may hold: to a packing that
// is a number and no rule.
func (s *solver) compileLoners() {
	users, last := make([]int, len(s.counters)), make([]*class, len(s.counters))
	each := func(c *class, f func(id int)) {
		for i := range c.topo.host {
			r := &c.topo.host[i]
			f(r.counter)
			if r.kind == ruleGuest {
				f(r.owners)
			}
		}
		for _, id := range c.topo.bumpHost {
			f(id)
		}
	}
	for _, c := range s.classes {
		each(c, func(id int) {
			if last[id] != c {
				users[id], last[id] = users[id]+1, c
			}
		})
	}
	for _, c := range s.classes {
		if !c.hosted() || c.topo.nearHost || len(c.ports) > 0 || len(c.attach) > 0 {
			continue
		}
		alone := true
		each(c, func(id int) { alone = alone && users[id] == 1 })
		if !alone {
			continue
		}
		c.each = unlimited
		for i := range c.topo.host {
			c.each = min(c.each, s.allows(c, &c.topo.host[i], 0, 0, true))
		}
	}
}

// whole is one demand for all of a lot.
func (x lot) whole() *demand {
	if len(x) == 1 {
		return x[0]
	}
	d := *x[0]
	d.n = podsOf(x)
	return &d
}

// held is pods of a demand on a machine.
type held struct {
	d *demand
	n int64
}

// dealing gives the demands of lots what was bought for the lots.
type dealing struct {
	lots []lot
	have []int64 // by lot and demand, one behind the other: bought for and not dealt yet
	from []int32 // by lot: where its demands begin in have
	at   []int32 // by lot: the first demand with any
	out  []held  // scratch
}

// deal begins with what is left of each lot, which falls to its last demands.
func deal(lots []lot, left []int64) *dealing {
	n := 0
	for _, l := range lots {
		n += len(l)
	}
	x := &dealing{lots: lots, have: make([]int64, 0, n), from: make([]int32, len(lots)), at: make([]int32, len(lots))}
	for i, l := range lots {
		x.from[i] = int32(len(x.have))
		bought := podsOf(l) - left[i]
		for _, d := range l {
			n := min(d.n, bought)
			x.have = append(x.have, n)
			bought -= n
			d.n -= n
		}
	}
	return x
}

// next deals for as many copies of a machine, of so many, as hold pods of the same demands. The list is good until it is called again.
func (x *dealing) next(items []item, copies int64) (out []held, n int64) {
	n, out = copies, x.out[:0]
	for _, it := range items {
		if k := x.first(it.d) / it.n; k < n {
			n = max(1, k)
		}
	}
	for _, it := range items {
		for rest := it.n * n; rest > 0; {
			k := min(rest, x.first(it.d))
			x.have[x.from[it.d]+x.at[it.d]] -= k
			rest -= k
			out = append(out, held{x.lots[it.d][x.at[it.d]], k / n})
		}
	}
	x.out = out
	return out, n
}

// first is what the first demand of a lot that has any has.
func (x *dealing) first(i int) int64 {
	for int(x.at[i]) < len(x.lots[i]) {
		if n := x.have[x.from[i]+x.at[i]]; n > 0 {
			return n
		}
		x.at[i]++
	}
	return 0
}

// shareWorths has classes of a lot worth what the program found the first of them to be.
func (s *solver) shareWorths(lots []lot) {
	if s.bare == nil {
		return
	}
	for _, x := range lots {
		worth, ok := s.bare[x[0].c.id]
		for _, d := range x[1:] {
			if was, had := s.bare[d.c.id]; ok && (!had || worth < was) {
				s.bare[d.c.id] = worth
			}
		}
	}
}

// classLots groups classes that a proof need not tell apart, worth the same, by their places in the list.
func classLots(classes []*class, worth []int64) (out [][]int) {
	type key struct {
		req   vec
		mask  int
		worth int64
	}
	at := map[key]int{}
	for i, c := range classes {
		k := key{c.req, c.filter.mask.id, worth[i]}
		if j, ok := at[k]; ok && !c.hosted() {
			out[j] = append(out[j], i)
			continue
		}
		if !c.hosted() {
			at[k] = len(out)
		}
		out = append(out, []int{i})
	}
	return out
}

// kindsOf groups classes that ask for the same of the same offers, whoever may be beside them: the first of each, and the pods placed of all.
func kindsOf(classes []*class) (firsts []*class, pods []int64) {
	type key struct {
		req  vec
		mask int
	}
	at, last := map[key]int{}, -1
	for _, c := range classes {
		if last < 0 || c.req != firsts[last].req || c.filter.mask != firsts[last].filter.mask { // those of one size follow each other, mostly
			k := key{c.req, c.filter.mask.id}
			i, ok := at[k]
			if !ok {
				i = len(firsts)
				at[k] = i
				firsts, pods = append(firsts, c), append(pods, 0)
			}
			last = i
		}
		pods[last] += int64(c.taken)
	}
	return firsts, pods
}

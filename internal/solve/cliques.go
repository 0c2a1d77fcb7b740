// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// maxCliques bounds the cliques that are priced: the largest. Each is one resource more to look at wherever resources are.
const maxCliques = 4

// compileCliques makes resources of cliques, which lie behind the others. A clique is pods no two of which may share a host, since each has
// anti-affinity against all of them. They ask for one each of a resource of which a machine has one. So whatever packs, prices or proves by
// resources knows that so many pods need as many machines; the rule itself is kept by whoever keeps the others.
func (s *solver) compileCliques() {
	type clique struct {
		key     string
		pods    int
		classes []*class
	}
	var all []*clique
	byKey := map[string]*clique{}
	for _, c := range s.classes {
		for i := range c.c.AntiAffinity {
			x := &c.c.AntiAffinity[i]
			if x.TopologyKey != model.LabelHostname || !s.selects(&x.Selector, c.c) {
				continue
			}
			key := selectorKey(x.Selector)
			q := byKey[key]
			if q == nil {
				q = &clique{key: key}
				byKey[key] = q
				all = append(all, q)
			}
			if !slices.Contains(q.classes[max(0, len(q.classes)-1):], c) {
				q.pods, q.classes = q.pods+len(c.pods), append(q.classes, c)
			}
		}
	}
	slices.SortFunc(all, func(a, b *clique) int { return cmp.Or(cmp.Compare(b.pods, a.pods), cmp.Compare(a.key, b.key)) })
	for _, q := range all[:min(len(all), maxCliques, maxDims-s.nd)] {
		for _, c := range q.classes {
			c.req[s.nd] = 1
		}
		s.nd++
	}
}

// addCliques gives a machine one of each.
func (s *solver) addCliques(room []int64) {
	for k := len(s.dims); k < s.nd; k++ {
		room[k] = 1
	}
}

// priceCliques raises what a place for one of a clique is worth where there are fewer of them than pods, by up to the price of the cheapest machine
// that holds one: a pod that is left over needs that machine to itself. Resource prices alone think that such a machine can be as
// small as the pod, and would have large machines filled with what the others need beside their one pod.
func (p *packing) priceCliques(left []int64) {
	for k := len(p.s.dims); k < p.s.nd; k++ {
		p.fares[k].most = 0
		if p.weight[k] == 0 {
			continue
		}
		least := int64(-1)
		for _, d := range p.members(k) {
			req := &p.demands[d].c.req
			if left[d] == 0 {
				continue
			}
			for _, m := range p.machines {
				if m.stock < 0 && (least < 0 || m.price < least) && p.admits(m, d) && fitsIn(req, &m.avail, p.s.nd) {
					least = m.price
				}
			}
		}
		p.fares[k].most = max(0, min(least, 1<<60>>weightShift))
		p.weight[k] += p.fares[k].extra() << weightShift
	}
}

// fare is what a place for one of a clique costs beside what prices of resources say.
type fare struct {
	most int64 // the price of the cheapest machine that holds one
	part int64 // of it, in parts of fareParts; 0 stands for all
	pods int64 // of the clique that are left
	rest int64 // what all pods left are worth, fares left out
	// Since the part was last changed:
	machines int64
	held     int64 // what they hold is worth, fares left out
	share    int64 // and what was left then for each pod of the clique
}

// fareParts is what the price of a machine is divided into, fareWindow after how many machines bought a fare is looked at.
const (
	fareParts  = 1 << 10
	fareWindow = 8
)

func (f *fare) extra() int64 {
	if f.part == 0 {
		return f.most
	}
	return mulDiv(f.most, f.part, fareParts)
}

// crowd has fares haggled for where there are fewer places for some clique than pods, and so many demands that fills are chosen from a sample of them
// and programs take them no more. Then one packing is most of the work, and it has machines enough for prices to be found on the way.
func (p *packing) crowd() bool {
	p.crowded = len(p.demands) > maxRows && slices.ContainsFunc(p.fares[:], func(x fare) bool { return x.most > 0 })
	return p.crowded
}

// enoughHaggling is how often fares are looked at in a packing from which nothing is learnt any more: another one would win little but luck.
const enoughHaggling = 100

// haggle lowers what places for one of a clique cost where machines bought hold less than their share of what is left, and raises it where they
// hold more: slowly down and fast up, for with too little of it one machine may take what hundreds need. All of it makes the smallest machines
// with such a place the best of all, and what comes last then has no neighbours; nothing of it leaves pods of the clique over that each need
// a machine to themselves.
func (r *ranking) haggle(b *batch, value int64) {
	p := r.p
	for _, it := range b.items {
		value -= p.fareOf(it.d) * it.n
	}
	for k := len(p.s.dims); k < p.s.nd; k++ {
		x := &p.fares[k]
		if x.most == 0 || x.pods == 0 {
			continue
		}
		for _, it := range b.items {
			x.pods -= p.demands[it.d].c.req[k] * it.n * b.copies
		}
		x.rest -= value * b.copies
		x.machines += b.copies
		x.held += max(0, value) * b.copies
		if x.pods == 0 || x.machines < fareWindow && !ratioLess(x.share, 1, x.held, fareWindow) {
			continue
		}
		was := x.extra()
		p.haggled++
		if x.part == 0 {
			x.part = fareParts
		}
		if ratioLess(x.held, x.machines, max(0, x.rest), x.pods) {
			x.part = max(fareParts*2/5, x.part-x.part/16)
		} else {
			x.part = min(fareParts, x.part+x.part/4)
		}
		x.machines, x.held, x.share = 0, 0, max(0, x.rest)/x.pods
		if by := x.extra() - was; by != 0 {
			r.shift(k, by<<worthShift)
		}
	}
}

// fareOf is all that a pod of a demand is worth for fares.
func (p *packing) fareOf(d int) (sum int64) {
	for k := len(p.s.dims); k < p.s.nd; k++ {
		if x := &p.fares[k]; x.most > 0 {
			sum += p.demands[d].c.req[k] * x.extra() << worthShift
		}
	}
	return sum
}

// count adds up what is left.
func (p *packing) count(left []int64) {
	rest := int64(0)
	for d, n := range left {
		rest += n * p.worth[d]
	}
	for k := len(p.s.dims); k < p.s.nd; k++ {
		x := &p.fares[k]
		x.pods = 0
		for _, d := range p.members(k) {
			x.pods += left[d] * p.demands[d].c.req[k]
		}
		if x.most > 0 {
			rest -= x.pods * x.extra() << worthShift
		}
	}
	for k := len(p.s.dims); k < p.s.nd; k++ {
		p.fares[k].rest = rest
	}
}

// members are the demands of a clique.
func (p *packing) members(k int) []int {
	if p.cliques == nil {
		p.cliques = make([][]int, p.s.nd-len(p.s.dims))
		for d := range p.demands {
			for i, v := range p.req(d)[len(p.s.dims):] {
				if v > 0 {
					p.cliques[i] = append(p.cliques[i], d)
				}
			}
		}
	}
	return p.cliques[k-len(p.s.dims)]
}

// shift changes what each pod of a clique is worth.
func (r *ranking) shift(k int, by int64) {
	p := r.p
	change := func(d int) int64 {
		v := p.demands[d].c.req[k] * by
		if p.dear != nil {
			v = int64(float64(v) * p.dear[d])
		}
		return v
	}
	most := by
	for _, d := range p.members(k) {
		if v := change(d); v > most {
			most = v
		}
		p.worth[d] = max(1, p.worth[d]+change(d))
		p.plain[d], p.lean[d] = p.worth[d], p.worth[d]>>leanShift+1
	}
	for i := range r.fills {
		f := &r.fills[i]
		if !f.known {
			f.value = max(1, f.value+most*min(1, p.machines[i].avail[k]))
			continue
		}
		for _, it := range f.items {
			if p.demands[it.d].c.req[k] > 0 {
				f.value += change(it.d) * it.n
			}
		}
	}
	r.order()
}

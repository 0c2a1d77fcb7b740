// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// scratch is memory that fills are made in, so that making one allocates next to nothing.
type scratch struct {
	used    []int64 // by demand, in the fill being made
	in      []int   // demands of which some are used
	counts  []int32 // counters within the fill
	touched []int   // of counts
	cand    []int32 // demands that still fit
	bunch   bunches
	ports   []model.HostPort
}

// build makes a good fill for a machine: again and again the demand that would be worth most if it had what is still free to itself,
// a third of that at a time, so that what is free keeps a shape that something fits. What the fill holds already stays in it as
// far as the pods left allow; the rest of the machine is filled up.
func (p *packing) build(f *fill, left []int64) {
	m, nd, sc := p.machines[f.m], p.s.nd, &p.scratch
	rem := m.avail
	sc.ports = append(sc.ports[:0], m.ports...)
	guest := guests{ports: sc.ports}
	f.value = 0
	for _, it := range f.items {
		if it.n = min(it.n, left[it.d]); it.n > 0 {
			p.put(it.d, it.n, &rem, &guest)
			f.value += p.worth[it.d] * it.n
		}
	}
	f.known = true
	sc.cand = sc.cand[:0]
	first, stride := p.sparsely(m)
	for w, b := range m.admits {
		for ; b != 0 && p.lists != nil; b &= b - 1 {
			list := p.lists[w<<6+bits.TrailingZeros64(b)]
			for ; first < len(list); first += stride {
				if d := list[first]; left[d] > sc.used[d] && !p.full(d) {
					sc.cand = append(sc.cand, d)
				}
			}
			first -= len(list)
		}
	}
	for i := first; i < len(p.open) && p.lists == nil; i += stride {
		if d := p.open[i]; left[d] > sc.used[d] && p.admits(m, int(d)) && !p.full(d) {
			sc.cand = append(sc.cand, d)
		}
	}
	if p.bunched {
		p.bunchUp()
	}
	for best := -1; ; {
		if best = p.nextItem(left, &rem, m, &guest, best); best < 0 {
			break
		}
		c := p.demands[best].c
		n := min(left[best]-sc.used[best], max(1, timesIn(&c.req, &rem, nd)/3))
		n = min(n, p.atMost(best)-sc.used[best])
		if p.hosted[best] {
			n = min(n, p.hostRoom(best, m, &guest))
		}
		p.put(best, n, &rem, &guest)
		f.value += p.worth[best] * n
	}
	p.collect(f)
}

// full says whether the fill being made may hold no more of a demand, whatever has room.
func (p *packing) full(d int32) bool { return p.scratch.used[d] >= p.atMost(int(d)) }

// atMost is how many pods of a demand a new machine may hold whatever has room; see class.each.
func (p *packing) atMost(d int) int64 {
	if p.most == nil {
		return unlimited
	}
	return p.most[d]
}

// maxCandidates is how many demands a fill is chosen from. Of more, every so many-th is looked at, others each time: there is always
// something to fit a gap among this many.
const maxCandidates = 160

// sparsely says where to begin among the open demands and how many steps to go at a time: for the candidates of a machine one by one, unless
// too many are open to it.
func (p *packing) sparsely(m *machine) (first, stride int) {
	n := 0
	for w, b := range m.admits {
		for ; b != 0; b &= b - 1 {
			n += p.openTo[w<<6+bits.TrailingZeros64(b)]
		}
	}
	if n <= min(4*maxCandidates, 2*p.keep) {
		return 0, 1
	}
	p.samples++
	stride = (n + p.keep - 1) / p.keep
	return p.samples % stride, stride
}

// close drops open demands of which nothing is left.
func (p *packing) close(left []int64) {
	for j, list := range p.lists {
		p.lists[j] = slices.DeleteFunc(list, func(d int32) bool { return left[d] <= 0 })
		p.openTo[j] = len(p.lists[j])
	}
	if p.lists != nil {
		return
	}
	kept := p.open[:0]
	clear(p.openTo)
	for _, d := range p.open {
		if left[d] > 0 {
			kept = append(kept, d)
			p.openTo[p.maskOf[d]]++
		}
	}
	p.open = kept
}

// byMask lists open demands by their masks where the problem is crowded: a fill then looks only at those that its machine admits.
func (p *packing) byMask() [][]int32 {
	if !p.crowded {
		return nil
	}
	lists, all := make([][]int32, len(p.masks)), make([]int32, len(p.open))
	for j, n := range p.openTo {
		lists[j], all = all[:0:n], all[n:]
	}
	for _, d := range p.open {
		lists[p.maskOf[d]] = append(lists[p.maskOf[d]], d)
	}
	return lists
}

// sample thins the candidates out where there are more than so many.
func (p *packing) sample(many, keep int) {
	sc := &p.scratch
	n := len(sc.cand)
	if n <= many {
		return
	}
	p.samples++
	stride := (n + keep - 1) / keep
	kept := sc.cand[:0]
	for i := p.samples % stride; i < n; i += stride {
		kept = append(kept, sc.cand[i])
	}
	sc.cand = kept
}

// put books pods in the fill being made.
func (p *packing) put(d int, n int64, rem *vec, g *guests) {
	c := p.demands[d].c
	for k, v := range p.req(d) {
		rem[k] -= v * n
	}
	if p.scratch.used[d] == 0 {
		p.scratch.in = append(p.scratch.in, d)
	}
	p.scratch.used[d] += n
	if p.hosted[d] {
		p.join(c, n, g)
	}
}

// shareShift is the number of binary digits of a request as a share of the largest machine.
const shareShift = 20

// nextItem picks the demand that would be worth most if it filled what is free alone, the first of equals, and drops those that no
// longer fit, or of which last, the one picked before, none are left. That worth is worth/share, share being the largest part that one pod
// takes of what is free of a resource.
func (p *packing) nextItem(left []int64, rem *vec, m *machine, g *guests, last int) int {
	var inverse, room [maxDims]int64
	for k := range p.s.nd {
		room[k] = max(0, rem[k]) // what asks for none fits anywhere
		if rem[k] > 0 && p.largest[k] > 0 && k < len(p.s.dims) {
			inverse[k] = mulDiv(p.largest[k], 1<<shareShift, rem[k])
		}
	}
	gone := -1
	if last >= 0 && (left[last] <= p.scratch.used[last] || p.full(int32(last))) {
		gone = last
	}
	if p.bunched {
		return p.nextBunch((*[4]int64)(room[:]), (*[4]int64)(inverse[:]), m, g, gone)
	}
	p.s.work += int64(len(p.scratch.cand))
	if p.narrow != nil {
		return p.nextOf((*[4]int64)(room[:]), (*[4]int64)(inverse[:]), m, g, gone)
	}
	best, bestShare := -1, int64(1)
	kept := p.scratch.cand[:0]
	for _, d32 := range p.scratch.cand {
		d := int(d32)
		short := int64(0) // negative where something does not fit
		for k, v := range p.req(d) {
			short |= room[k&(maxDims-1)] - v
		}
		if short < 0 || d == gone {
			continue
		}
		share := int64(1)
		for k, v := range p.share(d) {
			share = max(share, v*inverse[k&(maxDims-1)]>>shareShift)
		}
		if best < 0 || p.lean[d]*bestShare > p.lean[best]*share {
			if p.hosted[d] && p.hostRoom(d, m, g) <= 0 {
				continue // in this fill it will not fit again
			}
			best, bestShare = d, share
		}
		kept = append(kept, d32)
	}
	p.scratch.cand = kept
	return best
}

// nextOf is nextItem for few resources.
func (p *packing) nextOf(room, inverse *[4]int64, m *machine, g *guests, gone int) int {
	cand, rows, lean := p.scratch.cand, p.narrow, p.lean
	a, b, c, d := room[0], room[1], room[2], room[3]
	i, j, k, l := inverse[0], inverse[1], inverse[2], inverse[3]
	best, bestLean, bestShare, kept := -1, int64(0), int64(1), 0
	for _, at := range cand {
		r := &rows[at]
		if (a-r.req[0])|(b-r.req[1])|(c-r.req[2])|(d-r.req[3]) < 0 || int(at) == gone {
			continue
		}
		share := max(1, max(r.share[0]*i, r.share[1]*j, r.share[2]*k, r.share[3]*l)>>shareShift)
		if lean[at]*bestShare > bestLean*share {
			if p.hosted[at] && p.hostRoom(int(at), m, g) <= 0 {
				continue
			}
			best, bestLean, bestShare = int(at), lean[at], share
		}
		cand[kept] = at
		kept++
	}
	p.scratch.cand = cand[:kept]
	return best
}

// bunches are the candidates of a fill, those together that ask for the same and are worth the same: of them all only the first is looked at.
type bunches struct {
	list   []bunch
	follow []int32 // by place among the candidates: that of the next in its bunch
	in     []int32 // by number of demands alike: 1 + its bunch, 0: none yet
	picked int     // the bunch of the one picked last
	n      int     // candidates in all
}

// bunch is some of the candidates.
type bunch struct {
	d, at, last int32 // the first of them, its place among the candidates, and that of the last
	n           int32
	lean        int64
}

// drop takes the first out.
func (x *bunches) drop(b *bunch, cand []int32) {
	x.n--
	if b.n--; b.n > 0 {
		b.at = x.follow[b.at]
		b.d = cand[b.at]
	}
}

// tellApart numbers demands so that those of one number are bunched: where a problem is crowded and pods are worth what their resources and cliques are.
func (p *packing) tellApart() {
	p.bunched = p.crowded && p.narrow != nil && p.dear == nil
	if !p.bunched {
		return
	}
	if p.size == nil {
		p.size, p.alike = make([]int32, len(p.demands)), make([]int32, len(p.demands))
		number := map[[4]int64]int32{}
		for d := range p.narrow {
			n, ok := number[p.narrow[d].req]
			if !ok {
				n = int32(len(number))
				number[p.narrow[d].req] = n
			}
			p.size[d] = n
		}
		p.sizes = len(number)
	}
	type alike struct {
		lean int64
		next int32 // of the same size, 1 + its number; 0: none
	}
	var list []alike
	first := make([]int32, p.sizes)
	for d, size := range p.size {
		n := first[size]
		for n > 0 && list[n-1].lean != p.lean[d] {
			n = list[n-1].next
		}
		if n == 0 {
			list = append(list, alike{p.lean[d], first[size]})
			n = int32(len(list))
			first[size] = n
		}
		p.alike[d] = n - 1
	}
	p.scratch.bunch.in = make([]int32, len(list))
}

// bunchUp makes bunches of the candidates.
func (p *packing) bunchUp() {
	x, cand := &p.scratch.bunch, p.scratch.cand
	x.list, x.n, x.picked = x.list[:0], len(cand), -1
	x.follow = slices.Grow(x.follow[:0], len(cand))[:len(cand)]
	for i, d := range cand {
		in := &x.in[p.alike[d]]
		if *in == 0 {
			x.list = append(x.list, bunch{d: d, at: int32(i), last: int32(i), n: 1, lean: p.lean[d]})
			*in = int32(len(x.list))
			continue
		}
		b := &x.list[*in-1]
		x.follow[b.last] = int32(i)
		b.last, b.n = int32(i), b.n+1
	}
	for i := range x.list {
		x.in[p.alike[x.list[i].d]] = 0
	}
}

// nextBunch is nextItem for bunches.
func (p *packing) nextBunch(room, inverse *[4]int64, m *machine, g *guests, gone int) int {
	x, cand := &p.scratch.bunch, p.scratch.cand
	p.s.work += int64(x.n)
	if gone >= 0 {
		x.drop(&x.list[x.picked], cand)
	}
	best, bestLean, bestShare, bestAt, kept := -1, int64(0), int64(1), int32(0), 0
	for _, b := range x.list {
		r := &p.narrow[b.d]
		if b.n == 0 || (room[0]-r.req[0])|(room[1]-r.req[1])|(room[2]-r.req[2])|(room[3]-r.req[3]) < 0 {
			x.n -= int(b.n)
			continue
		}
		share := max(1, max(r.share[0]*inverse[0], r.share[1]*inverse[1], r.share[2]*inverse[2], r.share[3]*inverse[3])>>shareShift)
		by := b.lean*bestShare - bestLean*share
		for b.n > 0 && (by > 0 || by == 0 && b.at < bestAt) {
			if !p.hosted[b.d] || p.hostRoom(int(b.d), m, g) > 0 {
				best, bestLean, bestShare, bestAt = int(b.d), b.lean, share, b.at
				x.picked = kept
				break
			}
			x.drop(&b, cand) // in this fill it will not fit again
		}
		if b.n > 0 {
			x.list[kept] = b
			kept++
		}
	}
	x.list = x.list[:kept]
	return best
}

// collect reads the fill from the scratch memory and clears that.
func (p *packing) collect(f *fill) {
	sc := &p.scratch
	f.items = f.items[:0]
	for _, d := range sc.in {
		f.items = append(f.items, item{d, sc.used[d]})
		sc.used[d] = 0
	}
	sc.in = sc.in[:0]
	for _, id := range sc.touched {
		sc.counts[id] = 0
	}
	sc.touched = sc.touched[:0]
	slices.SortFunc(f.items, func(a, b item) int { return cmp.Compare(a.d, b.d) })
}

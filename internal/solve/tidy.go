// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"cmp"
	"slices"
)

// tidying empties machines that are to be bought into what is left free on the others, over all pools and weights: each level is packed
// by itself, and a class of which a machine may hold only a few leaves room that nobody looks at again. A machine goes, or becomes a
// smaller one, where its pods find room on others that grow dearer by less than is saved. Pods stay in the domains where they are
// counted. A machine may grow for pods of another weight where a whole machine is saved: weights say what is bought first, not what else may be on it.
type tidying struct {
	s     *solver
	bins  []tidyBin
	undo  []undoing   // of what is being tried
	tops  []vec       // by so many targets of a round: no more than this is free on any of them; nil: they are few
	rooms []int64     // by target: no more than this is free on it; all of them beside each other in memory
	place []int32     // by bin: which target it is
	sized []sizedItem // scratch of bySize
	until int64       // of work

	closer bool // pods that would rather be apart need not be: there is nowhere else for them
}

// tidyBin is a bin and what it would be bought as.
type tidyBin struct {
	*bin
	offer int // the cheapest; -1: nothing is done with it
	free  vec // on that
	firm  bool
}

type undoing struct {
	j   int
	was tidyBin
	bin bin
}

// maxTidied bounds the machines that are looked at, maxEmptied those that one round tries to empty, and maxGrown those among which others
// are tried in a larger size.
const (
	maxTidied  = 2048
	maxEmptied = 256
	maxGrown   = 128
	maxRounds  = 8
	tidyWork   = 2_000_000
)

// tidy does that until nothing more comes of it. Where the plan is as near to what its pods cost at least as the policy asks, it is left
// as it is.
func (s *solver) tidy() {
	if n := s.machines(); n < 2 || n > maxTidied || s.pol.Work == 0 || s.near() {
		return
	}
	s.separate()
	t := &tidying{s: s, until: min(s.work+tidyWork, s.deadline)}
	t.prepare()
	misses := 0
	for round := 0; round < maxRounds && misses < 2 && s.work < t.until; round++ {
		if misses++; t.round(round%2 == 1) || t.merge() {
			misses = 0
		}
	}
	s.bins = slices.DeleteFunc(s.bins, func(b *bin) bool { return len(b.items) == 0 })
}

// machines is how many are to be bought.
func (s *solver) machines() (n int64) {
	for _, b := range s.bins {
		n += b.copies
	}
	return n
}

// near says whether the machines cost no more than the policy's gap above what all their pods cost at least, packed together by resources.
func (s *solver) near() bool {
	sum := int64(0)
	for _, b := range s.bins {
		if b.host >= 0 {
			return false // opened for what must share a host: not packed together with others
		}
		sum += b.price * b.copies
	}
	return !s.severalLevels() && sum-s.floor <= mulDiv(s.floor, s.pol.MaxGapPPM, 1_000_000)
}

// rejoin makes machines alike copies again. Nothing may be added to one of them any more.
func (s *solver) rejoin() {
	seen, out := make(map[string]*bin, len(s.bins)), make([]*bin, 0, len(s.bins))
	var words []uint64
	var key []byte
	for _, b := range s.bins {
		slices.SortFunc(b.items, func(x, y binItem) int { return cmp.Compare(x.class, y.class) })
		words = append(words[:0], uint64(b.pool), uint64(b.mask.id), uint64(b.stock), uint64(len(b.items)))
		for _, it := range b.items {
			words = append(words, uint64(it.class), uint64(it.n))
		}
		for _, v := range b.charged {
			words = append(words, uint64(v))
		}
		key = appendWords(key[:0], words)
		if was := seen[string(key)]; was != nil {
			was.copies += b.copies
			continue
		}
		seen[string(key)] = b
		out = append(out, b)
	}
	s.bins = out
}

// prepare looks at the bins that it has not seen yet.
func (t *tidying) prepare() {
	s := t.s
	t.bins = slices.Grow(t.bins, len(s.bins)-len(t.bins))
	for _, b := range s.bins[len(t.bins):] {
		x := tidyBin{bin: b, firm: b.stock >= 0}
		for _, it := range b.items {
			x.firm = x.firm || s.classes[it.class].topo.nearHost // others may want to be near what is on it
		}
		t.settle(&x)
		t.bins = append(t.bins, x)
	}
}

// settle finds what a bin would be bought as.
func (t *tidying) settle(x *tidyBin) {
	if x.offer = t.cheapest(x.bin); x.offer >= 0 {
		x.free = *t.s.offers[x.offer].avail
		for k := range t.s.nd {
			x.free[k] -= x.req[k]
		}
	}
}

// cheapest is the cheapest offer that holds the bin, and for which limits have been charged; -1 where there is none.
func (t *tidying) cheapest(b *bin) int {
	s := t.s
	list := s.byPrice(b.pool)
	if b.stock < 0 {
		first := s.firstOf(b.pool, &b.req)
		s.work += int64(first)
		list = list[first:]
	} else {
		list = nil
		for i := range s.offers {
			if s.offers[i].stock == b.stock && b.mask.has(i) {
				list = append(list, i)
			}
		}
	}
	for _, i := range list {
		s.work++
		if o := &s.offers[i]; b.mask.has(i) && (o.stock < 0 || o.stock == b.stock) && s.binFits(b, o) && (!s.left[b.pool].limited || o.t.Capacity.Fits(b.charged)) {
			return i
		}
	}
	return -1
}

func (t *tidying) effort(x *tidyBin) int64 {
	return t.s.effortOf(t.s.offers[x.offer].price)
}

// round tries to empty machines, those least used first, into the fullest first or last, and says whether any was emptied or made smaller.
func (t *tidying) round(last bool) (any bool) {
	s := t.s
	type used struct {
		i      int
		most   int64 // millionths of a machine in use, of the resource most used
		effort int64
	}
	all := make([]used, 0, len(t.bins))
	for i := range t.bins {
		x := &t.bins[i]
		if x.offer < 0 || len(x.items) == 0 {
			continue
		}
		u := used{i: i}
		avail := s.offers[x.offer].avail
		for k := range s.dims {
			if avail[k] > 0 {
				u.most = max(u.most, mulDiv(x.req[k], 1_000_000, avail[k]))
			}
		}
		all = append(all, u)
	}
	slices.SortFunc(all, func(a, b used) int { return cmp.Or(cmp.Compare(b.most, a.most), cmp.Compare(a.i, b.i)) })
	targets := make([]int, len(all))
	for at, u := range all {
		targets[at] = u.i
	}
	var sources []used
	for at := len(all) - 1; at >= 0 && (len(sources) < maxEmptied || all[at].most == sources[len(sources)-1].most); at-- {
		if x := &t.bins[all[at].i]; !x.firm {
			all[at].effort = t.effort(x)
			sources = append(sources, all[at])
		}
	}
	slices.SortFunc(sources, func(a, b used) int {
		return cmp.Or(cmp.Compare(a.most, b.most), cmp.Compare(b.effort, a.effort), cmp.Compare(a.i, b.i))
	})
	if last {
		slices.Reverse(targets)
	}
	t.blocks(targets)
	for _, x := range sources[:min(len(sources), maxEmptied)] {
		if s.work >= t.until {
			break
		}
		if len(t.bins[x.i].items) > 0 && t.empty(x.i, targets) {
			any = true
		}
	}
	return any
}

// tidyBlock is how many targets are passed over at once where none of them has room.
const tidyBlock = 32

// blocks notes what is free at most on every few targets.
func (t *tidying) blocks(targets []int) {
	t.tops = t.tops[:0]
	if len(t.bins) <= maxGrown {
		return // rehome may make room
	}
	t.rooms, t.place = make([]int64, len(targets)*t.s.nd), make([]int32, len(t.bins))
	for at, j := range targets {
		if at%tidyBlock == 0 {
			t.tops = append(t.tops, vec{})
		}
		t.place[j] = int32(at)
		t.freed(j)
	}
}

// freed notes that more may be free on a bin.
func (t *tidying) freed(j int) {
	if len(t.tops) == 0 {
		return
	}
	at, nd := int(t.place[j]), t.s.nd
	top, room := &t.tops[at/tidyBlock], t.rooms[at*nd:][:nd]
	for k, v := range t.bins[j].free[:nd] {
		top[k], room[k] = max(top[k], v), max(room[k], v)
	}
}

// next is the first target from a place on that may have room for a pod, or how many there are.
func (t *tidying) next(at int, targets []int, req *vec) int {
	nd := t.s.nd
	for ; at < len(targets) && len(t.tops) > 0; at++ {
		if at%tidyBlock == 0 && !fitsIn(req, &t.tops[at/tidyBlock], nd) {
			at += tidyBlock - 1
			t.s.work++
			continue
		}
		if fitsSlice(req, t.rooms[at*nd:][:nd]) {
			break
		}
		t.s.work++
	}
	return min(at, len(targets))
}

// merge looks for machines of one pool, the cheapest first, that one larger machine can replace for less: the last few that a class is left
// with, mostly.
func (t *tidying) merge() bool {
	s := t.s
	if len(t.bins) > maxGrown {
		return false
	}
	byPool := make([][]int, len(s.in.Pools))
	for i := range t.bins {
		x := &t.bins[i]
		if x.offer < 0 || x.firm || len(x.items) == 0 || s.left[x.pool].limited || len(s.minValuesOf(x.pool)) > 0 {
			continue
		}
		byPool[x.pool] = append(byPool[x.pool], i)
	}
	for _, list := range byPool {
		slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(t.effort(&t.bins[a]), t.effort(&t.bins[b])) })
		for from := 0; from+1 < len(list) && s.work < t.until; from++ {
			i := list[from]
			into := t.bins[i]
			sum := t.effort(&into)
			var gone []int
			for _, j := range list[from+1:] {
				x := &t.bins[j]
				if !t.joins(i, j, x.items, &into) {
					continue
				}
				y := t.without(i, slices.Concat(into.items, x.items))
				if y.offer < 0 {
					t.leave(i, j, x.items)
					continue
				}
				into, gone, sum = y, append(gone, j), sum+t.effort(x)
				if t.effort(&into) < sum {
					t.replace(i, &into, gone)
					return true
				}
			}
			for _, j := range gone {
				t.leave(i, j, t.bins[j].items)
			}
		}
	}
	return false
}

// joins counts items of bin j on the host of bin i, and says whether rules between pods let them all be there beside those on into.
func (t *tidying) joins(i, j int, items []binItem, into *tidyBin) bool {
	if len(t.s.minValuesOf(into.pool)) > 0 {
		return false // it would have to be seen how many types are left
	}
	beside, b := *into, *into.bin
	beside.bin = &b
	for k := range items {
		c := t.s.classes[items[k].class]
		if !c.freely() {
			if t.welcome(&beside, c) < items[k].n {
				t.leave(i, j, items[:k])
				return false
			}
			b.items = append(slices.Clip(b.items), items[k])
			b.guests = t.guestsOf(b.items)
		}
		t.bump(i, j, &items[k], items[k].n)
	}
	return true
}

// leave has items of bin j counted on its own host again, instead of that of bin i.
func (t *tidying) leave(i, j int, items []binItem) {
	for k := range items {
		t.bump(j, i, &items[k], items[k].n)
	}
}

// replace has one bin hold what others held, whose pods are counted there.
func (t *tidying) replace(i int, by *tidyBin, gone []int) {
	for _, j := range gone {
		t.bins[j].bin.items = nil
		t.bins[j].offer = -1
	}
	by.charged = t.s.offers[by.offer].t.Capacity
	*t.bins[i].bin = *by.bin
	by.bin = t.bins[i].bin
	t.bins[i] = *by
}

// freely says whether pods of the class go beside any others, resources and domains aside.
func (c *class) freely() bool {
	return len(c.topo.host) == 0 && len(c.ports) == 0 && len(c.attach) == 0 && c.apart.most == 0
}

// empty moves what it can of a bin elsewhere, and takes it back if that saves nothing.
func (t *tidying) empty(i int, targets []int) bool {
	s := t.s
	t.undo = t.undo[:0]
	was := t.bins[i]
	rest := t.bySize(was.items, s.offers[was.offer].avail)
	for k := range rest {
		it := &rest[k]
		req := &s.classes[it.class].req
		for at := 0; it.n > 0; at++ {
			if at = t.next(at, targets, req); at >= len(targets) {
				break
			}
			j := targets[at]
			n := t.takes(j, i, it)
			if n == 0 && t.rehome(j, i, it) {
				n = t.takes(j, i, it)
			}
			if n > 0 {
				t.move(j, i, it, n)
			}
		}
	}
	rest = slices.DeleteFunc(rest, func(it binItem) bool { return it.n == 0 })
	smaller := t.without(i, rest)
	saved := t.effort(&was)
	if len(rest) > 0 {
		saved = 0
		if smaller.offer >= 0 {
			saved -= t.effort(&smaller) - t.effort(&was)
		}
		if j, grown, by := t.grow(i, rest, targets, t.effort(&was)-max(0, saved)); j >= 0 {
			for k := range rest {
				t.bump(j, i, &rest[k], rest[k].n)
			}
			t.keep(j)
			*t.bins[j].bin = *grown.bin
			grown.bin = t.bins[j].bin
			t.bins[j] = grown
			t.freed(j)
			rest, saved = nil, t.effort(&was)-by
		}
	}
	if saved <= 0 {
		t.takeBack(i)
		return false
	}
	left := &s.left[was.pool]
	if len(rest) == 0 {
		left.take(was.charged, -1)
		was.items = nil
		t.bins[i] = tidyBin{bin: was.bin, offer: -1}
		was.bin.items = nil
		return true
	}
	left.take(was.charged, -1)
	smaller.charged = s.offers[smaller.offer].t.Capacity
	left.take(smaller.charged, 1)
	*was.bin = *smaller.bin
	smaller.bin = was.bin
	t.bins[i] = smaller
	t.freed(i)
	return true
}

// bySize copies items, those first of which a pod takes the largest part of a machine.
func (t *tidying) bySize(items []binItem, avail *vec) []binItem {
	t.sized = t.sized[:0]
	for i := range items {
		x := sizedItem{it: items[i]}
		for k := range t.s.dims {
			if a := avail[k]; a > 0 {
				x.size = max(x.size, mulDiv(t.s.classes[x.it.class].req[k], 1_000_000, a))
			}
		}
		t.sized = append(t.sized, x)
	}
	slices.SortStableFunc(t.sized, func(a, b sizedItem) int { return cmp.Compare(b.size, a.size) })
	out := make([]binItem, len(items))
	for i := range out {
		out[i] = t.sized[i].it
	}
	return out
}

type sizedItem struct {
	size int64
	it   binItem
}

// takes is how many pods of an item of bin i bin j has room for, as the machine that it is.
func (t *tidying) takes(j, i int, it *binItem) int64 {
	s, x := t.s, &t.bins[j]
	s.work++
	if j == i || x.offer < 0 || len(x.items) == 0 {
		return 0
	}
	c := s.classes[it.class]
	if !it.mask.has(x.offer) || !fitsIn(&c.req, &x.free, s.nd) {
		return 0
	}
	return min(it.n, timesIn(&c.req, &x.free, s.nd), t.welcome(x, c))
}

// rehome has the pool of bin i buy bin j, where that costs no more and pods that need that pool can then join. It says whether it did.
func (t *tidying) rehome(j, i int, it *binItem) bool {
	s, x := t.s, &t.bins[j]
	pool := t.bins[i].pool
	if j == i || x.offer < 0 || x.pool == pool || x.firm || len(x.items) == 0 || len(t.bins) > maxGrown || it.mask.has(x.offer) ||
		s.left[pool].limited || s.left[x.pool].limited || len(s.minValuesOf(pool)) > 0 {
		return false
	}
	c := s.classes[it.class]
	b := *x.bin
	b.pool, b.mask = pool, s.and(s.poolMask(pool), it.mask)
	for _, have := range x.items {
		b.mask = s.and(b.mask, have.mask)
	}
	y := tidyBin{bin: &b}
	t.settle(&y)
	if y.offer < 0 || t.effort(&y) > t.effort(x) || !fitsIn(&c.req, &y.free, s.nd) || t.welcome(&y, c) <= 0 {
		return false
	}
	t.keep(j)
	b.charged = s.offers[y.offer].t.Capacity
	*x.bin = b
	y.bin = x.bin
	t.bins[j] = y
	return true
}

// turn has bin j be another machine, no dearer, to which pods may go that have room on the one it is and may not go to that. It says whether
// it did.
func (t *tidying) turn(j int, it *binItem) bool {
	s, x := t.s, &t.bins[j]
	c := s.classes[it.class]
	if x.offer < 0 || it.mask.has(x.offer) || !fitsIn(&c.req, &x.free, s.nd) {
		return false
	}
	b := *x.bin
	b.mask = s.and(b.mask, it.mask)
	y := tidyBin{bin: &b, firm: x.firm}
	t.settle(&y)
	if y.offer < 0 || t.effort(&y) > t.effort(x) || !fitsIn(&c.req, &y.free, s.nd) || t.welcome(&y, c) <= 0 {
		return false
	}
	*x.bin = b
	y.bin = x.bin
	t.bins[j] = y
	return true
}

// welcome is how many pods of a class may join those on a bin, resources aside.
func (t *tidying) welcome(x *tidyBin, c *class) int64 {
	s := t.s
	if len(s.minValuesOf(x.pool)) > 0 {
		return 0 // it would have to be seen how many types are left
	}
	n := s.hostAllows(c, x.host)
	if n > 0 && len(c.ports) > 0 {
		n = min(n, portsFit(c, x.guests.ports))
		if x.offer >= 0 {
			n = min(n, portsFit(c, s.offers[x.offer].ports))
		}
	}
	if n > 0 && len(c.attach) > 0 {
		if _, ok := attachFit(c, x.guests.handles, s.offers[x.offer].t.CSILimits); !ok {
			return 0
		}
	}
	if c.apart.most > 0 && !t.closer {
		have := int64(0)
		for _, it := range x.items {
			if it.class == c.id {
				have = it.n
			}
		}
		n = min(n, max(0, c.apart.most-have))
	}
	return n
}

// keep notes how a bin is before it is changed.
func (t *tidying) keep(j int) {
	x := &t.bins[j]
	was := undoing{j: j, was: *x, bin: *x.bin}
	was.bin.items = slices.Clone(x.items)
	t.undo = append(t.undo, was)
}

// bump has n pods counted on the host of bin j instead of that of bin i; i is -1 where they come from none.
func (t *tidying) bump(j, i int, it *binItem, n int64) {
	c := t.s.classes[it.class]
	if i >= 0 {
		t.s.bumpHost(c, t.bins[i].host, -n)
	}
	t.s.bumpHost(c, t.bins[j].host, n)
}

// move puts n pods of an item on bin j.
func (t *tidying) move(j, i int, it *binItem, n int64) {
	s := t.s
	t.keep(j)
	t.bump(j, i, it, n)
	x := &t.bins[j]
	x.mask = s.and(x.mask, it.mask)
	x.bin.guests = t.guestsOf(x.items)
	x.items = slices.Clone(x.items)
	x.add(s.classes[it.class], it.mask, n, s.nd)
	for k := range s.nd {
		x.free[k] -= s.classes[it.class].req[k] * n
	}
	it.n -= n
}

func (t *tidying) guestsOf(items []binItem) (g guests) {
	for _, it := range items {
		if c := t.s.classes[it.class]; len(c.ports) > 0 || len(c.attach) > 0 {
			g.add(c.c)
		}
	}
	return g
}

// takeBack undoes all moves from bin i.
func (t *tidying) takeBack(i int) {
	for k := len(t.undo) - 1; k >= 0; k-- {
		u := &t.undo[k]
		for _, it := range t.bins[u.j].items {
			for _, old := range u.bin.items {
				if old.class == it.class {
					it.n -= old.n
				}
			}
			if it.n != 0 {
				t.bump(i, u.j, &it, it.n)
			}
		}
		*u.was.bin = u.bin
		t.bins[u.j] = u.was
	}
}

// without is bin i with only these items.
func (t *tidying) without(i int, items []binItem) tidyBin {
	b := *t.bins[i].bin
	b.items, b.req, b.guests = nil, vec{}, guests{}
	if b.stock < 0 {
		b.mask = t.s.poolMask(b.pool)
	}
	for k := range items {
		b.mask = t.s.and(b.mask, items[k].mask)
		b.add(t.s.classes[items[k].class], items[k].mask, items[k].n, t.s.nd)
	}
	x := tidyBin{bin: &b}
	if len(items) > 0 {
		t.settle(&x)
	} else {
		x.offer = -1
	}
	return x
}

// grow finds the bin that would take all these items of bin i for the least more, less than a limit.
func (t *tidying) grow(i int, items []binItem, targets []int, limit int64) (best int, grown tidyBin, by int64) {
	s := t.s
	best, by = -1, limit
	if len(targets) > maxGrown {
		return best, grown, by
	}
	for _, j := range targets {
		x := &t.bins[j]
		if j == i || x.offer < 0 || len(x.items) == 0 || x.stock >= 0 || s.left[x.pool].limited {
			continue
		}
		if !t.joins(j, i, items, x) {
			continue
		}
		t.leave(j, i, items) // only asked
		next := *x.bin
		next.items = slices.Clone(x.items)
		next.guests = t.guestsOf(next.items)
		for k := range items {
			next.mask = s.and(next.mask, items[k].mask)
			next.add(s.classes[items[k].class], items[k].mask, items[k].n, s.nd)
		}
		y := tidyBin{bin: &next, firm: x.firm}
		if t.settle(&y); y.offer >= 0 {
			if more := t.effort(&y) - t.effort(x); more < by {
				best, grown, by = j, y, more
			}
		}
	}
	return best, grown, by
}

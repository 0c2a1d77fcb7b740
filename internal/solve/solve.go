// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// maxRestarts bounds how often domains in which nothing can be bought are taken out one by one; after that they go all at once.
const maxRestarts = 32

// Solve answers every pod of the demand: on a room, on a machine to buy, or refused with reasons.
func Solve(p *Problem, mem Memory, pol Policy) (Result, Memory) {
	s := best(p, mem, pol)
	res := s.result()
	if len(s.learnt.fills) > 0 {
		mem.columns = &s.learnt
	}
	mem.rooms, mem.inOrder = p.Rooms, s.rooms.in
	return res, mem
}

// answer places and buys for every pod, in one of the ways that may be tried.
func answer(p *Problem, mem Memory, pol Policy, g guess) *solver {
	s := compile(p, mem, pol)
	s.guess = g
	s.siteMaps, s.siteIDs, s.caps = map[siteMapKey][]site{}, map[string]int{}, map[siteKey]int64{}
	s.memory, s.banned = mem.columns, map[[2]int]bool{}
	s.deadline = 2 * pol.Work // however often it is begun anew
	s.remember()
	for try := 0; ; try++ {
		short := s.attempt()
		again := s.rank(short) || s.raise(short) || s.block(short, try >= maxRestarts || s.spent())
		if !again {
			s.colocate()
			again = s.ban() || s.widen(s.bins, false) || s.crowd() || s.hollow()
		}
		if !again {
			break
		}
		s.reset()
	}
	s.tidy()
	s.topUp()
	s.rejoin()
	return s
}

// unasked is how many steps, beside those allowed for refining, a first plan may take before it is made do with.
const unasked = 400_000_000

// spent says whether that is so.
func (s *solver) spent() bool {
	if s.work > s.deadline+unasked {
		s.truncated = true
		return true
	}
	return false
}

// start is the state an attempt begins from.
type start struct {
	free []int64
	left []poolLeft
	used map[string]bool

	stock []int64
}

func (s *solver) remember() {
	s.start = start{free: slices.Clone(s.rooms.free), used: map[string]bool{}, stock: slices.Clone(s.stock)}
	for k := range s.excluded {
		s.start.used[k] = true
	}
	for i := range s.left {
		l := s.left[i]
		l.left = l.left.Clone()
		s.start.left = append(s.start.left, l)
	}
}

// reset takes back everything placed.
func (s *solver) reset() {
	copy(s.rooms.free, s.start.free)
	copy(s.stock, s.start.stock)
	clear(s.rooms.settle)
	clear(s.rooms.guests)
	for i := range s.left {
		s.left[i].nodes = s.start.left[i].nodes
		copy(s.left[i].left, s.start.left[i].left)
	}
	if s.excluded != nil {
		clear(s.excluded)
		for k := range s.start.used {
			s.excluded[k] = true
		}
	}
	for i := range s.counters {
		c := &s.counters[i]
		clear(c.n)
		copy(c.n, c.start)
		c.total, c.floating = c.total0, c.float0
		c.changes++
	}
	for _, c := range s.classes {
		c.taken = 0
		for i := range c.topo.wide {
			clear(c.topo.wide[i].own)
		}
	}
	s.premium = 0
	s.placed, s.bins, s.demands, s.learnt.fills = s.placed[:0], nil, nil, nil
}

// attempt places and packs everything once, and returns the demands that found no machine.
func (s *solver) attempt() (short []*demand) {
	s.bought, s.floor = make(map[siteKey]int64, len(s.classes)), 0
	s.demands, s.begun = nil, nil
	waiting := s.queue()
	for {
		s.place(waiting)
		if !s.seed() {
			break
		}
		waiting = slices.DeleteFunc(waiting, func(c *class) bool { return c.left() == 0 || !c.topo.near })
	}
	for _, tier := range s.tiers() {
		s.buyTier(tier)
	}
	for i := range s.counters {
		s.counters[i].promised = 0 // what was kept is on bins now
	}
	for _, d := range s.demands {
		if d.n > 0 {
			short = append(short, d)
			d.untake(d.n)
		}
	}
	return short
}

// buyTier buys for demands what they would rather have, and, where a wish can't be had, what they may.
func (s *solver) buyTier(tier []*demand) {
	s.buyLevels(tier)
	again := false
	for _, d := range tier {
		if d.n > 0 && d.full != nil {
			d.mask, d.full, again = d.full, nil, true
		}
	}
	if again {
		s.buyLevels(tier)
	}
}

// buyLevels buys for demands level by level. A guess may have pods go into room left on machines bought before: from the highest weight
// down, or from the lowest up. Pods left out take any such room first.
func (s *solver) buyLevels(tier []*demand) {
	if s.spare != nil {
		s.fillLeft(tier)
	} else if s.guess.fill == fillUp {
		for first := len(s.levels) - 1; first >= 0; first-- {
			var here []*demand
			for _, d := range tier {
				if s.firstLevel(d.mask) == first {
					here = append(here, d)
				}
			}
			s.fillLeft(here)
			s.buyFrom(first, here)
		}
		return
	}
	s.buyFrom(0, tier)
}

// buyFrom buys from one level and those of less weight.
func (s *solver) buyFrom(first int, demands []*demand) {
	for li := first; li < len(s.levels); li++ {
		var here []*demand
		for _, d := range demands {
			if d.n > 0 && s.inLevel(d.mask, s.levels[li]) {
				here = append(here, d)
			}
		}
		if s.guess.fill == fillDown && s.spare == nil {
			s.fillLeft(here)
		}
		here = slices.DeleteFunc(here, func(d *demand) bool { return d.n == 0 })
		if len(here) == 0 {
			continue
		}
		all := podsOf(here)
		for _, part := range s.demandParts(s.levels[li], here) {
			s.buy(s.levels[li], part, mulDiv(s.pol.Work, podsOf(part), all))
		}
	}
}

// firstLevel is the highest weight with an offer of the mask.
func (s *solver) firstLevel(m *mask) int {
	for li := range s.levels {
		if s.inLevel(m, s.levels[li]) {
			return li
		}
	}
	return -1
}

// tiers are the demands that are packed together: all of them, or, once limits have left a pod without a machine that one of lower
// priority got, those of one priority at a time, the highest first. Those that only machines limited in number hold come before others,
// which might take these.
func (s *solver) tiers() (out [][]*demand) {
	if len(s.stock) == 0 && !s.ranked {
		return [][]*demand{s.demands}
	}
	only := map[*demand]int{}
	for _, d := range s.demands {
		if len(s.stock) > 0 && !s.holds(s.endless(d.mask), &d.c.req) {
			only[d] = -1
		}
	}
	rank := func(d *demand) [2]int {
		if s.ranked {
			return [2]int{-int(d.c.c.Priority), only[d]}
		}
		return [2]int{0, only[d]}
	}
	byRank := slices.Clone(s.demands)
	slices.SortStableFunc(byRank, func(a, b *demand) int {
		x, y := rank(a), rank(b)
		return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1]))
	})
	for i, d := range byRank {
		if i == 0 || rank(byRank[i-1]) != rank(d) {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], d)
	}
	return out
}

// endless is the offers of a mask of which there are as many as wanted.
func (s *solver) endless(m *mask) *mask {
	bits := slices.Clone(m.bits)
	for i := range s.offers {
		if s.offers[i].stock >= 0 {
			bits[i>>6] &^= 1 << (i & 63)
		}
	}
	return s.internMask(bits)
}

// rank has priorities respected, and says whether that was needed and not done yet.
func (s *solver) rank(short []*demand) bool {
	if s.ranked {
		return false
	}
	for _, d := range short {
		for _, b := range s.bins {
			for _, it := range b.items {
				s.ranked = s.ranked || s.classes[it.class].c.Priority < d.c.c.Priority
			}
		}
	}
	return s.ranked
}

func (s *solver) inLevel(m *mask, l level) bool {
	for i := l.lo; i < l.hi; i++ {
		if m.has(i) {
			return true
		}
	}
	return false
}

// podsOf is how many pods demands are.
func podsOf(demands []*demand) (n int64) {
	for _, d := range demands {
		n += d.n
	}
	return n
}

// buy packs the demands onto machines of one level, refining for so many steps, and counts down what it could not.
func (s *solver) buy(l level, demands []*demand, work int64) {
	lots := lotsOf(demands)
	wholes := make([]*demand, len(lots))
	for i, x := range lots {
		wholes[i] = x.whole()
	}
	p := s.newPacking(l, wholes)
	p.work = work
	batches, left := p.plan()
	s.floor += p.floor
	if p.keepApart() {
		together, rest := batches, left
		cost := p.effortOf(together) + p.unspread(together)
		p.refund(together)
		batches, left = p.plan()
		if !covers(left, rest) || p.effortOf(batches)+p.unspread(batches) > cost {
			p.refund(batches)
			p.charge(together)
			batches, left = together, rest
		} else {
			s.premium += max(0, priceOf(batches)-priceOf(together))
		}
	}
	x := deal(lots, left)
	for i := range batches {
		b := &batches[i]
		for copies := b.copies; copies > 0; {
			items, n := x.next(b.items, copies)
			s.bins = append(s.bins, s.binOf(b, items, n))
			copies -= n
		}
	}
	s.shareWorths(lots)
}

// plan packs the demands and returns what is left of them.
func (p *packing) plan() (batches []batch, left []int64) {
	left = make([]int64, len(p.demands))
	for i, d := range p.demands {
		left[i] = d.n
	}
	p.fares, p.haggled = [maxDims]fare{}, 0
	p.floor = p.price(left)
	if p.crowd() {
		p.price(left)
	}
	p.thin(left)
	whole := slices.Clone(left)
	before := p.s.work
	batches = p.pack(left)
	if p.s.work < p.s.deadline && p.worthwhile(batches) {
		batches = p.learn(whole, left, batches, p.s.work-before)
	}
	if p.s.work < p.s.deadline && len(left) <= maxRows && p.worthwhile(batches) {
		batches = p.refine(whole, left, batches)
	}
	return batches, left
}

// keepApart has fills keep the wishes of pods to be apart, and says whether there are any.
func (p *packing) keepApart() bool {
	for d, x := range p.demands {
		if x.c.apart.most > 0 && x.n > x.c.apart.most {
			p.apart, p.hosted[d] = true, true
		}
	}
	return p.apart
}

// maxProofRows is how many demands the bound by columns takes on; with more of them fills are so full that resource prices prove as
// much.
const maxProofRows = 200

// worthwhile says whether the plan is further from the resource-price bound than the policy asks.
func (p *packing) worthwhile(batches []batch) bool {
	return priceOf(batches)-p.floor > mulDiv(p.floor, p.s.pol.MaxGapPPM, 1_000_000)
}

// priceOf is what batches cost.
func priceOf(batches []batch) (sum int64) {
	for _, b := range batches {
		sum += b.m.price * b.copies
	}
	return sum
}

// refine makes a plan of columns and keeps the cheaper of the two. left is what the greedy plan leaves, and then what is left by the
// one kept.
func (p *packing) refine(whole, left []int64, batches []batch) []batch {
	s := p.s
	fixed := slices.DeleteFunc(slices.Clone(batches), func(b batch) bool { return b.m.stock < 0 })
	batches = slices.DeleteFunc(batches, func(b batch) bool { return b.m.stock >= 0 })
	for _, b := range fixed { // greedy has taken what there is of limited stock
		for _, it := range b.items {
			whole[it.d] -= it.n * b.copies
		}
	}
	t := newMaster(p, whole)
	if len(t.rows) == 0 {
		return fixed
	}
	for _, b := range batches {
		t.offer(column{m: slices.Index(p.machines, b.m), items: b.items})
	}
	t.recollect(s.memory)
	s.tier = 2
	until := min(s.work+p.work*3/4, s.deadline)
	most := p.work / 2
	if len(t.rows) > maxProofRows {
		most /= 2 // greedy is near already, and each round costs more
	}
	s.truncated = !t.generate(min(s.work+most, s.deadline))
	t.memorize(&s.learnt)
	p.refund(batches)
	for _, way := range [...]func([]int64) []batch{t.plan, func(rest []int64) []batch { return t.clone().dive(rest, until) }} {
		rest := slices.Clone(whole)
		other := way(rest)
		p.refund(other)
		if covers(rest, left) && p.effortOf(other) < p.effortOf(batches) {
			copy(left, rest)
			batches = other
		}
	}
	p.charge(batches)
	batches = p.repair(batches, until)
	if len(t.rows) <= maxProofRows && p.worthwhile(batches) {
		t.recall(priceOf(batches), min(s.work+p.work/2, s.deadline))
	}
	return append(fixed, batches...)
}

// covers says whether a leaves no pod that b places.
func covers(a, b []int64) bool {
	for i := range a {
		if a[i] > b[i] {
			return false
		}
	}
	return true
}

// block lowers how many pods may be bought for where some found no machine, so that they are not counted against others that spread
// with them or want to be near them. It says whether anything changed, and the attempt must be made again.
func (s *solver) block(short []*demand, all bool) bool {
	changed := false
	for _, d := range short {
		if d.site != nil {
			changed = true
			s.caps[siteKey{d.c.id, d.site.id}] = d.asked - d.n
		}
	}
	if changed && all {
		for _, d := range s.demands {
			if d.site != nil {
				s.caps[siteKey{d.c.id, d.site.id}] = 0
			}
		}
	}
	return changed
}

// widen adds domains to the spreads that did not expect them: machines bought for others stand there now, and kube-scheduler will count
// them, whether the class tolerates their taints or not. It says whether the attempt must be made again. Once there are no more attempts,
// settled, it says whether what was bought last breaks the spread of a pod placed, and then changes nothing.
func (s *solver) widen(bins []*bin, settled bool) bool {
	type wider struct {
		r    *rule
		more []int32
	}
	var found []wider
	var bought []uint64
	in := map[domainKey][]int32{} // where something may come to stand
	for _, c := range s.classes {
		for i := range c.topo.wide {
			r := &c.topo.wide[i]
			if r.kind != ruleSpread || !r.hard {
				continue
			}
			if bought == nil {
				bought = s.becoming(bins)
			}
			k := domainKey{r.on, r.key}
			there, known := in[k]
			if !known {
				for x := range s.offers {
					o := &s.offers[x]
					if v := o.vals[r.key]; v > 0 && bought[x>>6]>>(x&63)&1 != 0 && !slices.Contains(there, v) && (r.on == nil || s.inScope(r.on, o)) {
						there = append(there, v)
					}
				}
				in[k] = there
			}
			expected := func(v int32) bool { return slices.Contains(r.domains, v) }
			if !slices.ContainsFunc(there, func(v int32) bool { return !expected(v) }) {
				continue
			}
			more := slices.DeleteFunc(slices.Clone(there), expected)
			if settled && s.breaks(r, more) {
				return true
			}
			found = append(found, wider{r, more})
		}
	}
	for _, x := range found {
		x.r.domains, x.r.filled = slices.Concat(x.r.domains, x.more), slices.Concat(x.r.filled, x.more)
		slices.Sort(x.r.domains)
	}
	return !settled && len(found) > 0
}

// breaks says whether a pod placed would be beyond its spread were these domains counted too.
func (s *solver) breaks(r *rule, more []int32) bool {
	wide := *r
	wide.domains = slices.Concat(r.domains, more)
	least := s.count(&wide)
	for d := range r.own {
		if s.beyond(r, d, least) {
			return true
		}
	}
	return false
}

// beyond says whether pods that own a spread were placed in a domain that holds too many for it.
func (s *solver) beyond(r *rule, d int, least int64) bool {
	return r.own[d] > 0 && s.counters[r.counter].at(d)-least > r.maxSkew
}

// attempted is what an attempt came to, and what it assumed.
type attempted struct {
	left    int // pods not placed
	domains map[*rule][]int32
	caps    map[siteKey]int64
}

// hollow takes domains out of the spreads of classes with pods left over where, as it turned out, nothing stands and nothing is bought:
// kube-scheduler does not count them. It is tried, and taken back where it places no more pods: a spread over fewer domains is worth less.
// It says whether the attempt must be made again.
func (s *solver) hollow() bool {
	now := &attempted{caps: maps.Clone(s.caps), domains: map[*rule][]int32{}}
	for _, c := range s.classes {
		now.left += s.wanted(c)
	}
	was := s.trial
	if was != nil && now.left >= was.left {
		s.trial, s.caps, s.full = nil, was.caps, true
		for r, domains := range was.domains {
			r.domains = domains
		}
		return true
	}
	if now.left == 0 || s.full {
		return false
	}
	var bought []uint64
	for _, c := range s.classes {
		for i := range c.topo.wide {
			r := &c.topo.wide[i]
			if r.kind != ruleSpread || !r.hard || s.wanted(c) == 0 {
				continue
			}
			if bought == nil {
				bought = s.becoming(s.bins)
			}
			kept := slices.DeleteFunc(slices.Clone(r.domains), func(v int32) bool {
				return !slices.Contains(r.standing, v) && !slices.Contains(r.filled, v) && !s.boughtIn(r, bought, v)
			})
			if len(kept) < len(r.domains) {
				now.domains[r], r.domains = r.domains, kept
			}
		}
	}
	if len(now.domains) == 0 {
		return false
	}
	s.trial = now
	return true
}

// boughtIn says whether a machine that counts for the spread may come to stand in a domain.
func (s *solver) boughtIn(r *rule, bought []uint64, v int32) bool {
	for x := range s.offers {
		if o := &s.offers[x]; o.vals[r.key] == v && bought[x>>6]>>(x&63)&1 != 0 && (r.on == nil || s.inScope(r.on, o)) {
			return true
		}
	}
	return false
}

// becoming is every offer that some of the machines bought may turn out to be.
func (s *solver) becoming(bins []*bin) []uint64 {
	out := make([]uint64, (len(s.offers)+63)/64)
	for _, b := range bins {
		for w, bits := range b.mask.bits {
			if bits &^= out[w]; bits == 0 {
				continue
			}
			for i := w * 64; i < min(w*64+64, len(s.offers)); i++ {
				if bits>>(i&63)&1 == 0 {
					continue
				}
				if s.work++; s.binFits(b, &s.offers[i]) {
					out[w] |= 1 << (i & 63)
				}
			}
		}
	}
	return out
}

// crowd finds classes whose spread is kept only if they come before others that it counts, and nobody can say who comes first. Those are
// placed after the others from then on, and where that was tried, go elsewhere. It says whether the attempt must be made again.
func (s *solver) crowd() bool {
	changed := false
	for _, c := range s.classes {
		moved := false
		for i := range c.topo.wide {
			r := &c.topo.wide[i]
			if r.kind != ruleSpread || !r.hard {
				continue
			}
			least := s.least(r)
			s.work += int64(len(r.own))
			for d := range r.own {
				switch {
				case !s.beyond(r, d, least):
				case c.later >= maxLater:
					r.shut, changed = append(r.shut, int32(d)), true
				default:
					moved, changed = true, true
				}
			}
		}
		if moved {
			c.later++
		}
	}
	return s.stray() || changed
}

// stray finds groups that want to be near each other and begin in a domain where nobody else holds them, while pods that they want to be near
// stand elsewhere: if those came first, kube-scheduler would not let the group begin there. It goes elsewhere from then on.
func (s *solver) stray() bool {
	leaning := map[[2]int]int64{} // by counter and domain: pods there that came because of others
	each := func(f func(r *rule, d int)) {
		for _, c := range s.classes {
			for i := range c.topo.wide {
				r := &c.topo.wide[i]
				s.work += int64(len(r.own))
				for d, n := range r.own {
					if r.kind == ruleAffinity && r.self && n > 0 { // others follow, and begin nothing
						f(r, d)
					}
				}
			}
		}
	}
	each(func(r *rule, d int) { leaning[[2]int{r.counter, d}] += int64(r.own[d]) })
	changed := false
	each(func(r *rule, d int) {
		x := &s.counters[r.counter]
		if have := x.at(d); have <= leaning[[2]int{r.counter, d}] && x.total > have && !slices.Contains(r.shut, int32(d)) {
			r.shut, changed = append(r.shut, int32(d)), true
		}
	})
	return changed
}

// crowds says whether one more pod of the class at the site would leave a pod placed there beyond its spread, were that to come last, or a
// group that begins elsewhere without the right to, were this one to come first.
func (s *solver) crowds(c *class, where *site) bool {
	for i, id := range c.topo.bumpWide {
		x := &s.counters[id]
		if !x.spread && where.vals[x.key] != 0 && s.begunElsewhere(id, where.vals[x.key]) {
			return true
		}
		d := where.vals[x.key]
		if at := c.topo.scopeOf[i]; !x.spread || d <= 0 || at >= 0 && !where.in[at] {
			continue
		}
		for _, other := range s.classes {
			for j := range other.topo.wide {
				r := &other.topo.wide[j]
				if r.kind == ruleSpread && r.hard && r.counter == id && int(d) < len(r.own) && r.own[d] > 0 && x.at(int(d))+1-s.least(r) > r.maxSkew {
					return true
				}
			}
		}
	}
	return false
}

// begunElsewhere says whether a group that wants to be near what a counter counts begins in another domain, where nobody else holds it.
func (s *solver) begunElsewhere(id int, where int32) bool {
	leaning := map[int]int64{} // by domain
	for _, c := range s.classes {
		for i := range c.topo.wide {
			r := &c.topo.wide[i]
			if r.kind != ruleAffinity || !r.self || r.counter != id {
				continue
			}
			s.work += int64(len(r.own))
			for d, n := range r.own {
				if n > 0 && d != int(where) {
					leaning[d] += int64(n)
				}
			}
		}
	}
	for d, n := range leaning {
		if s.counters[id].at(d) <= n {
			return true
		}
	}
	return false
}

// maxLater is how often a class is put behind others: two classes may be in each other's way.
const maxLater = 3

// queue is the classes in the order they are placed.
func (s *solver) queue() []*class {
	out := slices.Clone(s.classes)
	slices.SortStableFunc(out, func(a, b *class) int { return cmp.Compare(a.later, b.later) })
	return out
}

// ban takes a pool from the classes of a bin that leaves it too little choice. It says whether the attempt must be made again.
func (s *solver) ban() bool {
	b := s.improper()
	if b == nil {
		return false
	}
	for _, it := range b.items {
		c := s.classes[it.class]
		s.banned[[2]int{c.id, b.pool}] = true
		bits := slices.Clone(c.mask.bits)
		for i, w := range s.poolMask(b.pool).bits {
			bits[i] &^= w
		}
		c.mask, c.wish = s.internMask(bits), nil
	}
	return true
}

// result writes the plan down.
func (s *solver) result() Result {
	var res Result
	next := make([]int, len(s.classes))
	take := func(class int, n int) []*model.Pod {
		c := s.classes[class]
		pods := c.pods[next[class] : next[class]+n]
		next[class] += n
		return pods
	}
	onRoom := make(map[int][]*model.Pod)
	for _, p := range s.placed {
		onRoom[p.room] = append(onRoom[p.room], take(p.class, p.n)...)
	}
	for room, x := range s.rooms.in {
		if pods := onRoom[room]; len(pods) > 0 {
			slices.SortFunc(pods, comparePods)
			res.OnRooms = append(res.OnRooms, Assignment{Room: x.Name, Pods: pods})
		}
	}
	slices.SortFunc(res.OnRooms, func(a, b Assignment) int { return strings.Compare(a.Room, b.Room) })
	rank := map[string]int{}
	for i := range s.in.Pools {
		rank[s.in.Pools[i].Name] = i
	}
	type machine struct {
		rank  int
		price int64
		first numbered
		pods  []*model.Pod
		b     *bin
		ch    *chosen
	}
	order := make([]machine, 0, s.machines())
	room := make([]*model.Pod, 0, len(s.in.Demand)) // that is bought for
	var list []numbered
	for _, b := range s.bins {
		var ch *chosen
		for range b.copies {
			if ch == nil || s.left[b.pool].limited {
				ch = s.choose(b)
			}
			if ch.offer < 0 {
				continue // nothing holds what was packed; its pods are refused rather than lost
			}
			list = list[:0]
			for _, it := range b.items {
				numbers := s.classes[it.class].numbers[next[it.class]:]
				for i, p := range take(it.class, int(it.n)) {
					list = append(list, numbered{numbers[i], p})
				}
			}
			slices.SortFunc(list, compareNumbered)
			begin := len(room)
			for _, p := range list {
				room = append(room, p.pod)
			}
			x := machine{rank: rank[s.in.Pools[b.pool].Name], price: s.offers[ch.offer].price, first: list[0], pods: slices.Clip(room[begin:]), b: b, ch: ch}
			order = append(order, x)
			res.Cost.NewMicroPerHour += x.price
			res.Cost.PremiumMicroPerHour += ch.premium
		}
	}
	slices.SortFunc(order, func(a, b machine) int {
		if c := cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.price, b.price)); c != 0 {
			return c
		}
		return compareNumbered(a.first, b.first)
	})
	res.New = make([]NewNode, len(order)) // nodes are large: they are written where they belong
	for i, x := range order {
		res.New[i] = s.nodeOf(x.b, x.ch)
		res.New[i].Pods = x.pods
	}
	res.Cost.PremiumMicroPerHour = min(res.Cost.PremiumMicroPerHour+s.premium, res.Cost.NewMicroPerHour)
	s.cost(&res) // before the reasons, which take steps too
	for i, c := range s.classes {
		if next[i] == len(c.pods) {
			continue
		}
		reasons := s.explain(c)
		for _, p := range c.pods[next[i]:] {
			res.Refused = append(res.Refused, Refusal{Pod: p, Reasons: reasons})
		}
	}
	slices.SortFunc(res.Refused, func(a, b Refusal) int { return comparePods(a.Pod, b.Pod) })
	res.Stats = plan.Stats{Pods: len(s.in.Demand), Classes: len(s.classes), Offerings: len(s.offers), Tier: s.tier, Work: s.work, Truncated: s.truncated}
	return res
}

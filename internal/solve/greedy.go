// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// machine is offers alike: one type of one pool at one price with the same room, which admit the same demands. Only machines that no
// other beats in room, price and demands are packed.
type machine struct {
	pool     int
	t        *model.InstanceType
	avail    vec
	price    int64
	effort   int64    // price and what a machine costs beside it: what plans are compared by
	admits   []uint64 // demand masks, by number in packing
	offers   []int
	ports    []model.HostPort
	relaxed  bool // no use to search its fills for a ceiling
	stock    int  // of solver.stock, -1: as many as wanted
	capacity model.Resources
}

// item is a number of pods of one demand on a machine.
type item struct {
	d int
	n int64
}

// fill is what one machine holds.
type fill struct {
	m     int
	items []item // by demand
	value int64
	known bool
}

// packing is the work of buying machines for demands within one level.
type packing struct {
	s        *solver
	demands  []*demand
	open     []int32       // demands that pods may be left of
	openTo   []int         // by mask: how many of them
	crowded  bool          // see haggle
	bunched  bool          // see tellApart
	size     []int32       // by demand: those of one number ask for the same
	sizes    int           // how many numbers there are
	alike    []int32       // by demand: those of one number are worth the same, too
	lists    [][]int32     // where crowded, instead of open: by mask
	cliques  [][]int       // the demands of each; see members
	fares    [maxDims]fare // by clique
	haggled  int           // how often fares were looked at
	kind     []int32       // by demand: those of one number are one to strata
	kinds    int           // how many numbers there are
	sorts    *sorting      // nil: not made for these machines yet
	pricing  *pricing      // the same
	access   []int8        // by demand: how much free room is open to it; nil: not told apart by that
	maskOf   []int         // by demand, number of its mask
	masks    []*mask
	machines []*machine
	weight   [maxDims]int64   // what a unit of each resource is worth, micro-dollars << weightShift
	flat     bool             // who may go where makes next to no difference to prices
	strata   *strata          // the same by who may go where
	hair     uint             // binary digits of the loss that greedy overlooks
	floor    int64            // what the demand costs at least, by resource prices, were it alone
	free     [maxDims]float64 // room that will be filled before anything is bought
	largest  vec              // the most of each resource that a machine has
	narrow   []row            // by demand
	wide     []int64          // where there are more resources than a row has, instead of it: by demand the request, then the shares
	plain    []int64          // by demand: what its resources are worth
	worth    []int64          // by demand: what one pod is worth, micro-dollars << worthShift
	lean     []int64          // by demand: worth, exaggerated or not, as fills are built by it
	dear     []float64        // by demand: how much more than its resources a pod is worth, for what it cost before; nil: no more. See learn
	hosted   []bool           // by demand: rules or ports or volumes that a fill must keep
	hosting  []hosting        // by demand
	most     []int64          // by demand: as many on a machine and no more; nil: whatever has room
	apart    bool             // wishes of pods to be apart are kept
	scratch  scratch
	work     int64 // steps of refining
	others   map[alikeKey][]other
	proving  bool // a machine holds what no rule that a bound knows forbids
	samples  int
	keep     int // candidates kept of many
}

// worthShift gives values more digits than prices have.
const worthShift = 12

// newPacking finds the machines of a level that matter for the demands.
func (s *solver) newPacking(l level, demands []*demand) *packing {
	return s.newPackingOf(l, demands, true)
}

// newPackingOf narrows machines to what minValues leaves of them, or does not: a bound may not.
func (s *solver) newPackingOf(l level, demands []*demand, narrow bool) *packing {
	p := &packing{s: s, maskOf: make([]int, len(demands)), demands: demands, hosted: make([]bool, len(demands)),
		hosting: make([]hosting, len(demands)), open: make([]int32, 0, len(demands))}
	if s.nd <= len(row{}.req) {
		p.narrow = make([]row, len(demands))
	} else {
		p.wide = make([]int64, len(demands)*(s.nd+len(s.dims)))
	}
	number := map[int]int{}
	var masks []*mask
	for i, d := range demands {
		n, ok := number[d.mask.id]
		if !ok {
			n = len(masks)
			number[d.mask.id] = n
			masks = append(masks, d.mask)
		}
		p.maskOf[i] = n
		p.open = append(p.open, int32(i))
		copy(p.req(i), d.c.req[:s.nd])
		p.hosted[i], p.hosting[i] = d.c.hosted(), d.c.hosting()
	}
	p.hair, p.keep = 20, 4*maxCandidates
	if slices.Contains(p.hosted, true) {
		p.keep = maxCandidates
		p.hair = 8 // fills change with every pod that hosts tell apart: making all anew each time would take for ever
	}
	if narrow {
		p.findLoners()
	}
	p.scratch = scratch{used: make([]int64, len(demands)), counts: make([]int32, len(s.counters))}
	words := (len(masks) + 63) / 64
	byKey := make(map[machineKey]*machine, min(len(s.sizes), l.hi-l.lo))
	var all []*machine
	admits := make([]uint64, words)
	any := masks[0]
	if len(masks) > 1 {
		any = &mask{bits: slices.Clone(any.bits)}
	}
	for _, m := range masks[1:] {
		for i := l.lo >> 6; i<<6 < l.hi; i++ {
			any.bits[i] |= m.bits[i]
		}
	}
	any.each(l, func(i int) {
		o := &s.offers[i]
		if o.idle {
			return
		}
		clear(admits)
		for j, m := range masks {
			if m.has(i) {
				admits[j>>6] |= 1 << (j & 63)
			}
		}
		s.work += int64(len(masks))/8 + 1
		key := keyOf(o, admits)
		m := byKey[key]
		if m == nil {
			m = &machine{pool: o.pool, t: o.t, avail: *o.avail, price: o.price, effort: s.effortOf(o.price) + s.tollOf(o.pool, o.t.Capacity), admits: slices.Clone(admits), ports: o.ports, stock: o.stock,
				capacity: o.t.Capacity}
			byKey[key] = m
			all = append(all, m)
		}
		m.offers = append(m.offers, i)
	})
	p.masks, p.openTo = masks, make([]int, len(masks))
	for _, j := range p.maskOf {
		p.openTo[j]++
	}
	for _, m := range all {
		if narrow {
			p.shared(m, s.minValuesOf(m.pool))
		}
	}
	p.machines = p.undominated(all)
	return p
}

// findLoners has demands that rules over hosts do not tie to others be told apart by a number alone. Where a machine may hold two demands of one
// class they are not.
func (p *packing) findLoners() {
	first := map[*class]int{}
	for i, d := range p.demands {
		if d.c.each == 0 {
			continue
		}
		if p.most == nil {
			p.most = slices.Repeat([]int64{unlimited}, len(p.demands))
		}
		p.most[i], p.hosted[i] = d.c.each, false
		j, ok := first[d.c]
		if !ok {
			first[d.c] = i
			continue
		}
		for w, bits := range d.mask.bits {
			if bits&p.demands[j].mask.bits[w] != 0 {
				p.hosted[i], p.hosted[j] = true, true
			}
		}
	}
}

// row is what a pod of a demand asks for and that as a share of largest, where there are few enough resources to look at all of them at once.
type row struct{ req, share [4]int64 }

// req is what a pod of a demand asks for.
func (p *packing) req(d int) []int64 {
	if p.narrow != nil {
		return p.narrow[d].req[:p.s.nd]
	}
	at := d * (p.s.nd + len(p.s.dims))
	return p.wide[at : at+p.s.nd]
}

// share is its request as a share of largest; cliques have none.
func (p *packing) share(d int) []int64 {
	if p.narrow != nil {
		return p.narrow[d].share[:len(p.s.dims)]
	}
	at := d*(p.s.nd+len(p.s.dims)) + p.s.nd
	return p.wide[at : at+len(p.s.dims)]
}

// machineKey is what offers have in common that are one machine.
type machineKey struct {
	pool, size, stock int
	price             int64
	t                 string
	admits            uint64
	more              string // of what it admits, and its variant
}

func keyOf(o *offer, admits []uint64) machineKey {
	k := machineKey{pool: o.pool, size: o.size, stock: o.stock, price: o.price, t: o.t.Name, admits: admits[0]}
	if len(admits) > 1 || len(o.variant) > 0 {
		more := appendWords(nil, admits[1:])
		for _, r := range o.variant {
			more = append(append(more, r.Values[0]...), 0)
		}
		k.more = string(more)
	}
	return k
}

// undominated drops machines that another beats: no less room, no higher price, no fewer demands, and nothing that limits tell apart.
func (p *packing) undominated(all []*machine) []*machine {
	slices.SortStableFunc(all, func(a, b *machine) int {
		return cmp.Or(cmp.Compare(a.price, b.price), cmp.Compare(b.avail[0], a.avail[0]))
	})
	nd := p.s.nd
	var kept []*machine
	most := make([]int64, 0, len(all)*nd) // by machine kept: the room that it or one before it has
	beaten := func(m *machine) bool {
		for i := len(kept) - 1; i >= 0; i-- {
			for k, v := range most[i*nd:][:nd] {
				if v < m.avail[k] {
					return false // nor does any before
				}
			}
			if p.beats(kept[i], m) {
				return true
			}
		}
		return false
	}
	for _, m := range all {
		if beaten(m) {
			continue
		}
		for k := range nd {
			v := m.avail[k]
			if n := len(kept); n > 0 {
				v = max(v, most[(n-1)*nd+k])
			}
			most = append(most, v)
		}
		kept = append(kept, m)
	}
	return kept
}

func (p *packing) beats(a, b *machine) bool {
	if a.stock >= 0 || len(a.ports) > 0 || !leq(&b.avail, &a.avail, p.s.nd) {
		return false
	}
	for i, w := range b.admits {
		if w&^a.admits[i] != 0 {
			return false
		}
	}
	l := &p.s.families[a.pool]
	if !l.limited {
		return true
	}
	if a.pool != b.pool {
		return false
	}
	for d, h := range l.has {
		if h && a.capacity.At(model.Dim(d)) > b.capacity.At(model.Dim(d)) {
			return false
		}
	}
	return true
}

func (p *packing) admits(m *machine, d int) bool {
	w := p.maskOf[d]
	return m.admits[w>>6]>>(w&63)&1 != 0
}

// canHave is the first pool of a machine's family whose limits still allow some, and how many of it these and the stock do.
func (p *packing) canHave(m *machine) (pool int, n int64) {
	for _, pool = range p.s.families[m.pool].pools {
		if n = p.s.left[pool].copies(m.capacity); n > 0 {
			break
		}
	}
	if m.stock >= 0 {
		n = min(n, p.s.stock[m.stock])
	}
	return pool, n
}

// take books machines against limits and stock; a negative number gives them back.
func (p *packing) take(m *machine, pool int, copies int64) {
	p.s.left[pool].take(m.capacity, copies)
	if m.stock >= 0 {
		p.s.stock[m.stock] -= copies
	}
}

// pack buys machines for the demands until nothing more can be bought. left is by demand and is counted down. Prices are found anew
// whenever half of what was there to buy is bought: what is left asks for another mix of resources.
func (p *packing) pack(left []int64) []batch {
	var out []batch
	r := ranking{p: p, fills: make([]fill, len(p.machines))}
	value := p.valueOf(left)
	mark, anew := value, true
	all, to := slices.Clone(p.open), slices.Clone(p.openTo)
	p.lists = p.byMask()
	defer func() { p.open, p.openTo, p.lists = all, to, nil }()
	for {
		if len(out)%openEvery == 0 {
			p.close(left)
		}
		if anew {
			r.begin(left)
			anew = false
		}
		best := r.best(left)
		if best < 0 {
			return out
		}
		f := &r.fills[best]
		copies := unlimited
		for _, it := range f.items {
			copies = min(copies, left[it.d]/it.n)
		}
		b := p.commit(f.m, f.items, copies, left)
		out = append(out, b)
		if value -= float64(f.value) * float64(b.copies); value < mark/2 && len(left) > 2 {
			p.price(left)
			value = p.valueOf(left)
			mark, anew = value, true
		} else if p.crowded {
			r.haggle(&b, f.value)
		}
	}
}

// openEvery is after how many purchases demands of which nothing is left are dropped.
const openEvery = 32

// valueOf is what pods are worth together; it only says when to price anew.
func (p *packing) valueOf(left []int64) (sum float64) {
	for d, n := range left {
		sum += float64(p.worth[d]) * float64(n)
	}
	return sum
}

// batch is copies of one machine with one fill.
type batch struct {
	m      *machine
	pool   int // of the machine's family
	items  []item
	copies int64
}

// ranking is machines by what their fills are worth for their price, in a heap: the best is the first, of equals the first by number.
type ranking struct {
	p     *packing
	fills []fill
	heap  []int32
}

// begin forgets all fills. Where the problem is crowded one is made when it might be the best: until then it stands where the most that it could be
// worth puts it.
func (r *ranking) begin(left []int64) {
	p := r.p
	p.tellApart()
	u, dear, pods := p.weight, 1.0, int64(0)
	if p.crowded {
		p.count(left)
		for k := range p.s.nd {
			u[k] = max(u[k], p.strata.most(k, func(*stratum) bool { return true }))
		}
		for d, n := range left {
			pods += n
			if p.dear != nil && n > 0 {
				dear = max(dear, p.dear[d])
			}
		}
	}
	r.heap = r.heap[:0]
	for i, m := range p.machines {
		f := &r.fills[i]
		f.m, f.known, f.items = i, false, f.items[:0]
		if p.crowded {
			var v wide
			for k := range p.s.nd {
				if m.avail[k] > 0 {
					v.addMul(u[k], m.avail[k])
				}
			}
			most := int64(v.hi<<(64-weightShift+worthShift) | v.lo>>(weightShift-worthShift))
			f.value = int64(float64(most)*dear) + pods // worth is rounded up to at least one
		} else {
			p.build(f, left)
		}
		r.heap = append(r.heap, int32(i))
	}
	r.order()
}

// order makes a heap of the machines left.
func (r *ranking) order() {
	for i := len(r.heap)/2 - 1; i >= 0; i-- {
		r.sink(i)
	}
}

// before says whether the fill of machine a is better than that of b.
func (r *ranking) before(a, b int32) bool {
	h1, l1 := bits.Mul64(uint64(r.fills[a].value), uint64(r.p.machines[b].effort))
	h2, l2 := bits.Mul64(uint64(r.fills[b].value), uint64(r.p.machines[a].effort))
	if h1 == h2 && l1 == l2 {
		return a < b
	}
	return h1 > h2 || h1 == h2 && l1 > l2
}

// sink moves an entry of the heap behind those that are better.
func (r *ranking) sink(i int) {
	for {
		c := 2*i + 1
		if c >= len(r.heap) {
			return
		}
		if c+1 < len(r.heap) && r.before(r.heap[c+1], r.heap[c]) {
			c++
		}
		if !r.before(r.heap[c], r.heap[i]) {
			return
		}
		r.heap[i], r.heap[c] = r.heap[c], r.heap[i]
		i = c
	}
}

// gone takes an entry of the heap out for good if its machine can't be had or holds nothing: limits only ever get tighter, and pods fewer.
func (r *ranking) gone(i int) bool {
	f := &r.fills[r.heap[i]]
	if _, n := r.p.canHave(r.p.machines[r.heap[i]]); n > 0 && f.value > 0 {
		return false
	}
	n := len(r.heap) - 1
	r.heap[i] = r.heap[n]
	r.heap = r.heap[:n]
	r.sink(i)
	return true
}

// second is the machine behind the first, -1 if there is none.
func (r *ranking) second() int32 {
	for len(r.heap) > 1 {
		i := 1
		if len(r.heap) > 2 && r.before(r.heap[2], r.heap[1]) {
			i = 2
		}
		if !r.gone(i) {
			return r.heap[i]
		}
	}
	return -1
}

// best returns the machine whose fill is worth most for its price, -1 where none holds anything. A fill is made anew only when the pods left no
// longer allow the one known: with fewer pods no better one comes, near enough. One made anew is taken when it has lost next to nothing, though
// others, not made anew yet, seem a hair better.
func (r *ranking) best(left []int64) int {
	p := r.p
	for {
		p.s.work += int64(len(p.machines)) / 4
		for len(r.heap) > 0 && r.gone(0) {
			continue
		}
		if len(r.heap) == 0 {
			return -1
		}
		i := r.heap[0]
		m, f := p.machines[i], &r.fills[i]
		known, stale := f.known, false
		for _, it := range f.items {
			stale = stale || left[it.d] < it.n
		}
		if known && !stale {
			return int(i)
		}
		second := r.second()
		p.build(f, left)
		hair := f.value > 0 && (second < 0 || !ratioLess(f.value+f.value>>p.hair, m.effort, r.fills[second].value, p.machines[second].effort))
		r.sink(0)
		if known && hair {
			return int(i)
		}
	}
}

// ratioLess says whether a/x < b/y, for amounts not negative. A price of zero is better than any.
func ratioLess(a, x, b, y int64) bool {
	h1, l1 := bits.Mul64(uint64(a), uint64(y))
	h2, l2 := bits.Mul64(uint64(b), uint64(x))
	return h1 < h2 || h1 == h2 && l1 < l2
}

// timesIn is how many copies of req fit.
func timesIn(req, rem *vec, nd int) int64 {
	n := unlimited
	for k := range nd {
		if req[k] > 0 {
			n = min(n, rem[k]/req[k])
		}
	}
	return n
}

// mulDiv is a*b/c without overflow, for amounts not negative and a quotient that fits.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return 1<<63 - 1
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, 1<<63-1))
}

// hosting is what decides how many pods of a demand a fill takes, resources aside: beside each other in memory, for it is asked often.
type hosting struct {
	c     *class
	rules []rule
	more  bool // ports, volumes or a wish to be apart
}

func (c *class) hosting() hosting {
	return hosting{c, c.topo.host, len(c.ports) > 0 || len(c.attach) > 0 || c.apart.most > 0}
}

// hostRoom is how many more pods of a demand the fill takes, ports, volumes and host topology considered.
func (p *packing) hostRoom(d int, m *machine, g *guests) int64 {
	h := &p.hosting[d]
	c, n := h.c, unlimited
	if h.more {
		n = portsFit(c, g.ports)
		if p.apart && c.apart.most > 0 {
			n = min(n, max(0, c.apart.most-p.scratch.used[d]))
		}
	}
	for i := range h.rules {
		r := &h.rules[i]
		if r.kind != ruleAffinity && (r.kind != ruleGuest || p.scratch.counts[r.owners] > 0) {
			n = min(n, p.s.allows(c, r, int64(p.scratch.counts[r.counter]), 0, true))
		}
	}
	if h.more && n > 0 && len(c.attach) > 0 {
		if _, ok := attachFit(c, g.handles, m.t.CSILimits); !ok {
			return 0
		}
	}
	return n
}

// join counts pods as in the fill.
func (p *packing) join(c *class, n int64, g *guests) {
	for _, id := range c.topo.bumpHost {
		p.scratch.counts[id] += int32(n)
		p.scratch.touched = append(p.scratch.touched, id)
	}
	if len(c.ports) > 0 || len(c.attach) > 0 {
		g.add(c.c)
	}
}

// maxMachines is how many machines fills are made for. Catalogues of real clouds stay below it once the dominated are gone.
const maxMachines = 256

// thin keeps, of too many machines, the one with the most worth for its price among those of nearly one price that admit the same
// demands, and for each demand one that holds it. What a fill becomes is chosen among all types later.
func (p *packing) thin(left []int64) {
	if len(p.machines) <= maxMachines {
		return
	}
	nd := p.s.nd
	worths := make([]int64, len(p.machines))
	for i, m := range p.machines {
		var v wide
		for k := range nd {
			if m.avail[k] > 0 {
				v.addMul(max(p.weight[k], p.strata.most(k, func(g *stratum) bool { return g.has(i) })), m.avail[k])
			}
		}
		worths[i] = v.micro()
	}
	type bucket struct {
		pool, stock int
		admits      string
		price       int
	}
	best := map[bucket]int{}
	for i, m := range p.machines {
		k := bucket{pool: m.pool, stock: m.stock, admits: string(appendWords(nil, m.admits))}
		for x := m.price; x > 0; x = x * 7 / 8 {
			k.price++
		}
		if was, ok := best[k]; !ok || ratioLess(worths[was], p.machines[was].effort, worths[i], m.effort) {
			best[k] = i
		}
	}
	keep := make([]bool, len(p.machines))
	for _, i := range best {
		keep[i] = true
	}
	for d, n := range left {
		least := -1
		for i, m := range p.machines {
			if n <= 0 || !p.admits(m, d) || !fitsIn(&p.demands[d].c.req, &m.avail, nd) {
				continue
			}
			if keep[i] {
				least = -1
				break
			}
			if least < 0 || m.price < p.machines[least].price {
				least = i
			}
		}
		if least >= 0 {
			keep[least] = true
		}
	}
	var out []*machine
	for i, m := range p.machines {
		if keep[i] {
			out = append(out, m)
		}
	}
	p.machines, p.sorts, p.pricing = out, nil, nil
}

func appendWords(b []byte, words []uint64) []byte {
	for _, w := range words {
		b = append(b, byte(w), byte(w>>8), byte(w>>16), byte(w>>24), byte(w>>32), byte(w>>40), byte(w>>48), byte(w>>56))
	}
	return b
}

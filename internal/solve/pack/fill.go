// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// patternBuffers is memory that patterns are made in, so that making one allocates next to nothing.
type patternBuffers struct {
	used       []int64 // by demand, in the pattern being made
	inPattern  []int   // demands of which some are used
	counts     []int32 // counters within the pattern
	touched    []int   // of counts
	candidates []int32 // demands that still fit
	bunches    candidateBunches
	ports      problem.TakenPorts
}

// BuildPattern makes a good pattern for a machine: again and again the demand that would be worth most if it had what
// is still free to itself, a third of that at a time, so that what is free keeps a shape that something fits. What
// the pattern holds already stays in it as far as pods are left; the rest of the machine is filled up.
func (p *Packing) BuildPattern(f *Pattern, remaining []int64) {
	m, nd, sc := p.Market.Machines[f.Machine], p.In.NumDims, &p.buf
	rem := m.Available
	sc.ports = append(sc.ports[:0], m.ports...)
	used := problem.Occupancy{Ports: sc.ports}
	f.worth = 0
	for _, it := range f.items {
		if it.Count = min(it.Count, remaining[it.Demand]); it.Count > 0 {
			p.addToPattern(it.Demand, it.Count, &rem, &used)
			f.worth += p.Prices.Dual[it.Demand] * it.Count
		}
	}
	f.made = true
	sc.candidates = sc.candidates[:0]
	first, stride := p.samplingStride(m)
	for w, b := range m.Admits {
		for ; b != 0 && p.openLists != nil; b &= b - 1 {
			list := p.openLists[w<<6+bits.TrailingZeros64(b)]
			for ; first < len(list); first += stride {
				if d := list[first]; remaining[d] > sc.used[d] && !p.isFull(d) {
					sc.candidates = append(sc.candidates, d)
				}
			}
			first -= len(list)
		}
	}
	for i := first; i < len(p.openDemands) && p.openLists == nil; i += stride {
		if d := p.openDemands[i]; remaining[d] > sc.used[d] && p.Market.MachineAdmits(m, int(d)) && !p.isFull(d) {
			sc.candidates = append(sc.candidates, d)
		}
	}
	if p.bunched {
		p.bunchCandidates()
	}
	for best := -1; ; {
		if best = p.pickDemand(remaining, &rem, m, &used, best); best < 0 {
			break
		}
		c := p.Market.Demands[best].Class
		n := min(remaining[best]-sc.used[best], max(1, problem.TimesIn(&c.Req, &rem, nd)/3))
		n = min(n, p.Market.maxPodsOf(best)-sc.used[best])
		if p.Market.Restricted[best] {
			n = min(n, p.podsNeighboursAllow(best, m, &used))
		}
		p.addToPattern(best, n, &rem, &used)
		f.worth += p.Prices.Dual[best] * n
	}
	sc.ports = used.Ports[:0]
	p.collectPattern(f)
}

// isFull says whether the pattern being made may hold no more of a demand, whatever fits.
func (p *Packing) isFull(d int32) bool { return p.buf.used[d] >= p.Market.maxPodsOf(int(d)) }

// maxCandidates is how many demands a pattern is chosen from. Of more a sample is looked at, another each time: there
// is always something to fit a gap among this many.
const maxCandidates = 160

// samplingStride says where to begin among the open demands and how many steps to go at a time: one by one, unless
// too many are open to the machine.
func (p *Packing) samplingStride(m *Machine) (first, stride int) {
	n := 0
	for w, b := range m.Admits {
		for ; b != 0; b &= b - 1 {
			n += p.openBySet[w<<6+bits.TrailingZeros64(b)]
		}
	}
	if n <= min(4*maxCandidates, 2*p.sampleSize) {
		return 0, 1
	}
	p.samples++
	stride = (n + p.sampleSize - 1) / p.sampleSize
	return p.samples % stride, stride
}

// dropExhausted drops open demands of which nothing is left.
func (p *Packing) dropExhausted(remaining []int64) {
	for j, list := range p.openLists {
		p.openLists[j] = slices.DeleteFunc(list, func(d int32) bool { return remaining[d] <= 0 })
		p.openBySet[j] = len(p.openLists[j])
	}
	if p.openLists != nil {
		return
	}
	kept := p.openDemands[:0]
	clear(p.openBySet)
	for _, d := range p.openDemands {
		if remaining[d] > 0 {
			kept = append(kept, d)
			p.openBySet[p.Market.SetOf[d]]++
		}
	}
	p.openDemands = kept
}

// openByOfferSet lists open demands by offer set where prices are adaptive, else nil: a pattern then looks only at
// those that its machine admits.
func (p *Packing) openByOfferSet() [][]int32 {
	if !p.Prices.adaptivePrices {
		return nil
	}
	lists, all := make([][]int32, len(p.Market.offerSets)), make([]int32, len(p.openDemands))
	for j, n := range p.openBySet {
		lists[j], all = all[:0:n], all[n:]
	}
	for _, d := range p.openDemands {
		lists[p.Market.SetOf[d]] = append(lists[p.Market.SetOf[d]], d)
	}
	return lists
}

// sampleCandidates thins the candidates out to about keep where there are more than many.
func (p *Packing) sampleCandidates(many, keep int) {
	sc := &p.buf
	n := len(sc.candidates)
	if n <= many {
		return
	}
	p.samples++
	stride := (n + keep - 1) / keep
	kept := sc.candidates[:0]
	for i := p.samples % stride; i < n; i += stride {
		kept = append(kept, sc.candidates[i])
	}
	sc.candidates = kept
}

// addToPattern books pods in the pattern being made.
func (p *Packing) addToPattern(d int, n int64, rem *problem.Vec, used *problem.Occupancy) {
	c := p.Market.Demands[d].Class
	for k, v := range p.Market.requestOf(d) {
		rem[k] -= v * n
	}
	if p.buf.used[d] == 0 {
		p.buf.inPattern = append(p.buf.inPattern, d)
	}
	p.buf.used[d] += n
	if p.Market.Restricted[d] {
		p.countInPattern(c, n, used)
	}
}

// podsNeighboursAllow is how many more pods of a demand the pattern being made takes, by ports, volumes and rules
// over hosts.
func (p *Packing) podsNeighboursAllow(d int, m *Machine, used *problem.Occupancy) int64 {
	h := &p.Market.neighbours[d]
	c, n := h.Class, problem.Unlimited
	if h.HasMore {
		n = problem.PodsPortsAllow(c, used.Ports)
		if p.separated && c.Separation.Most > 0 {
			n = min(n, max(0, c.Separation.Most-p.buf.used[d]))
		}
	}
	for i := range h.Rules {
		if n <= 0 {
			return 0
		}
		r := &h.Rules[i]
		if r.Kind != problem.RuleAffinity && (r.Kind != problem.RuleHostSpreadOfOthers || p.buf.counts[r.OwnerCounter] > 0) {
			have := p.buf.counts[r.Counter]
			for _, id := range r.Minus {
				have -= p.buf.counts[id]
			}
			n = min(n, p.Topo.PodsRuleAllows(c, r, int64(have), 0, true))
		}
	}
	if h.HasMore && n > 0 && len(c.CsiVolumes) > 0 {
		if _, ok := problem.VolumesFit(c, used, m.instanceType.CSILimits); !ok {
			return 0
		}
	}
	return n
}

// countInPattern counts pods as on the host of the pattern being made.
func (p *Packing) countInPattern(c *problem.Class, n int64, used *problem.Occupancy) {
	for _, id := range c.Topology.HostCounters {
		p.buf.counts[id] += int32(n)
		p.buf.touched = append(p.buf.touched, id)
	}
	if !c.Ports.IsEmpty() || len(c.CsiVolumes) > 0 {
		used.AddClassInPlace(c)
	}
}

// shareShift is the number of binary digits of a request as a share of the largest machine.
const shareShift = 20

// pickDemand picks the demand that would be worth most if it filled what is free alone, the first of equals, -1 if
// none fits, and drops those that no longer fit, or of which last, the one picked before, none are left. What it is
// worth is its biased dual over its share, the largest part that one pod takes of what is free of a resource.
func (p *Packing) pickDemand(remaining []int64, rem *problem.Vec, m *Machine, used *problem.Occupancy, last int) int {
	var inverse, room [problem.MaxDims]int64
	for k := range p.In.NumDims {
		room[k] = max(0, rem[k]) // what asks for none fits anywhere
		if rem[k] > 0 && p.Prices.largest[k] > 0 && k < len(p.In.Dims) {
			inverse[k] = problem.MulDiv(p.Prices.largest[k], 1<<shareShift, rem[k])
		}
	}
	gone := -1
	if last >= 0 && (remaining[last] <= p.buf.used[last] || p.isFull(int32(last))) {
		gone = last
	}
	if p.bunched {
		return p.pickFromBunches((*[4]int64)(room[:]), (*[4]int64)(inverse[:]), m, used, gone)
	}
	p.Work.Steps += int64(len(p.buf.candidates))
	if p.Market.narrowRows != nil {
		return p.pickDemandNarrow((*[4]int64)(room[:]), (*[4]int64)(inverse[:]), m, used, gone)
	}
	best, bestShare := -1, int64(1)
	kept := p.buf.candidates[:0]
	for _, d32 := range p.buf.candidates {
		d := int(d32)
		short := int64(0) // negative where something does not fit
		for k, v := range p.Market.requestOf(d) {
			short |= room[k&(problem.MaxDims-1)] - v
		}
		if short < 0 || d == gone {
			continue
		}
		share := int64(1)
		for k, v := range p.Market.shareOf(d) {
			share = max(share, v*inverse[k&(problem.MaxDims-1)]>>shareShift)
		}
		if best < 0 || p.Prices.biasedDual[d]*bestShare > p.Prices.biasedDual[best]*share {
			if p.Market.Restricted[d] && p.podsNeighboursAllow(d, m, used) <= 0 {
				continue // in this fill it will not fit again
			}
			best, bestShare = d, share
		}
		kept = append(kept, d32)
	}
	p.buf.candidates = kept
	return best
}

// pickDemandNarrow is pickDemand for few resources.
func (p *Packing) pickDemandNarrow(room, inverse *[4]int64, m *Machine, used *problem.Occupancy, gone int) int {
	cand, rows, lean := p.buf.candidates, p.Market.narrowRows, p.Prices.biasedDual
	a, b, c, d := room[0], room[1], room[2], room[3]
	i, j, k, l := inverse[0], inverse[1], inverse[2], inverse[3]
	best, bestLean, bestShare, kept := -1, int64(0), int64(1), 0
	for _, at := range cand {
		r := &rows[at]
		if (a-r.request[0])|(b-r.request[1])|(c-r.request[2])|(d-r.request[3]) < 0 || int(at) == gone {
			continue
		}
		share := max(1, max(r.share[0]*i, r.share[1]*j, r.share[2]*k, r.share[3]*l)>>shareShift)
		if lean[at]*bestShare > bestLean*share {
			if p.Market.Restricted[at] && p.podsNeighboursAllow(int(at), m, used) <= 0 {
				continue
			}
			best, bestLean, bestShare = int(at), lean[at], share
		}
		cand[kept] = at
		kept++
	}
	p.buf.candidates = cand[:kept]
	return best
}

// collectPattern reads the pattern from the buffers and clears them.
func (p *Packing) collectPattern(f *Pattern) {
	sc := &p.buf
	f.items = f.items[:0]
	for _, d := range sc.inPattern {
		f.items = append(f.items, Item{d, sc.used[d]})
		sc.used[d] = 0
	}
	sc.inPattern = sc.inPattern[:0]
	for _, id := range sc.touched {
		sc.counts[id] = 0
	}
	sc.touched = sc.touched[:0]
	slices.SortFunc(f.items, func(a, b Item) int { return cmp.Compare(a.Demand, b.Demand) })
}

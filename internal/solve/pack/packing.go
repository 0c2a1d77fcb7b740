// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// NewPacking returns a packing of demands onto the machines of a level.
func (s *Purchases) NewPacking(l problem.Level, demands []*Demand) *Packing {
	return s.NewPackingFor(l, demands, true)
}

// NewPackingFor returns a packing of demands onto the machines of a level. With keepMinValues, machines are restricted
// by minValues, which a bound must not do.
func (s *Purchases) NewPackingFor(l problem.Level, demands []*Demand, keepMinValues bool) *Packing {
	p := &Packing{Compiled: s.Compiled, openDemands: make([]int32, 0, len(demands))}
	p.Market = &Market{Compiled: s.Compiled, Purchases: s, SetOf: make([]int, len(demands)), sizeOf: make([]int32, len(demands)), Demands: demands, Restricted: make([]bool, len(demands)),
		neighbours: make([]problem.NeighbourRules, len(demands))}
	p.Prices = &Prices{Compiled: s.Compiled, Market: p.Market}
	p.Market.blocksEach = max(1, (s.In.NumDims+blockSize-1)/blockSize)
	p.Market.requestBlocks = make([]requestBlock, len(demands)*p.Market.blocksEach)
	number := map[int]int{}
	var offerSets []*problem.OfferSet
	for i, d := range demands {
		n, ok := number[d.Offers.ID]
		if !ok {
			n = len(offerSets)
			number[d.Offers.ID] = n
			offerSets = append(offerSets, d.Offers)
		}
		p.Market.SetOf[i], p.Market.sizeOf[i] = n, int32(i)
		if i > 0 && d.Class.Req == demands[i-1].Class.Req {
			p.Market.sizeOf[i] = p.Market.sizeOf[i-1]
		}
		p.openDemands = append(p.openDemands, int32(i))
		for k, v := range d.Class.Req[:s.In.NumDims] {
			p.Market.requestBlocks[i*p.Market.blocksEach+k/blockSize].request[k%blockSize] = v
		}
		p.Market.Restricted[i], p.Market.neighbours[i] = d.Class.RestrictsNeighbours(), d.Class.NeighbourRules()
	}
	p.dropIdleRules()
	p.lossShift, p.sampleSize = 20, 4*maxCandidates
	if slices.Contains(p.Market.Restricted, true) {
		p.sampleSize = maxCandidates
		p.lossShift = 8 // patterns change with every restricted pod: making all anew each time would take too long
	}
	if keepMinValues {
		p.Market.applyNodeCaps()
	}
	p.buf = patternBuffers{used: make([]int64, len(demands)), counts: make([]int32, len(s.Topo.Counters))}
	all := s.machinesOf(l, offerSets, func(i int) bool { return s.Catalog.Offers[i].DominatedBy < 0 })
	p.Market.offerSets, p.openBySet = offerSets, make([]int, len(offerSets))
	for _, j := range p.Market.SetOf {
		p.openBySet[j]++
	}
	if keepMinValues {
		all = newValueNarrowing(p.Market).restrictAllToMinValues(l, all)
	}
	p.Market.Machines = p.Market.dropDominated(all)
	return p
}

// dropIdleRules leaves out of the rules that patterns are held against those that pods on nodes have against others: no
// pod of the demands is counted by them, and there may be thousands.
func (p *Packing) dropIdleRules() {
	counted := make([]bool, len(p.Topo.Counters))
	for _, d := range p.Market.Demands {
		for _, id := range d.Class.Topology.HostCounters {
			counted[id] = true
		}
	}
	isAsked := func(r *problem.Rule) bool { return r.Kind != problem.RuleAntiOfOthers || counted[r.Counter] }
	for i := range p.Market.neighbours {
		h, kept := &p.Market.neighbours[i], 0
		for j := range h.Rules {
			if isAsked(&h.Rules[j]) {
				kept++
			}
		}
		if kept == len(h.Rules) {
			continue
		}
		rules := make([]problem.Rule, 0, kept) // the class's own list stays as it is
		for j := range h.Rules {
			if isAsked(&h.Rules[j]) {
				rules = append(rules, h.Rules[j])
			}
		}
		h.Rules = rules
	}
}

// applyNodeCaps has demands whose rules over hosts concern no other class be restricted by a number alone. Where a
// machine may hold two demands of one class they are not.
func (p *Market) applyNodeCaps() {
	first := map[*problem.Class]int{}
	for i, d := range p.Demands {
		if d.Class.MaxPerNewNode == 0 {
			continue
		}
		if p.maxEach == nil {
			p.maxEach = slices.Repeat([]int64{problem.Unlimited}, len(p.Demands))
		}
		p.maxEach[i], p.Restricted[i] = d.Class.MaxPerNewNode, false
		j, ok := first[d.Class]
		if !ok {
			first[d.Class] = i
			continue
		}
		for w, bits := range d.Offers.Bits {
			if bits&p.Demands[j].Offers.Bits[w] != 0 {
				p.Restricted[i], p.Restricted[j] = true, true
			}
		}
	}
}

// OwnHostLimit returns how many pods of a demand fit on one new machine according to the class's own ports and
// anti-affinity.
func (p *Market) OwnHostLimit(d int) int64 {
	c := p.Demands[d].Class
	n := problem.Unlimited
	for i := range c.Topology.HostRules {
		if r := &c.Topology.HostRules[i]; r.SelectsOwnPods && r.Hard {
			if r.Kind == problem.RuleAnti {
				n = 1 // a spread sets no such limit: where every host has some, one host may have more
			}
		}
	}
	return min(n, c.MostAlone(p.In))
}

// patternCandidates are the demands that a pattern of the machine may hold, and how many pods of each.
func (p *Market) patternCandidates(m *Machine, whole []int64) (ds []int, most []int64) {
	nd := p.In.NumDims
	for d, n := range whole {
		req := &p.Demands[d].Class.Req
		if n <= 0 || !p.MachineAdmits(m, d) || !problem.IsWithin(req, &m.Available, nd) {
			continue
		}
		n = min(n, problem.TimesIn(req, &m.Available, nd))
		if p.Relaxed {
			n = min(n, p.OwnHostLimit(d))
		} else {
			n = min(n, p.maxPodsOf(d))
		}
		if n > 0 {
			ds, most = append(ds, d), append(most, n)
		}
	}
	return ds, most
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"math/bits"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// maxFeasibilityClasses limits the rows of the program: each feasibility class has one row per resource.
const maxFeasibilityClasses = 24

// FeasibilityClassesOf groups demands by the machines that may hold them; whole is the number of pods of each demand.
// Sets of machines with nearly equal minimum prices of each resource are merged; the tolerance is chosen so that there
// are few enough sets.
func (p *Market) FeasibilityClassesOf(whole []int64) *FeasibilityClasses {
	if p.feasibilityIndex == nil {
		p.feasibilityIndex = p.newFeasibilityIndex()
	}
	index := p.feasibilityIndex
	index.collectSets(whole)
	x := &FeasibilityClasses{p: p, ClassOf: index.classOf}
	for digits := 8; ; digits-- {
		x.Classes = index.mergeSets(digits, x.Classes[:0])
		if len(x.Classes) <= maxFeasibilityClasses {
			break
		}
	}
	for d := range x.ClassOf {
		x.ClassOf[d] = -1
		if g := index.kinds[p.kindOf[d]].set; whole[d] > 0 && g != nil {
			x.ClassOf[d] = g.class
		}
	}
	return x
}

// collectSets finds the sets of machines that hold demands of which pods are left, and adds up these pods by set.
func (t *feasibilityIndex) collectSets(whole []int64) {
	p := t.p
	t.round++
	t.sets = t.sets[:0]
	p.Work.Steps += int64(len(p.Machines) * len(p.offerSets))
	for d, x := range p.Demands {
		if whole[d] <= 0 {
			continue
		}
		k := &t.kinds[p.kindOf[d]]
		if k.round != t.round {
			if k.round == 0 {
				t.findMachines(k, p.SetOf[d], &x.Class.Req, p.freeAccessOf(d))
			}
			p.Work.Steps += k.steps
			if g := k.set; g != nil && g.round != t.round {
				g.round, g.members.requests, g.members.leastRequest = t.round, problem.Vec{}, problem.Vec{}
				t.sets = append(t.sets, g)
			}
			k.round = t.round
		}
		if k.set != nil {
			k.set.members.addPods(&x.Class.Req, whole[d], p.In.NumDims)
		}
	}
}

// mergeSets merges sets of machines whose lowest prices agree in so many binary digits into feasibility classes. It
// returns them in the memory of out.
func (t *feasibilityIndex) mergeSets(digits int, out []FeasibilityClass) []FeasibilityClass {
	type unit struct {
		price  [problem.MaxDims]int64
		access int8
	}
	byUnit := map[unit]int{}
	for _, g := range t.sets {
		k := unit{g.unitPrice, g.access}
		for i, v := range k.price {
			if n := bits.Len64(uint64(v)); n > digits {
				k.price[i] = v >> (n - digits) << (n - digits)
			}
			if digits < 0 {
				k.price[i] = 0
			}
		}
		at, ok := byUnit[k]
		if !ok {
			at = len(out)
			byUnit[k] = at
			out = append(out, FeasibilityClass{machines: make([]uint64, len(t.machinesBuf))})
		}
		g.class = at
		out[at].merge(&g.members, t.p.In.NumDims)
	}
	return out
}

// freeAccessOf is how much free capacity is open to a demand; see bounder.freeAccessOf.
func (p *Market) freeAccessOf(d int) int8 {
	if p.FreeAccess == nil {
		return 0
	}
	return p.FreeAccess[d]
}

// newFeasibilityIndex begins one for the machines of the packing.
func (p *Market) newFeasibilityIndex() *feasibilityIndex {
	words := (len(p.Machines) + 63) / 64
	t := &feasibilityIndex{p: p, byBits: map[string]*machineSet{}, admitted: make([][]uint64, len(p.offerSets)),
		least: make([]problem.Vec, len(p.offerSets)), machinesBuf: make([]uint64, words), classOf: make([]int, len(p.Demands))}
	for j := range p.offerSets {
		t.admitted[j] = make([]uint64, words)
		first := true
		for i, m := range p.Machines {
			if m.Quantity >= 0 || m.Admits[j>>6]>>(j&63)&1 == 0 {
				continue
			}
			t.admitted[j][i>>6] |= 1 << (i & 63)
			for k := range p.In.NumDims {
				if first || m.Available[k] < t.least[j][k] {
					t.least[j][k] = m.Available[k]
				}
			}
			first = false
		}
	}
	p.numberKinds()
	t.kinds = make([]demandKind, p.numKinds)
	return t
}

// numberKinds numbers demands that ask for the same and may go to the same offers.
func (p *Market) numberKinds() {
	if p.kindOf != nil {
		return
	}
	type alike struct {
		mask   int
		req    problem.Vec
		access int8
	}
	number, last := map[alike]int32{}, alike{mask: -1}
	p.kindOf = make([]int32, len(p.Demands))
	for d := range p.Demands {
		k := alike{mask: p.SetOf[d], access: p.freeAccessOf(d)}
		copy(k.req[:], p.Demands[d].Class.Req[:p.In.NumDims])
		if k == last { // those of one size follow each other, mostly
			p.kindOf[d] = p.kindOf[d-1]
			continue
		}
		last = k
		n, ok := number[k]
		if !ok {
			n = int32(len(number))
			number[k] = n
		}
		p.kindOf[d] = n
	}
	p.numKinds = len(number)
}

// findMachines finds the machines that may hold a kind of demand.
func (t *feasibilityIndex) findMachines(x *demandKind, mask int, req *problem.Vec, access int8) {
	p, on := t.p, t.machinesBuf
	copy(on, t.admitted[mask])
	if !problem.IsWithin(req, &t.least[mask], p.In.NumDims) {
		for i, m := range p.Machines {
			if on[i>>6]>>(i&63)&1 != 0 && !problem.IsWithin(req, &m.Available, p.In.NumDims) {
				on[i>>6] &^= 1 << (i & 63)
			}
		}
		x.steps = int64(len(p.Machines))
	}
	if !slices.ContainsFunc(on, func(w uint64) bool { return w != 0 }) {
		return
	}
	k := string(append(problem.AppendWords(nil, on), byte(access)))
	g := t.byBits[k]
	if g == nil {
		g = &machineSet{members: FeasibilityClass{machines: slices.Clone(on)}, access: access}
		for i, m := range p.Machines {
			for k := range p.In.Dims {
				if on[i>>6]>>(i&63)&1 != 0 && m.Available[k] > 0 {
					if v := problem.MulDiv(m.Price, 1<<problem.PriceShift, m.Available[k]); g.unitPrice[k] == 0 || v < g.unitPrice[k] {
						g.unitPrice[k] = v
					}
				}
			}
		}
		t.byBits[k] = g
	}
	x.set = g
}

// addPods adds n pods of a demand.
func (g *FeasibilityClass) addPods(req *problem.Vec, n int64, nd int) {
	none := g.requests == problem.Vec{}
	for k := range nd {
		if none || req[k] < g.leastRequest[k] {
			g.leastRequest[k] = req[k]
		}
		g.requests[k] += req[k] * n
	}
}

// merge adds the demands and machines of another one.
func (g *FeasibilityClass) merge(o *FeasibilityClass, nd int) {
	for i, w := range o.machines {
		g.machines[i] |= w
	}
	none := g.requests == problem.Vec{}
	for k := range nd {
		if none || o.leastRequest[k] < g.leastRequest[k] {
			g.leastRequest[k] = o.leastRequest[k]
		}
		g.requests[k] += o.requests[k]
	}
}

// Includes reports whether a machine may hold pods of the class.
func (g *FeasibilityClass) Includes(machine int) bool {
	return g.machines[machine>>6]>>(machine&63)&1 != 0
}

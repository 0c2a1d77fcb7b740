// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// consolidateBins consolidates until nothing improves. A plan whose cost is close enough to its lower bound according to
// the policy is left unchanged.
func (s *Placement) consolidateBins() {
	if n := s.CountMachines(); n < 2 || n > maxConsolidatedMachines || s.In.Policy.Work == 0 || s.isNearBound() {
		return
	}
	s.splitCopies()
	t := &consolidation{s: s, stepLimit: min(s.Work.Steps+consolidationSteps, s.Work.StepLimit)}
	t.addNewBins()
	misses := 0
	for round := 0; round < maxConsolidationRounds && misses < 2 && s.Work.Steps < t.stepLimit; round++ {
		if misses++; t.runRound(round%2 == 1) || t.mergeBins() {
			misses = 0
		}
	}
	s.Bins = slices.DeleteFunc(s.Bins, func(b *Bin) bool { return len(b.Items) == 0 })
}

// isNearBound reports whether the machines cost no more than the policy's gap above what all their pods cost at least,
// packed together by resources.
func (s *Placement) isNearBound() bool {
	sum := int64(0)
	for _, b := range s.Bins {
		if b.host >= 0 {
			return false // opened for what must share a host: not packed together with others
		}
		sum += b.price * b.Copies
	}
	return !s.BuysFromSeveralLevels() && sum-s.resourceBound <= problem.MulDiv(s.resourceBound, s.In.Policy.MaxGapPPM, 1_000_000)
}

// runRound tries to empty machines, those least used first, into the fullest first or last, and reports whether any was
// emptied or made smaller.
func (t *consolidation) runRound(last bool) (any bool) {
	s := t.s
	type used struct {
		i      int
		most   int64 // millionths of a machine in use, of the resource most used
		effort int64
	}
	all := make([]used, 0, len(t.bins))
	for i := range t.bins {
		x := &t.bins[i]
		if x.offer < 0 || len(x.bin.Items) == 0 {
			continue
		}
		u := used{i: i}
		avail := s.Catalog.Offers[x.offer].Allocatable
		for k := range s.In.Dims {
			if avail[k] > 0 {
				u.most = max(u.most, problem.MulDiv(x.bin.requests[k], 1_000_000, avail[k]))
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
	for at := len(all) - 1; at >= 0 && (len(sources) < maxEmptiedPerRound || all[at].most == sources[len(sources)-1].most); at-- {
		if x := &t.bins[all[at].i]; !x.fixed {
			all[at].effort = t.adjustedCost(x)
			sources = append(sources, all[at])
		}
	}
	slices.SortFunc(sources, func(a, b used) int {
		return cmp.Or(cmp.Compare(a.most, b.most), cmp.Compare(b.effort, a.effort), cmp.Compare(a.i, b.i))
	})
	if last {
		slices.Reverse(targets)
	}
	t.indexTargets(targets)
	for _, x := range sources[:min(len(sources), maxEmptiedPerRound)] {
		if s.Work.Steps >= t.stepLimit {
			break
		}
		if len(t.bins[x.i].bin.Items) > 0 && t.emptyBin(x.i, targets) {
			any = true
		}
	}
	return any
}

// indexTargets computes the maximum free resources of each block of targets. With few targets it does nothing, because
// switchPool may make room on these.
func (t *consolidation) indexTargets(targets []int) {
	t.index = targetIndex{dims: t.s.In.NumDims}
	if len(t.bins) <= maxMachinesToGrow {
		return
	}
	t.index.most, t.index.blockOf = make([]problem.Vec, len(targets)/targetBlock+1), make([]int32, len(t.bins))
	for at, j := range targets {
		t.index.blockOf[j] = int32(at / targetBlock)
		t.index.raise(j, &t.bins[j].free)
	}
}

// nextTarget returns the place of the first target, from a place on, that may have room for a pod, and how many targets
// there are if none has.
func (t *consolidation) nextTarget(at int, targets []int, req *problem.Vec) int {
	for ; at < len(targets) && t.index.most != nil; at++ {
		if at%targetBlock == 0 && !problem.IsWithin(req, &t.index.most[at/targetBlock], t.s.In.NumDims) {
			at += targetBlock - 1
		} else if problem.IsWithin(req, &t.bins[targets[at]].free, t.s.In.NumDims) {
			break
		}
		t.s.Work.Steps++
	}
	return min(at, len(targets))
}

// emptyBin moves the contents of a bin elsewhere as far as possible. If that saves nothing, it reverts the moves and
// returns false.
func (t *consolidation) emptyBin(i int, targets []int) bool {
	t.undo = t.undo[:0]
	was := t.bins[i]
	cost := t.adjustedCost(&was)
	rest := t.moveWhatFits(i, targets)
	smaller, saved := t.binHolding(i, rest), cost
	if len(rest) > 0 {
		saved = 0
		if smaller.offer >= 0 {
			saved = cost - t.adjustedCost(&smaller)
		}
		if j, grown, by := t.cheapestGrowth(i, rest, targets, cost-max(0, saved)); j >= 0 {
			for k := range rest {
				t.moveCounts(j, i, &rest[k], rest[k].Count)
			}
			t.saveBin(j)
			*t.bins[j].bin = *grown.bin
			grown.bin = t.bins[j].bin
			t.bins[j] = grown
			t.index.raise(j, &t.bins[j].free)
			rest, saved = nil, cost-by
		}
	}
	if saved <= 0 {
		t.undoMoves(i)
		return false
	}
	left := &t.s.Purchases.Limits[was.bin.Pool]
	left.Charge(was.bin.charged, -1)
	if len(rest) == 0 {
		was.bin.Items = nil
		t.bins[i] = plannedBin{bin: was.bin, offer: -1}
		return true
	}
	smaller.bin.charged = t.s.Catalog.Offers[smaller.offer].Charge
	left.Charge(smaller.bin.charged, 1)
	*was.bin = *smaller.bin
	smaller.bin = was.bin
	t.bins[i] = smaller
	t.index.raise(i, &smaller.free)
	return true
}

// moveWhatFits moves pods of a bin, the largest first, to targets that have room for them, and returns those left.
func (t *consolidation) moveWhatFits(i int, targets []int) []binItem {
	rest := t.itemsBySize(t.bins[i].bin.Items, t.s.Catalog.Offers[t.bins[i].offer].Allocatable)
	for k := range rest {
		it := &rest[k]
		req := &t.s.Inst.Classes[it.Class].Req
		for at := t.nextTarget(0, targets, req); at < len(targets) && it.Count > 0; at = t.nextTarget(at+1, targets, req) {
			j := targets[at]
			n := t.podsBinAccepts(j, i, it)
			if n == 0 && t.switchPool(j, i, it) {
				n = t.podsBinAccepts(j, i, it)
			}
			if n > 0 {
				t.movePods(j, i, it, n)
			}
		}
	}
	return slices.DeleteFunc(rest, func(it binItem) bool { return it.Count == 0 })
}

// itemsBySize copies items, sorted by how large a part of a machine one pod takes, the largest first.
func (t *consolidation) itemsBySize(items []binItem, avail *problem.Vec) []binItem {
	t.sizedBuf = t.sizedBuf[:0]
	for i := range items {
		x := sizedItem{it: items[i]}
		for k := range t.s.In.Dims {
			if a := avail[k]; a > 0 {
				x.size = max(x.size, problem.MulDiv(t.s.Inst.Classes[x.it.Class].Req[k], 1_000_000, a))
			}
		}
		t.sizedBuf = append(t.sizedBuf, x)
	}
	slices.SortStableFunc(t.sizedBuf, func(a, b sizedItem) int { return cmp.Compare(b.size, a.size) })
	out := make([]binItem, len(items))
	for i := range out {
		out[i] = t.sizedBuf[i].it
	}
	return out
}

// cheapestGrowth finds the bin that would take all these items of bin i for the least more, less than a limit; -1 if
// none would.
func (t *consolidation) cheapestGrowth(i int, items []binItem, targets []int, limit int64) (best int, grown plannedBin, by int64) {
	s := t.s
	best, by = -1, limit
	if len(targets) > maxMachinesToGrow {
		return best, grown, by
	}
	for _, j := range targets {
		x := &t.bins[j]
		if j == i || x.offer < 0 || len(x.bin.Items) == 0 || x.bin.quantity >= 0 || s.Purchases.Limits[x.bin.Pool].Limited {
			continue
		}
		if !t.tryJoin(j, i, items, x) {
			continue
		}
		t.undoJoin(j, i, items) // only asked
		next := *x.bin
		next.Items = slices.Clone(x.bin.Items)
		next.occupancy = t.s.occupancyOf(next.Items)
		for k := range items {
			next.offers = s.Catalog.Intersect(next.offers, items[k].offers)
			next.addPods(s.Inst.Classes[items[k].Class], items[k].offers, items[k].Count, s.In.NumDims)
		}
		y := plannedBin{bin: &next, fixed: x.fixed}
		if t.findOffer(&y); y.offer >= 0 {
			if more := t.adjustedCost(&y) - t.adjustedCost(x); more < by {
				best, grown, by = j, y, more
			}
		}
	}
	return best, grown, by
}

// mergeBins looks for machines of one pool, the cheapest first, that one larger machine can replace for less, and
// reports whether it replaced some: the last few that a class is left with, mostly.
func (t *consolidation) mergeBins() bool {
	s := t.s
	if len(t.bins) > maxMachinesToGrow {
		return false
	}
	byPool := make([][]int, len(s.In.Given.Pools))
	for i := range t.bins {
		x := &t.bins[i]
		if x.offer < 0 || x.fixed || len(x.bin.Items) == 0 || s.Purchases.Limits[x.bin.Pool].Limited || len(s.Catalog.MinValuesOf(x.bin.Pool)) > 0 {
			continue
		}
		byPool[x.bin.Pool] = append(byPool[x.bin.Pool], i)
	}
	for _, list := range byPool {
		slices.SortStableFunc(list, func(a, b int) int { return cmp.Compare(t.adjustedCost(&t.bins[a]), t.adjustedCost(&t.bins[b])) })
		for from := 0; from+1 < len(list) && s.Work.Steps < t.stepLimit; from++ {
			i := list[from]
			into := t.bins[i]
			sum := t.adjustedCost(&into)
			var gone []int
			for _, j := range list[from+1:] {
				x := &t.bins[j]
				if !t.tryJoin(i, j, x.bin.Items, &into) {
					continue
				}
				y := t.binHolding(i, slices.Concat(into.bin.Items, x.bin.Items))
				if y.offer < 0 {
					t.undoJoin(i, j, x.bin.Items)
					continue
				}
				into, gone, sum = y, append(gone, j), sum+t.adjustedCost(x)
				if t.adjustedCost(&into) < sum {
					t.replaceBins(i, &into, gone)
					return true
				}
			}
			for _, j := range gone {
				t.undoJoin(i, j, t.bins[j].bin.Items)
			}
		}
	}
	return false
}

// replaceBins has one bin hold what others held, whose pods are counted there already.
func (t *consolidation) replaceBins(i int, by *plannedBin, gone []int) {
	for _, j := range gone {
		t.bins[j].bin.Items = nil
		t.bins[j].offer = -1
	}
	by.bin.charged = t.s.Catalog.Offers[by.offer].Charge
	*t.bins[i].bin = *by.bin
	by.bin = t.bins[i].bin
	t.bins[i] = *by
}

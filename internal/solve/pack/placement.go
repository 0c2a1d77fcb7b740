// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/problem"
	"github.com/dovetail-sh/dovetail/internal/solve/topology"
)

// Placement is the state of placing pods on existing nodes and in bins.
type Placement struct {
	topology.Compiled
	Purchases *Purchases
	Choices   *Choices

	OnNodes []podsOnNode
	Bins    []*Bin
	Demands []*Demand

	collected []collectedDemands // by class; see demandCollector

	purchaseCaps  map[topology.ClassAssignment]int64 // no more pods of the class can be bought for there; see assumptions
	purchased     map[topology.ClassAssignment]int64 // so many are to be bought for
	StartedGroups []GroupStart

	keepPlaced        bool           // what is placed now must not disturb what was
	spareCapacity     *consolidation // of machines bought, which pods left out may take; nil: no pod may yet
	resourceBound     int64          // what the demands bought for cost at least, by resource prices
	SeparationPremium int64          // cost of separating pods that prefer to be apart, micro-dollars per hour
}

// collectedDemands is the last demand of a class in a list, with those linked behind it by demand.next.
type collectedDemands struct {
	in   *[]*Demand
	last *Demand
}

// podsOnNode is pods of a class put on an existing node.
type podsOnNode struct{ Class, Node, Count int }

// GroupStart is a group that must share a domain, with the assignment where it starts and the possible ones, by name.
type GroupStart struct {
	Class    int
	Chosen   string
	Possible []string
}

// consolidation empties machines to buy into what is free on the others, over all pools and levels: each level is
// packed by itself, and a class of which a machine may hold only a few leaves capacity that no other packing looks
// at. A machine goes, or becomes a smaller one, where its pods fit on others that grow dearer by less than is saved.
// Pods stay in the domains where they are counted. A machine may grow for pods of another level where a whole machine
// is saved: weights say what is bought first, not what else may be on it.
type consolidation struct {
	s         *Placement
	bins      []plannedBin
	undo      []undoEntry // moves of what is being tried, in order
	index     targetIndex // passes over full targets
	sizedBuf  []sizedItem // scratch of itemsBySize
	stepLimit int64       // where it ends, in steps

	lastResort bool // there is nowhere else for pods: those that would rather be separate need not be, and machines may become dearer
}

// targetBlock is how many targets a targetIndex passes over at once if none of them has room.
const targetBlock = 32

// targetIndex stores the maximum free resources of each block of machines to which pods may be moved.
type targetIndex struct {
	dims    int
	most    []problem.Vec // by block; nil: there is no index
	blockOf []int32       // by bin
}

// raise notes that this much may be free on a bin.
func (x *targetIndex) raise(bin int, free *problem.Vec) {
	if x.most == nil {
		return
	}
	most := &x.most[x.blockOf[bin]]
	for k := range x.dims {
		most[k] = max(most[k], free[k])
	}
}

// plannedBin is a bin with the offer with which it would be launched.
type plannedBin struct {
	bin   *Bin
	offer int         // the cheapest; -1: nothing is done with it
	free  problem.Vec // on that offer
	fixed bool        // it stays the machine that it is
}

// undoEntry is bin j as it was before a move.
type undoEntry struct {
	j   int
	was plannedBin
	bin Bin
}

// CountMachines returns the number of machines to launch.
func (s *Placement) CountMachines() (n int64) {
	for _, b := range s.Bins {
		n += b.Copies
	}
	return n
}

// BuysFromSeveralLevels reports whether machines of more than one level are launched.
func (s *Placement) BuysFromSeveralLevels() bool {
	for _, b := range s.Bins {
		if s.In.Given.Pools[b.Pool].Before(&s.In.Given.Pools[s.Bins[0].Pool]) != 0 {
			return true
		}
	}
	return false
}

// MayPackSpreads reports whether several machines are launched, or pods are left over, and a spread has a maxSkew above
// 1, so that an uneven distribution may need fewer machines.
func (s *Placement) MayPackSpreads() bool {
	if s.CountMachines() < 2 && !slices.ContainsFunc(s.Inst.Classes, func(c *problem.Class) bool { return c.Unplaced() > 0 }) {
		return false
	}
	return slices.ContainsFunc(s.Inst.Classes, func(c *problem.Class) bool {
		return len(c.Pods) > 1 && slices.ContainsFunc(c.Topology.DomainRules, func(r problem.Rule) bool { return topology.MayPack(&r) })
	})
}

// mergeEqualBins makes equal bins copies of one again. No pod may be added to a bin any more.
func (s *Placement) mergeEqualBins() {
	seen, out := make(map[string]*Bin, len(s.Bins)), make([]*Bin, 0, len(s.Bins))
	var words []uint64
	var key []byte
	for _, b := range s.Bins {
		slices.SortFunc(b.Items, func(x, y binItem) int { return cmp.Compare(x.Class, y.Class) })
		words = append(words[:0], uint64(b.Pool), uint64(b.offers.ID), uint64(b.quantity), uint64(len(b.Items)))
		for _, it := range b.Items {
			words = append(words, uint64(it.Class), uint64(it.Count))
		}
		for _, v := range b.charged {
			words = append(words, uint64(v))
		}
		key = problem.AppendWords(key[:0], words)
		if was := seen[string(key)]; was != nil {
			was.Copies += b.Copies
			continue
		}
		seen[string(key)] = b
		out = append(out, b)
	}
	s.Bins = out
}

// splitCopies makes every copy a bin of its own, with a number among the hosts.
func (s *Placement) splitCopies() {
	out := make([]*Bin, 0, s.CountMachines())
	for _, b := range s.Bins {
		if b.host >= 0 {
			out = append(out, b)
			continue
		}
		for n := b.Copies; n > 0; n-- {
			one := b
			if n > 1 {
				x := *b
				one, x.Items = &x, slices.Clone(b.Items)
			}
			one.Copies, one.host, one.occupancy = 1, s.Topo.HostCount, problem.Occupancy{}
			s.Topo.HostCount++
			for _, it := range one.Items {
				c := s.Inst.Classes[it.Class]
				s.Topo.CountOnHost(c, one.host, it.Count)
				one.occupancy.Add(c)
			}
			out = append(out, one)
		}
	}
	s.Bins = out
}

// binLackingMinValues returns the first bin whose choice has fewer values of a label than MinValues requires, nil if
// there is none.
func (s *Placement) binLackingMinValues() *Bin {
	for _, b := range s.Bins {
		if !s.Choices.meetsMinValues(b) {
			return b
		}
	}
	return nil
}

// sizedItem is an item and the part of a machine that one of its pods takes, in millionths.
type sizedItem struct {
	size int64
	it   binItem
}

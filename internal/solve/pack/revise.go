// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"maps"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/solve/problem"
	"github.com/dovetail-sh/dovetail/internal/solve/topology"
)

// Assumptions are what an attempt takes for granted, because nobody can tell it beforehand: which group begins where,
// what limits are worth, which domains will hold a node. An attempt that shows one of them to be wrong is made again
// with others. They are a value: maps and slices in it are never changed once an attempt has been given them. The
// zero value assumes nothing.
type Assumptions struct {
	Alternative

	byPriority    bool                               // pods of one priority are bought for before those of the next
	limitPrices   limitPricing                       // what machines are counted dearer by for what they take of limits
	purchaseCaps  map[topology.ClassAssignment]int64 // no more pods of the class can be bought for in these domains
	allowedOffers map[int]*problem.OfferSet          // by class: its offers less those of pools that can't keep MinValues for it
	BannedPools   map[ClassPool]bool                 // what was left out of allowedOffers
	spreads       map[domainRuleKey]spreadRange      // domains of rules, where others than those compiled
	deferrals     map[int]int                        // by class: it is placed after classes of which this is less

	emptyDomainTrial *emptyDomainTrial // the domains left out as empty in this attempt; nil: none
	keepEmptyDomains bool              // leaving them out was tried and placed no more pods
}

// Alternative is the part of assumptions that is right either way, and may turn out cheaper or dearer: see
// solveWithAlternatives.
type Alternative struct {
	GroupStarts map[int]string // by class: the assignment where a group that must share a domain begins; none: the cheapest for one pod
	Reuse       reuseOrder
	Heeded      problem.Preferences // see problem.Input
}

// reuseOrder is whether pods go onto free capacity of machines of other weights before machines of their own are
// bought for them.
type reuseOrder int8

const (
	reuseNone       reuseOrder = iota
	ReuseFromHigher            // of machines of higher weight
	ReuseFromLower             // of machines of lower weight, which are bought first
)

// ClassPool is a class and a pool, by number.
type ClassPool struct{ Class, Pool int }

// domainRuleKey is a rule of a class: its place among TopologyRules.DomainRules.
type domainRuleKey struct{ class, rule int }

// spreadRange is what an attempt assumes about the domains of one rule; see the fields of rule.
type spreadRange struct {
	domains, filledByOthers, closedDomains []int32
}

// emptyDomainTrial is an attempt with fewer domains, and what to go back to if it places no more pods.
type emptyDomainTrial struct {
	unplaced     int // pods, by the attempt before
	domains      map[domainRuleKey][]int32
	purchaseCaps map[topology.ClassAssignment]int64
}

// assume prepares an attempt.
func (s *Planner) assume(a Assumptions) {
	s.Purchases.Assumptions, s.Placement.purchaseCaps = a, a.purchaseCaps
	for id, set := range a.allowedOffers {
		if c := s.Inst.Classes[id]; c.Offers != set {
			c.Offers, c.PreferredOffers = set, nil
		}
	}
	for k, x := range a.spreads {
		r := &s.Inst.Classes[k.class].Topology.DomainRules[k.rule]
		r.Domains, r.FilledByOthers, r.ClosedDomains = x.domains, x.filledByOthers, x.closedDomains
	}
}

// setSpread returns the assumptions with another range for one rule. Maps are copied once for a revision: see reviser.
func (a *Assumptions) setSpread(k domainRuleKey, x spreadRange) {
	if a.spreads == nil {
		a.spreads = map[domainRuleKey]spreadRange{}
	}
	a.spreads[k] = x
}

// Reviser looks at an attempt that is over, and at what it shows to be wrong.
type Reviser struct {
	topology.Compiled
	plan     *Planner
	unbought []*Demand // demands that found no machine
	attempts int       // made before this one
}

// NewReviser returns a Reviser of an attempt that left some demands without a machine, and how many were made before it.
func NewReviser(s *Planner, unbought []*Demand, attempts int) *Reviser {
	return &Reviser{Compiled: s.Compiled, plan: s, unbought: unbought, attempts: attempts}
}

// revision is one thing that may have to be assumed otherwise. It returns the assumptions for the next attempt, and
// whether one must be made. What it is given is its own copy.
type revision struct {
	name, doc string
	revise    func(*Reviser, Assumptions) (Assumptions, bool)
}

// purchaseRevisions are looked at in this order once machines are bought. The first that asks for another attempt
// ends the look.
var purchaseRevisions = []revision{
	{"priorities", "limits left a pod without a machine that one of lower priority got", (*Reviser).respectPriorities},
	{"limit prices", "limits were spent on machines that hold little", (*Reviser).raiseLimitPrices},
	{"purchase caps", "pods counted in a domain found no machine there", (*Reviser).lowerPurchaseCaps},
}

// placementRevisions are looked at in this order once groups that share a host are placed too.
var placementRevisions = []revision{
	{"minValues", "a machine leaves its pool fewer values of a label than it asks for", (*Reviser).banPoolsWithoutChoice},
	{"new domains", "machines stand in domains that a spread did not expect", (*Reviser).expectNewDomains},
	{"order", "a spread is kept only if its pods come before others", (*Reviser).DeferCrowdedClasses},
	{"empty domains", "a spread counts domains in which nothing stands", (*Reviser).dropEmptyDomains},
}

// revise goes through revisions, and returns what is to be assumed from now on and whether the attempt must be made
// again.
func (s *Reviser) revise(list []revision, a Assumptions) (next Assumptions, again bool) {
	for _, r := range list {
		if a, again = r.revise(s, a); again {
			return a, true
		}
	}
	return a, false
}

// respectPriorities has priorities packed one after the other from now on, where a pod found no machine and one of
// lower priority did.
func (s *Reviser) respectPriorities(a Assumptions) (Assumptions, bool) {
	if a.byPriority {
		return a, false
	}
	for _, d := range s.unbought {
		for _, b := range s.plan.Placement.Bins {
			for _, it := range b.Items {
				a.byPriority = a.byPriority || s.Inst.Classes[it.Class].Spec.Priority < d.Class.Spec.Priority
			}
		}
	}
	return a, a.byPriority
}

// maxRestarts bounds how often purchase caps are lowered one by one; after that all go to zero at once.
const maxRestarts = 32

// lowerPurchaseCaps lowers how many pods may be bought for in domains where some found no machine, so that they are
// not counted against others that spread with them or want to be near them.
func (s *Reviser) lowerPurchaseCaps(a Assumptions) (Assumptions, bool) {
	all := s.attempts >= maxRestarts || s.Work.OutOfSteps()
	changed := false
	for _, d := range s.unbought {
		if d.assignment == nil {
			continue
		}
		if !changed {
			changed = true
			if a.purchaseCaps = maps.Clone(a.purchaseCaps); a.purchaseCaps == nil {
				a.purchaseCaps = map[topology.ClassAssignment]int64{}
			}
		}
		a.purchaseCaps[topology.ClassAssignment{Class: d.Class.ID, Assignment: d.assignment.ID}] = d.total - d.Unbought
	}
	if changed && all {
		for _, d := range s.plan.Placement.Demands {
			if d.assignment != nil {
				a.purchaseCaps[topology.ClassAssignment{Class: d.Class.ID, Assignment: d.assignment.ID}] = 0
			}
		}
	}
	return a, changed
}

// banPoolsWithoutChoice takes a pool from the classes of the first bin that leaves the pool fewer values than its
// MinValues ask for.
func (s *Reviser) banPoolsWithoutChoice(a Assumptions) (Assumptions, bool) {
	b := s.plan.Placement.binLackingMinValues()
	if b == nil {
		return a, false
	}
	a.allowedOffers, a.BannedPools = maps.Clone(a.allowedOffers), maps.Clone(a.BannedPools)
	if a.allowedOffers == nil {
		a.allowedOffers, a.BannedPools = map[int]*problem.OfferSet{}, map[ClassPool]bool{}
	}
	for _, it := range b.Items {
		c := s.Inst.Classes[it.Class]
		bits := slices.Clone(c.Offers.Bits)
		lo, hi := s.Catalog.PoolOfferRange(b.Pool)
		for i := lo; i < hi; i++ { // those of limited quantity too, or the next attempt would be this one again
			bits[i>>6] &^= 1 << (i & 63)
		}
		a.allowedOffers[c.ID], a.BannedPools[ClassPool{c.ID, b.Pool}] = s.Catalog.InternOfferSet(bits), true
	}
	return a, true
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
	"github.com/dovetail-sh/dovetail/internal/solve/topology"
)

// Assumptions are what an attempt assumes because it cannot be known in advance: where each group starts, the prices of
// limits, which domains will have a node. If an attempt refutes one of them, it is repeated with others. Assumptions are
// a value: their maps and slices are never changed once an attempt uses them. The zero value assumes nothing.
type Assumptions struct {
	Alternative

	byPriority    bool                               // pods of one priority are bought for before those of the next
	limitPrices   limitPricing                       // what machines are counted dearer by for what they take of limits
	purchaseCaps  map[topology.ClassAssignment]int64 // no more pods of the class can be bought for in these domains
	allowedOffers map[int]*problem.OfferSet          // by class: its offers less those of pools that can't keep MinValues for it
	BannedPools   map[ClassPool]bool                 // offers excluded from allowedOffers
	spreads       map[domainRuleKey]spreadRange      // domains of rules, where others than those compiled
	deferrals     map[int]int                        // by class: it is placed after classes of which this is less

	emptyDomainTrial *emptyDomainTrial // the domains left out as empty in this attempt; nil: none
	keepEmptyDomains bool              // leaving them out was tried and placed no more pods
}

// Alternative is the part of the assumptions for which all values are valid, but may lead to different costs: see
// solveWithAlternatives.
type Alternative struct {
	GroupStarts map[int]string // by class: the assignment where a group that must share a domain starts; none: the cheapest for one pod
	Reuse       reuseOrder
	PackSpreads bool                // place pods of a spread in the domain with the most, as far as its skew allows, instead of the fewest
	Early       []int               // classes placed before all others: see CrowdedOut
	Heeded      problem.Preferences // see problem.Input
	LimitRate   []int64             // limitPricing.rate for LimitLevel; see Planner.LimitRate
	LimitLevel  int                 // index in limitPriceLevels, from the first attempt on; 0: limit prices only if pods are left without a machine
}

// With returns a changed copy of an alternative.
func (a Alternative) With(change func(*Alternative)) Alternative {
	change(&a)
	return a
}

// reuseOrder determines whether pods use free capacity of machines of other weights before machines of their own are
// launched.
type reuseOrder int8

const (
	reuseNone       reuseOrder = iota
	ReuseFromHigher            // free capacity of machines of higher weight
	ReuseFromLower             // free capacity of machines of lower weight, which are bought first
)

// ClassPool is a class and a pool, by index.
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

// setSpread returns the assumptions with another range for one rule. Maps are copied once for a revision: see reviser.
func (a *Assumptions) setSpread(k domainRuleKey, x spreadRange) {
	if a.spreads == nil {
		a.spreads = map[domainRuleKey]spreadRange{}
	}
	a.spreads[k] = x
}

// limitPricing is what machines are counted dearer by for what they take of limits: a shadow price. A plan that looks
// at prices alone may spend a limit on machines that are cheap and hold little, and leave pods without one. Where
// that happens, limit prices are tried, low ones first, until no pod is left without a machine; if none helps that
// much, the one is kept with which fewest pods are.
type limitPricing struct {
	rate     []int64 // by resource: micro-dollars << PriceShift for a unit, what the plan without limit prices paid for what it took of limits
	level    int     // of limitPriceLevels
	unplaced []int64 // by level tried: pods left without a machine
	done     bool
}

// limitPriceLevels are limit prices in quarters of the rate.
var limitPriceLevels = [...]int64{0, 1, 4, 32}

// LimitLevels is the number of values of Alternative.LimitLevel.
const LimitLevels = len(limitPriceLevels)

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package problem

import (
	"math/bits"
	"slices"
	"sort"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Offer is an offering of a pool: an instance type in one zone and capacity type, with a fixed value of every label used
// in the problem. If the pool leaves one of its labels open (In with several values, Exists), there is an offer for each
// value that matters.
type Offer struct {
	Pool         int
	InstanceType *model.InstanceType
	Offering     *model.Offering
	Labels       []int32             // by key of labelTable: value of the label; shared by all offers of one shape
	shape        int                 // of problemCompiler.labelShapes: same pool, labels and DaemonSets
	TypeStart    int                 // index of the pool's first offer with this type name; these are adjacent
	Allocatable  *Vec                // minus the requests of DaemonSets on its nodes; shared by all offers of one size
	Size         int                 // index in Catalog.Sizes
	Ports        PortUse             // host ports of those DaemonSets
	CSILimits    map[string]int64    // by driver: attach limits; only those that the demand could exceed
	Price        int64               // micro-dollars per hour
	Charge       model.Resources     // amounts that a node counts toward limits: see PoolLimits
	Available    bool                // capacity is available now
	Quantity     int                 // index of its limited quantity, possibly shared with other pools; -1: unlimited
	DominatedBy  int                 // offer of the same pool with at least as much capacity, for every pod, at no higher cost: see machinesOf; -1: none
	Variant      []model.Requirement // values of the pool's open labels
}

// Level is the pools of one weight and rank: offers lo to hi, excluding hi. Levels are used in order, highest weight
// first.
type Level struct {
	Lo, Hi int
}

// OfferSet is a set of offers as a bitmap. Each set has a single object, so sets are compared by address or ID.
type OfferSet struct {
	ID           int
	Bits         []uint64
	MaximalSizes []Vec // sizes of its offers that are not within another; computed on demand
	sizesKnown   bool
	levels       []int // see Catalog.LevelsOf; nil: not known yet
}

// Contains reports whether offer i is in the set.
func (set *OfferSet) Contains(i int) bool { return set.Bits[i>>6]>>(i&63)&1 != 0 }

// ForEach calls a function for every offer of the level in the set, in ascending order.
func (set *OfferSet) ForEach(l Level, call func(i int)) {
	for w := l.Lo >> 6; w<<6 < l.Hi; w++ {
		for b := set.Bits[w]; b != 0; b &= b - 1 {
			if i := w<<6 + bits.TrailingZeros64(b); i >= l.Lo && i < l.Hi {
				call(i)
			}
		}
	}
}

// InternOfferSet returns the unique offer set with these bits, which must not be changed afterwards.
func (s *Catalog) InternOfferSet(bits []uint64) *OfferSet {
	s.offerSetKey = AppendWords(s.offerSetKey[:0], bits)
	if set := s.offerSetByBits[string(s.offerSetKey)]; set != nil {
		return set
	}
	set := &OfferSet{ID: len(s.OfferSets), Bits: bits}
	s.OfferSets = append(s.OfferSets, set)
	s.offerSetByBits[string(s.offerSetKey)] = set
	return set
}

// Intersect returns the intersection of two sets.
func (s *Catalog) Intersect(a, b *OfferSet) *OfferSet {
	if a == b {
		return a
	}
	out := s.intersections[[2]*OfferSet{a, b}]
	if out == nil {
		bits := make([]uint64, len(a.Bits))
		for i := range bits {
			bits[i] = a.Bits[i] & b.Bits[i]
		}
		out = s.InternOfferSet(bits)
		s.intersections[[2]*OfferSet{a, b}] = out
	}
	return out
}

// addMaximal adds v to a list of amounts of which none is within another, and keeps it so.
func addMaximal(tops []Vec, v *Vec, nd int) []Vec {
	for i := range tops {
		if IsWithin(v, &tops[i], nd) {
			return tops
		}
	}
	kept := tops[:0]
	for i := range tops {
		if !IsWithin(&tops[i], v, nd) {
			kept = append(kept, tops[i])
		}
	}
	return append(kept, *v)
}

// SomeOfferHolds reports whether some offer of the set is large enough for an amount, ignoring limits and quantities.
func (s *Catalog) SomeOfferHolds(set *OfferSet, req *Vec) bool {
	if !set.sizesKnown {
		set.sizesKnown = true
		seen := make([]bool, len(s.Sizes))
		set.ForEach(Level{Hi: len(s.Offers)}, func(i int) {
			if o := &s.Offers[i]; !seen[o.Size] {
				seen[o.Size] = true
				set.MaximalSizes = addMaximal(set.MaximalSizes, o.Allocatable, s.in.NumDims)
			}
		})
	}
	for i := range set.MaximalSizes {
		if IsWithin(req, &set.MaximalSizes[i], s.in.NumDims) {
			return true
		}
	}
	return false
}

// PoolOffersCheapestFirst returns the offers of a pool, cheapest first.
func (s *Catalog) PoolOffersCheapestFirst(pool int) []int {
	lo, hi := s.PoolOfferRange(pool)
	return s.poolOffersByPrice[lo:hi]
}

// PoolOfferRange returns the range of a pool's offers in the catalog, excluding hi. For pools of one family, it is that
// of the first one.
func (s *Catalog) PoolOfferRange(pool int) (lo, hi int) {
	pool = s.EquivalentPool[pool]
	return s.poolStart[pool], s.poolStart[pool+1]
}

// PoolOffers returns the pool's offers without a limited quantity.
func (s *Catalog) PoolOffers(pool int) *OfferSet {
	for len(s.poolSets) < len(s.in.Given.Pools) {
		bits := make([]uint64, (len(s.Offers)+63)/64)
		for i := s.poolStart[len(s.poolSets)]; i < s.poolStart[len(s.poolSets)+1]; i++ {
			if s.Offers[i].Quantity < 0 {
				bits[i>>6] |= 1 << (i & 63)
			}
		}
		s.poolSets = append(s.poolSets, s.InternOfferSet(bits))
	}
	return s.poolSets[s.EquivalentPool[pool]]
}

// SetHasPool reports whether the set has an offer of the pool.
func (s *Catalog) SetHasPool(set *OfferSet, pi int) bool {
	lo, hi := s.PoolOfferRange(pi)
	for i := lo; i < hi; i++ {
		if set.Contains(i) {
			return true
		}
	}
	return false
}

// BuysFrom reports whether the pool can be used for launches at all.
func (s *Catalog) BuysFrom(pool int) bool {
	return slices.Contains(s.Families[s.EquivalentPool[pool]].Pools, pool)
}

// CheapestLevel returns the first level in which an offer of the set holds the amount, and the lowest price there;
// len(levels) and 0 if there is none.
func (s *Catalog) CheapestLevel(set *OfferSet, req *Vec) (int, int64) {
	for _, level := range s.LevelsOf(set) {
		for _, i := range s.offersByPrice[s.Levels[level].Lo+s.firstLevelCandidate(level, req) : s.Levels[level].Hi] {
			if o := &s.Offers[i]; set.Contains(i) && IsWithin(req, o.Allocatable, s.in.NumDims) {
				return level, o.Price
			}
		}
	}
	return len(s.Levels), 0
}

// LevelsOf returns the levels of the offers in the set, ascending. It is computed once for each set.
func (s *Catalog) LevelsOf(set *OfferSet) []int {
	if set.levels == nil {
		set.levels = []int{}
		level := 0
		set.ForEach(Level{Hi: len(s.Offers)}, func(i int) {
			for i >= s.Levels[level].Hi {
				level++
			}
			if n := len(set.levels); n == 0 || set.levels[n-1] != level {
				set.levels = append(set.levels, level)
			}
		})
	}
	return set.levels
}

// FirstLevelOf returns the first level with an offer of the set, -1 if there is none.
func (s *Catalog) FirstLevelOf(set *OfferSet) int {
	if levels := s.LevelsOf(set); len(levels) > 0 {
		return levels[0]
	}
	return -1
}

// HasOfferIn reports whether the set has an offer of the level.
func (s *Catalog) HasOfferIn(set *OfferSet, level int) bool {
	_, found := slices.BinarySearch(s.LevelsOf(set), level)
	return found
}

// SpansLevels reports whether the set has offers of more than one level.
func (s *Catalog) SpansLevels(set *OfferSet) bool { return len(s.LevelsOf(set)) > 1 }

// UnlimitedOffers returns the set without offers of limited quantity.
func (s *Catalog) UnlimitedOffers(set *OfferSet) *OfferSet {
	bits := slices.Clone(set.Bits)
	for i := range s.Offers {
		if s.Offers[i].Quantity >= 0 {
			bits[i>>6] &^= 1 << (i & 63)
		}
	}
	return s.InternOfferSet(bits)
}

// AreInterchangeable reports whether one NodeClaim may allow both offers: they have the same capacity type, node group
// and pool-specific labels.
func (s *Catalog) AreInterchangeable(i, j int) bool {
	return s.Offers[i].Offering.CapacityType == s.Offers[j].Offering.CapacityType && SameVariant(&s.Offers[i], &s.Offers[j])
}

// SameVariant reports whether two offers have the same node group and pool-specific labels.
func SameVariant(a, b *Offer) bool {
	return a.Offering.Labels[model.LabelNodeGroup] == b.Offering.Labels[model.LabelNodeGroup] && slices.EqualFunc(a.Variant, b.Variant, func(x, y model.Requirement) bool {
		return x.Key == y.Key && slices.Equal(x.Values, y.Values)
	})
}

// IndependentParts divides offer sets into parts that have no offer of the level in common and, with shared, no limit
// and no limited quantity: parts are separate problems. It returns the part of each set, numbered by first set, and the
// number of parts.
func (s *Catalog) IndependentParts(l Level, masks []*OfferSet, shared bool) (of []int, n int) {
	parent := make([]int, len(masks))
	for i := range parent {
		parent[i] = i
	}
	root := func(i int) int {
		for parent[i] != i {
			parent[i] = parent[parent[i]]
			i = parent[i]
		}
		return i
	}
	join := func(a, b int) {
		if a, b = root(a), root(b); a < b {
			parent[b] = a
		} else {
			parent[a] = b
		}
	}
	owner := make([]int32, l.Hi-l.Lo) // by offer: an offer set that has it, and one
	byLimit, byStock := map[int]int{}, map[int]int{}
	for j, set := range masks {
		pool := -1
		set.ForEach(l, func(i int) {
			if was := owner[i-l.Lo]; was > 0 {
				join(int(was-1), j)
			}
			owner[i-l.Lo] = int32(j + 1)
			o := &s.Offers[i]
			if !shared {
				return
			}
			if o.Pool != pool && s.Families[o.Pool].Limited {
				pool = o.Pool
				for _, id := range s.Families[pool].counts {
					if was, ok := byLimit[id]; ok {
						join(was, j)
					}
					byLimit[id] = j
				}
			}
			if o.Quantity >= 0 {
				if was, ok := byStock[o.Quantity]; ok {
					join(was, j)
				}
				byStock[o.Quantity] = j
			}
		})
	}
	of = make([]int, len(masks))
	for j := range masks {
		if r := root(j); r < j {
			of[j] = of[r]
		} else {
			of[j] = n
			n++
		}
	}
	return of, n
}

// Catalog is everything that can be launched.
type Catalog struct {
	in   *Input
	work *Work

	Offers            []Offer // by pool (weight, name), type, zone, capacity type, variant
	offersByPrice     []int   // offers by level, price, number
	poolOffersByPrice []int   // offers by pool, price, number
	poolStart         []int   // by pool: where its offers begin; one more for the end
	Levels            []Level
	Sizes             []*Vec // distinct capacities of offers; Offer.Allocatable points here

	poolCapacityIndex  []capacityIndex // by pool, over poolOffersByPrice; made when first needed
	levelCapacityIndex []capacityIndex // by level, over offersByPrice; made when first needed

	EquivalentPool      []int         // by pool: the first of its family
	Families            []family      // sorted by their first pools
	typeLists           []poolCatalog // one a list of types, for the labels its provider sets
	minValuesByPool     []MinValues
	valueTables         map[int]*valueTable // by pool: see valuesOf
	hasPreferNoSchedule bool                // some pool has a taint of that effect

	OfferSets      []*OfferSet
	offerSetByBits map[string]*OfferSet
	offerSetKey    []byte // scratch
	intersections  map[[2]*OfferSet]*OfferSet
	poolSets       []*OfferSet // by pool: its offers without a limited quantity
}

// capacityIndex finds the offers large enough for an amount in a list sorted by price: it stores the maximum of each
// resource over prefixes of the list. With many machines, a search for the cheapest one that holds a few pods skips most
// of those that are too small.
type capacityIndex struct {
	maxima []Vec // among the first capacityIndexStep offers, the first two times as many, and so on
	known  bool
}

// capacityIndexStep is how many offers are passed over at a time.
const capacityIndexStep = 16

// firstCandidate is a place in the list before which no offer holds the amount.
func (r *capacityIndex) firstCandidate(s *Catalog, list []int, req *Vec) int {
	if len(list) <= capacityIndexStep {
		return 0
	}
	if !r.known {
		r.known, r.maxima = true, make([]Vec, len(list)/capacityIndexStep)
		var most Vec
		for at, i := range list[:len(r.maxima)*capacityIndexStep] {
			for k, v := range s.Offers[i].Allocatable[:s.in.NumDims] {
				most[k] = max(most[k], v)
			}
			r.maxima[at/capacityIndexStep] = most
		}
	}
	return sort.Search(len(r.maxima), func(b int) bool { return IsWithin(req, &r.maxima[b], s.in.NumDims) }) * capacityIndexStep
}

// FirstPoolCandidate returns an index in the pool's offers, cheapest first, before which no offer holds the amount.
func (s *Catalog) FirstPoolCandidate(pool int, req *Vec) int {
	if s.poolCapacityIndex == nil {
		s.poolCapacityIndex = make([]capacityIndex, len(s.in.Given.Pools))
	}
	return s.poolCapacityIndex[s.EquivalentPool[pool]].firstCandidate(s, s.PoolOffersCheapestFirst(pool), req)
}

// firstLevelCandidate is a place among the level's offers, cheapest first, before which none holds the amount.
func (s *Catalog) firstLevelCandidate(level int, req *Vec) int {
	if s.levelCapacityIndex == nil {
		s.levelCapacityIndex = make([]capacityIndex, len(s.Levels))
	}
	l := s.Levels[level]
	return s.levelCapacityIndex[level].firstCandidate(s, s.offersByPrice[l.Lo:l.Hi], req)
}

// family is a set of pools that no pod of the demand distinguishes, sorted by name. They share the offers of the first;
// launches are charged to the first pool with remaining limits.
type family struct {
	Pools   []int
	Limited bool   // every pool has limits
	Has     []bool // by resource: some pool limits it
	counts  []int  // the limits that they are under, by number
}

// poolCatalog is what one list of instance types offers under the requirements that some pools have in common, in the
// order of offers. It is made once for all of these pools.
type poolCatalog struct {
	id             int
	types          []*model.InstanceType // as given
	group          string                // only offerings of this node group; empty: all
	requirementKey string                // the requirements as a text
	providerKeys   map[string]bool
	shapes         [][]int32 // the provider's values by label key, unsetValue where it says nothing
	offerings      []catalogOffering
}

// catalogOffering is one offering of a type.
type catalogOffering struct {
	instanceType *model.InstanceType
	offering     *model.Offering
	shape        int
	allocatable  *Vec             // shared by all of a type
	csiLimits    map[string]int64 // see Offer.CSILimits
	size         int              // of sizes
	quantity     int
	dominatedBy  int // another with the same labels that has no less room and costs no more, by place in the list; -1: none
}

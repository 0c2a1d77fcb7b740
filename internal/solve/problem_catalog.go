// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"math/bits"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// offer is one thing that can be bought: an instance type of a pool in one zone and capacity type, with every label
// that the problem looks at fixed. Where the pool leaves a label of its own open (In several values, Exists), there
// is an offer for each value that matters.
type offer struct {
	pool         int
	instanceType *model.InstanceType
	offering     *model.Offering
	labels       []int32 // by key of labelTable: its value there; shared by all of one shape
	shape        int     // of problemCompiler.labelShapes: same pool, labels and DaemonSets
	typeStart    int     // the first of the pool's offers of types of this name, which lie together
	allocatable  *vec    // less the DaemonSets that will stand on it; shared by all of one size
	size         int     // its place in offerCatalog.sizes
	ports        []model.HostPort
	price        int64               // micro-dollars an hour
	available    bool                // can be had now
	quantity     int                 // which limited quantity it draws on, maybe with offers of other pools; -1: as many as wanted
	dominated    bool                // by another of the pool with no less room, for every pod: no machine is packed as it
	variant      []model.Requirement // the open labels of the pool that it fixes
}

// level is the pools of one weight and rank: offers lo to hi, hi excluded. Levels are bought from in order, the
// highest weight first.
type level struct {
	lo, hi int
}

// offerSet is a set of offers as a bitmap. There is one object for each set, so that sets are compared by address or
// id.
type offerSet struct {
	id           int
	bits         []uint64
	maximalSizes []vec // the sizes of its offers that are not within another; made when first asked for
	sizesKnown   bool
}

// contains says whether offer i is in the set.
func (set *offerSet) contains(i int) bool { return set.bits[i>>6]>>(i&63)&1 != 0 }

// forEach calls for every offer of the level that is in the set, ascending.
func (set *offerSet) forEach(l level, call func(i int)) {
	for w := l.lo >> 6; w<<6 < l.hi; w++ {
		for b := set.bits[w]; b != 0; b &= b - 1 {
			if i := w<<6 + bits.TrailingZeros64(b); i >= l.lo && i < l.hi {
				call(i)
			}
		}
	}
}

// internOfferSet returns the one offer set with these bits. The bits must not be changed afterwards.
func (s *offerCatalog) internOfferSet(bits []uint64) *offerSet {
	s.offerSetKey = appendWords(s.offerSetKey[:0], bits)
	if set := s.offerSetByBits[string(s.offerSetKey)]; set != nil {
		return set
	}
	set := &offerSet{id: len(s.offerSets), bits: bits}
	s.offerSets = append(s.offerSets, set)
	s.offerSetByBits[string(s.offerSetKey)] = set
	return set
}

// intersect returns the offers that are in both sets.
func (s *offerCatalog) intersect(a, b *offerSet) *offerSet {
	if a == b {
		return a
	}
	out := s.intersections[[2]*offerSet{a, b}]
	if out == nil {
		bits := make([]uint64, len(a.bits))
		for i := range bits {
			bits[i] = a.bits[i] & b.bits[i]
		}
		out = s.internOfferSet(bits)
		s.intersections[[2]*offerSet{a, b}] = out
	}
	return out
}

// addMaximal adds v to a list of amounts of which none is within another, and keeps it so.
func addMaximal(tops []vec, v *vec, nd int) []vec {
	for i := range tops {
		if isWithin(v, &tops[i], nd) {
			return tops
		}
	}
	kept := tops[:0]
	for i := range tops {
		if !isWithin(&tops[i], v, nd) {
			kept = append(kept, tops[i])
		}
	}
	return append(kept, *v)
}

// someOfferHolds says whether some offer of the set is large enough for an amount, limits and quantities aside.
func (s *offerCatalog) someOfferHolds(set *offerSet, req *vec) bool {
	if !set.sizesKnown {
		set.sizesKnown = true
		seen := make([]bool, len(s.sizes))
		set.forEach(level{hi: len(s.offers)}, func(i int) {
			if o := &s.offers[i]; !seen[o.size] {
				seen[o.size] = true
				set.maximalSizes = addMaximal(set.maximalSizes, o.allocatable, s.numDims)
			}
		})
	}
	for i := range set.maximalSizes {
		if fitsIn(req, &set.maximalSizes[i], s.numDims) {
			return true
		}
	}
	return false
}

// poolOffersCheapestFirst lists the offers of a pool, cheapest first.
func (s *offerCatalog) poolOffersCheapestFirst(pool int) []int {
	lo, hi := s.poolOfferRange(pool)
	return s.poolOffersByPrice[lo:hi]
}

// poolOfferRange is where a pool's offers lie in the catalog, hi excluded; those of the first of its family stand for
// all.
func (s *offerCatalog) poolOfferRange(pool int) (lo, hi int) {
	pool = s.equivalentPool[pool]
	return s.poolStart[pool], s.poolStart[pool+1]
}

// poolOffers is the pool's offers of which there are as many as wanted.
func (s *offerCatalog) poolOffers(pool int) *offerSet {
	for len(s.poolSets) < len(s.input.Pools) {
		bits := make([]uint64, (len(s.offers)+63)/64)
		for i := s.poolStart[len(s.poolSets)]; i < s.poolStart[len(s.poolSets)+1]; i++ {
			if s.offers[i].quantity < 0 {
				bits[i>>6] |= 1 << (i & 63)
			}
		}
		s.poolSets = append(s.poolSets, s.internOfferSet(bits))
	}
	return s.poolSets[s.equivalentPool[pool]]
}

// setHasPool says whether some offer of the pool is in the set.
func (s *offerCatalog) setHasPool(set *offerSet, pi int) bool {
	lo, hi := s.poolOfferRange(pi)
	for i := lo; i < hi; i++ {
		if set.contains(i) {
			return true
		}
	}
	return false
}

// buysFrom says whether anything is ever bought from the pool.
func (s *offerCatalog) buysFrom(pool int) bool {
	return slices.Contains(s.families[s.equivalentPool[pool]].pools, pool)
}

// cheapestLevel is the first level in which an offer of the set holds the amount, and the least price there;
// len(levels) and 0 where none does.
func (s *offerCatalog) cheapestLevel(set *offerSet, req *vec) (int, int64) {
	for level, l := range s.levels {
		for _, i := range s.offersByPrice[l.lo+s.firstLevelCandidate(level, req) : l.hi] {
			if o := &s.offers[i]; set.contains(i) && fitsIn(req, o.allocatable, s.numDims) {
				return level, o.price
			}
		}
	}
	return len(s.levels), 0
}

// firstLevelOf is the first level with an offer of the set, -1 where none has one.
func (s *offerCatalog) firstLevelOf(set *offerSet) int {
	for level := range s.levels {
		if s.hasOfferIn(set, s.levels[level]) {
			return level
		}
	}
	return -1
}

// hasOfferIn says whether an offer of the level is in the set.
func (s *offerCatalog) hasOfferIn(set *offerSet, l level) bool {
	for i := l.lo; i < l.hi; i++ {
		if set.contains(i) {
			return true
		}
	}
	return false
}

// spansLevels says whether the set has offers of more than one level.
func (s *offerCatalog) spansLevels(set *offerSet) bool {
	n := 0
	for _, l := range s.levels {
		if s.hasOfferIn(set, l) {
			n++
		}
	}
	return n > 1
}

// unlimitedOffers is the set less the offers that draw on a limited quantity.
func (s *offerCatalog) unlimitedOffers(set *offerSet) *offerSet {
	bits := slices.Clone(set.bits)
	for i := range s.offers {
		if s.offers[i].quantity >= 0 {
			bits[i>>6] &^= 1 << (i & 63)
		}
	}
	return s.internOfferSet(bits)
}

// areInterchangeable says whether two offers may be choices of one claim: of one capacity type and node group, with
// the same labels of the pool's own.
func (s *offerCatalog) areInterchangeable(i, j int) bool {
	return s.offers[i].offering.CapacityType == s.offers[j].offering.CapacityType && sameVariant(&s.offers[i], &s.offers[j])
}

// sameVariant says whether two offers are of one node group, with the same labels of the pool's own.
func sameVariant(a, b *offer) bool {
	return a.offering.Labels[model.LabelNodeGroup] == b.offering.Labels[model.LabelNodeGroup] && slices.EqualFunc(a.variant, b.variant, func(x, y model.Requirement) bool {
		return x.Key == y.Key && slices.Equal(x.Values, y.Values)
	})
}

// independentParts numbers offer sets so that sets of different numbers have no offer of the level in common, nor,
// where shared is asked for, a limit or a limited quantity: what goes to the ones and what goes to the others are
// separate problems. It returns the number of each set, ascending by first set, and how many numbers there are.
func (s *offerCatalog) independentParts(l level, masks []*offerSet, shared bool) (of []int, n int) {
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
	owner := make([]int32, l.hi-l.lo) // by offer: an offer set that has it, and one
	byPool, byStock := map[int]int{}, map[int]int{}
	for j, set := range masks {
		pool := -1
		set.forEach(l, func(i int) {
			if was := owner[i-l.lo]; was > 0 {
				join(int(was-1), j)
			}
			owner[i-l.lo] = int32(j + 1)
			o := &s.offers[i]
			if !shared {
				return
			}
			if o.pool != pool && s.families[o.pool].limited {
				pool = o.pool
				if was, ok := byPool[pool]; ok {
					join(was, j)
				}
				byPool[pool] = j
			}
			if o.quantity >= 0 {
				if was, ok := byStock[o.quantity]; ok {
					join(was, j)
				}
				byStock[o.quantity] = j
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

// minValues is the requirements of a pool that ask for so many distinct values of a label among a claim's choices.
type minValues []model.Requirement

// minValuesOf returns those of a pool; nil where it has none.
func (s *offerCatalog) minValuesOf(pool int) minValues {
	for i := len(s.minValuesByPool); i < len(s.input.Pools); i++ {
		var out minValues
		for _, r := range s.input.Pools[i].Requirements {
			if r.MinValues > 0 {
				out = append(out, r)
			}
		}
		s.minValuesByPool = append(s.minValuesByPool, out)
	}
	return s.minValuesByPool[pool]
}

// gainsFrom says whether a further type brings a value that is still lacking.
func (m minValues) gainsFrom(types []*model.InstanceType, t *model.InstanceType) bool {
	for i := range m {
		have := distinctValues(m[i].Key, types)
		if len(have) < m[i].MinValues && len(distinctValues(m[i].Key, append(slices.Clip(types), t))) > len(have) {
			return true
		}
	}
	return false
}

// firstUnmet returns the first requirement that the types do not meet, nil if they meet all.
func (m minValues) firstUnmet(types []*model.InstanceType) *model.Requirement {
	for i := range m {
		if len(distinctValues(m[i].Key, types)) < m[i].MinValues {
			return &m[i]
		}
	}
	return nil
}

// distinctValues lists the values of a label among types; zone and capacity type are those of their available
// offerings.
func distinctValues(key string, types []*model.InstanceType) []string {
	var out []string
	for _, t := range types {
		switch v, ok := t.Labels[key]; {
		case key == model.LabelInstanceType:
			out = append(out, t.Name)
		case ok:
			out = append(out, v)
		case key == model.LabelZone || key == model.LabelCapacityType:
			for i := range t.Offerings {
				if o := &t.Offerings[i]; o.Available {
					v, _ := providerLabel(key, t, o)
					out = append(out, v)
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

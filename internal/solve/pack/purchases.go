// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
	"github.com/dovetail-sh/dovetail/internal/solve/topology"
)

// Purchases are the constraints and prices of launches: limits, limited quantities, and what patterns may become.
type Purchases struct {
	topology.Compiled
	Assumptions Assumptions

	Limits     []problem.PoolLimits // by pool: remaining limits
	Quantities []int64              // by Offer.Quantity: remaining number

	Tier            int                // highest refinement tier used; see plan.Stats
	previousColumns *RememberedColumns // of the last solve; nil: none
	NextColumns     RememberedColumns  // for the next solve
	ColumnDuals     map[int]int64      // by class: value of a pod in the linear program over columns, by prices alone
}

// RememberedColumns are the columns in the basis of the last refined plan, by name, so that they are valid in another
// problem.
type RememberedColumns struct {
	Columns []RememberedColumn
}

// RememberedColumn is numbers of pods of some classes on a machine.
type RememberedColumn struct {
	Pool, InstanceType string
	Classes            []string // class keys
	Counts             []int64
}

// limitCharge returns the limit price of a machine of the pool, micro-dollars per hour.
func (s *Purchases) limitCharge(pool int, capacity model.Resources) int64 {
	f := &s.Catalog.Families[s.Catalog.EquivalentPool[pool]]
	if s.Assumptions.limitPrices.level == 0 || !f.Limited {
		return 0
	}
	var sum problem.Sum128
	for d, h := range f.Has {
		if h && d < len(s.Assumptions.limitPrices.rate) {
			sum.AddProduct(s.Assumptions.limitPrices.rate[d], capacity.At(model.Dim(d)))
		}
	}
	return problem.MulDiv(sum.Micro(), limitPriceLevels[s.Assumptions.limitPrices.level], 4)
}

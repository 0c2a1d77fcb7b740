// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import (
	"math/bits"

	"github.com/dovetail-sh/dovetail/internal/solve/lp"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// ResourcePrices solves the resource-price program: it finds the value of a unit of each resource that maximizes the
// value of the total amounts, such that no machine is worth more than it costs. The result is in integers, micro-dollars
// << PriceShift, and exactly feasible: rounded down, then scaled down until no machine is worth more than its price.
func ResourcePrices(sizes []problem.Vec, cost []int64, total []float64, nd int) [problem.MaxDims]int64 {
	return newResourcePricing(sizes, cost, nd).pricesFor(total)
}

func newResourcePricing(sizes []problem.Vec, cost []int64, nd int) *resourcePricing {
	x := &resourcePricing{sizes: sizes, cost: cost, rows: make([][]float64, len(sizes)), limit: make([]float64, len(sizes)), nd: nd}
	all := make([]float64, len(sizes)*nd)
	for i := range sizes {
		row := all[i*nd : i*nd+nd]
		for k := range row {
			row[k] = float64(max(0, sizes[i][k]))
		}
		x.rows[i], x.limit[i] = row, float64(cost[i])
	}
	return x
}

// pricesFor are the prices that make the most of an amount.
func (x *resourcePricing) pricesFor(total []float64) (u [problem.MaxDims]int64) {
	worth, _, _, _ := lp.Maximize(total[:x.nd], x.rows, x.limit, 1000)
	for k, v := range worth {
		if v *= 1 << problem.PriceShift; v > 0 && v < 1<<60 {
			u[k] = int64(v)
		}
	}
	LowerToFeasible(&u, x.sizes, x.cost, x.nd)
	return u
}

// LowerToFeasible lowers any prices until no machine is worth more than it costs. The result is a certificate, whatever
// the initial prices.
func LowerToFeasible(u *[problem.MaxDims]int64, sizes []problem.Vec, cost []int64, nd int) {
	for i := range sizes {
		for {
			var v problem.Sum128
			for k := range nd {
				if sizes[i][k] > 0 {
					v.AddProduct(u[k], sizes[i][k])
				}
			}
			limit := problem.PriceSum(cost[i])
			if !limit.Less(v) {
				break
			}
			scaleDown(u, limit, v, nd)
		}
	}
}

// scaleDown scales prices by limit/value, rounding down, and by a little more so that it ends.
func scaleDown(u *[problem.MaxDims]int64, limit, value problem.Sum128, nd int) {
	for value.Hi>>20 != 0 { // keep 84 bits: enough digits, and room to divide
		limit, value = limit.Half(), value.Half()
	}
	for value.Hi != 0 {
		limit, value = limit.Half(), value.Half()
	}
	for k := range nd {
		if u[k] > 0 {
			hi, lo := bits.Mul64(uint64(u[k]), limit.Lo)
			q, _ := bits.Div64(hi, lo, value.Lo+1)
			u[k] = max(0, int64(q)-1)
		}
	}
}

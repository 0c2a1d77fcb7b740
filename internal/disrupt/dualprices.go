// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve"
	"github.com/dovetail-sh/dovetail/internal/solve/lp"
)

// dualPrices are what one of each resource is worth, in micro-dollars an hour: the most that demand could be charged
// such that no node on sale is worth more than it costs. They give an order in which to look at candidates, and a
// lower bound on what pods cost on new nodes.
type dualPrices []float64

// calculateDualPrices are the prices for the pods of all candidates; never nil.
func calculateDualPrices(in *Input) dualPrices {
	var demand model.Resources
	for _, c := range in.Candidates {
		for _, p := range c.Pods {
			demand = demand.AddInto(p.Class.Requests, 1)
		}
	}
	return newDualPrices(in.Pools, demand, len(in.ResourceNames))
}

// newDualPrices solves the linear program for the prices at which a demand is worth most. A resource that nobody
// demands, pod slots and ephemeral storage have price 0, and so has everything when nothing is on sale.
func newDualPrices(pools []solve.Pool, demand model.Resources, dims int) dualPrices {
	isPriced := func(d int) bool {
		return model.Dim(d) != model.Pods && model.Dim(d) != model.EphemeralStorage && demand.At(model.Dim(d)) > 0
	}
	var rows [][]float64
	var limit []float64
	seen := map[*model.InstanceType]bool{}
	for _, p := range pools {
		for _, t := range p.Types {
			if seen[t] || !p.MayBuyType(t) {
				continue
			}
			seen[t] = true
			price := cheapestOfferingMicro(p.NodePool, t)
			if price < 0 {
				continue
			}
			row := make([]float64, dims)
			for d := range dims {
				if isPriced(d) {
					row[d] = float64(t.Allocatable.At(model.Dim(d))) / float64(demand.At(model.Dim(d)))
				}
			}
			rows, limit = append(rows, row), append(limit, float64(price))
		}
	}
	gain := make([]float64, dims)
	for d := range dims {
		if isPriced(d) {
			gain[d] = 1
		}
	}
	out := make(dualPrices, dims)
	if len(rows) == 0 {
		return out
	}
	x, _, _, _ := lp.Maximize(gain, rows, limit, 200)
	for d := range dims {
		if gain[d] > 0 && x[d] > 0 && x[d] < 1e15 { // a larger one says that nothing on sale has the resource
			out[d] = x[d] / float64(demand.At(model.Dim(d)))
		}
	}
	return out
}

// valueOf is what an amount of resources is worth, in micro-dollars an hour.
func (x dualPrices) valueOf(r model.Resources) int64 {
	sum := 0.0
	for d, v := range r {
		if d < len(x) {
			sum += float64(x[d] * float64(v))
		}
	}
	return int64(sum)
}

// valueOfPods is what the requests of some pods are worth, in micro-dollars an hour, each rounded down.
func (x dualPrices) valueOfPods(pods []*model.Pod) int64 {
	sum := int64(0)
	for _, p := range pods {
		sum += x.valueOf(p.Class.Requests)
	}
	return sum
}

// valueOfFree is what a node's free capacity is worth, in micro-dollars an hour. What is overcommitted counts as
// nothing.
func (x dualPrices) valueOfFree(free []int64) float64 {
	sum := 0.0
	for d, v := range free {
		if d < len(x) {
			sum += float64(x[d] * float64(max(0, v)))
		}
	}
	return sum
}

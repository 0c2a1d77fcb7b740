// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve"
	"github.com/dovetail-sh/dovetail/internal/solve/lp"
)

// Policy are the knobs of consolidation: money, time as an argument of prices, and work. None of them is a clock.
type Policy struct {
	Horizon                 time.Duration // how long what moves is expected to live on: what a saving is multiplied by
	DefaultStartTime        time.Duration // how long a pod takes to start where none of its class has been seen to
	DefaultBootTime         time.Duration // how long a machine takes to come where none has been seen to: old and new are paid for so long
	LaunchMicro             int64         // what a launch costs beside double running
	RestartMicro            int64         // what people would pay not to have a pod of priority 0 restarted, in micro-dollars
	MinSavingPPM            int64         // a move saves at least so much of what its machines cost, in parts per million: nobody moves for pennies
	SolveWork               int64         // of one solve
	MaxCandidatesWide       int           // machines looked at one by one in a wide search
	MaxCandidatesNarrow     int           // and in a narrow one
	MaxSolvesNew            int           // of them, how many may be put to the solver
	MaxSolvesAgain          int           // and of those looked at before
	StopAfterFound          int           // machines found that may go by themselves, at which a search stops looking for more
	MaxCandidatesPerCommand int           // machines moved together at most
}

// DefaultPolicy is what the controller runs with.
func DefaultPolicy() Policy {
	return Policy{Horizon: time.Hour, DefaultStartTime: 10 * time.Second, DefaultBootTime: 40 * time.Second, LaunchMicro: 500, RestartMicro: 2000, MinSavingPPM: 50_000, SolveWork: 400_000, MaxCandidatesWide: 20_000, MaxCandidatesNarrow: 32, MaxSolvesNew: 8, MaxSolvesAgain: 1, StopAfterFound: 16, MaxCandidatesPerCommand: 1000}
}

// Validate says which knob is out of range.
func (p Policy) Validate() error {
	switch {
	case p.Horizon <= 0:
		return fmt.Errorf("disruption policy horizon is %s, must be positive", p.Horizon)
	case p.MinSavingPPM < 0 || p.MinSavingPPM > 1_000_000:
		return fmt.Errorf("disruption policy leastPPM is %d, must be between 0 and 1000000", p.MinSavingPPM)
	case p.DefaultStartTime < 0 || p.DefaultBootTime < 0 || p.LaunchMicro < 0 || p.RestartMicro < 0 || p.SolveWork < 0:
		return fmt.Errorf("disruption policy start %s, boot %s, launchMicro %d, restartMicro %d and work %d must not be negative", p.DefaultStartTime, p.DefaultBootTime, p.LaunchMicro, p.RestartMicro, p.SolveWork)
	case p.MaxCandidatesWide < 1 || p.MaxCandidatesNarrow < 1 || p.MaxSolvesNew < 0 || p.MaxCandidatesPerCommand < 1 || p.StopAfterFound < 1:
		return fmt.Errorf("disruption policy sweep %d, narrow %d, enough %d and set %d must be at least 1, confirm %d not negative", p.MaxCandidatesWide, p.MaxCandidatesNarrow, p.StopAfterFound, p.MaxCandidatesPerCommand, p.MaxSolvesNew)
	}
	return nil
}

// prices are what a unit of each resource is worth: the most that demand could be charged such that no machine on sale is worth more
// than it costs. A guide for order and a bound for what a set of pods costs on new machines at least.
type prices []float64

// newPrices solves for prices at which the demand is worth most.
func newPrices(pools []solve.Pool, demand model.Resources, dims int) prices {
	var rows [][]float64
	var limit []float64
	seen := map[*model.InstanceType]bool{}
	for _, p := range pools {
		for _, t := range p.Types {
			if seen[t] || !p.NodePool.MayBuyType(t) {
				continue
			}
			seen[t] = true
			least := leastPrice(p.NodePool, t)
			if least < 0 {
				continue
			}
			row := make([]float64, dims)
			for d := range dims {
				if model.Dim(d) != model.Pods && model.Dim(d) != model.EphemeralStorage && demand.At(model.Dim(d)) > 0 {
					row[d] = float64(t.Allocatable.At(model.Dim(d))) / float64(demand.At(model.Dim(d)))
				}
			}
			rows, limit = append(rows, row), append(limit, float64(least))
		}
	}
	gain := make([]float64, dims)
	for d := range dims {
		if model.Dim(d) != model.Pods && model.Dim(d) != model.EphemeralStorage && demand.At(model.Dim(d)) > 0 {
			gain[d] = 1
		}
	}
	out := make(prices, dims)
	if len(rows) == 0 {
		return out
	}
	x, _, _, _ := lp.Maximize(gain, rows, limit, 200)
	for d := range dims {
		if gain[d] > 0 && x[d] > 0 && x[d] < 1e15 {
			out[d] = x[d] / float64(demand.At(model.Dim(d)))
		}
	}
	return out
}

// leastPrice is what the cheapest offering of a type that a pool may buy costs an hour, in micro-dollars; -1: it may buy none now.
func leastPrice(p *model.NodePool, t *model.InstanceType) int64 {
	least := int64(-1)
	for i := range t.Offerings {
		if o := &t.Offerings[i]; o.Available && p.MayBuyOffering(o) && (least < 0 || o.PriceMicro < least) {
			least = o.PriceMicro
		}
	}
	return least
}

// of is what an amount is worth in micro-dollars per hour.
func (x prices) of(r model.Resources) int64 {
	sum := 0.0
	for d, v := range r {
		if d < len(x) {
			sum += float64(x[d] * float64(v))
		}
	}
	return int64(sum)
}

// EvictionWeight is what moving a pod weighs beside one that nobody has an opinion of, in thousandths: more with a higher priority and a
// higher pod-deletion-cost, by the reference's rule, between nothing and ten times as much.
func EvictionWeight(p *model.Pod) int64 {
	w := 1000 + int64(p.DeletionCost)*1000>>27 + int64(p.Class.Priority)*1000>>25
	return min(max(w, 0), 10_000)
}

// restartMicro is what people would pay, in micro-dollars, not to have a pod of a pool's machine restarted: what the pod's annotation
// model.AnnotationRestartCost says; else what the pool's says, or Policy.RestartMicro, weighed by Disruption. A value that can't be read counts as
// none.
func (p Policy) restartMicro(pool *model.NodePool, pod *model.Pod) int64 {
	if micro, ok := model.ParseRestartCost(pod.RestartCost); ok {
		return micro
	}
	base := p.RestartMicro
	if micro, ok := model.ParseRestartCost(pool.RestartCost); ok {
		base = micro
	}
	return base * EvictionWeight(pod) / 1000
}

// StartTimes are measured start times.
type StartTimes map[*model.Class]time.Duration

// MeasurePods adds a node's pods: from bound to ready, the least seen of each class, since a pod may have become unready and ready again.
func (s StartTimes) MeasurePods(n *model.Node) {
	for _, p := range n.Pods {
		if p.ReadySince.IsZero() || p.Bound.IsZero() || p.ReadySince.Before(p.Bound) {
			continue
		}
		d := max(p.ReadySince.Sub(p.Bound), time.Second) // the API server writes whole seconds
		if have, ok := s[p.Class]; !ok || d < have {
			s[p.Class] = d
		}
	}
}

// hourly is a price paid for a while.
func hourly(micro int64, d time.Duration) int64 {
	return int64(float64(micro) * d.Hours())
}

// BuyableTypes are the types that a pool may buy, cheapest first and at most so many, with the zones and capacity types they are offered in and
// the price of the cheapest.
func BuyableTypes(p *model.NodePool, most int) (types []*model.InstanceType, zones, capacity []string, micro int64) {
	type choice struct {
		t     *model.InstanceType
		price int64
	}
	var list []choice
	for _, t := range p.Types {
		if !p.MayBuyType(t) {
			continue
		}
		if least := leastPrice(p, t); least >= 0 {
			list = append(list, choice{t, least})
		}
	}
	slices.SortStableFunc(list, func(a, b choice) int { return cmp.Compare(a.price, b.price) })
	if len(list) > most {
		list = list[:most]
	}
	for _, c := range list {
		types = append(types, c.t)
		for i := range c.t.Offerings {
			if o := &c.t.Offerings[i]; o.Available && p.MayBuyOffering(o) {
				zones, capacity = append(zones, o.Zone), append(capacity, o.CapacityType)
			}
		}
	}
	if len(list) > 0 {
		micro = list[0].price
	}
	slices.Sort(zones)
	slices.Sort(capacity)
	return types, slices.Compact(zones), slices.Compact(capacity), micro
}

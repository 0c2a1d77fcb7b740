// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"

	"github.com/dovetail-sh/dovetail/internal/forecast"
)

// policy is how much capacity is held beyond demand: a share of it, or what a forecast says at a price; neither:
// nothing.
type policy struct {
	name  string
	share float64
	price int64 // what a minute of waiting costs, where an idle minute costs 1
}

// Point is what a policy came to.
type Point struct {
	Policy  string  `json:"policy"`
	Price   int64   `json:"price,omitempty"`
	Waiting float64 `json:"waiting"`         // pod-minutes pending per thousand pod-minutes
	Idle    float64 `json:"idle"`            // percent of pod-minutes
	Moved   int     `json:"moved,omitempty"` // pods that consolidation has moved
}

// capacity is the plain model of machines: they come a pod at a time, boot minutes after they were ordered, and go as
// soon as nobody wants them.
type capacity struct {
	ready  int
	coming []int // by minute modulo boot: what was ordered then

	pending, idle, total float64 // pod-minutes
}

// step lets a minute pass: what was ordered boot minutes ago is ready, demand takes what it needs, and orders and
// returns bring what is ready and coming to wanted.
func (c *capacity) step(minute, demand, wanted int, counts bool) {
	slot := minute % len(c.coming)
	c.ready += c.coming[slot]
	c.coming[slot] = 0
	if counts {
		c.pending += float64(max(0, demand-c.ready))
		c.idle += float64(max(0, c.ready-demand))
		c.total += float64(demand)
	}
	all := c.ready
	for _, n := range c.coming {
		all += n
	}
	if wanted > all {
		c.coming[slot] = wanted - all
	} else {
		c.ready -= min(max(0, c.ready-demand), all-wanted)
	}
}

// holds returns, by price and minute, what forecasts as of that minute say is worth holding for machines that boot in
// so many minutes.
func holds(demand []int, boot int, prices []int64) [][]int {
	h, out := forecast.New(), make([][]int, len(prices))
	for minute, d := range demand {
		if d != unknown {
			if err := h.Observe(int64(minute)+firstMonday, d); err != nil {
				panic(err) // minutes come in order
			}
		}
		for i, p := range prices {
			out[i] = append(out[i], h.Forecast(int64(minute)+firstMonday, boot, forecast.ServiceLevel(p, 1), nil).Rise)
		}
	}
	return out
}

// replay plays demand against each policy, a minute a step, with machines that boot in so many minutes, on the plain
// model of capacity or on a cluster of its own. What happens from minute from on is counted. done is called after each
// policy.
func replay(demand []int, boot, from int, policies []policy, plain bool, done func(Point)) ([]Point, error) {
	var prices []int64
	for _, p := range policies {
		if p.price > 0 {
			prices = append(prices, p.price)
		}
	}
	held := holds(demand, boot, prices)
	out, errs := make([]Point, len(policies)), make([]error, len(policies))
	var tell sync.Mutex
	var all sync.WaitGroup
	turns := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, p := range policies {
		var hold []int
		if p.price > 0 {
			hold, held = held[0], held[1:]
		}
		all.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			if plain {
				out[i] = replayPlain(demand, boot, from, p, hold)
			} else {
				out[i], errs[i] = replayCluster(demand, boot, from, p, hold)
			}
			tell.Lock()
			defer tell.Unlock()
			done(out[i])
		})
	}
	all.Wait()
	return out, errors.Join(errs...)
}

// wanted returns a minute's demand, what is to be there for it, and whether it is known.
func (p policy) wanted(demand, hold []int, minute int) (need, want int, known bool) {
	d := demand[minute]
	switch {
	case d == unknown:
		d = leastPods
		if p.price > 0 {
			return d, d + hold[minute], false
		}
		return d, d, false
	case p.price > 0:
		return d, d + hold[minute], true
	}
	return d, d + int(math.Ceil(p.share*float64(d)-1e-9)), true
}

// replayPlain plays demand on the plain model of capacity.
func replayPlain(demand []int, boot, from int, p policy, hold []int) Point {
	c := capacity{coming: make([]int, boot)}
	for minute := range demand {
		need, want, known := p.wanted(demand, hold, minute)
		c.step(minute, need, want, known && minute >= from)
	}
	return Point{Policy: p.name, Price: p.price, Waiting: 1000 * c.pending / c.total, Idle: 100 * c.idle / c.total}
}

// replayCluster plays demand on a cluster whose nodes internal/decide launches and removes, from a day before what is
// counted.
func replayCluster(demand []int, boot, from int, p policy, hold []int) (Point, error) {
	first := max(0, from-day)
	c := newCluster(boot, first)
	for minute := first; minute < len(demand); minute++ {
		need, want, known := p.wanted(demand, hold, minute)
		if err := c.minute(need, want, known && minute >= from); err != nil {
			return Point{}, fmt.Errorf("%s, minute %d: %w", p.name, minute, err)
		}
	}
	return Point{Policy: p.name, Price: p.price, Waiting: 1000 * c.pending / c.demands, Idle: 100 * c.idle / c.demands, Moved: c.moved}, nil
}

// firstMonday is the minute, since 1970, that a trace is taken to begin at: midnight of a Monday.
const firstMonday = 4 * 24 * 60

// standing returns nothing and standing buffers of so many percent of demand.
func standing(percents []int) []policy {
	out := []policy{{name: "nothing"}}
	for _, n := range percents {
		out = append(out, policy{name: fmt.Sprintf("standing %d %%", n), share: float64(n) / 100})
	}
	return out
}

// atIdle returns the waiting at a share of idling, on the line through points in order of idling (waiting by its
// logarithm); false outside of them.
func atIdle(points []Point, idle float64) (float64, bool) {
	for i := 1; i < len(points); i++ {
		a, b := points[i-1], points[i]
		if idle < a.Idle || idle > b.Idle || a.Idle == b.Idle {
			continue
		}
		f := (idle - a.Idle) / (b.Idle - a.Idle)
		if a.Waiting <= 0 || b.Waiting <= 0 {
			return a.Waiting + f*(b.Waiting-a.Waiting), true
		}
		return math.Exp(math.Log(a.Waiting)*(1-f) + math.Log(b.Waiting)*f), true
	}
	return 0, false
}

// atWaiting returns the least idling at which the points' waiting is no more than waiting; false where they don't reach
// it.
func atWaiting(points []Point, waiting float64) (float64, bool) {
	for i, b := range points {
		if b.Waiting > waiting {
			continue
		}
		if i == 0 || points[i-1].Waiting == b.Waiting {
			return b.Idle, true
		}
		a := points[i-1]
		return a.Idle + (b.Idle-a.Idle)*(a.Waiting-waiting)/(a.Waiting-b.Waiting), true
	}
	return 0, false
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"fmt"
	"math"

	"github.com/dovetail-sh/dovetail/internal/forecast"
)

// policy is how much capacity is held beyond demand: a share of it, or what a forecast says at a price; neither: nothing.
type policy struct {
	name  string
	share float64
	price int64 // what a minute of waiting costs, where an idle minute costs 1
}

// Point is what a policy came to.
type Point struct {
	Policy  string  `json:"policy"`
	Price   int64   `json:"price,omitempty"`
	Waiting float64 `json:"waiting"` // pod-minutes pending per thousand pod-minutes
	Idle    float64 `json:"idle"`    // percent of pod-minutes
}

// capacity is the plain model of machines: they come a pod at a time, boot minutes after they were ordered, and go as soon as nobody wants them.
type capacity struct {
	ready  int
	coming []int // by minute modulo boot: what was ordered then

	pending, idle, total float64 // pod-minutes
}

// step lets a minute pass: what was ordered boot minutes ago is ready, demand takes what it needs, and orders and returns bring what is ready
// and coming to wanted.
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

// replay plays demand against each policy, a minute a step, with machines that boot in so many minutes. What happens from minute from until minute
// to is counted. It returns a point for each policy and, where held is not nil, adds what the first policy with a price holds each minute to it.
func replay(demand []int, boot, from, to int, policies []policy, held *[]int) []Point {
	h := forecast.New()
	capacities := make([]capacity, len(policies))
	for i := range capacities {
		capacities[i].coming = make([]int, boot)
	}
	for minute, d := range demand[:to] {
		known := d != unknown
		if known {
			if err := h.Observe(int64(minute)+firstMonday, d); err != nil {
				panic(err) // minutes come in order
			}
		} else {
			d = leastPods
		}
		noted := false
		for i, p := range policies {
			hold := 0
			switch {
			case p.price > 0:
				hold = h.Forecast(int64(minute)+firstMonday, boot, forecast.ServiceLevel(p.price, 1)).Rise
				if held != nil && !noted {
					*held, noted = append(*held, hold), true
				}
			case known:
				hold = int(math.Ceil(p.share*float64(d) - 1e-9))
			}
			capacities[i].step(minute, d, d+hold, known && minute >= from)
		}
	}
	var out []Point
	for i, p := range policies {
		c := &capacities[i]
		out = append(out, Point{Policy: p.name, Price: p.price, Waiting: 1000 * c.pending / c.total, Idle: 100 * c.idle / c.total})
	}
	return out
}

// firstMonday is the minute, since 1970, that a trace is taken to begin at: midnight of a Monday.
const firstMonday = 4 * 24 * 60

// standing are the buffers to compare with: those that are shown, and more that are only interpolated between.
func standing() (out []policy) {
	for _, percent := range []int{0, 5, 10, 20, 30, 40, 50, 75, 100, 150, 200, 300} {
		name := "nothing"
		if percent > 0 {
			name = fmt.Sprintf("standing %d %%", percent)
		}
		out = append(out, policy{name: name, share: float64(percent) / 100})
	}
	return out
}

// atIdle returns the waiting at a share of idling, on the line through points in order of idling (waiting by its logarithm); false outside of them.
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

// atWaiting returns the least idling at which the points' waiting is no more than waiting; false where they don't reach it.
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

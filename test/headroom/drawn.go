// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"math"
	"math/rand/v2"
)

const day = 24 * 60

// series is a drawn demand.
type series struct {
	name   string
	demand []int
	from   int   // the minute from which it is counted
	clock  bool  // its spikes come at clock times, and are to be met from the third on
	twin   []int // the same without what happened once; nil: nothing did
	once   int   // when that was over
}

// drawn returns all kinds of drawn series for a seed.
func drawn(seed uint64) []series {
	r := rand.New(rand.NewPCG(seed, 7))
	return []series{
		clockSpikes(r, "daily spikes", 21, 2, func(d int) bool { return true }),
		clockSpikes(r, "workday spikes", 35, 2, func(d int) bool { return d%7 < 5 }),
		clockSpikes(r, "weekly spikes", 56, 14, func(d int) bool { return d%7 == 2 }),
		overNoise(clockSpikes(r, "daily spikes over noise", 21, 2, func(d int) bool { return true }), r),
		oneOff(r),
		levelShifts(r),
		randomWalk(r),
		outage(r),
		stopped(r),
	}
}

// flat returns days of one level: what waits is then the spikes' alone.
func flat(days, level int) []int {
	out := make([]int, days*day)
	for i := range out {
		out[i] = level
	}
	return out
}

// raise adds replicas from a minute on, for so long.
func raise(demand []int, at, minutes, replicas int) {
	for i := max(0, at); i < min(len(demand), at+minutes); i++ {
		demand[i] += replicas
	}
}

// clockSpikes draws a spike of half to three times the level at a time of the day, up to three minutes early or late,
// on the days that are asked for.
func clockSpikes(r *rand.Rand, name string, days, from int, on func(day int) bool) series {
	level := 20 + r.IntN(80)
	s := series{name: name, demand: flat(days, level), from: from * day, clock: true}
	at, height, minutes := 60+r.IntN(day-240), level/2+r.IntN(level*5/2), 10+r.IntN(110)
	for d := range days {
		if on(d) {
			raise(s.demand, d*day+at+r.IntN(7)-3, minutes, height+r.IntN(max(1, height/20)))
		}
	}
	return s
}

// overNoise adds what noise has above its level.
func overNoise(s series, r *rand.Rand) series {
	for i, n := range noisy(r, len(s.demand)/day, 50) {
		s.demand[i] += max(0, n-50)
	}
	return s
}

// noisy returns days of a level with the noise of independent arrivals, falls held back as for a trace.
func noisy(r *rand.Rand, days, level int) []int {
	raw := make([]int, days*day)
	for i := range raw {
		raw[i] = max(leastPods, level+int(math.Round(r.NormFloat64()*math.Sqrt(float64(level)))))
	}
	return holdFalls(raw)
}

// oneOff draws three spikes that never come again.
func oneOff(r *rand.Rand) series {
	demand := noisy(r, 35, 40+r.IntN(60))
	twin := append([]int(nil), demand...)
	last := 0
	for i := range 3 {
		at := (8+4*i)*day + r.IntN(day)
		raise(demand, at, 10+r.IntN(50), 50+r.IntN(150))
		last = max(last, at+60)
	}
	return series{name: "one-off spikes", demand: demand, from: 7 * day, twin: twin, once: last}
}

// levelShifts draws a level that changes once a week, for good.
func levelShifts(r *rand.Rand) series {
	var demand []int
	for range 5 {
		demand = append(demand, noisy(r, 7, 20+r.IntN(180))...)
	}
	return series{name: "level shifts", demand: demand, from: 7 * day}
}

// randomWalk draws demand that goes up or down by one or two every few minutes.
func randomWalk(r *rand.Rand) series {
	demand := make([]int, 35*day)
	now := 100
	for i := range demand {
		if r.IntN(3) == 0 {
			now += r.IntN(5) - 2
		}
		if now < 10 || now > 400 {
			now = max(10, min(400, now))
		}
		demand[i] = now
	}
	return series{name: "random walk", demand: demand, from: 7 * day}
}

// outage draws noise with a slow daily course, and a day on which nearly nothing is wanted.
func outage(r *rand.Rand) series {
	demand := noisy(r, 35, 60)
	for i := range demand {
		demand[i] += int(30 * (1 + math.Sin(2*math.Pi*float64(i)/day)))
	}
	twin := append([]int(nil), demand...)
	at := 14*day + r.IntN(day)
	for i := at; i < at+day; i++ {
		demand[i] = leastPods
	}
	return series{name: "outage of a day", demand: demand, from: 7 * day, twin: twin, once: at + day}
}

// stopped draws daily spikes that stop after two weeks.
func stopped(r *rand.Rand) series {
	level := 20 + r.IntN(80)
	s := series{name: "spikes that stop", demand: flat(35, level), from: 14 * day, once: 14 * day}
	s.twin = append([]int(nil), s.demand...)
	at := 60 + r.IntN(day-240)
	for d := range 14 {
		raise(s.demand, d*day+at+r.IntN(7)-3, 30, 2*level)
	}
	return s
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package forecast

import (
	"fmt"
	"math"
)

const (
	// MaxReplicas is the maximum demand. A larger demand counts as MaxReplicas.
	MaxReplicas = 60000
	// MinutesKept is the number of latest minutes that are stored individually.
	MinutesKept = 4 * hour
	// QuartersKept is the number of quarters of an hour that are stored: four weeks.
	QuartersKept = 28 * day / quarter

	hour    = 60
	day     = 24 * hour
	week    = 7 * day
	quarter = 15

	unknown = math.MaxUint16 // a minute or quarter without an observation

	levelMinutes = 20      // the recent level averages over so many minutes
	trendMinutes = 30      // and its trend over so many
	noiseMinutes = week    // the noise averages over so many;
	noiseClip    = 2       // what is more than so many times the noise counts as this,
	noiseLeast   = 0.1     // or as so many times this
	resetAfter   = 10      // minutes unknown in a row, after which level and trend begin anew
	errorMinutes = 7 * day // the errors of the methods average over so many minutes
)

// cell is the demand of a quarter of an hour; both are unknown where no minute of it was observed.
type cell struct{ mean, peak uint16 }

// History is the demand of one workload: the last minutes, four weeks in quarters of an hour, the largest sudden rises, and the
// distribution of rises. The zero value is not usable; New creates a History. It takes 32 KiB and is not safe for concurrent use.
type History struct {
	first, now int64 // the first and the last minute observed
	known      int64 // how many were observed

	minutes  [MinutesKept]uint16 // by minute modulo MinutesKept
	quarters [QuartersKept]cell  // by quarter modulo QuartersKept
	sum, of  int64               // the current quarter's observations

	level, trend float64 // the recent level and how it changes by the minute
	noise        float64 // mean distance of demand from the level, divided by the level's root
	sinceRise    int     // minutes since the last rise
	spared       float64 // see Spared

	learned [leadCount]learned
	origins [maxLead + 1]origin // the last minutes as origins of forecasts, by minute modulo their number

	spikes      []spike // by time, at most spikesKept
	rising      bool    // the last spike may still grow
	anticipated bool    // that spike was expected: the distributions need not know it
}

// New returns an empty History.
func New() *History {
	h := &History{now: -1}
	for i := range h.minutes {
		h.minutes[i] = unknown
	}
	for i := range h.quarters {
		h.quarters[i] = cell{unknown, unknown}
	}
	return h
}

// Known returns the number of observed minutes.
func (h *History) Known() int64 { return h.known }

// Last returns the last observed minute and its demand; ok is false if nothing was observed.
func (h *History) Last() (minute int64, replicas int, ok bool) {
	if h.known == 0 {
		return 0, 0, false
	}
	return h.now, int(h.demand(h.now)), true
}

// Observe adds the demand of one minute, counted since 1970. Minutes must increase; omitted minutes are unknown. If the minute is
// negative or not after the last one, or if replicas is negative, Observe returns an error and changes nothing.
func (h *History) Observe(minute int64, replicas int) error {
	switch {
	case minute < 0 || minute > math.MaxUint32:
		return fmt.Errorf("minute %d is outside of 0 to %d", minute, int64(math.MaxUint32))
	case h.known > 0 && minute <= h.now:
		return fmt.Errorf("minute %d is not after %d, the last one observed", minute, h.now)
	case replicas < 0:
		return fmt.Errorf("replicas %d is negative", replicas)
	}
	demand := min(replicas, MaxReplicas)
	gap := h.advance(minute)
	h.store(minute, demand)
	if h.known == 0 {
		h.first = minute
	}
	if h.known == 0 || gap >= resetAfter {
		h.level, h.trend, h.sinceRise = float64(demand), 0, math.MaxInt16
		h.rising = false
	}
	h.now = minute
	h.known++
	h.followSpike()
	h.addSpared()
	for i := range h.learned {
		h.learn(i)
	}
	if h.known%day == 0 {
		for i := range h.learned {
			h.learned[i].fade()
		}
	}
	h.follow(demand)
	h.begin()
	return nil
}

// advance marks what lies between the last minute and this one as unknown, and returns how many minutes that is.
func (h *History) advance(minute int64) int64 {
	if h.known == 0 {
		h.sum, h.of = 0, 0
		return 0
	}
	for m := max(h.now+1, minute-MinutesKept+1); m <= minute; m++ {
		h.minutes[m%MinutesKept] = unknown
	}
	if q := minute / quarter; q > h.now/quarter {
		for i := max(h.now/quarter+1, q-QuartersKept+1); i <= q; i++ {
			h.quarters[i%QuartersKept] = cell{unknown, unknown}
		}
		h.sum, h.of = 0, 0
	}
	return minute - h.now - 1
}

// store writes a minute's demand into the minutes and the quarters.
func (h *History) store(minute int64, demand int) {
	h.minutes[minute%MinutesKept] = uint16(demand)
	h.sum += int64(demand)
	h.of++
	c := &h.quarters[minute/quarter%QuartersKept]
	c.mean = uint16((h.sum + h.of/2) / h.of)
	if c.peak == unknown || demand > int(c.peak) {
		c.peak = uint16(demand)
	}
}

// Peak returns the maximum demand from minute from to minute to, rounded to quarters of an hour: the demand in an earlier calendar
// window. ok is false if no minute of that time is known any more.
func (h *History) Peak(from, to int64) (replicas int, ok bool) {
	for q := max(0, from) / quarter; q*quarter < to && q <= h.now/quarter; q++ {
		if c := h.quarterAt(q * quarter); c.peak != unknown {
			replicas, ok = max(replicas, int(c.peak)), true
		}
	}
	return replicas, ok
}

// demand returns a minute's demand, or unknown.
func (h *History) demand(minute int64) uint16 {
	if minute > h.now || minute <= h.now-MinutesKept || minute < h.first {
		return unknown
	}
	return h.minutes[minute%MinutesKept]
}

// quarterAt returns the quarter of an hour that a minute lies in; its values are unknown where it is not kept.
func (h *History) quarterAt(minute int64) cell {
	q := minute / quarter
	if minute < 0 || q > h.now/quarter || q <= h.now/quarter-QuartersKept {
		return cell{unknown, unknown}
	}
	return h.quarters[q%QuartersKept]
}

// scale returns the unit that rises are measured in: how far demand usually is from its recent level, in replicas, one
// at least.
func (h *History) scale() float64 { return max(1, h.noise*math.Sqrt(max(0, h.level)+1)) }

// follow moves level, trend, deviation and the time since the last rise on to the last minute.
func (h *History) follow(demand int) {
	x := float64(demand)
	if before := h.demand(h.now - 1); before != unknown && demand > int(before) {
		h.sinceRise = 0
	} else if h.sinceRise < math.MaxInt16 {
		h.sinceRise++
	}
	root := math.Sqrt(max(0, h.level) + 1)
	seen := min(math.Abs(x-h.level)/root, noiseClip*max(h.noise, noiseLeast))
	h.noise += (seen - h.noise) / float64(min(h.known, noiseMinutes))
	change := (x - h.level) / levelMinutes
	h.level += change
	h.trend += (change - h.trend) / trendMinutes
}

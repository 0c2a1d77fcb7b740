// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package savings

import (
	"maps"
	"slices"
)

// Sum contains amounts over a time, in micro-dollars per hour times seconds: 3,600 of them are one micro-dollar.
type Sum struct {
	Cost            int64 `json:"cost,omitempty"`
	Catalog         int64 `json:"catalog,omitempty"`  // at the provider's prices, without NodeOverlays
	OnDemand        int64 `json:"onDemand,omitempty"` // at the provider's on-demand prices
	Removed         int64 `json:"removed,omitempty"`  // removed nodes less their replacements, at the prices paid
	RemovedOnDemand int64 `json:"removedOnDemand,omitempty"`
	Headroom        int64 `json:"headroom,omitempty"` // nodes held for Headrooms; part of Cost

	// Seconds with unknown data. They are in no amount above, except for NoOnDemand.
	NoPrice    int64 `json:"noPrice,omitempty"`    // machine-seconds
	NoOnDemand int64 `json:"noOnDemand,omitempty"` // machine-seconds; OnDemand contains their actual cost
	Ended      int64 `json:"ended,omitempty"`      // of machines that ended while no controller was running: they may have run
	Unseen     int64 `json:"unseen,omitempty"`     // seconds without a running controller
	NoCredit   int64 `json:"noCredit,omitempty"`   // of consolidation commands with unknown savings
}

func (s *Sum) add(r Rates, seconds int64) {
	if r.Paid == 0 {
		s.NoPrice += seconds
		return
	}
	s.Cost += r.Paid * seconds
	s.Catalog += r.list() * seconds
	s.OnDemand += r.atOnDemand() * seconds
	if r.OnDemand == 0 {
		s.NoOnDemand += seconds
	}
}

// Plus returns the sum of s and o.
func (s Sum) Plus(o *Sum) Sum {
	return Sum{s.Cost + o.Cost, s.Catalog + o.Catalog, s.OnDemand + o.OnDemand, s.Removed + o.Removed, s.RemovedOnDemand + o.RemovedOnDemand,
		s.Headroom + o.Headroom, s.NoPrice + o.NoPrice, s.NoOnDemand + o.NoOnDemand, s.Ended + o.Ended, s.Unseen + o.Unseen, s.NoCredit + o.NoCredit}
}

// Lengths of buckets in seconds, and the maximum numbers of buckets and series.
const (
	minute, hour, day = 60, 3600, 86400

	hoursOfMinutes = 2
	daysOfHours    = 8
	daysKept       = 400 // thirteen months

	mostSeries = 24
)

// others is the pool of series beyond mostSeries. No NodePool has that name.
const others = "(others)"

// bucket is a time with what has come together in it.
type bucket struct {
	length int64 // seconds
	sums   map[Series]*Sum
}

// buckets are the past, by start in seconds since 1970: minutes, then hours, then days the older they are.
type buckets struct {
	at     int64 // lengths go by how long before this they start
	of     map[int64]*bucket
	series map[Series]bool // that are kept apart

	daysChanged int64 // how often a day may have changed
}

// lengthAt returns the length of the bucket that an instant is in.
func (b *buckets) lengthAt(t int64) int64 {
	switch {
	case t >= floor(b.at, hour)-hoursOfMinutes*hour:
		return minute
	case t >= floor(b.at, day)-daysOfHours*day:
		return hour
	}
	return day
}

func floor(t, length int64) int64 { return t - t%length }

// advance joins buckets that have become old into longer ones, and drops those that are too old.
func (b *buckets) advance(now int64) {
	was := b.at
	b.at = max(b.at, now)
	if floor(was, hour) == floor(b.at, hour) {
		return
	}
	oldest := floor(b.at, day) - daysKept*day
	for _, start := range slices.Sorted(maps.Keys(b.of)) {
		have := b.of[start]
		length := b.lengthAt(start)
		if start < oldest {
			delete(b.of, start)
			b.daysChanged++
			continue
		}
		if length == have.length {
			continue
		}
		delete(b.of, start)
		for s, sum := range have.sums {
			to := b.sum(start, s)
			*to = to.Plus(sum)
		}
	}
	b.listSeries()
}

// listSeries finds out which series are kept apart.
func (b *buckets) listSeries() {
	b.series = map[Series]bool{}
	for _, x := range b.of {
		for s := range x.sums {
			b.series[s] = true
		}
	}
}

// coarsen joins the NodePools of the oldest quarter of the buckets that keep them apart, of the days or of all others. It reports whether there
// was one.
func (b *buckets) coarsen(days bool) bool {
	apart := slices.DeleteFunc(slices.Sorted(maps.Keys(b.of)), func(start int64) bool {
		x := b.of[start]
		return (x.length == day) != days || !slices.ContainsFunc(slices.Collect(maps.Keys(x.sums)), isApart)
	})
	for _, start := range apart[:(len(apart)+3)/4] {
		joined := map[Series]*Sum{}
		for s, sum := range b.of[start].sums {
			if isApart(s) {
				s.Pool = others
			}
			if joined[s] != nil {
				*sum = sum.Plus(joined[s])
			}
			joined[s] = sum
		}
		b.of[start].sums = joined
	}
	if days {
		b.daysChanged++
	}
	b.listSeries()
	return len(apart) > 0
}

func isApart(s Series) bool { return s != (Series{}) && s.Pool != others }

// sum returns the sum of a series at an instant.
func (b *buckets) sum(t int64, s Series) *Sum {
	length := b.lengthAt(t)
	start := floor(t, length)
	if b.of == nil {
		b.of, b.series = map[int64]*bucket{}, map[Series]bool{}
	}
	x := b.of[start]
	if x == nil {
		x = &bucket{length: length, sums: map[Series]*Sum{}}
		b.of[start] = x
	}
	if s != (Series{}) && !b.series[s] && len(b.series) >= mostSeries {
		s.Pool = others
	}
	b.series[s] = true
	if length == day {
		b.daysChanged++
	}
	if x.sums[s] == nil {
		x.sums[s] = &Sum{}
	}
	return x.sums[s]
}

// spread calls add for each bucket that a time is in, with the seconds of it that are.
func (b *buckets) spread(s Series, from, to int64, add func(*Sum, int64)) {
	from = max(from, floor(b.at, day)-daysKept*day)
	for from < to {
		length := b.lengthAt(from)
		end := min(to, floor(from, length)+length)
		add(b.sum(from, s), end-from)
		from = end
	}
}

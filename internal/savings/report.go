// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package savings

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Period is a part of the past with its amounts.
type Period struct {
	Start  time.Time
	Length time.Duration
	Sum    Sum // over all series
}

// Account is an extract of a ledger. Its times are aligned to whole buckets.
type Account struct {
	From, Until time.Time
	Begin       time.Time // begin of all stored data
	Total       Sum
	Series      []Series // sorted
	Sums        []Sum    // in the order of Series
	Periods     []Period // in order of time
}

// Since returns the account of the time since t, rounded down to the start of its bucket.
func (l *Ledger) Since(t time.Time) *Account {
	a := &Account{Until: time.Unix(l.until, 0).UTC()}
	if l.until == 0 {
		a.Until = time.Time{}
	}
	sums := map[Series]*Sum{}
	for _, start := range slices.Sorted(maps.Keys(l.buckets.of)) {
		b := l.buckets.of[start]
		if a.Begin.IsZero() {
			a.Begin = time.Unix(start, 0).UTC()
		}
		if start+b.length <= t.Unix() {
			continue
		}
		p := Period{Start: time.Unix(start, 0).UTC(), Length: time.Duration(b.length) * time.Second}
		for s, sum := range b.sums {
			if sums[s] == nil {
				sums[s] = &Sum{}
			}
			*sums[s] = sums[s].Plus(sum)
			p.Sum = p.Sum.Plus(sum)
		}
		a.Total = a.Total.Plus(&p.Sum)
		a.Periods = append(a.Periods, p)
	}
	if len(a.Periods) > 0 {
		a.From = a.Periods[0].Start
	}
	a.Series = sortedSeries(sums)
	for _, s := range a.Series {
		a.Sums = append(a.Sums, *sums[s])
	}
	return a
}

func sortedSeries(m map[Series]*Sum) []Series {
	return slices.SortedFunc(maps.Keys(m), func(a, b Series) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.CapacityType, b.CapacityType))
	})
}

// Causes are the causes of the difference between cost and reference, in the unit of Sum. Negative: higher cost.
type Causes struct {
	Consolidation int64 // nodes removed or replaced, at on-demand prices
	Spot          int64 // capacity that is neither on-demand nor reserved
	Reserved      int64 // capacity reservations
	Overlays      int64 // NodeOverlays
	Headroom      int64 // nodes held for Headrooms: a cost
}

// Causes returns the causes of the difference between the cost of a series and its Reference. Their sum is the difference.
func (s *Sum) Causes(capacityType string) Causes {
	c := Causes{Consolidation: s.RemovedOnDemand, Overlays: s.Catalog - s.Cost, Headroom: -s.Headroom}
	if capacityType == model.Reserved {
		c.Reserved = s.OnDemand - s.Catalog
	} else {
		c.Spot = s.OnDemand - s.Catalog
	}
	return c
}

// Cause is one cause.
type Cause struct {
	Name   string
	Amount int64
}

// List returns the causes with their names, in a fixed order.
func (c Causes) List() []Cause {
	return []Cause{{"consolidation", c.Consolidation}, {"spot", c.Spot}, {"reservations", c.Reserved}, {"overlays", c.Overlays}, {"headroom", c.Headroom}}
}

// Total returns the sum of all causes.
func (c Causes) Total() (sum int64) {
	for _, x := range c.List() {
		sum += x.Amount
	}
	return sum
}

// Causes returns the causes, summed over all series.
func (a *Account) Causes() (sum Causes) {
	for i := range a.Sums {
		c := a.Sums[i].Causes(a.Series[i].CapacityType)
		sum = Causes{sum.Consolidation + c.Consolidation, sum.Spot + c.Spot, sum.Reserved + c.Reserved, sum.Overlays + c.Overlays, sum.Headroom + c.Headroom}
	}
	return sum
}

// Reference returns the cost of the same pods at the provider's on-demand prices, without Headrooms, and without removing or
// replacing nodes while their pods need them.
func (s *Sum) Reference() int64 { return s.OnDemand + s.RemovedOnDemand - s.Headroom }

// Kept returns the cost at the prices paid if no node had been removed or replaced.
func (s *Sum) Kept() int64 { return s.Cost + s.Removed }

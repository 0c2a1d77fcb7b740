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

// Period is a part of the past with what has come together in it.
type Period struct {
	Start  time.Time
	Length time.Duration
	Sum    Sum // over all series
}

// Account is what a ledger has on a time. The times are those of whole buckets.
type Account struct {
	From, Until time.Time
	Begin       time.Time // of all that is kept
	Total       Sum
	Series      []Series // sorted
	Sums        []Sum    // of these
	Periods     []Period // in order of time
}

// Since returns what was counted from an instant on, from the beginning of the bucket that it is in.
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

// Causes are why the cost differs from the reference, in the unit of Sum. Negative: it costs more than it saves.
type Causes struct {
	Consolidation int64 // nodes that were removed or replaced, at on-demand prices
	Spot          int64 // capacity that is not on demand and not reserved
	Reserved      int64 // capacity reservations
	Overlays      int64 // NodeOverlays
	Headroom      int64 // nodes held for Headrooms: a cost
}

// Causes returns why the cost of a series differs from its Reference: their sum is the difference.
func (s *Sum) Causes(capacityType string) Causes {
	c := Causes{Consolidation: s.RemovedOnDemand, Overlays: s.Catalog - s.Cost, Headroom: -s.Headroom}
	if capacityType == model.Reserved {
		c.Reserved = s.OnDemand - s.Catalog
	} else {
		c.Spot = s.OnDemand - s.Catalog
	}
	return c
}

// Cause is one of Causes.
type Cause struct {
	Name   string
	Amount int64
}

// List returns the causes with their names, in a fixed order.
func (c Causes) List() []Cause {
	return []Cause{{"consolidation", c.Consolidation}, {"spot", c.Spot}, {"reservations", c.Reserved}, {"overlays", c.Overlays}, {"headroom", c.Headroom}}
}

// Total returns the sum over causes.
func (c Causes) Total() (sum int64) {
	for _, x := range c.List() {
		sum += x.Amount
	}
	return sum
}

// Causes returns the causes of all series.
func (a *Account) Causes() (sum Causes) {
	for i := range a.Sums {
		c := a.Sums[i].Causes(a.Series[i].CapacityType)
		sum = Causes{sum.Consolidation + c.Consolidation, sum.Spot + c.Spot, sum.Reserved + c.Reserved, sum.Overlays + c.Overlays, sum.Headroom + c.Headroom}
	}
	return sum
}

// Reference returns what the same pods would have cost on demand, at the provider's prices, on nodes that nobody removes or
// replaces while their pods need them, and without Headrooms.
func (s *Sum) Reference() int64 { return s.OnDemand + s.RemovedOnDemand - s.Headroom }

// Kept returns what it would have cost at the prices paid, had nothing been removed or replaced.
func (s *Sum) Kept() int64 { return s.Cost + s.Removed }

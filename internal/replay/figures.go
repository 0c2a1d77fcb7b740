// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package replay

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Figures are the measured results of a cluster over a time.
type Figures struct {
	From, To time.Time

	Micro     int64 // cost of nodes, in micro-dollars
	ListMicro int64 // cost of the same nodes at on-demand list prices, in micro-dollars
	Unpriced  int   // nodes of instance types without a known price: counted as free

	Pods     int           // pods wanted in this time, without DaemonSet pods
	Waiting  time.Duration // sum over pods of the time from schedulable to bound
	P50, P99 time.Duration // per pod
	Unbound  int           // pods that were never bound

	Launched  int            // number of nodes
	Evictions map[string]int // number of pods, by the reason for draining their node
	NodeHours float64
	CPU       float64 // fraction of the nodes' allocatable CPU that pods requested, 0 to 1
	Memory    float64

	Refused map[string]int // pods for which no NodePool could launch a node at some time, by reason code; unknown for a recording

	Pools []PoolFigures // sorted by name; nodes without a NodePool are last, with an empty name
	Days  []DayFigures
	Hours []HourFigures // all hours from the first to the last with data
}

// PoolFigures are the figures of one NodePool.
type PoolFigures struct {
	Pool             string
	Micro, ListMicro int64
	NodeHours        float64
	Launched         int
	Evictions        int
}

// DayFigures are the figures of one day, in UTC.
type DayFigures struct {
	Day              string // 2006-01-02
	Micro, ListMicro int64
	NodeHours        float64
	Launched         int
	Evictions        int
	Waiting          time.Duration
}

// HourFigures are the figures of one hour, for charts.
type HourFigures struct {
	Hour      time.Time // begin of the hour, in UTC
	Micro     int64
	NodeHours float64
	Evictions int
	Waiting   time.Duration
}

// Evicted returns the number of evicted pods, for all reasons.
func (f *Figures) Evicted() (n int) {
	for _, k := range f.Evictions {
		n += k
	}
	return n
}

// meter sums up what happens between two instants. What lies outside them is not counted.
type meter struct {
	from, to time.Time
	f        Figures
	waits    []time.Duration
	pools    map[string]*PoolFigures
	days     map[string]*DayFigures
	hours    map[time.Time]*HourFigures
	seconds  [2]float64 // of CPU and memory that pods requested, times seconds
	room     [2]float64 // and that nodes had
}

// price is what a node costs an hour, in micro-dollars.
type price struct {
	micro, list int64
	known       bool
}

func newMeter(from, to time.Time) *meter {
	return &meter{from: from, to: to, f: Figures{From: from, To: to, Evictions: map[string]int{}}, pools: map[string]*PoolFigures{}, days: map[string]*DayFigures{}, hours: map[time.Time]*HourFigures{}}
}

func (m *meter) pool(name string) *PoolFigures {
	if m.pools[name] == nil {
		m.pools[name] = &PoolFigures{Pool: name}
	}
	return m.pools[name]
}

func (m *meter) day(at time.Time) *DayFigures {
	name := at.UTC().Format(time.DateOnly)
	if m.days[name] == nil {
		m.days[name] = &DayFigures{Day: name}
	}
	return m.days[name]
}

func (m *meter) hour(at time.Time) *HourFigures {
	begin := at.UTC().Truncate(time.Hour)
	if m.hours[begin] == nil {
		m.hours[begin] = &HourFigures{Hour: begin}
	}
	return m.hours[begin]
}

// within cuts a span to what is measured; zero to: until the end.
func (m *meter) within(from, to time.Time) (time.Time, time.Time, bool) {
	if to.IsZero() || to.After(m.to) {
		to = m.to
	}
	from = model.LaterOf(from, m.from)
	return from, to, from.Before(to)
}

// eachHour cuts a span at full hours, and so at midnights.
func eachHour(from, to time.Time, do func(from, to time.Time)) {
	for from.Before(to) {
		next := from.UTC().Truncate(time.Hour).Add(time.Hour)
		if next.After(to) {
			next = to
		}
		do(from, next)
		from = next
	}
}

// paid counts what a node costs from its launch until its end; zero: it runs on.
func (m *meter) paid(pool string, p price, from, to time.Time) {
	from, to, ok := m.within(from, to)
	if !ok {
		return
	}
	if !p.known {
		m.f.Unpriced++
	}
	eachHour(from, to, func(from, to time.Time) {
		hours := to.Sub(from).Hours()
		micro, list := int64(float64(p.micro)*hours+0.5), int64(float64(p.list)*hours+0.5)
		x, d, h := m.pool(pool), m.day(from), m.hour(from)
		x.Micro, x.ListMicro, x.NodeHours = x.Micro+micro, x.ListMicro+list, x.NodeHours+hours
		d.Micro, d.ListMicro, d.NodeHours = d.Micro+micro, d.ListMicro+list, d.NodeHours+hours
		h.Micro, h.NodeHours = h.Micro+micro, h.NodeHours+hours
		m.f.Micro, m.f.ListMicro, m.f.NodeHours = m.f.Micro+micro, m.f.ListMicro+list, m.f.NodeHours+hours
	})
}

// launched counts a launch.
func (m *meter) launched(pool string, at time.Time) {
	if at.Before(m.from) || at.After(m.to) {
		return
	}
	m.f.Launched++
	m.pool(pool).Launched++
	m.day(at).Launched++
}

// evicted counts a pod that lost its node.
func (m *meter) evicted(pool, reason string, at time.Time) {
	if at.Before(m.from) || at.After(m.to) {
		return
	}
	m.f.Evictions[reason]++
	m.pool(pool).Evictions++
	m.day(at).Evictions++
	m.hour(at).Evictions++
}

// waited counts a pod that could be scheduled from one instant and was bound at another; zero: it was not bound until it ended, or at all.
func (m *meter) waited(born, bound, ended time.Time) {
	m.f.Pods++
	if bound.IsZero() {
		m.f.Unbound++
		bound = ended
	}
	from, to, ok := m.within(born, bound)
	if !ok {
		m.waits = append(m.waits, 0)
		return
	}
	m.waits = append(m.waits, to.Sub(from))
	m.f.Waiting += to.Sub(from)
	eachHour(from, to, func(from, to time.Time) {
		m.day(from).Waiting += to.Sub(from)
		m.hour(from).Waiting += to.Sub(from)
	})
}

// ran counts what a pod took of its node.
func (m *meter) ran(r model.Resources, from, to time.Time) { m.held(&m.seconds, r, from, to) }

// stood counts what a node had for pods.
func (m *meter) stood(r model.Resources, from, to time.Time) { m.held(&m.room, r, from, to) }

func (m *meter) held(sum *[2]float64, r model.Resources, from, to time.Time) {
	if from, to, ok := m.within(from, to); ok {
		s := to.Sub(from).Seconds()
		sum[0] += float64(r.At(model.CPU)) * s
		sum[1] += float64(r.At(model.Memory)) * s
	}
}

// figures returns what was counted.
func (m *meter) figures() *Figures {
	f := &m.f
	slices.Sort(m.waits)
	f.P50, f.P99 = percentile(m.waits, 50), percentile(m.waits, 99)
	share := func(i int) float64 {
		if m.room[i] == 0 {
			return 0
		}
		return m.seconds[i] / m.room[i]
	}
	f.CPU, f.Memory = share(0), share(1)
	for _, k := range slices.Sorted(maps.Keys(m.pools)) {
		f.Pools = append(f.Pools, *m.pools[k])
	}
	slices.SortStableFunc(f.Pools, func(a, b PoolFigures) int {
		if (a.Pool == "") != (b.Pool == "") {
			return cmp.Compare(b.Pool, a.Pool)
		}
		return 0
	})
	for _, k := range slices.Sorted(maps.Keys(m.days)) {
		f.Days = append(f.Days, *m.days[k])
	}
	if hours := slices.SortedFunc(maps.Keys(m.hours), time.Time.Compare); len(hours) > 0 {
		for at := hours[0]; !at.After(hours[len(hours)-1]); at = at.Add(time.Hour) {
			f.Hours = append(f.Hours, *m.hour(at))
		}
	}
	return f
}

// percentile returns the nearest-rank percentile of sorted values.
func percentile(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}

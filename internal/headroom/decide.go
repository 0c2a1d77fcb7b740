// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package headroom

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/forecast"
)

// LookEvery is the interval at which a Headroom is evaluated without changes.
const LookEvery = time.Minute

// lookAwaited is how soon it is looked again whether a history has been read, and whether pods have come.
const lookAwaited = 5 * time.Second

// DefaultLead is the assumed time from NodeClaim to Ready until a node launch was observed.
const DefaultLead = 2 * time.Minute

// Input is the state of the cluster that a Headroom depends on.
type Input struct {
	Now       time.Time
	Lead      time.Duration // time from the decision to launch a node until it is Ready
	Workloads []Workload    // sorted by kind and name
}

// Output is the capacity that a Headroom holds now, and its figures.
type Output struct {
	Holds   []Hold // per workload, in the order of the input
	Held    int    // total number of pods
	Micro   int64  // cost of nodes for the held capacity, in micro-dollars per hour; known prices only
	Priced  bool   // the prices of all held capacity are known
	Limited string // the limit that reduces the held capacity, as a sentence; empty: none
	Next    *NextOpening
	Events  []Event
	Look    time.Time // when to evaluate again
}

// NextOpening is the opening of a window that is open, or that opens next.
type NextOpening struct {
	Opening
	Window     string
	LaunchFrom time.Time
}

// ForForecast is the reason of a Hold without a window.
const ForForecast = "forecast"

// Decide returns the capacity that a Headroom holds now, and the next Memory. In mode Recommend, it returns the capacity that would
// be held.
func Decide(h *Headroom, in Input, mem Memory) (Output, Memory) {
	out := Output{Look: in.Now.Add(LookEvery), Priced: true}
	if h.Mode == Off {
		return out, Memory{}
	}
	next := mem.begin(in.Now)
	for i := range in.Workloads {
		w := &in.Workloads[i]
		m, seen := mem.Workloads[w.WorkloadName]
		hold := h.wanted(w, in, &m)
		if event, ok := m.follow(w, seen, in.Now, in.Lead, &next); ok {
			out.Events = append(out.Events, event)
		}
		m.forgetCome(w, in.Now, in.Lead)
		hold.Coming = m.Coming
		next.Workloads[w.WorkloadName] = m
		out.Holds = append(out.Holds, hold)
		if hold.Awaited || hold.Coming > 0 {
			out.Look = in.Now.Add(lookAwaited)
		}
	}
	h.limit(&out, in.Workloads)
	for i := range out.Holds {
		d, w := &out.Holds[i], &in.Workloads[i]
		m := next.Workloads[w.WorkloadName]
		m.setHeld(in.Now, in.Lead, d)
		next.Workloads[w.WorkloadName] = m
		if _, ok := w.Cost(1); !ok && d.Held > 0 {
			out.Priced = false
		}
	}
	h.findNext(&out, in)
	return out, next
}

// wanted returns for how many further pods of a workload room is wanted, and keeps the replicas at the beginning of
// each window's preparation.
func (h *Headroom) wanted(w *Workload, in Input, m *WorkloadMemory) Hold {
	d := Hold{Workload: w.WorkloadName, Replicas: w.Replicas}
	var prepared []PreparedWindow
	for i := range h.Windows {
		win := &h.Windows[i]
		o := win.Current(in.Now)
		if !isPrepared(o, in) {
			continue
		}
		p := PreparedWindow{Name: win.Name, Opens: o.Opens, Replicas: w.Replicas}
		if k := slices.IndexFunc(m.Windows, func(b PreparedWindow) bool { return b.Name == p.Name && b.Opens.Equal(p.Opens) }); k >= 0 {
			p = m.Windows[k]
		}
		prepared = append(prepared, p)
		if n := win.replicas(w, p, o) - w.Replicas; n > d.Wanted {
			d.Wanted, d.For = n, win.Name
		}
	}
	m.Windows, d.Windows = prepared, prepared
	if h.Learned.Disabled || h.Template {
		return d
	}
	if w.HistoryAwaited {
		// Given up for these seconds, its nodes would be removed and launched again.
		d.Awaited = true
		if n := m.stillHeld(w.Replicas); n > d.Wanted {
			d.Wanted, d.For = n, ForForecast
		}
		return d
	}
	if w.History == nil {
		return d
	}
	d.Level = h.serviceLevel(w.Priority)
	d.Rise = w.History.Forecast(in.Now.Unix()/60, minutes(in.Lead), d.Level, h.clock)
	if outlook := w.History.NextHour(d.Level, h.clock); w.History.Known() > 0 {
		d.NextHour = &outlook
	}
	risen := max(0, w.Replicas-d.Rise.Replicas) // since the last minute recorded: a part of the rise that was forecast then
	if n := d.Rise.Rise - risen; n > d.Wanted {
		d.Wanted, d.For = n, ForForecast
	}
	return d
}

// isPrepared reports whether nodes are to be there, or under way, for an opening.
func isPrepared(o Opening, in Input) bool {
	return !in.Now.Before(o.Opens.Add(-in.Lead)) && in.Now.Before(o.Closes)
}

// asLastTimeLooks is how many earlier openings are looked at for one of which the demand is known.
const asLastTimeLooks = 4

// replicas returns how many replicas of a workload a window wants room for, those that run included.
func (win *Window) replicas(w *Workload, p PreparedWindow, o Opening) int {
	switch {
	case win.Replicas >= 0:
		return win.Replicas
	case win.Percent >= 0:
		return (p.Replicas*(100+win.Percent) + 99) / 100
	case w.History == nil:
		return 0
	}
	for _, last := range win.Last(o, asLastTimeLooks) {
		if peak, ok := w.History.Peak(last.Opens.Unix()/60, last.Closes.Unix()/60); ok {
			return peak
		}
	}
	return 0
}

// The default price of a minute of waiting, where an idle minute costs 1.
const (
	waitingCostBelowZero = 4   // pods of a negative priority
	waitingCostOrdinary  = 20  // others
	waitingCostHigh      = 100 // those of highPriority at least
	highPriority         = 1_000_000
)

// serviceLevel returns the quantile of a rise that is worth holding for pods of a priority.
func (h *Headroom) serviceLevel(priority int32) float64 {
	waiting, idle := h.Learned.WaitingCost, h.Learned.IdleCost
	if waiting < 0 {
		switch {
		case priority < 0:
			waiting = waitingCostBelowZero
		case priority >= highPriority:
			waiting = waitingCostHigh
		default:
			waiting = waitingCostOrdinary
		}
	}
	if idle < 0 {
		idle = 1
	}
	return forecast.ServiceLevel(waiting, idle)
}

// minutes returns a duration in minutes, rounded up, 1 at least.
func minutes(d time.Duration) int {
	return max(1, int((d+time.Minute-1)/time.Minute))
}

// findNext notes the window that is open or opens next, and when to look again.
func (h *Headroom) findNext(out *Output, in Input) {
	sooner := func(t time.Time) {
		if t.After(in.Now) && t.Before(out.Look) {
			out.Look = t
		}
	}
	for i := range h.Windows {
		w := &h.Windows[i]
		o := w.Current(in.Now)
		if !o.Closes.After(in.Now) {
			continue // it opens in so many years that cron does not look so far
		}
		n := NextOpening{Opening: o, Window: w.Name, LaunchFrom: o.Opens.Add(-in.Lead)}
		if out.Next == nil || n.Opens.Before(out.Next.Opens) {
			out.Next = &n
		}
		sooner(n.LaunchFrom)
		sooner(o.Opens)
		sooner(o.Closes)
		sooner(w.Next(o.Opens).Add(-in.Lead))
	}
}

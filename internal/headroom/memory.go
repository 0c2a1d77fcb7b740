// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package headroom

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/forecast"
)

// Memory is the state that one evaluation of a Headroom passes to the next. The zero value is the state before the first
// evaluation.
type Memory struct {
	At        time.Time // time of the last evaluation
	Workloads map[WorkloadName]WorkloadMemory
	Days      []Day // at most daysKept, oldest first
}

// WorkloadMemory is the stored state of one workload.
type WorkloadMemory struct {
	Windows  []PreparedWindow
	Replicas int    // replicas at the last evaluation
	Held     []held // capacity held, oldest first, back to a lead time ago
	Coming   int    // see Hold.Coming
	rise     rise
	comes    time.Time // when the last of those that come were asked for; zero: that is not known
}

// held is for how many pods room was held from an instant on, and what it cost by the hour.
type held struct {
	from  time.Time
	pods  int
	micro int64
}

// rise is a rise of demand that may still go on.
type rise struct {
	from        int // replicas before it
	met, missed int // pods that had room held for them, and others
	last        time.Time
}

// Record is the held capacity and its results.
type Record struct {
	Hits, Misses                 int
	SparedSeconds, WaitedSeconds int64 // pod-seconds
	IdleSeconds                  int64 // pod-seconds
	Micro                        int64 // micro-dollars
}

// Day is the Record of a day in UTC.
type Day struct {
	Date string // 2006-01-02
	Record
}

const (
	daysKept = 8 // today and the seven before it
	// longestLook is what is counted of the time since the last look at most: in between nobody saw to anything.
	longestLook = 3 * time.Minute
	// restAfter is how long demand must not have risen for a rise to be over, at least.
	restAfter = time.Minute
)

// LastWeek returns the sum over the last seven days, including today.
func (m *Memory) LastWeek() Record {
	var sum Record
	if len(m.Days) == 0 {
		return sum
	}
	from := m.At.UTC().AddDate(0, 0, -6).Format(time.DateOnly)
	for _, d := range m.Days {
		if d.Date >= from {
			sum.add(d.Record)
		}
	}
	return sum
}

func (r *Record) add(o Record) {
	r.Hits, r.Misses = r.Hits+o.Hits, r.Misses+o.Misses
	r.SparedSeconds, r.WaitedSeconds = r.SparedSeconds+o.SparedSeconds, r.WaitedSeconds+o.WaitedSeconds
	r.IdleSeconds, r.Micro = r.IdleSeconds+o.IdleSeconds, r.Micro+o.Micro
}

// Restored returns the memory of a workload from the stored numbers: for how many additional pods capacity was held, for how many
// of its own pods that were not created yet, and the prepared windows.
func Restored(replicas, pods, coming int, micro int64, windows []PreparedWindow) WorkloadMemory {
	m := WorkloadMemory{Replicas: replicas, Coming: coming, Windows: windows}
	if pods > 0 {
		m.Held = []held{{pods: pods, micro: micro}}
	}
	return m
}

// begin returns the next memory without its workloads, in which today is the last day, and counts into it what stood
// idle since the last look.
func (m *Memory) begin(now time.Time) Memory {
	next := Memory{At: now, Workloads: map[WorkloadName]WorkloadMemory{}, Days: slices.Clone(m.Days)}
	if date := now.UTC().Format(time.DateOnly); len(next.Days) == 0 || next.Days[len(next.Days)-1].Date < date {
		next.Days = append(next.Days, Day{Date: date})
	}
	next.Days = next.Days[max(0, len(next.Days)-daysKept):]
	if m.At.IsZero() || !now.After(m.At) {
		return next
	}
	since := min(now.Sub(m.At), longestLook)
	today := &next.Days[len(next.Days)-1].Record
	for _, w := range m.Workloads {
		if n := len(w.Held); n > 0 {
			last := w.Held[n-1]
			today.IdleSeconds += int64(last.pods) * int64(since/time.Second)
			today.Micro += last.micro * int64(since/time.Millisecond) / int64(time.Hour/time.Millisecond)
		}
	}
	return next
}

// today returns the record that is added to.
func (m *Memory) today() *Record { return &m.Days[len(m.Days)-1].Record }

// EventKind is a kind of Event.
type EventKind string

// The kinds of events.
const (
	SpikeMet    EventKind = "SpikeMet"    // held capacity was available for all pods of a spike
	SpikeMissed EventKind = "SpikeMissed" // held capacity was missing for some pods of a spike
)

// Event is a spike that has ended.
type Event struct {
	Kind        EventKind
	Workload    WorkloadName
	From, To    int // replicas
	Met, Missed int // pods
	Lead        time.Duration
}

// isSpike reports whether a rise is worth telling: two pods at least, and a tenth of those that there were.
func isSpike(from, by int) bool { return by >= 2 && 10*by >= from }

// follow takes in how demand has changed since the last look. It returns the spike that is over now; false where none
// is. seen reports whether there was a last look.
func (m *WorkloadMemory) follow(w *Workload, seen bool, now time.Time, lead time.Duration, next *Memory) (Event, bool) {
	before := m.Replicas
	m.Replicas = w.Replicas
	if by := w.Replicas - before; by > 0 && seen {
		if m.rise.last.IsZero() {
			m.rise.from = before
		}
		if n := len(m.Held); n > 0 {
			m.Coming, m.comes = m.Coming+min(by, m.Held[n-1].pods), now
		}
		met := min(by, m.readyRoom(now, lead))
		m.rise.met, m.rise.missed, m.rise.last = m.rise.met+met, m.rise.missed+by-met, now
		m.useRoom(met)
		return Event{}, false
	}
	if m.rise.last.IsZero() || now.Sub(m.rise.last) < restAfter {
		return Event{}, false
	}
	over := m.rise
	m.rise = rise{}
	if !isSpike(over.from, over.met+over.missed) {
		return Event{}, false
	}
	e := Event{Kind: SpikeMet, Workload: w.WorkloadName, From: over.from, To: over.from + over.met + over.missed, Met: over.met, Missed: over.missed, Lead: lead}
	today := next.today()
	if over.missed > 0 {
		e.Kind = SpikeMissed
		today.Misses++
	} else {
		today.Hits++
	}
	today.SparedSeconds += int64(over.met) * int64(lead/time.Second)
	today.WaitedSeconds += int64(over.missed) * int64(lead/time.Second)
	return e, true
}

// stillHeld returns for how many pods room was held at the last look, less those that have come since.
func (m *WorkloadMemory) stillHeld(replicas int) int {
	if len(m.Held) == 0 {
		return 0
	}
	return max(0, m.Held[len(m.Held)-1].pods-max(0, replicas-m.Replicas))
}

// readyRoom returns for how many pods room has been held for as long as nodes take to become Ready.
func (m *WorkloadMemory) readyRoom(now time.Time, lead time.Duration) int {
	if len(m.Held) == 0 || m.Held[0].from.After(now.Add(-lead)) {
		return 0
	}
	least := m.Held[0].pods
	for i, x := range m.Held {
		if i+1 == len(m.Held) || m.Held[i+1].from.After(now.Add(-lead)) {
			least = min(least, x.pods)
		}
	}
	return least
}

// useRoom takes from what was held the room that pods have taken, so that it is not counted as new when it is held on.
func (m *WorkloadMemory) useRoom(pods int) {
	m.Held = slices.Clone(m.Held)
	for i := range m.Held {
		m.Held[i].pods = max(0, m.Held[i].pods-pods)
	}
}

// setHeld notes what is held from now on, and forgets what was held more than a lead time ago.
func (m *WorkloadMemory) setHeld(now time.Time, lead time.Duration, d *Hold) {
	list := slices.Clone(m.Held)
	if n := len(list); n == 0 || list[n-1].pods != d.Held || list[n-1].micro != d.Micro {
		list = append(list, held{now, d.Held, d.Micro})
	}
	for len(list) > 1 && !list[1].from.After(now.Add(-lead)) {
		list = list[1:]
	}
	m.Held = list
}

// forgetCome forgets of the pods that come those that are on a node, or that do not come for longer than nodes take, and
// at least for a minute: a rise of many pods takes that long to be made.
func (m *WorkloadMemory) forgetCome(w *Workload, now time.Time, lead time.Duration) {
	m.Coming = max(0, min(m.Coming, w.Replicas-w.Bound))
	if m.comes.IsZero() {
		m.comes = now
	}
	if now.Sub(m.comes) >= max(lead, restAfter) {
		m.Coming = 0
	}
	if m.Coming == 0 {
		m.comes = time.Time{}
	}
}

// IsHolding reports whether capacity was held for any workload at the last evaluation.
func (m *Memory) IsHolding() bool {
	for _, w := range m.Workloads {
		if n := len(w.Held); n > 0 && w.Held[n-1].pods > 0 {
			return true
		}
	}
	return false
}

// Hold is the capacity held for one workload, in pods.
type Hold struct {
	Workload WorkloadName
	Replicas int    // replicas that the workload requests itself
	Wanted   int    // additional pods for which capacity is wanted
	Held     int    // Wanted after limits
	Coming   int    // Replicas without a node for which capacity was held when they were requested; it is held until they are bound
	Micro    int64  // cost of nodes for the held capacity, in micro-dollars per hour; 0: price unknown
	For      string // name of the window, or ForForecast; empty: no capacity wanted

	Level    float64           // quantile of the forecast rise
	Rise     forecast.Forecast // within the lead time; the zero value if nothing is forecast
	NextHour *forecast.Outlook // nil: unknown
	Awaited  bool              // the history of its demand has not been read yet; held capacity stays
	Windows  []PreparedWindow  // windows that are prepared or open
}

// PreparedWindow is a window that is prepared or open.
type PreparedWindow struct {
	Name     string
	Opens    time.Time
	Replicas int // replicas of the workload when the preparation began
}

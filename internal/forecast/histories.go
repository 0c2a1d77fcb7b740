// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package forecast

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Histories contains the histories of a limited number of workloads. If it is full, a new history replaces the least useful one;
// see moreUseful. NewHistories creates one. It is not safe for concurrent use.
type Histories struct {
	most int
	of   map[model.Workload]*History
}

// NewHistories returns an empty collection of at most most histories.
func NewHistories(most int) *Histories {
	return &Histories{most: most, of: map[model.Workload]*History{}}
}

// Len returns the number of workloads with a history.
func (hs *Histories) Len() int { return len(hs.of) }

// Get returns the history of a workload, nil if there is none. The next Observe changes it.
func (hs *Histories) Get(w model.Workload) *History { return hs.of[w] }

// All returns each workload with its history, in no particular order.
func (hs *Histories) All() iter.Seq2[model.Workload, *History] { return maps.All(hs.of) }

// Set replaces the history of a workload. If the workload has none, it is added only if the limit allows it; otherwise ok is false.
func (hs *Histories) Set(w model.Workload, h *History) (ok bool) {
	if hs.of[w] == nil && len(hs.of) >= hs.most {
		return false
	}
	hs.of[w] = h
	return true
}

// Observed is the result of observing one minute.
type Observed struct {
	Gone    []model.Workload // workloads without demand for four weeks, whose histories were deleted; sorted by name
	Dropped []model.Workload // workloads whose histories were replaced by others; sorted by name
	Refused int              // number of workloads without a history for which there was no space
}

// Observe adds the demand of one minute, in replicas by workload. A workload with a history that is missing from replicas has no
// demand; its history is deleted after four weeks without demand. A minute that a history already contains is ignored. A negative
// replica count is an error; workloads with names before that one have been observed then.
func (hs *Histories) Observe(minute int64, replicas map[model.Workload]int) (Observed, error) {
	var out Observed
	for w, h := range hs.of {
		if replicas[w] == 0 && h.wantedNothingSince(minute-QuartersKept*quarter) {
			delete(hs.of, w)
			out.Gone = append(out.Gone, w)
		}
	}
	for w, h := range hs.of {
		if _, ok := replicas[w]; !ok && minute > h.now {
			if err := h.Observe(minute, 0); err != nil {
				return out, fmt.Errorf("workload %s: %w", w, err)
			}
		}
	}
	var newcomers []model.Workload
	for _, w := range slices.SortedFunc(maps.Keys(replicas), model.Workload.Compare) {
		h := hs.of[w]
		if h == nil && replicas[w] != 0 {
			newcomers = append(newcomers, w)
		}
		if h == nil || minute <= h.now {
			continue
		}
		if err := h.Observe(minute, replicas[w]); err != nil {
			return out, fmt.Errorf("workload %s: %w", w, err)
		}
	}
	slices.SortFunc(out.Gone, model.Workload.Compare)
	out.Dropped = hs.makeRoom(len(newcomers), replicas)
	for _, w := range newcomers {
		if len(hs.of) >= hs.most {
			out.Refused++
			continue
		}
		h := New()
		if err := h.Observe(minute, replicas[w]); err != nil {
			return out, fmt.Errorf("workload %s: %w", w, err)
		}
		hs.of[w] = h
	}
	return out, nil
}

// makeRoom removes the least useful histories until so many more fit, and returns whose they were. One of less than a
// day stays, since nothing is known of its use, and so does a useful one of a workload that wants replicas.
func (hs *Histories) makeRoom(newcomers int, replicas map[model.Workload]int) (dropped []model.Workload) {
	over := len(hs.of) + newcomers - hs.most
	if over <= 0 {
		return nil
	}
	for w, h := range hs.of {
		if h.known >= day && (h.spared == 0 || replicas[w] == 0) {
			dropped = append(dropped, w)
		}
	}
	slices.SortFunc(dropped, func(a, b model.Workload) int {
		return cmp.Or(-moreUseful(hs.of[a], hs.of[b]), a.Compare(b))
	})
	dropped = dropped[:min(over, len(dropped))]
	for _, w := range dropped {
		delete(hs.of, w)
	}
	slices.SortFunc(dropped, model.Workload.Compare)
	return dropped
}

// MostUseful returns the workloads by usefulness of their histories, most useful first.
func (hs *Histories) MostUseful() []model.Workload {
	return slices.SortedFunc(maps.Keys(hs.of), func(a, b model.Workload) int {
		return cmp.Or(moreUseful(hs.of[a], hs.of[b]), a.Compare(b))
	})
}

// moreUseful orders histories: first those whose forecasts spare more waiting (History.Spared), then those that are of
// more demand, then the shorter ones: of workloads that never rise, one known for long has shown that it does not.
func moreUseful(a, b *History) int {
	return cmp.Or(cmp.Compare(b.spared, a.spared), cmp.Compare(b.level, a.level), cmp.Compare(a.known, b.known))
}

// wantedNothingSince reports whether every minute observed from this one on had no demand, and the history begins
// before it.
func (h *History) wantedNothingSince(minute int64) bool {
	if h.first > minute {
		return false
	}
	if h.level > 0.01 { // the level decays within hours: most workloads are not searched
		return false
	}
	peak, _ := h.Peak(minute, h.now+1)
	return peak == 0
}

const (
	sparedLead  = 2 // the index of the lead time, three minutes,
	sparedLevel = 3 // and of the level, 0.95, that histories are compared by
)

// Spared returns for how many replicas a forecast three minutes ahead, at the quantile 0.95, would have held capacity that was then
// used: the mean over the last four weeks, including expected spikes. It is 0 if demand never rises, and until a day is known.
func (h *History) Spared() float64 { return h.spared }

// addSpared adds the last lead time to what was spared.
func (h *History) addSpared() {
	lead := leadOf(sparedLead)
	o, change, ok := h.changeSince(lead)
	if !ok || h.known < day {
		return
	}
	rise := max(0, change)
	spared := rise
	if !h.spikeExplains(o.minute, lead) {
		m := h.learned[sparedLead].choose(sparedLevel)
		spared = min(rise, float64(o.rises[sparedLead][sparedLevel][m]))
	}
	h.spared += (spared - h.spared) / float64(min(h.known-day+1, QuartersKept*quarter))
	if h.spared < 1e-9 {
		h.spared = 0
	}
}

// Clone returns a copy that shares nothing with h.
func (h *History) Clone() *History {
	c := *h
	c.spikes = slices.Clone(h.spikes)
	return &c
}

// Append adds the minutes of a later history that h does not contain and that the later history still holds individually (its last
// four hours). It returns their number.
func (h *History) Append(later *History) (minutes int) {
	for m := max(h.now+1, later.first, later.now-MinutesKept+1); m <= later.now; m++ {
		if d := later.demand(m); d != unknown && h.Observe(m, int(d)) == nil {
			minutes++
		}
	}
	return minutes
}

// KnownQuarters returns the number of quarters of an hour with an observation, in the four weeks up to and including a minute.
func (h *History) KnownQuarters(minute int64) (n int) {
	if h.known == 0 {
		return 0
	}
	for q := max(h.first/quarter, minute/quarter-QuartersKept+1, 0); q <= min(minute, h.now)/quarter; q++ {
		if h.quarterAt(q*quarter).mean != unknown {
			n++
		}
	}
	return n
}

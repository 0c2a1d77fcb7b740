// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package forecast

import (
	"cmp"
	"slices"
	"time"
)

const (
	spikesKept   = 160
	spikeMinutes = 10   // a spike grows for so long at most; a further rise is the next one
	spikeBefore  = 5    // a rise is measured against the least of so many minutes before
	spikeScales  = 6    // a sudden rise is one of so many scales at least,
	spikeAtLeast = 3    // of so many replicas,
	spikeShare   = 0.25 // and of this share of the recent level

	together    = 8  // occurrences so many minutes from the same clock time are one spike
	daysBack    = 28 // how many days are searched for earlier occurrences
	hoursBack   = 24
	widest      = 5    // how many minutes beyond its earlier times a spike seen twice may come; one less each further time,
	leastWide   = 2    // to this
	unseen      = 0.02 // the chance of a spike that came less than twice
	missAllowed = 0.5  // patterns whose loss is within so much of the least are as good
	awayAllowed = 3    // a spike that stayed away so often in a row is not expected
)

// Pattern is a recurrence rule of spikes.
type Pattern uint8

// The patterns.
const (
	Hourly   Pattern = iota // at the same minute of the hour
	Daily                   // at the same time of day
	Workdays                // at the same time on Monday to Friday, or on Saturday and Sunday
	Weekly                  // at the same time on the same day of the week
)

// String returns the pattern's name.
func (p Pattern) String() string {
	switch p {
	case Hourly:
		return "Hourly"
	case Daily:
		return "Daily"
	case Workdays:
		return "Workdays"
	case Weekly:
		return "Weekly"
	}
	return "Unknown"
}

// Expected is a recurring spike that is expected shortly.
type Expected struct {
	Pattern     Pattern
	From, To    int64   // first and last minute at which it may begin
	Chance      float64 // probability that it occurs
	Soon        float64 // probability that it begins within the lead time, given that it has not begun; 1 while it is growing
	Rise        int     // replicas that it adds at the requested quantile, less the rise so far
	Times, Days int     // number of occurrences among the periods that the pattern covers
}

// followSpike notices a sudden rise in the last minute, and the growth of one that began shortly before.
func (h *History) followSpike() {
	demand := h.demand(h.now)
	if h.rising {
		s := &h.spikes[len(h.spikes)-1]
		if h.now-s.at < spikeMinutes {
			if demand > s.base && demand-s.base > s.rise {
				s.rise, s.ramp = demand-s.base, uint8(h.now-s.at)
			}
			return
		}
		h.rising = false
	}
	base, at := uint16(unknown), h.now
	for m := h.now - 1; m >= h.now-spikeBefore; m-- {
		if d := h.demand(m); d != unknown && d < base {
			base, at = d, m+1
		}
	}
	if base == unknown || demand <= base {
		return
	}
	// What only comes back from a lull to the recent level, or a little beyond it, is noise.
	if rise := float64(demand) - max(float64(base), h.level); rise < max(spikeAtLeast, spikeScales*h.scale(), spikeShare*h.level) {
		return
	}
	h.anticipated = len(h.expected(at-1, 1, 1, nil)) > 0
	h.rising = true
	if len(h.spikes) == spikesKept {
		h.dropSpike()
	}
	h.spikes = append(h.spikes, spike{at: at, base: base, rise: demand - base, ramp: uint8(h.now - at)})
}

// dropSpike removes one that is older than the quarters that are kept, or else the least of those older than two days.
func (h *History) dropSpike() {
	drop := 0
	if h.now-h.spikes[0].at <= QuartersKept*quarter {
		for i, s := range h.spikes {
			if h.now-s.at > 2*day && s.rise < h.spikes[drop].rise {
				drop = i
			}
		}
	}
	h.spikes = slices.Delete(h.spikes, drop, drop+1)
}

// spikeExplains reports whether a rise within lead minutes of an origin is that of an expected spike.
func (h *History) spikeExplains(origin, lead int64) bool {
	if !h.anticipated || len(h.spikes) == 0 {
		return false
	}
	s := h.spikes[len(h.spikes)-1]
	return origin+lead >= s.at && origin <= s.at+int64(s.ramp)
}

// expected returns the recurring spikes that may come within lead minutes after minute, or are growing, and by how much
// each may raise demand at quantile q. Those of the day recur by the clock of a zone.
func (h *History) expected(minute, lead int64, q float64, zone *time.Location) []Expected {
	if len(h.spikes) < 2 {
		return nil
	}
	var out []Expected
	var clock [spikesKept]int64 // when each spike came, by the clock
	for _, period := range [...]int64{hour, day} {
		var seen [spikesKept]bool
		reach, by := int64(daysBack), zone
		if period == hour { // a clock that is changed by whole hours changes nothing
			reach, by = hoursBack, nil
		}
		for i := range h.spikes {
			clock[i] = localMinute(h.spikes[i].at, by)
		}
		now := localMinute(minute, by)
		for i := len(h.spikes) - 1; i >= 0; i-- {
			n := (now + lead/2 - clock[i] + period/2) / period // periods since, to the nearest
			if seen[i] || n < 1 || n > reach {
				continue
			}
			dueClock := clock[i] + n*period
			if off := dueClock - now; off < -clockChange-2*together-spikeMinutes || off > clockChange+lead+2*together {
				continue
			}
			due := minuteOfLocal(dueClock, by)
			if due < minute-2*together-spikeMinutes || due > minute+lead+2*together {
				continue
			}
			series := h.occurrences(dueClock, period, by, clock[:len(h.spikes)], &seen)
			if e, ok := h.expect(&series, minute, lead, q); ok {
				out = append(out, e)
			}
		}
	}
	return out
}

// clockChange is more minutes than any clock is put forward or back.
const clockChange = 3 * hour

// series is a spike's occurrences, counted in periods back from the one that is due.
type series struct {
	due    int64 // by UTC
	clock  int64 // the same by the clock that the spike recurs by
	period int64
	known  [daysBack + 1]bool // whether demand was observed then
	hit    [daysBack + 1]*spike
	off    [daysBack + 1]int64 // minutes from the clock time of due to when it came
}

// occurrences returns the spikes near the same clock time as due, and marks those that it has taken. clock is when each
// spike came; it and due are by the clock of a zone.
func (h *History) occurrences(due, period int64, zone *time.Location, clock []int64, seen *[spikesKept]bool) series {
	s := series{due: minuteOfLocal(due, zone), clock: due, period: period}
	back := int64(daysBack)
	if period == hour {
		back = hoursBack
	}
	for k := range back + 1 {
		at := minuteOfLocal(due-k*period, zone)
		s.known[k] = at >= h.first && at <= h.now && h.quarterAt(at).mean != unknown
	}
	for i := range h.spikes {
		p := &h.spikes[i]
		k := (due - clock[i] + period/2) / period
		if due-clock[i]+period/2 < 0 || k > back {
			continue
		}
		off := clock[i] - (due - k*period)
		if off < -together || off > together {
			continue
		}
		seen[i] = true
		s.known[k] = true
		if s.hit[k] == nil || abs(s.off[k]) > abs(off) {
			s.hit[k], s.off[k] = p, off
		}
	}
	return s
}

// expect says when and how high the spike that is due may come; false where it is not expected within the lead time or
// has come already.
func (h *History) expect(s *series, minute, lead int64, q float64) (Expected, bool) {
	e := Expected{}
	e.Pattern, e.Chance, e.Times, e.Days = s.pattern()
	if e.Chance <= unseen {
		return e, false
	}
	var offsets, rises []int64
	ramp := int64(0)
	for k := 1; k <= daysBack && len(offsets) < 8; k++ {
		if p := s.hit[k]; p != nil && s.follows(e.Pattern, 0, k) {
			offsets = append(offsets, s.off[k])
			rises = append(rises, int64(p.rise))
			ramp = max(ramp, int64(p.ramp))
		}
	}
	wide := max(leastWide, widest+2-int64(len(offsets)))
	e.From, e.To = s.due+slices.Min(offsets)-wide, s.due+slices.Max(offsets)+wide
	slices.Sort(rises)
	if p := s.hit[0]; p != nil && p.at <= minute {
		if minute-p.at >= ramp {
			return e, false
		}
		e.Soon = 1
		e.Rise = int(heightOf(rises, q) - max(0, int64(h.demand(minute))-int64(p.base)))
		return e, e.Rise > 0
	}
	// Any minute of the window is as likely as the others; those that have passed without it make it less likely to
	// come at all.
	passed := share(minute, e.From, e.To)
	e.Soon = e.Chance * (share(minute+lead, e.From, e.To) - passed) / (1 - e.Chance*passed)
	if above := 1 - q; e.Soon > above {
		e.Rise = int(heightOf(rises, 1-above/e.Soon))
	}
	return e, e.Soon > 0
}

// share returns how much of the minutes from and including from until to lies at or before minute.
func share(minute, from, to int64) float64 {
	return min(1, max(0, float64(minute-from+1)/float64(to-from+1)))
}

// heightOf returns the rise that a share q of the spikes of a series does not exceed, from those seen, in order. The
// next of n is higher than all of them once in n+1 times: beyond that half of their spread is added to the highest.
func heightOf(sorted []int64, q float64) int64 {
	n := len(sorted)
	if q <= float64(n)/float64(n+1) {
		return sorted[min(n-1, int(q*float64(n+1)))]
	}
	return sorted[n-1] + (sorted[n-1]-sorted[0]+1)/2
}

// pattern returns the rule that would have forecast the earlier occurrences best, the chance that it gives to the one
// that is due, and how often the spike came among the periods that this is from. Of rules about as good it takes the
// one that gives the best chance.
func (s *series) pattern() (Pattern, float64, int, int) {
	type candidate struct {
		pattern    Pattern
		loss       float64
		chance     float64
		times, all int
	}
	rules := []Pattern{Daily, Workdays, Weekly}
	if s.period == hour {
		rules = []Pattern{Hourly}
	}
	var all []candidate
	for _, p := range rules {
		c := candidate{pattern: p}
		c.chance, c.times, c.all = s.chance(p, 0)
		weight := 1.0
		for k := 1; k <= daysBack; k++ {
			if !s.known[k] {
				continue
			}
			chance, _, _ := s.chance(p, k)
			c.loss += weight * surprise(chance, s.hit[k] != nil)
			weight *= 0.95
		}
		all = append(all, c)
	}
	least := slices.MinFunc(all, func(a, b candidate) int { return cmp.Compare(a.loss, b.loss) }).loss
	all = slices.DeleteFunc(all, func(c candidate) bool { return c.loss > least+missAllowed })
	best := slices.MaxFunc(all, func(a, b candidate) int { return cmp.Compare(a.chance, b.chance) })
	return best.pattern, best.chance, best.times, best.all
}

// surprise returns how wrong a chance was, between 0 and about 1: the square of its distance from what came, and half
// as much again where a spike came unexpected.
func surprise(chance float64, came bool) float64 {
	if came {
		return 1.5 * (1 - chance) * (1 - chance)
	}
	return chance * chance
}

// follows reports whether a rule for the period k back looks at the period j back.
func (s *series) follows(p Pattern, k, j int) bool {
	switch p {
	case Workdays:
		return workday(s.clock-int64(k)*s.period) == workday(s.clock-int64(j)*s.period)
	case Weekly:
		return (j-k)%7 == 0
	}
	return true
}

// chance returns how likely a rule finds the spike in the period k back, from the periods before it, how often it came
// in those that it looks at, and how many they are. A spike that came less than twice is not expected, nor one that
// stayed away three times in a row, or a weekly one last week.
func (s *series) chance(p Pattern, k int) (float64, int, int) {
	limit := 5
	if p == Weekly {
		limit = 4
	}
	times, all := 0, 0
	for j := k + 1; j <= daysBack && all < limit; j++ {
		if !s.known[j] || !s.follows(p, k, j) {
			continue
		}
		all++
		if s.hit[j] != nil {
			times++
		} else if times == 0 && (p == Weekly || all == awayAllowed) {
			return unseen, 0, all
		}
	}
	if times < 2 {
		return unseen, times, all
	}
	return (float64(times) + 0.3) / float64(all+1), times, all
}

func abs(x int64) int64 { return max(x, -x) }

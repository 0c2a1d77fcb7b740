// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package forecast

// Method is a method to forecast the rise within a lead time.
type Method uint8

// The methods, simplest first. If two are equally good, the earlier one is selected.
const (
	// PastRises uses the quantiles of all rises of about a week.
	PastRises Method = iota
	// ClockRises uses the quantiles of rises in the same two hours of the day, separately for workdays and weekends.
	ClockRises
	// AlikeRises uses the quantiles of rises when demand was as far from its recent level as now, and when its last rise was as
	// long ago as now.
	AlikeRises
	// Smoothing uses the recent level and its trend (Holt's exponential smoothing), and the quantiles of that forecast's errors.
	Smoothing
	// SeasonalNaive uses the rise in the same quarters of an hour a week ago, otherwise a day ago, and the quantiles of that
	// forecast's errors.
	SeasonalNaive

	methodCount = int(SeasonalNaive) + 1
)

// String returns the method's name.
func (m Method) String() string {
	switch m {
	case PastRises:
		return "PastRises"
	case ClockRises:
		return "ClockRises"
	case AlikeRises:
		return "AlikeRises"
	case Smoothing:
		return "Smoothing"
	case SeasonalNaive:
		return "SeasonalNaive"
	}
	return "Unknown"
}

// leadOf returns the lead time, in minutes, whose rises are learned at index i.
func leadOf(i int) int64 { return [leadCount]int64{1, 2, 3, 5, maxLead}[i] }

// levelOf returns the quantile at index i at which the methods' errors are kept.
func levelOf(i int) float64 { return [levelCount]float64{0.5, 0.8, 0.9, 0.95, 0.99}[i] }

// nearestLevel returns the index of the level nearest to q, by the ratio of what lies above.
func nearestLevel(q float64) int {
	for i := range levelCount - 1 {
		a, b := 1-levelOf(i), 1-levelOf(i+1)
		if above := 1 - q; above*above > a*b {
			return i
		}
	}
	return levelCount - 1
}

// nearestLead returns the index of the shortest lead time learned that is no shorter than minutes; the longest where
// there is none.
func nearestLead(minutes int) int {
	for i := range leadCount {
		if int64(minutes) <= leadOf(i) {
			return i
		}
	}
	return leadCount - 1
}

// begin makes the last minute an origin: where it stands, and what each method forecasts from it.
func (h *History) begin() {
	o := &h.origins[h.now%(maxLead+1)]
	h.describe(o)
	for i := range leadCount {
		for m := range Method(methodCount) {
			w, shift := h.distribution(o, i, m)
			for k := range levelCount {
				o.rises[i][k][m] = uint16(riseOf(&w, shift, o.scale, levelOf(k)))
			}
		}
	}
}

// describe writes where the last minute stands.
func (h *History) describe(o *origin) {
	demand := float64(h.demand(h.now))
	*o = origin{minute: h.now, known: true, scale: h.scale(), clock: clockBin(h.now)}
	o.since = [6]uint8{0, 1, 2, 2, 3, 3}[min(h.sinceRise, 5)]
	if h.sinceRise > 5 {
		o.since = 4
	}
	o.position = uint8(min(positionBins-1, max(0, int(2*(demand-h.level)/o.scale+positionBins/2))))
	for i := range leadCount {
		lead := leadOf(i)
		o.smooth[i] = float32(h.level + h.trend*float64(lead) - demand)
		o.season[i], o.seasonKnown[i] = h.seasonalRise(lead)
	}
}

// clockBin returns the class of a minute by time of day and by workday or weekend.
func clockBin(minute int64) uint8 {
	bin := minute % day / (2 * hour)
	if !workday(minute) {
		bin += clockBins / 2
	}
	return uint8(bin)
}

// seasonalRise returns how far demand rose within lead minutes at this time a week ago, else a day ago; false where
// neither is known.
func (h *History) seasonalRise(lead int64) (float32, bool) {
	for _, season := range [...]int64{week, day} {
		from, peak := h.quarterAt(h.now-season), uint16(0)
		if from.mean == unknown {
			continue
		}
		complete := true
		for q := (h.now - season) / quarter; q <= (h.now-season+lead)/quarter; q++ {
			c := h.quarterAt(q * quarter)
			complete = complete && c.mean != unknown
			peak = max(peak, c.mean)
		}
		if complete {
			return float32(peak) - float32(from.mean), true
		}
	}
	return 0, false
}

// distribution returns what a method knows of the rise within the i-th lead time from an origin: scaled errors, and the
// replicas they are errors of.
func (h *History) distribution(o *origin, i int, m Method) (w weights, shift float64) {
	l := &h.learned[i]
	switch m {
	case PastRises:
		w.addCounts(&l.all)
	case ClockRises:
		var all weights
		all.addCounts(&l.all)
		w.addCounts(&l.clock[o.clock])
		w.addShare(&all, borrowed)
	case AlikeRises:
		var all, since weights
		all.addCounts(&l.all)
		since.addCounts(&l.since[o.since])
		since.addShare(&all, borrowed)
		w.addCounts(&l.position[int(o.since)*positionBins+int(o.position)])
		w.addShare(&since, borrowed)
	case Smoothing:
		w.addCounts(&l.smooth)
		shift = float64(o.smooth[i])
	case SeasonalNaive:
		if o.seasonKnown[i] && l.season != (counts{}) {
			w.addCounts(&l.season)
			shift = float64(o.season[i])
		} else {
			w.addCounts(&l.all)
		}
	}
	return w, shift
}

// riseOf returns the quantile q of a distribution in whole replicas, rounded up, at least 0.
func riseOf(w *weights, shift, scale, q float64) int {
	if w.total == 0 {
		return 0
	}
	rise := shift + w.quantile(q)*scale - 1e-6
	if rise <= 0 {
		return 0
	}
	return min(MaxReplicas, int(rise)+1)
}

// learn looks at the origin that lies the i-th lead time before the last minute: by how much demand has risen since,
// and how wrong each method was. Nothing is learned where a minute since is unknown, nor from a recurring spike that
// was expected.
func (h *History) learn(i int) {
	lead := leadOf(i)
	o, change, ok := h.changeSince(lead)
	if !ok || h.spikeExplains(o.minute, lead) {
		return
	}
	rise := max(0, change)
	l := &h.learned[i]
	h.score(l, &o.rises[i], rise)
	scaled := rise / o.scale
	l.all.add(scaled)
	l.clock[o.clock].add(scaled)
	l.since[o.since].add(scaled)
	l.position[int(o.since)*positionBins+int(o.position)].add(scaled)
	l.smooth.add((change - float64(o.smooth[i])) / o.scale)
	if o.seasonKnown[i] {
		l.season.add((change - float64(o.season[i])) / o.scale)
	}
}

// changeSince returns the origin that lies so many minutes before the last one, and by how much the most demand since is
// above, or below, what it was then. ok is false where that is no origin, or a minute since is unknown.
func (h *History) changeSince(lead int64) (o *origin, change float64, ok bool) {
	o = &h.origins[(h.now-lead+maxLead+1)%(maxLead+1)]
	if h.now < lead || !o.known || o.minute != h.now-lead {
		return o, 0, false
	}
	top := uint16(0)
	for m := o.minute + 1; m <= h.now; m++ {
		d := h.demand(m)
		if d == unknown {
			return o, 0, false
		}
		top = max(top, d)
	}
	return o, float64(top) - float64(h.demand(o.minute)), true
}

// score adds the quantile loss of each method's forecast to its mean error. The first day's forecasts are of too little
// to count.
func (h *History) score(l *learned, forecast *[levelCount][methodCount]uint16, rise float64) {
	if h.known < day {
		return
	}
	l.scored++
	share := 1 / float32(min(l.scored, errorMinutes))
	for k := range levelCount {
		for m := range methodCount {
			loss := levelOf(k) * (rise - float64(forecast[k][m]))
			if loss < 0 {
				loss = (1 - levelOf(k)) * (float64(forecast[k][m]) - rise)
			}
			l.errors[k][m] += (float32(loss) - l.errors[k][m]) * share
		}
	}
}

// choose returns the method with the least error for the i-th lead time at the k-th level; a simpler one where they are
// about as good.
func (l *learned) choose(k int) Method {
	best := PastRises
	for m := range Method(methodCount) {
		if l.errors[k][m] < betterBy*l.errors[k][best] {
			best = m
		}
	}
	return best
}

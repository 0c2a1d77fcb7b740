// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package forecast

import "time"

// Why is the reason why a Forecast uses its method.
type Why uint8

// The values of Why.
const (
	// LeastError means that this method had the smallest error over the past minutes.
	LeastError Why = iota
	// Simplest means that a simpler method was about as good as the one with the smallest error.
	Simplest
	// TooLittleHistory means that there is less than a day of history. There is no forecast.
	TooLittleHistory
	// Outdated means that the last observation is older than the recent level. There is no forecast.
	Outdated
)

// String returns the reason's name.
func (w Why) String() string {
	switch w {
	case LeastError:
		return "LeastError"
	case Simplest:
		return "Simplest"
	case TooLittleHistory:
		return "TooLittleHistory"
	case Outdated:
		return "Outdated"
	}
	return "Unknown"
}

// MethodError is the error of a method: the mean loss per minute of holding its quantile, in replicas. A missing replica costs the
// quantile, an excess replica costs 1 minus the quantile.
type MethodError struct {
	Method Method
	Error  float64
}

// Quantile is a rise that is not exceeded with probability Level.
type Quantile struct {
	Level float64
	Rise  int
}

// Forecast is the forecast rise of demand within a lead time.
type Forecast struct {
	Minute   int64 // minute of the forecast: the last one observed
	Replicas int   // demand in that minute
	Lead     int   // lead time in minutes, rounded up to 1, 2, 3, 5 or 10; at most 10
	Level    float64
	Rise     int // replicas to hold in addition to demand, at Level

	Method Method
	Why    Why
	Errors []MethodError // at the nearest level with recorded errors, in the order of the methods; nil: none yet
	Scored int64         // number of past minutes in Errors

	Usual  []Quantile // of the method only, without recurring spikes
	Spikes []Expected // recurring spikes near this time
}

// ServiceLevel returns the quantile of the rise to hold (the newsvendor quantile), from the costs per minute of a waiting replica
// and of an idle replica, in the same unit. Negative costs count as 0. If both are 0, it returns 0.
func ServiceLevel(waiting, idle int64) float64 {
	w, i := float64(max(0, waiting)), float64(max(0, idle))
	if w == 0 {
		return 0
	}
	return w / (w + i)
}

// Forecast returns the rise within lead minutes (at least 1) at a quantile between 0 and 1, as of the minute now. It is 0 if less
// than a day is known, or if the last observation is older than ten minutes. Spikes that recur at a time of day follow the clock of
// a zone, including clock changes; nil is UTC.
func (h *History) Forecast(now int64, lead int, level float64, zone *time.Location) Forecast {
	i, k := nearestLead(lead), nearestLevel(level)
	f := Forecast{Minute: h.now, Lead: int(leadOf(i)), Level: level}
	_, f.Replicas, _ = h.Last()
	switch {
	case h.known < day:
		f.Why = TooLittleHistory
		return f
	case now-h.now > resetAfter:
		f.Why = Outdated
		return f
	}
	l := &h.learned[i]
	f.Method, f.Scored = l.choose(k), l.scored
	least := f.Method
	for m := range Method(methodCount) {
		f.Errors = append(f.Errors, MethodError{Method: m, Error: float64(l.errors[k][m])})
		if l.errors[k][m] < l.errors[k][least] {
			least = m
		}
	}
	if least != f.Method {
		f.Why = Simplest
	}
	o := &h.origins[h.now%(maxLead+1)]
	w, shift := h.distribution(o, i, f.Method)
	for j := range levelCount {
		f.Usual = append(f.Usual, Quantile{Level: levelOf(j), Rise: riseOf(&w, shift, o.scale, levelOf(j))})
	}
	f.Rise = riseOf(&w, shift, o.scale, level)
	f.Spikes = h.expected(h.now, leadOf(i), level, zone)
	for _, e := range f.Spikes {
		f.Rise = max(f.Rise, e.Rise)
	}
	return f
}

// Outlook is the expected demand of the next hour, for display. Forecast defines how much to hold.
type Outlook struct {
	Quarters [hour / quarter]int // usual demand per quarter of an hour from the last minute on, without sudden spikes
	Spikes   []Expected          // recurring spikes; Soon is the probability within the hour
}

// NextHour returns the recent level, changed as demand changed in the same hour a week ago (otherwise a day ago), and the spikes
// that recur in the hour, with their rises at a quantile, by the clock of a zone (nil: UTC). It returns the zero Outlook if nothing
// was observed.
func (h *History) NextHour(level float64, zone *time.Location) Outlook {
	var o Outlook
	if h.known == 0 {
		return o
	}
	for i := range o.Quarters {
		usual := h.level
		for _, season := range [...]int64{week, day} {
			clock := localMinute(h.now, zone) - season
			then, now := h.quarterAt(minuteOfLocal(clock+int64(i*quarter), zone)), h.quarterAt(minuteOfLocal(clock, zone))
			if then.mean != unknown && now.mean != unknown {
				usual += float64(then.mean) - float64(now.mean)
				break
			}
		}
		o.Quarters[i] = int(max(0, usual) + 0.5)
	}
	o.Spikes = h.expected(h.now, hour, level, zone)
	return o
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package forecast

import "time"

// Why says why a forecast is of its method.
type Why uint8

// The reasons for a choice.
const (
	// LeastError: of all methods this one was least wrong about the past minutes.
	LeastError Why = iota
	// Simplest: a simpler method than the one with the least error was about as good.
	Simplest
	// TooLittleHistory: less than a day is known; nothing is forecast.
	TooLittleHistory
	// Outdated: the last observation is older than the recent level; nothing is forecast.
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

// MethodError is how wrong a method was: the mean loss a minute of holding its quantile, in replicas, where a replica
// too few costs the quantile and one too many the rest to 1.
type MethodError struct {
	Method Method
	Error  float64
}

// Quantile is a rise that is not exceeded with a probability of Level.
type Quantile struct {
	Level float64
	Rise  int
}

// Forecast is by how much demand may rise within a lead time.
type Forecast struct {
	Minute   int64 // the minute it was made at, the last one observed
	Replicas int   // demand then
	Lead     int   // minutes that it is for: the next longer of 1, 2, 3, 5 and 10; 10 at most
	Level    float64
	Rise     int // replicas to hold beyond demand, at Level

	Method Method
	Why    Why
	Errors []MethodError // at the nearest level that errors are kept for, in the order of the methods; nil before there are any
	Scored int64         // how many past minutes they are of

	Usual  []Quantile // of the method alone, without recurring spikes
	Spikes []Expected // recurring spikes near this time
}

// ServiceLevel returns the quantile of the rise that is worth holding (the newsvendor's), from what a minute of one
// replica's waiting costs and what a minute of one idle replica costs, in the same unit. Negative costs count as 0;
// where both are 0 nothing is worth holding.
func ServiceLevel(waiting, idle int64) float64 {
	w, i := float64(max(0, waiting)), float64(max(0, idle))
	if w == 0 {
		return 0
	}
	return w / (w + i)
}

// Forecast returns the rise within lead minutes (at least 1) at a quantile, between 0 and 1, as of the minute now. It
// is 0 when less than a day is known, or when the last observation is older than ten minutes. Spikes that recur at a
// time of the clock do so by the clock of a zone, also when it changes; nil is UTC.
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

// Outlook is what the next hour may bring, to be shown; what to hold is Forecast's.
type Outlook struct {
	Quarters [hour / quarter]int // usual demand in each quarter of an hour from the last minute on, without sudden spikes
	Spikes   []Expected          // recurring spikes; Soon is the chance that one comes within the hour
}

// NextHour returns the recent level, moved as demand moved over the same hour a week ago, else a day ago, and the spikes
// that recur in it, with their rises at a quantile, by the clock of a zone (nil: UTC). It returns the zero Outlook when
// nothing was observed.
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

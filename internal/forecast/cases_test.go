// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package forecast

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/casetest"
)

// TestCases observes demand as testdata's scripts tell, and prints the forecasts that they ask for. A script begins on
// a Monday at 00:00:
//
//	20 for 9h                   demand of 20 for nine hours
//	20~4 for 1d                 demand with the noise of independent arrivals, of a standard deviation of 4
//	20..80 for 10m              demand that goes from 20 to 80
//	unknown for 2h              no observation
//	repeat 3: 20 for 1d; …      the steps, three times
//	encode                      written and read again
//	forecast 3m 49:1            the forecast for three minutes, where a minute's waiting costs 49 and an idle one 1
//	hour 49:1                   the next hour's outlook
//	held 3m 49:1                from here on print when something is held, and how much at most
//	end                         no longer
func TestCases(t *testing.T) {
	casetest.Run(t, func(t *testing.T, input string) string {
		s := &script{t: t, h: New(), minute: monday, r: rand.New(rand.NewPCG(1, 1))}
		for _, line := range strings.Split(input, "\n") {
			line = strings.TrimSpace(line)
			if line != "" && !strings.HasPrefix(line, "#") {
				s.run(line)
			}
		}
		return s.out.String()
	})
}

const monday = 4 * day // 5 January 1970

type script struct {
	t      *testing.T
	h      *History
	minute int64
	r      *rand.Rand
	out    strings.Builder
	held   func(last bool) // called after each minute; nil: nothing is
}

func (s *script) run(line string) {
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "repeat":
		times, steps, ok := strings.Cut(rest, ":")
		if !ok {
			s.t.Fatalf("%q: want repeat N: steps", line)
		}
		for range s.number(times) {
			for _, step := range strings.Split(steps, ";") {
				s.run(strings.TrimSpace(step))
			}
		}
	case "encode":
		b := s.h.Encode()
		h, err := Decode(b)
		if err != nil || len(b) > MaxEncoded {
			s.t.Fatalf("%d bytes: %v", len(b), err)
		}
		s.h = h
	case "forecast":
		lead, level := s.asked(rest)
		s.print(s.h.Forecast(s.minute-1, lead, level, nil))
	case "hour":
		_, level := s.asked("1m " + rest)
		o := s.h.NextHour(level, nil)
		fmt.Fprintf(&s.out, "usually %v\n", o.Quarters)
		s.printSpikes(o.Spikes)
	case "held":
		s.hold(rest)
	case "end":
		s.held(true)
		s.held = nil
		s.out.WriteString("end\n")
	default:
		what, long, ok := strings.Cut(line, " for ")
		if !ok {
			s.t.Fatalf("%q is no step", line)
		}
		s.observe(what, s.minutes(long))
	}
}

// observe adds minutes of demand.
func (s *script) observe(what string, minutes int) {
	from, to, ramp := strings.Cut(what, "..")
	mean, noise, noisy := strings.Cut(from, "~")
	for i := range minutes {
		if what != "unknown" {
			x := float64(s.number(mean))
			switch {
			case ramp:
				x += (float64(s.number(to)) - x) * float64(i+1) / float64(minutes)
			case noisy:
				x += s.r.NormFloat64() * float64(s.number(noise))
			}
			if err := s.h.Observe(s.minute, max(0, int(math.Round(x)))); err != nil {
				s.t.Fatal(err)
			}
		}
		s.minute++
		if s.held != nil {
			s.held(false)
		}
	}
}

// hold begins to print the stretches in which anything is held.
func (s *script) hold(asked string) {
	lead, level := s.asked(asked)
	from, most := int64(-1), 0
	s.held = func(last bool) {
		rise := s.h.Forecast(s.minute-1, lead, level, nil).Rise
		if from >= 0 && (rise == 0 || last) {
			fmt.Fprintf(&s.out, "%s until %s: up to %d held\n", clock(from), clock(s.minute-1), most)
			from, most = -1, 0
		}
		if rise > 0 && from < 0 {
			from = s.minute - 1
		}
		most = max(most, rise)
	}
}

// asked reads a lead time and two prices.
func (s *script) asked(text string) (lead int, level float64) {
	long, prices, _ := strings.Cut(strings.TrimSpace(text), " ")
	waiting, idle, _ := strings.Cut(prices, ":")
	return s.minutes(long), ServiceLevel(int64(s.number(waiting)), int64(s.number(idle)))
}

func (s *script) minutes(text string) int {
	text = strings.TrimSpace(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		return s.number(days) * day
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return int(d / time.Minute)
}

func (s *script) number(text string) int {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// clock is a minute as week, day and time.
func clock(minute int64) string {
	m := minute - monday
	return fmt.Sprintf("week %d %s %s", m/week+1, [7]string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}[m%week/day], time.Unix(m*60, 0).UTC().Format("15:04"))
}

func (s *script) print(f Forecast) {
	fmt.Fprintf(&s.out, "%s: %d replicas, within %d min at %.3g: %d more\n", clock(f.Minute), f.Replicas, f.Lead, f.Level, f.Rise)
	fmt.Fprintf(&s.out, "  %s, %s of %d minutes:", f.Method, f.Why, f.Scored)
	for _, e := range f.Errors {
		fmt.Fprintf(&s.out, " %s %.3f", e.Method, e.Error)
	}
	s.out.WriteString("\n  usually")
	for _, q := range f.Usual {
		fmt.Fprintf(&s.out, " %g: %d", q.Level, q.Rise)
	}
	s.out.WriteString("\n")
	s.printSpikes(f.Spikes)
}

func (s *script) printSpikes(spikes []Expected) {
	for _, e := range spikes {
		fmt.Fprintf(&s.out, "  %s spike between %s and %s, %d of %d times, chance %.2f, now %.3f: %d more\n",
			e.Pattern, clock(e.From), clock(e.To), e.Times, e.Days, e.Chance, e.Soon, e.Rise)
	}
}

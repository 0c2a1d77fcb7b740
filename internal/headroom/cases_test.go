// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package headroom

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the host may have no zone files

	"github.com/dovetail-sh/dovetail/internal/casetest"
	"github.com/dovetail-sh/dovetail/internal/forecast"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// TestCases plays Headrooms in virtual time. First comes what is written in the object:
//
//	mode Recommend                               Active where not given
//	template                                     the target is a PodTemplate
//	window NAME at "SCHEDULE" in ZONE for DURATION replicas=N percent=N asLastTime
//	limits replicas=N cpu=N memory=N dollars=N
//	learned off | learned WAITING:IDLE | learned in ZONE
//
// then what happens:
//
//	lead 90s                                     how long nodes take from now on
//	workload KIND/NAME replicas=N cpu=N memory=N priority=N price=PODSxDOLLARS
//	scale KIND/NAME N [slowly]                   slowly: pods that it has no node for yet come later, see bind
//	bind KIND/NAME N                             so many of its pods have a node
//	remember KIND/NAME FROM TO N                 it had N replicas in each minute between
//	recur KIND/NAME FROM TO N at "SCHEDULE" in ZONE for DURATION replicas=N
//	                                             the same, and other replicas at a time of the clock
//	forget KIND/NAME                             its history is lost
//	await KIND/NAME | read KIND/NAME             its history is to be read, or has been
//	compile                                      print what is wrong with the object
//	from TIME to TIME                            look whenever it is due, and print what has changed
//	openings NAME TIME N                         print the next N openings of a window
//	restart                                      forget all that the status does not keep
//	record                                       print the last week
func TestCases(t *testing.T) {
	casetest.Run(t, func(t *testing.T, input string) string {
		s := newStory(t)
		for _, line := range strings.Split(input, "\n") {
			line = strings.TrimSpace(line)
			if line != "" && !strings.HasPrefix(line, "#") {
				s.run(line)
			}
		}
		return s.out.String()
	})
}

type story struct {
	t         *testing.T
	spec      Spec
	lead      time.Duration
	workloads []Workload
	mem       Memory
	last      string // what was last printed of what is held
	out       strings.Builder
}

func newStory(t *testing.T) *story {
	return &story{
		t: t, lead: DefaultLead,
		spec: Spec{Namespace: "shop", Name: "h", Mode: Active, Learned: Learned{WaitingCost: -1, IdleCost: -1}, Limits: Limits{Replicas: -1, MicroPerHour: -1}},
	}
}

func (s *story) run(line string) {
	words := fields(line)
	switch words[0] {
	case "mode":
		s.spec.Mode = Mode(words[1])
	case "template":
		s.spec.Template = true
	case "window":
		s.spec.Calendar = append(s.spec.Calendar, s.window(words[1:]))
	case "limits":
		s.limits(words[1:])
	case "learned":
		s.learned(words[1:])
	case "lead":
		s.lead = s.duration(words[1])
	case "workload":
		s.workloads = append(s.workloads, s.workload(words[1:]))
		slices.SortFunc(s.workloads, func(a, b Workload) int { return strings.Compare(a.String(), b.String()) })
	case "scale":
		w := s.find(words[1])
		if w.Replicas = s.number(words[2]); len(words) == 3 {
			w.Bound = w.Replicas
		}
	case "bind":
		s.find(words[1]).Bound = s.number(words[2])
	case "remember":
		s.remember(words)
	case "recur":
		s.recur(words)
	case "forget":
		s.find(words[1]).History = nil
	case "await", "read":
		s.find(words[1]).HistoryAwaited = words[0] == "await"
	case "compile":
		s.compile()
	case "from":
		s.look(s.time(words[1]), s.time(words[3]))
	case "openings":
		s.openings(words)
	case "restart":
		s.restart()
	case "record":
		r := s.mem.LastWeek()
		fmt.Fprintf(&s.out, "hits %d misses %d spared %d waited %d idle %d pod-minutes $%s\n", r.Hits, r.Misses,
			r.SparedSeconds/60, r.WaitedSeconds/60, r.IdleSeconds/60, model.Dollars(r.Micro))
	default:
		s.t.Fatalf("%q is no step", line)
	}
}

// fields splits at spaces outside of quotes.
func fields(line string) []string {
	quoted := false
	parts := strings.FieldsFunc(line, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return r == ' ' && !quoted
	})
	for i := range parts {
		parts[i] = strings.ReplaceAll(parts[i], `"`, "")
	}
	return parts
}

func (s *story) window(words []string) WindowSpec {
	w := WindowSpec{Name: words[0], Replicas: -1, Percent: -1}
	for i := 1; i < len(words); i++ {
		switch key, value, _ := strings.Cut(words[i], "="); key {
		case "at":
			i++
			w.Schedule = words[i]
		case "in":
			i++
			w.TimeZone = words[i]
		case "for":
			i++
			w.Duration = s.duration(words[i])
		case "replicas":
			w.Replicas = s.number(value)
		case "percent":
			w.Percent = s.number(value)
		case "asLastTime":
			w.AsLastTime = true
		default:
			s.t.Fatalf("%q is nothing of a window", words[i])
		}
	}
	return w
}

func (s *story) limits(words []string) {
	for _, word := range words {
		switch key, value, _ := strings.Cut(word, "="); key {
		case "replicas":
			s.spec.Limits.Replicas = s.number(value)
		case "cpu":
			s.spec.Limits.Resources = append(s.spec.Limits.Resources, Limit{"cpu", model.CPU, int64(s.number(value)) * 1000})
		case "memory":
			s.spec.Limits.Resources = append(s.spec.Limits.Resources, Limit{"memory", model.Memory, int64(s.number(value)) << 30})
		case "dollars":
			s.spec.Limits.MicroPerHour = s.micro(value)
		}
	}
}

func (s *story) learned(words []string) {
	switch words[0] {
	case "off":
		s.spec.Learned.Disabled = true
		return
	case "in":
		s.spec.Learned.TimeZone = words[1]
		return
	}
	waiting, idle, _ := strings.Cut(words[0], ":")
	s.spec.Learned.WaitingCost, s.spec.Learned.IdleCost = int64(s.number(waiting)), int64(s.number(idle))
}

func (s *story) workload(words []string) Workload {
	kind, name, _ := strings.Cut(words[0], "/")
	w := Workload{WorkloadName: WorkloadName{Namespace: "shop", Kind: kind, Name: name}, Requests: model.Resources{1000, 1 << 30, 0, 1}}
	for _, word := range words[1:] {
		switch key, value, _ := strings.Cut(word, "="); key {
		case "replicas":
			w.Replicas = s.number(value)
			w.Bound = w.Replicas
		case "cpu":
			w.Requests[model.CPU] = int64(s.number(value)) * 1000
		case "memory":
			w.Requests[model.Memory] = int64(s.number(value)) << 30
		case "priority":
			w.Priority = int32(s.number(value))
		case "price":
			pods, dollars, _ := strings.Cut(value, "x")
			w.Prices = append(w.Prices, Machine{s.number(pods), s.micro(dollars)})
		}
	}
	return w
}

func (s *story) remember(words []string) {
	w := s.find(words[1])
	if w.History == nil {
		w.History = forecast.New()
	}
	for at := s.time(words[2]); at.Before(s.time(words[3])); at = at.Add(time.Minute) {
		if err := w.History.Observe(at.Unix()/60, s.number(words[4])); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *story) recur(words []string) {
	w := s.find(words[1])
	if w.History == nil {
		w.History = forecast.New()
	}
	win, problems := compileWindow(s.window(append([]string{"w"}, words[5:]...)), "", false, time.LoadLocation)
	for _, p := range problems {
		s.t.Fatal(p)
	}
	from := s.time(words[2])
	for o := win.Current(from); from.Before(s.time(words[3])); from = from.Add(time.Minute) {
		n := s.number(words[4])
		if !from.Before(o.Closes) {
			o = win.Current(from)
		}
		if !from.Before(o.Opens) {
			n = win.Replicas
		}
		if err := w.History.Observe(from.Unix()/60, n); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *story) compiled() *Headroom {
	h, problems := Compile(s.spec, time.LoadLocation)
	for _, p := range problems {
		s.t.Fatal(p)
	}
	return h
}

func (s *story) compile() {
	h, problems := Compile(s.spec, time.LoadLocation)
	for i := range s.workloads {
		problems = append(problems, h.CheckWorkload(&s.workloads[i])...)
	}
	for _, p := range problems {
		fmt.Fprintf(&s.out, "%s: %s\n", p.Reason, p.Error())
	}
	if len(problems) == 0 {
		s.out.WriteString("nothing is wrong\n")
	}
}

// look looks at the Headroom from one time to another, and prints what is held when that has changed.
func (s *story) look(from, to time.Time) {
	h := s.compiled()
	for now := from; !now.After(to); {
		out, mem := Decide(h, Input{Now: now, Lead: s.lead, Workloads: s.workloads}, s.mem)
		s.mem = mem
		var held []string
		for _, d := range out.Holds {
			if d.Wanted > 0 {
				held = append(held, fmt.Sprintf("%d of %d for %s (%s)", d.Held, d.Wanted, d.Workload, d.For))
			}
			if d.Coming > 0 {
				held = append(held, fmt.Sprintf("%d of its pods that come to %s", d.Coming, d.Workload))
			}
		}
		text := "nothing"
		if len(held) > 0 {
			text = strings.Join(held, ", ")
			if out.Priced {
				text += " $" + model.Dollars(out.Micro) + "/h"
			}
		}
		if out.Limited != "" {
			text += "\n    " + out.Limited
		}
		if text != s.last {
			s.last = text
			fmt.Fprintf(&s.out, "%s hold %s\n", now.UTC().Format("01-02 15:04:05"), text)
		}
		for _, e := range out.Events {
			fmt.Fprintf(&s.out, "%s %s %s %d to %d replicas: %d met, %d missed\n", now.UTC().Format("01-02 15:04:05"), e.Kind, e.Workload, e.From, e.To, e.Met, e.Missed)
		}
		if !out.Look.After(now) {
			s.t.Fatalf("looks again at %s, which is not after %s", out.Look, now)
		}
		now = out.Look
	}
}

func (s *story) openings(words []string) {
	h, at := s.compiled(), s.time(words[2])
	for i := range h.Windows {
		w := &h.Windows[i]
		if w.Name != words[1] {
			continue
		}
		for range s.number(words[3]) {
			at = w.Next(at)
			fmt.Fprintf(&s.out, "%s %s %s\n", at.Format(time.RFC3339), at.In(w.zone).Format("Mon 15:04 MST"), w.opening(at).Closes.Format("15:04"))
		}
	}
}

// restart keeps of what is remembered only what a status keeps.
func (s *story) restart() {
	kept := Memory{At: s.mem.At, Days: s.mem.Days, Workloads: map[WorkloadName]WorkloadMemory{}}
	for name, w := range s.mem.Workloads {
		pods, micro := 0, int64(0)
		if n := len(w.Held); n > 0 {
			pods, micro = w.Held[n-1].pods, w.Held[n-1].micro
		}
		kept.Workloads[name] = Restored(w.Replicas, pods, w.Coming, micro, w.Windows)
	}
	s.mem = kept
}

func (s *story) find(name string) *Workload {
	for i := range s.workloads {
		if w := &s.workloads[i]; w.Kind+"/"+w.Name == name {
			return w
		}
	}
	s.t.Fatalf("there is no workload %s", name)
	return nil
}

func (s *story) number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *story) micro(text string) int64 {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return int64(f*1e6 + 0.5)
}

func (s *story) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

func (s *story) time(text string) time.Time {
	at, err := time.Parse("2006-01-02T15:04:05Z", text)
	if err != nil {
		s.t.Fatal(err)
	}
	return at
}

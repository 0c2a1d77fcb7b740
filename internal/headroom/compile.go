// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package headroom

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Headroom is a Spec with a compiled calendar.
type Headroom struct {
	Spec
	Windows []Window
	clock   *time.Location // that recurring spikes follow
}

// Compile compiles a Spec. loadZone returns a time zone by its IANA name. It returns all problems of the Spec. If there are any,
// the Headroom must not be used.
func Compile(s Spec, loadZone func(name string) (*time.Location, error)) (*Headroom, []Problem) {
	h := &Headroom{Spec: s, clock: time.UTC}
	var problems []Problem
	names := map[string]bool{}
	for i, ws := range s.Calendar {
		at := "spec.calendar[" + strconv.Itoa(i) + "]"
		if names[ws.Name] {
			problems = append(problems, invalid(at+".name", strconv.Quote(ws.Name), "another window has that name", "Give each window a unique name"))
		}
		names[ws.Name] = true
		w, wrong := compileWindow(ws, at, s.Template, loadZone)
		problems = append(problems, wrong...)
		h.Windows = append(h.Windows, w)
	}
	if s.Template && len(s.Calendar) == 0 {
		problems = append(problems, invalid("spec.calendar", "", "a PodTemplate has no demand history, and there is no window", "Add a window with replicas, or set a workload in spec.target"))
	}
	if wrong := h.setClock(loadZone); wrong != nil {
		problems = append(problems, *wrong)
	}
	return h, append(problems, checkLimits(s.Limits)...)
}

func invalid(field, value, why, remedy string) Problem {
	return Problem{Reason: InvalidSpec, Field: field, Value: value, Why: why, Remedy: remedy}
}

// setClock finds the zone whose clock recurring spikes follow: the one that is named, else the only one that windows
// name, else UTC.
func (h *Headroom) setClock(loadZone func(string) (*time.Location, error)) *Problem {
	if h.Learned.TimeZone == "" {
		isOther := func(w Window) bool { return w.TimeZone != h.Windows[0].TimeZone }
		if len(h.Windows) > 0 && !slices.ContainsFunc(h.Windows, isOther) {
			h.clock = h.Windows[0].zone
		}
		return nil
	}
	zone, wrong := findZone(h.Learned.TimeZone, "spec.learned.timeZone", loadZone)
	h.clock = zone
	return wrong
}

// findZone returns a time zone by its IANA name; no name is UTC. field is where it is written.
func findZone(name, field string, loadZone func(string) (*time.Location, error)) (*time.Location, *Problem) {
	if name == "" {
		return time.UTC, nil
	}
	zone, err := loadZone(name)
	if err != nil || name == "Local" {
		p := invalid(field, strconv.Quote(name), "there is no such time zone", "Use an IANA name such as Europe/Berlin or UTC")
		return time.UTC, &p
	}
	return zone, nil
}

// compileWindow reads one window; at is the path of its fields.
func compileWindow(ws WindowSpec, at string, template bool, loadZone func(string) (*time.Location, error)) (Window, []Problem) {
	w := Window{WindowSpec: ws, zone: time.UTC}
	var problems []Problem
	if zone, wrong := findZone(ws.TimeZone, at+".timeZone", loadZone); wrong != nil {
		problems = append(problems, *wrong)
	} else {
		w.zone = zone
	}
	problems = append(problems, w.checkAmount(at, template)...)
	if ws.Duration < time.Minute {
		problems = append(problems, invalid(at+".duration", ws.Duration.String(), "a window is open for a minute at least", "Give a longer duration, such as 1h"))
	}
	schedule, wrong := parseSchedule(ws.Schedule, at)
	if wrong != nil {
		return w, append(problems, *wrong)
	}
	w.schedule = schedule
	if w.period = leastPeriod(schedule); w.period == 0 {
		return w, append(problems, invalid(at+".schedule", strconv.Quote(ws.Schedule), "the schedule never occurs", "Use a day that the month has"))
	}
	if ws.Duration > w.period {
		problems = append(problems, invalid(at+".duration", ws.Duration.String(), "the window opens again after "+shortDuration(w.period)+", before it has closed",
			"Give at most "+shortDuration(w.period)+", or open it less often"))
	}
	return w, problems
}

// checkAmount says what is wrong with how much a window asks for.
func (w *Window) checkAmount(at string, template bool) []Problem {
	var given []string
	if w.Replicas >= 0 {
		given = append(given, "replicas: "+strconv.Itoa(w.Replicas))
	}
	if w.Percent >= 0 {
		given = append(given, "percent: "+strconv.Itoa(w.Percent))
	}
	if w.AsLastTime {
		given = append(given, "asLastTime: true")
	}
	switch {
	case len(given) == 0:
		return []Problem{invalid(at, strconv.Quote(w.Name), "no amount is set", "Give one of replicas, percent and asLastTime")}
	case len(given) > 1:
		return []Problem{invalid(at, "("+strings.Join(given, ", ")+")", "they are mutually exclusive", "Keep one of them")}
	case template && w.Replicas < 0:
		return []Problem{invalid(at, "("+given[0]+")", "a PodTemplate has no replicas that this could refer to", "Give replicas instead")}
	}
	return nil
}

// parseSchedule reads a cron expression that is bound to the clock.
func parseSchedule(text, at string) (cron.Schedule, *Problem) {
	wrong := func(why, remedy string) (cron.Schedule, *Problem) {
		p := invalid(at+".schedule", strconv.Quote(text), why, remedy)
		return nil, &p
	}
	if strings.Contains(text, "TZ=") {
		return wrong("a time zone is not allowed here", "Set timeZone instead")
	}
	if strings.HasPrefix(strings.TrimSpace(text), "@every") {
		return wrong("@every has no fixed time of day", "Use five fields, such as 30 8 * * 1-5")
	}
	schedule, err := cron.ParseStandard(text)
	if err != nil {
		return wrong("invalid cron expression: "+err.Error(), "Use five fields, such as 30 8 * * 1-5")
	}
	return schedule, nil
}

const (
	// openingsCompared is how many openings are looked at for the shortest time between two: those of four weeks where a
	// window opens each hour.
	openingsCompared = 700
	onlyOnce         = 4 * 366 * 24 * time.Hour // a schedule's period that opens once in the years that cron looks ahead
)

// leastPeriod returns the least time from one opening to the next by the clock, and 0 for a schedule that never opens.
// It depends on no clock: it looks from the start of 2024, a leap year, on.
func leastPeriod(s cron.Schedule) time.Duration {
	last := s.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).Add(-time.Second))
	if last.IsZero() {
		return 0
	}
	least := onlyOnce
	for range openingsCompared {
		next := s.Next(last)
		if next.IsZero() {
			break
		}
		least = min(least, next.Sub(last))
		last = next
	}
	return least
}

// checkLimits says which limits can never hold one pod.
func checkLimits(l Limits) []Problem {
	var problems []Problem
	const remedy = "Raise it, or set spec.mode to Off"
	if l.Replicas == 0 {
		problems = append(problems, invalid("spec.limits.replicas", "0", "no pod fits within it", remedy))
	}
	if l.MicroPerHour == 0 {
		problems = append(problems, invalid("spec.limits.dollarsPerHour", `"0"`, "every node costs more", remedy))
	}
	for _, r := range l.Resources {
		if r.Most <= 0 {
			problems = append(problems, invalid("spec.limits.resources["+r.Name+"]", model.FormatAmount(r.Dim, r.Most), "no pod fits within it", remedy))
		}
	}
	return problems
}

// CheckWorkload returns the limits that are too low for one pod of a workload, as problems.
func (h *Headroom) CheckWorkload(w *Workload) []Problem {
	var problems []Problem
	remedy := "Raise it to what one pod of " + w.String() + " needs at least"
	for _, r := range h.Limits.Resources {
		if need := w.Requests.At(r.Dim); need > r.Most {
			problems = append(problems, invalid("spec.limits.resources["+r.Name+"]", model.FormatAmount(r.Dim, r.Most),
				fmt.Sprintf("one pod of %s requests %s", w, model.FormatAmount(r.Dim, need)), remedy))
		}
	}
	if most := h.Limits.MicroPerHour; most >= 0 {
		if one, ok := w.Cost(1); ok && one > most {
			problems = append(problems, invalid("spec.limits.dollarsPerHour", model.Dollars(most),
				fmt.Sprintf("the cheapest node that holds one pod of %s costs $%s/h", w, model.Dollars(one)), remedy))
		}
	}
	return problems
}

// shortDuration writes a duration without its empty parts.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

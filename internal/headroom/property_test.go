// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package headroom

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Whatever the calendar, the demand and the limits: what is held in sum is within every limit, nothing is held outside
// of windows and the lead time before them, it is looked at again in a minute at most, and equal inputs give equal
// outputs.
func TestHoldsWithinLimitsAndWindows(t *testing.T) {
	checked := 0
	rapid.Check(t, func(t *rapid.T) {
		spec := drawSpec(t)
		h, problems := Compile(spec, time.LoadLocation)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		workloads := drawWorkloads(t)
		lead := time.Duration(rapid.IntRange(1, 900).Draw(t, "lead")) * time.Second
		now := time.Date(2026, 3, rapid.IntRange(1, 31).Draw(t, "day"), rapid.IntRange(0, 23).Draw(t, "hour"), 0, 0, 0, time.UTC)
		var mem Memory
		for range rapid.IntRange(1, 30).Draw(t, "looks") {
			in := Input{Now: now, Lead: lead, Workloads: slices.Clone(workloads)}
			out, next := Decide(h, in, mem)
			if again, _ := Decide(h, in, mem); !reflect.DeepEqual(out, again) {
				t.Fatal("equal inputs, other outputs")
			}
			checkLook(t, h, in, &out)
			checked += out.Held
			mem, now = next, out.Look
			i := rapid.IntRange(0, len(workloads)-1).Draw(t, "which")
			workloads[i].Replicas = rapid.IntRange(0, 200).Draw(t, "replicas")
		}
	})
	if checked == 0 {
		t.Fatal("nothing was ever held")
	}
}

func drawSpec(t *rapid.T) Spec {
	s := Spec{Namespace: "shop", Name: "h", Mode: Active, Learned: Learned{Disabled: true}, Limits: Limits{Replicas: -1, MicroPerHour: -1}}
	zones := []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"}
	for i := range rapid.IntRange(1, 3).Draw(t, "windows") {
		w := WindowSpec{Name: fmt.Sprint("w", i), TimeZone: rapid.SampledFrom(zones).Draw(t, "zone"), Replicas: -1, Percent: -1}
		w.Schedule = fmt.Sprintf("%d */%d * * *", rapid.IntRange(0, 59).Draw(t, "minute"), rapid.IntRange(1, 12).Draw(t, "every"))
		w.Duration = time.Duration(rapid.IntRange(1, 60).Draw(t, "duration")) * time.Minute
		if rapid.Bool().Draw(t, "percent") {
			w.Percent = rapid.IntRange(0, 300).Draw(t, "more")
		} else {
			w.Replicas = rapid.IntRange(0, 300).Draw(t, "total")
		}
		s.Calendar = append(s.Calendar, w)
	}
	if rapid.Bool().Draw(t, "limited") {
		s.Limits.Replicas = rapid.IntRange(1, 100).Draw(t, "most")
	}
	if rapid.Bool().Draw(t, "limited") {
		s.Limits.Resources = []Limit{{"cpu", model.CPU, rapid.Int64Range(1, 100_000).Draw(t, "cpu")}}
	}
	if rapid.Bool().Draw(t, "limited") {
		s.Limits.MicroPerHour = rapid.Int64Range(1, 5_000_000).Draw(t, "dollars")
	}
	return s
}

func drawWorkloads(t *rapid.T) []Workload {
	var all []Workload
	for i := range rapid.IntRange(1, 4).Draw(t, "workloads") {
		w := Workload{WorkloadName: WorkloadName{Namespace: "shop", Kind: "Deployment", Name: fmt.Sprint(i)}, Replicas: rapid.IntRange(0, 200).Draw(t, "replicas")}
		w.Requests = model.Resources{rapid.Int64Range(0, 4000).Draw(t, "cpu"), 1 << 30, 0, 1}
		for range rapid.IntRange(0, 2).Draw(t, "machines") {
			w.Prices = append(w.Prices, Machine{rapid.IntRange(1, 20).Draw(t, "pods"), rapid.Int64Range(1, 1_000_000).Draw(t, "price")})
		}
		all = append(all, w)
	}
	return all
}

// checkLook holds one output against limits and calendar, which it works out anew in another way.
func checkLook(t *rapid.T, h *Headroom, in Input, out *Output) {
	pods, milli, micro := 0, int64(0), int64(0)
	for i, d := range out.Holds {
		w := &in.Workloads[i]
		if d.Held < 0 || d.Held > d.Wanted {
			t.Fatalf("%s: %d held of %d wanted", w, d.Held, d.Wanted)
		}
		cost, ok := w.Cost(d.Held)
		if d.Held > 0 && !ok && h.Limits.MicroPerHour >= 0 {
			t.Fatalf("%s: held at no known price, against a limit of dollars", w)
		}
		if d.Held > 0 {
			micro += cost
		}
		pods, milli = pods+d.Held, milli+int64(d.Held)*w.Requests.At(model.CPU)
	}
	switch l := h.Limits; {
	case l.Replicas >= 0 && pods > l.Replicas:
		t.Fatalf("%d pods held, limit %d", pods, l.Replicas)
	case len(l.Resources) > 0 && milli > l.Resources[0].Most:
		t.Fatalf("%d milli-CPUs held, limit %d", milli, l.Resources[0].Most)
	case l.MicroPerHour >= 0 && micro > l.MicroPerHour:
		t.Fatalf("%d micro-dollars held, limit %d", micro, l.MicroPerHour)
	case out.Held != pods || out.Micro != micro:
		t.Fatalf("%d pods and %d micro-dollars held, %d and %d said", pods, micro, out.Held, out.Micro)
	case !out.Look.After(in.Now) || out.Look.Sub(in.Now) > LookEvery:
		t.Fatalf("looked at %s, again at %s", in.Now, out.Look)
	}
	if pods == 0 {
		return
	}
	for i := range h.Windows {
		w := &h.Windows[i]
		for at := w.Next(in.Now.Add(-2 * time.Hour)); at.Before(in.Now.Add(2 * time.Hour)); at = w.Next(at) {
			if !in.Now.Before(at.Add(-in.Lead)) && in.Now.Before(at.Add(w.Duration)) {
				return
			}
		}
	}
	t.Fatalf("%d pods held at %s, when no window is open or prepared", pods, in.Now)
}

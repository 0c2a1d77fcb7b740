// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package forecast

import (
	"bytes"
	"slices"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/model"
)

func workloadNamed(name string) model.Workload {
	return model.Workload{Namespace: "shop", Kind: "Deployment", Name: name}
}

// observeAll has demand of minutes from until to; a workload whose function returns a negative number is not there.
func observeAll(t *testing.T, hs *Histories, from, to int64, demand map[string]func(minute int64) int) (all Observed) {
	t.Helper()
	for m := from; m < to; m++ {
		replicas := map[model.Workload]int{}
		for name, of := range demand {
			if n := of(m); n >= 0 {
				replicas[workloadNamed(name)] = n
			}
		}
		o, err := hs.Observe(m, replicas)
		if err != nil {
			t.Fatal(err)
		}
		all.Dropped, all.Gone, all.Refused = append(all.Dropped, o.Dropped...), append(all.Gone, o.Gone...), all.Refused+o.Refused
	}
	return all
}

// TestLeastUsefulGoes fills three places: what never rises makes room for a newcomer, once it is known for a day; what
// rises stays, and then a newcomer finds no room.
func TestLeastUsefulGoes(t *testing.T) {
	hs := NewHistories(3)
	saw := func(minute int64) int { return 20 + int(minute%60) }
	demand := map[string]func(int64) int{"saw": saw, "tooth": saw, "flat": func(int64) int { return 500 }}
	newcomer := func(minute int64) int { return 5 }
	if o := observeAll(t, hs, monday, monday+day-2, demand); len(o.Dropped) > 0 || o.Refused > 0 {
		t.Fatalf("three places hold three workloads, but %+v", o)
	}
	demand["new"] = newcomer
	if o := observeAll(t, hs, monday+day-2, monday+day-1, demand); len(o.Dropped) > 0 || o.Refused != 1 {
		t.Fatalf("what is known for less than a day makes no room, but %+v", o)
	}
	o := observeAll(t, hs, monday+day-1, monday+day+1, demand)
	if want := []model.Workload{workloadNamed("flat")}; !slices.Equal(o.Dropped, want) || hs.Get(workloadNamed("new")) == nil {
		t.Fatalf("dropped %v, want %v", o.Dropped, want)
	}
	demand["new"] = func(minute int64) int { return 2 * saw(minute) }
	observeAll(t, hs, monday+day+1, monday+3*day, demand)
	if got := hs.MostUseful(); got[0] != workloadNamed("new") || got[1] != workloadNamed("saw") {
		t.Fatalf("most useful: %v", got)
	}
	demand["later"] = saw
	if o := observeAll(t, hs, monday+3*day, monday+3*day+2, demand); len(o.Dropped) > 0 || o.Refused != 4 {
		t.Fatalf("useful ones stay for a newcomer, but %+v", o) // later and flat, twice
	}
	delete(demand, "saw")
	delete(demand, "flat")
	if o := observeAll(t, hs, monday+3*day+2, monday+3*day+3, demand); !slices.Equal(o.Dropped, []model.Workload{workloadNamed("saw")}) {
		t.Fatalf("what is gone makes room, but %+v", o)
	}
}

// TestGoneForFourWeeks: a workload that wants nothing is kept for four weeks, and one that comes back within them goes on.
func TestGoneForFourWeeks(t *testing.T) {
	hs := NewHistories(10)
	back := int64(monday + 3*week)
	demand := map[string]func(int64) int{
		"gone": func(m int64) int {
			if m < monday+hour {
				return 3
			}
			return -1
		},
		"back": func(m int64) int {
			if m < monday+hour || m > back {
				return 3
			}
			return -1
		},
	}
	if o := observeAll(t, hs, monday, monday+4*week, demand); len(o.Gone) > 0 {
		t.Fatalf("gone: %v", o.Gone)
	}
	o := observeAll(t, hs, monday+4*week, monday+4*week+2*hour, demand)
	if want := []model.Workload{workloadNamed("gone")}; !slices.Equal(o.Gone, want) || hs.Len() != 1 {
		t.Fatalf("gone: %v, want %v", o.Gone, want)
	}
}

// TestSpared: what never rises spares nothing, spikes that recur spare what they add, and both survive being written.
func TestSpared(t *testing.T) {
	flat, spikes := New(), New()
	for m := int64(monday); m < monday+10*day; m++ {
		_ = flat.Observe(m, 40)
		n := 40
		if m%day >= 9*hour && m%day < 10*hour {
			n = 140
		}
		_ = spikes.Observe(m, n)
	}
	if flat.Spared() != 0 {
		t.Errorf("demand that never rises spares %g", flat.Spared())
	}
	// 100 replicas, three minutes of each day, from the third day on of nine that count
	if got, most := spikes.Spared(), 3*100.0/day; got < most*0.6 || got > most {
		t.Errorf("daily spikes spare %g, want nearly %g", got, most)
	}
	again, err := Decode(spikes.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if a, b := again.Spared(), spikes.Spared(); a < 0.999*b || a > 1.001*b {
		t.Errorf("written %g, read %g", b, a)
	}
}

// TestAppend: what was observed after a history was written is added to it, and equals having observed it all along.
func TestAppend(t *testing.T) {
	demand := func(m int64) int { return 20 + int(m*m%11) }
	written, whole, later := New(), New(), New()
	for m := int64(monday); m < monday+2*day; m++ {
		_ = written.Observe(m, demand(m))
		_ = whole.Observe(m, demand(m))
	}
	for m := int64(monday + 2*day - 30); m < monday+2*day+30; m++ {
		_ = later.Observe(m, demand(m))
	}
	for m := int64(monday + 2*day); m < monday+2*day+30; m++ {
		_ = whole.Observe(m, demand(m))
	}
	before := written.Clone()
	if n := written.Append(later); n != 30 || !bytes.Equal(written.Encode(), whole.Encode()) {
		t.Errorf("%d minutes added, want 30, and the same as the whole", n)
	}
	if last, _, _ := before.Last(); last != monday+2*day-1 {
		t.Errorf("a clone changes with what it is of: minute %d", last)
	}
	if n := whole.KnownQuarters(whole.now); n != 2*day/quarter+2 {
		t.Errorf("%d quarters known", n)
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package ledger

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/plan"
)

var start = time.Date(2026, 7, 1, 3, 0, 0, 0, time.UTC)

// shelves are where segments are stored in tests.
type shelves [HistorySegments][]byte

func (s *shelves) store(t *testing.T, h *History, now time.Time) (written int) {
	t.Helper()
	list, err := h.Unstored(now)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range list {
		if len(x.Data) > SegmentBytes {
			t.Fatalf("slot %d takes %d bytes", x.Slot, len(x.Data))
		}
		s[x.Slot] = x.Data
		h.MarkStored(x)
	}
	return len(list)
}

func (s *shelves) load(t *testing.T, now time.Time) *History {
	t.Helper()
	h := &History{}
	for i, data := range s {
		if err := h.Restore(i, data, now); err != nil {
			t.Fatal(err)
		}
	}
	h.Reopen()
	return h
}

func entryAt(i int) Entry {
	return Entry{At: start.Add(time.Duration(i) * time.Second), Kind: "create", Subject: fmt.Sprintf("nodeclaim/default-%d", i), Micro: int64(i),
		Why: []plan.Reason{{Code: plan.Demand, Pool: "default"}}}
}

// TestHistorySurvivesRestarts: what was stored is there after any number of restarts, in order, and no start takes a
// slot of its own.
func TestHistorySurvivesRestarts(t *testing.T) {
	var s shelves
	n := 0
	for range 50 {
		h := s.load(t, start)
		for range 7 {
			h.Add(entryAt(n))
			n++
		}
		s.store(t, h, start)
	}
	got := s.load(t, start).Entries(time.Time{}, nil)
	if len(got) != n {
		t.Fatalf("%d entries, want %d", len(got), n)
	}
	for i, e := range got {
		if e.Subject != entryAt(i).Subject {
			t.Fatalf("entry %d is %s", i, e.Subject)
		}
	}
	used := 0
	for _, data := range s {
		if data != nil {
			used++
		}
	}
	if used != 1 {
		t.Errorf("%d slots are used for %d entries", used, n)
	}
}

// TestHistoryIsBounded by count, bytes and age; the newest stay.
func TestHistoryIsBounded(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	noise := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte('!' + r.IntN(90))
		}
		return string(b)
	}
	var s shelves
	h := &History{}
	const n = 25_000
	for i := range n {
		e := entryAt(i)
		e.Outcome = "failed: " + noise(1000)
		for range 50 {
			e.Pods = append(e.Pods, "shop/"+noise(8))
		}
		h.Add(e)
		if i%1000 == 0 {
			s.store(t, h, start)
		}
	}
	s.store(t, h, e25(n))
	total := 0
	for _, data := range s {
		total += len(data)
	}
	if total > HistorySegments*SegmentBytes || total == 0 {
		t.Errorf("%d bytes", total)
	}
	got := s.load(t, start).Entries(time.Time{}, nil)
	if last := got[len(got)-1]; last.Subject != entryAt(n-1).Subject || last.MorePods != 20 || len(last.Outcome) > 310 {
		t.Errorf("the last entry is %s, %d more pods, %d bytes of outcome", last.Subject, last.MorePods, len(last.Outcome))
	}
	if len(got) < 2000 || len(got) > HistorySegments*SegmentEntries {
		t.Errorf("%d entries", len(got))
	}
	later := start.Add(HistoryAge + n*time.Second)
	if got := s.load(t, later).Entries(time.Time{}, nil); len(got) != 0 {
		t.Errorf("%d entries after a week", len(got))
	}
}

func e25(n int) time.Time { return entryAt(n).At }

// TestHistoryOfRefusals: a thousand pods refused for the same reasons within a minute are one entry.
func TestHistoryOfRefusals(t *testing.T) {
	h := &History{}
	for i := range 1000 {
		h.Add(Entry{At: start.Add(time.Duration(i) * time.Millisecond), Kind: Refuse, Subject: fmt.Sprintf("pod/shop/a-%d", i), Why: []plan.Reason{{Code: plan.Limit, Pool: "p"}},
			Related: []string{fmt.Sprintf("deployment/shop/a%d", i%7)}})
	}
	h.Add(Entry{At: start.Add(2 * time.Second), Kind: Refuse, Subject: "pod/shop/b", Why: []plan.Reason{{Code: plan.Taint, Pool: "p"}}})
	h.Add(Entry{At: start.Add(2 * time.Second), Kind: Keep, Subject: "node/a"})
	h.Add(Entry{At: start.Add(2 * time.Second), Kind: "bind", Subject: "node/a"})
	got := h.Entries(time.Time{}, nil)
	if len(got) != 2 || got[0].Count != 1000 || len(got[0].Pods) != mostPodNames || got[0].MorePods != 999-mostPodNames {
		t.Errorf("%d entries: %+v", len(got), got)
	}
	if about := h.Entries(time.Time{}, About("pod/shop/a-7", nil)); len(about) != 1 {
		t.Errorf("%d entries about a pod that joined another", len(about))
	}
	for subject, want := range map[string]int{"deployment/shop/a6": 1, "deployment/shop/a7": 0} {
		if about := h.Entries(time.Time{}, About(subject, nil)); len(about) != want {
			t.Errorf("%d entries about %s, want %d", len(about), subject, want)
		}
	}
	if recent := h.Entries(start.Add(1500*time.Millisecond), nil); len(recent) != 1 {
		t.Errorf("%d entries of the last half second", len(recent))
	}
}

// TestUnequalRefusals: pods that are refused in one NodePool for what each asks for have an entry each.
func TestUnequalRefusals(t *testing.T) {
	h := &History{}
	for _, x := range [][3]string{{"a", "team", "ml"}, {"b", "team", "ml"}, {"c", "team", "web"}, {"d", "disk", "nvme"}} {
		h.Add(Entry{At: start, Kind: Refuse, Subject: "pod/shop/" + x[0], Why: []plan.Reason{{Code: plan.Requirement, Pool: "p", Detail: plan.OfRequirement{Label: x[1], Want: plan.Rule(x[2]), Have: plan.Rule(x[0])}}}})
	}
	if got := h.Entries(time.Time{}, nil); len(got) != 3 || got[0].Count != 2 {
		t.Errorf("%d entries, want 3, of which the first is of two pods: %+v", len(got), got)
	}
}

// TestHistoryOfTwoLeaders: what another process has stored meanwhile is taken over, and what was not stored goes
// elsewhere.
func TestHistoryOfTwoLeaders(t *testing.T) {
	var s shelves
	a := &History{}
	a.Add(entryAt(1))
	s.store(t, a, start)
	b := s.load(t, start)
	b.Add(entryAt(2))
	s.store(t, b, start)
	a.Add(entryAt(3)) // its write to the slot fails, so it reads it
	if err := a.Restore(0, s[0], start); err != nil {
		t.Fatal(err)
	}
	s.store(t, a, start)
	var subjects []string
	for _, e := range s.load(t, start).Entries(time.Time{}, nil) {
		subjects = append(subjects, strings.TrimPrefix(e.Subject, "nodeclaim/default-"))
	}
	if got := strings.Join(subjects, " "); got != "1 2 3" {
		t.Errorf("entries %s", got)
	}
}

func TestDamagedHistory(t *testing.T) {
	var s shelves
	h := &History{}
	h.Add(entryAt(1))
	s.store(t, h, start)
	for _, data := range [][]byte{{1, 2, 3}, s[0][:len(s[0])/2]} {
		fresh := &History{}
		if err := fresh.Restore(0, data, start); err == nil {
			t.Errorf("%d bytes of %d are read", len(data), len(s[0]))
		}
		fresh.Add(entryAt(2))
		if s.store(t, fresh, start); len(fresh.Entries(time.Time{}, nil)) != 1 {
			t.Error("it can't be used after that")
		}
	}
}

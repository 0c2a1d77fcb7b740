// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package ledger

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dovetail-sh/dovetail/internal/plan"
)

// TestKeepsTheLast holds the ring against a list that forgets nothing.
func TestKeepsTheLast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(0, 7).Draw(t, "size")
		l, all := New(size), []Entry{}
		for i := range rapid.IntRange(0, 30).Draw(t, "entries") {
			e := Entry{Kind: rapid.SampledFrom([]string{"create", "delete", Keep}).Draw(t, "kind"), Subject: fmt.Sprint("nodeclaim/", i)}
			l.Add(e)
			e.Seq = uint64(i + 1)
			all = append(all, e)
			last := append(tail(all, size, false), tail(all, size, true)...)
			slices.SortFunc(last, func(a, b Entry) int { return int(a.Seq) - int(b.Seq) })
			if got := fmt.Sprint(l.Entries(nil)); got != fmt.Sprint(last) {
				t.Fatalf("got %s, want %v", got, last)
			}
			var created []Entry
			for _, e := range last {
				if e.Kind == "create" {
					created = append(created, e)
				}
			}
			if got := l.Entries(func(e Entry) bool { return e.Kind == "create" }); fmt.Sprint(got) != fmt.Sprint(created) {
				t.Fatalf("got %v, want %v", got, created)
			}
		}
	})
}

// tail are the last entries of kind Keep, or of all others.
func tail(all []Entry, size int, kept bool) []Entry {
	out := slices.DeleteFunc(slices.Clone(all), func(e Entry) bool { return (e.Kind == Keep) != kept })
	return slices.Clip(out[max(0, len(out)-max(size, 1)):])
}

func TestAbout(t *testing.T) {
	of := []Entry{
		{Kind: "create", Subject: "nodeclaim/c", Pods: []string{"default/a"}, Why: []plan.Reason{{Pool: "p"}}},
		{Kind: "refuse", Subject: "pod/default/b", Why: []plan.Reason{{Pool: "q"}}},
		{Kind: Keep, Subject: "node/n"},
	}
	for subject, want := range map[string]string{"pod/default/a": "create", "pod/default/b": "refuse", "node/n": "create keep", "nodepool/p": "create", "nodepool/q": "refuse", "node/m": ""} {
		var got []string
		var related []string
		if subject == "node/n" {
			related = []string{"nodeclaim/c"}
		}
		for _, e := range of {
			if About(subject, related)(e) {
				got = append(got, e.Kind)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("of %s: %v, want %s", subject, got, want)
		}
	}
}

// TestAnswerThatStands: a machine that is looked at four times a second for an hour and left alone is one entry, others stay, and what was done twice
// is two.
func TestAnswerThatStands(t *testing.T) {
	l, begin := New(3), time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	keep := func(node string, why plan.Reason, at time.Duration) {
		l.Add(Entry{Kind: Keep, Subject: "node/" + node, At: begin.Add(at), Why: []plan.Reason{why}})
	}
	dear := func(micro int) plan.Reason {
		return plan.Reason{Code: plan.NotCheaper, Detail: plan.OfNotCheaper{Elsewhere: plan.Micro(micro)}}
	}
	keep("b", dear(2), 0)
	for i := range 4 * 3600 {
		keep("a", dear(i), time.Duration(i)*time.Second/4)
	}
	keep("a", plan.Reason{Code: plan.DoesNotPay}, time.Hour)
	for range 2 {
		l.Add(Entry{Kind: "delete", Subject: "nodeclaim/c", At: begin.Add(time.Hour)})
	}
	var got []string
	for _, e := range l.Entries(nil) {
		line := fmt.Sprint(e.Seq, " ", e.Kind, " ", e.Subject, " ", e.At.Sub(begin))
		if e.Count > 0 {
			line += fmt.Sprint(" to ", e.Last.Sub(begin), " ", e.Count, " times, ", e.Why[0].Fields().Have)
		}
		got = append(got, line)
	}
	want := []string{"1 keep node/b 0s", "2 keep node/a 0s to 59m59.75s 14400 times, $0.0144", "3 keep node/a 1h0m0s", "4 delete nodeclaim/c 1h0m0s", "5 delete nodeclaim/c 1h0m0s"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	keep("d", plan.Reason{Code: plan.NotCheaper}, time.Hour)
	keep("e", plan.Reason{Code: plan.NotCheaper}, time.Hour) // b, the one not heard of for longest, and a's first are dropped
	keep("b", plan.Reason{Code: plan.NotCheaper}, 2*time.Hour)
	if n := len(l.Entries(func(e Entry) bool { return e.Subject == "node/b" && e.Count == 0 })); n != 1 {
		t.Errorf("%d new entries about a machine that was dropped, want one", n)
	}
}

// TestIsForEverybody has writers and readers at once; the race detector looks on.
func TestIsForEverybody(t *testing.T) {
	l := New(10)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				l.Add(Entry{Kind: "create"})
				got := l.Entries(nil)
				for i := 1; i < len(got); i++ {
					if got[i].Seq != got[i-1].Seq+1 {
						t.Errorf("entry %d follows %d", got[i].Seq, got[i-1].Seq)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	if last := l.Entries(nil); len(last) != 10 || last[9].Seq != 800 {
		t.Errorf("%d entries, the last is %d", len(last), last[len(last)-1].Seq)
	}
}

// An entry of which whoever makes pods chooses the text is cut, so that the ledger is bounded in bytes, not in entries alone.
func TestEntriesAreBounded(t *testing.T) {
	l := New(10)
	long := strings.Repeat("x", 1<<20)
	e := Entry{At: time.Unix(1, 0), Kind: Refuse, Subject: "pod/tenant/a", Outcome: long}
	for range 500 {
		e.Why = append(e.Why, plan.Reason{Code: plan.Requirement, Detail: plan.OfRequirement{Label: long, Want: plan.Rule(long), Have: plan.Rule(long)}})
		e.Pods = append(e.Pods, "tenant/a", "tenant/b", "tenant/c")
	}
	l.Add(e)
	text, err := json.Marshal(l.Entries(nil))
	if err != nil || len(text) > 1<<20 {
		t.Errorf("one entry has %d bytes, %v", len(text), err)
	}
	if have := l.Entries(nil)[0]; have.MorePods != 500 || len(have.Pods) != 1000 || len(e.Why) != 500 || len(e.Why[0].Fields().Want) != 1<<20 {
		t.Errorf("%d pods and %d more are named; the reasons given were changed: %t", len(have.Pods), have.MorePods, len(e.Why[0].Fields().Want) != 1<<20)
	}
}

// Pods that are bound to a node one after the other are one entry, which names them all; those of a later time are another.
func TestBoundPodsAreOneEntry(t *testing.T) {
	l, begin := New(10), time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, b := range []struct {
		at   time.Duration
		node string
		pods []string
	}{{0, "a", []string{"s/1", "s/2"}}, {time.Second, "b", []string{"s/3"}}, {2 * time.Second, "a", []string{"s/2", "s/4"}}, {time.Hour, "a", []string{"s/5"}}} {
		l.Add(Entry{At: begin.Add(b.at), Kind: Bind, Subject: "node/" + b.node, Pods: b.pods})
	}
	var got []string
	for _, e := range l.Entries(nil) {
		got = append(got, fmt.Sprint(e.Seq, " ", e.Subject, " ", e.At.Sub(begin), " ", e.Pods, " ", e.Count))
	}
	if want := "1 node/a 0s [s/1 s/2 s/4] 0; 2 node/b 1s [s/3] 0; 3 node/a 1h0m0s [s/5] 0"; strings.Join(got, "; ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, "; "), want)
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package ledger

import (
	"fmt"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// TestKeepsTheLast holds the ring against a list that forgets nothing.
func TestKeepsTheLast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(0, 7).Draw(t, "size")
		l, all := New(size), []Entry{}
		for i := range rapid.IntRange(0, 30).Draw(t, "entries") {
			e := Entry{Kind: rapid.SampledFrom([]string{"create", "delete"}).Draw(t, "kind"), Subject: fmt.Sprint("nodeclaim/", i)}
			l.Add(e)
			e.Seq = uint64(i + 1)
			all = append(all, e)
			last := all[max(0, len(all)-max(size, 1)):]
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

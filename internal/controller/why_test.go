// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// TestWhyDoesNotWaitForTheLoop asks while the loop is held up: the answer is made of what the last step saw.
func TestWhyDoesNotWaitForTheLoop(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.lead()
		b.pod("a", "a")
		synctest.Wait()
		held, free := make(chan bool), make(chan bool)
		b.c.Emit(func(*state.State) {
			close(held)
			<-free
		})
		<-held
		a, err := b.c.Answers.Why(t.Context(), "nodepool/p")
		if err != nil || a.Subject != "nodepool/p" || len(a.Facts) == 0 {
			t.Errorf("answered %+v, %v", a, err)
		}
		close(free)
	})
}

// TestWhyBesideTheLoop has many ask while pods come and machines are bought; the race detector looks on.
func TestWhyBesideTheLoop(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.lead()
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				for range 20 {
					time.Sleep(20 * time.Millisecond) // of the virtual kind: steps are made in between
					b.pod(string(rune('a'+i)), "a")
					if _, err := b.c.Answers.Why(t.Context(), "nodepool/p"); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
	})
}

// TestWhyOfAFollower asks a replica that does not lead: it tells what it sees.
func TestWhyOfAFollower(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		if _, err := b.c.Answers.Why(t.Context(), "nodepool/p"); err == nil {
			t.Error("answered before it knew the cluster")
		}
		b.c.MarkSynced()
		b.pod("a", "a")
		synctest.Wait()
		a, err := b.c.Answers.Why(t.Context(), "pod/default/a")
		if err != nil || len(a.Facts) == 0 {
			t.Errorf("answered %+v, %v", a, err)
		}
	})
}

// TestExplainWhatIsGone asks about a machine and a pod that are gone: whichever of its names is asked for, the machine's end is told.
func TestExplainWhatIsGone(t *testing.T) {
	run(t, func(t *testing.T, b *bench) {
		b.c.MarkSynced()
		synctest.Wait()
		for _, e := range []ledger.Entry{
			{Kind: "create", Subject: "nodeclaim/c", Pods: []string{"default/a"}},
			{Kind: "move", Subject: "node/n", Related: []string{"nodeclaim/c"}, Pods: []string{"default/a"}},
			{Kind: "delete", Subject: "nodeclaim/c", Related: []string{"node/n"}},
			{Kind: "terminate", Subject: "instance/i", Related: []string{"nodeclaim/c"}},
			{Kind: "create", Subject: "nodeclaim/other"},
		} {
			e.At = time.Now()
			b.c.Ledger.Add(e)
		}
		for subject, want := range map[string]string{
			"node/n":        "[create move delete terminate]",
			"nodeclaim/c":   "[create move delete terminate]",
			"pod/default/a": "[create move]",
		} {
			out, err := b.c.Answers.Explain(t.Context(), subject)
			var kinds []string
			for _, e := range out.Decided {
				kinds = append(kinds, e.Kind)
			}
			if got := fmt.Sprint(kinds); err != nil || !out.Gone || got != want {
				t.Errorf("of %s: gone %v, decided %s, %v; want gone, %s", subject, out.Gone, got, err, want)
			}
		}
		var none *plan.NoSuchObject
		if _, err := b.c.Answers.Explain(t.Context(), "node/never"); !errors.As(err, &none) {
			t.Errorf("of a node that never was: %v", err)
		}
		if h, err := b.c.Answers.History(t.Context(), "nodepool/never", time.Hour); !errors.As(err, &none) {
			t.Errorf("the history of a NodePool that never was: %+v, %v", h, err)
		}
		if h, err := b.c.Answers.History(t.Context(), "node/n", time.Hour); err != nil || len(h.Entries) != 3 || h.Now == nil {
			t.Errorf("the history of a node that is gone: %+v, %v", h, err)
		}
	})
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
		a, err := b.c.Why(t.Context(), "nodepool/p")
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
					if _, err := b.c.Why(t.Context(), "nodepool/p"); err != nil {
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
		if _, err := b.c.Why(t.Context(), "nodepool/p"); err == nil {
			t.Error("answered before it knew the cluster")
		}
		b.c.Synced()
		b.pod("a", "a")
		synctest.Wait()
		a, err := b.c.Why(t.Context(), "pod/default/a")
		if err != nil || len(a.Facts) == 0 {
			t.Errorf("answered %+v, %v", a, err)
		}
	})
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package ledger

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-sh/dovetail/internal/plan"
)

// shelf is a Store in memory.
type shelf struct {
	mu     sync.Mutex
	slots  [HistorySegments]map[string][]byte
	writes int
	err    error // of every call
	other  bool  // another leader has written since this one has read
}

func (s *shelf) LoadHistories(_ context.Context, slot int) (map[string][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.other = s.other && s.err != nil
	return maps.Clone(s.slots[slot]), s.err
}

func (s *shelf) StoreHistories(_ context.Context, slot int, entries map[string][]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	switch {
	case s.err != nil:
		return s.err
	case s.other:
		return errors.New("the object has been modified")
	}
	s.slots[slot] = maps.Clone(entries)
	return nil
}

// keepPast keeps the past of a new ledger in a store until end is called.
func keepPast(t *testing.T, s Store) (l *Ledger, log *bytes.Buffer, end func()) {
	l, log = New(10), &bytes.Buffer{}
	k := NewKeeper(l, s, slog.New(slog.NewTextHandler(log, nil)))
	ctx, cancel := context.WithCancel(t.Context())
	go k.Keep(ctx)
	return l, log, func() {
		cancel()
		synctest.Wait()
	}
}

func removed(name string) Entry {
	return Entry{At: time.Now(), Kind: "delete", Subject: "nodeclaim/" + name, Related: []string{"node/ip-" + name}, Why: []plan.Reason{{Code: plan.Empty}}}
}

// TestDecisionsSurviveARestart: what was decided is known to the next process, by the names of node and claim; a store
// that fails is said once, and what was decided meanwhile is stored when it works again.
func TestDecisionsSurviveARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{}
		l, _, end := keepPast(t, s)
		l.Add(removed("a"))
		time.Sleep(time.Minute)
		end()
		if n := s.writes; n != 1 {
			t.Errorf("%d writes of one decision", n)
		}

		s.err = errors.New("not now")
		l, log, end := keepPast(t, s)
		l.Add(removed("b"))
		time.Sleep(2 * time.Minute)
		if n := strings.Count(log.String(), "can't be read"); n != HistorySegments {
			t.Errorf("said %d times: %s", n, log)
		}
		s.mu.Lock()
		s.err = nil
		s.mu.Unlock()
		time.Sleep(time.Minute)
		s.mu.Lock()
		s.other = true // another leader has written
		s.mu.Unlock()
		l.Add(removed("c"))
		time.Sleep(time.Minute)
		l.Add(removed("d"))
		end() // at once: what is new is stored last thing

		l, _, end = keepPast(t, s)
		defer end()
		synctest.Wait()
		if n := len(l.All(nil)); n != 4 {
			t.Errorf("%d decisions are known after the restart, want 4: %+v", n, l.All(nil))
		}
		for _, subject := range []string{"node/ip-a", "nodeclaim/b", "nodeclaim/c", "nodeclaim/d"} {
			if got := l.All(About(subject, l.Machine(subject))); len(got) != 1 {
				t.Errorf("%d decisions about %s", len(got), subject)
			}
		}
		if len(l.Entries(nil)) != 0 {
			t.Error("the ledger of this process has what it did not decide")
		}
	})
}

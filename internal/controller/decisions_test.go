// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// keepPast has a controller keep its past in a store until end is called.
func keepPast(t *testing.T, s HistoryStore) (l *ledger.Ledger, log *bytes.Buffer, end func()) {
	log = &bytes.Buffer{}
	c := &Controller{Ledger: ledger.New(10), Decisions: s, Log: slog.New(slog.NewTextHandler(log, nil))}
	ctx, cancel := context.WithCancel(t.Context())
	go c.keepDecisions(ctx)
	return c.Ledger, log, func() {
		cancel()
		synctest.Wait()
	}
}

func removed(name string) ledger.Entry {
	return ledger.Entry{At: time.Now(), Kind: "delete", Subject: "nodeclaim/" + name, Related: []string{"node/ip-" + name}, Why: []plan.Reason{{Code: plan.Empty}}}
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
		if n := len(s.writes); n != 1 {
			t.Errorf("%d writes of one decision", n)
		}

		s.err = errors.New("not now")
		l, log, end := keepPast(t, s)
		l.Add(removed("b"))
		time.Sleep(2 * time.Minute)
		if n := strings.Count(log.String(), "can't be read"); n != ledger.HistorySegments {
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
			if got := l.All(ledger.About(subject, l.Machine(subject))); len(got) != 1 {
				t.Errorf("%d decisions about %s", len(got), subject)
			}
		}
		if len(l.Entries(nil)) != 0 {
			t.Error("the ledger of this process has what it did not decide")
		}
	})
}

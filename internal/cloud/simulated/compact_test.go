// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package simulated

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
)

// Thousands of machines come and go. Neither the journal nor the model grows with them; what stands is known after a restart, and so is
// every claim that ever had a machine: none is launched again.
func TestJournalIsWrittenAnew(t *testing.T) {
	c, err := catalog.Parse("test", []byte(`{"instanceTypes":[{"name":"a","arch":"amd64","vcpu":2,"memoryMiB":8192,"allocatable":{"cpu":"1","memory":"1Gi","pods":"9"},"onDemandUSDPerHour":1}]}`))
	if err != nil {
		t.Fatal(err)
	}
	const rounds = 8 * keepEnded
	path := filepath.Join(t.TempDir(), "journal")
	open := func() *Server {
		s, err := Open(Config{Journal: path, Catalog: c, Log: slog.New(slog.DiscardHandler)}, noNodes{})
		if err != nil {
			t.Fatal(err)
		}
		s.compactAt = 64 << 10
		return s
	}
	s := open()
	launch := func(uid string) machines.LaunchResult {
		var r machines.LaunchResult
		if err := s.change(false, func(m *Model, now time.Time) {
			r = m.Launch(machines.LaunchRequest{ClaimUID: uid, Types: []string{"a"}}, now)
		}); err != nil {
			t.Fatal(err)
		}
		return r
	}
	largest, last, anew := int64(0), int64(0), 0
	look := func() { // after each write, whichever it was that had the journal compacted
		if s.journal.size < last {
			anew++
		}
		last = s.journal.size
		largest = max(largest, last)
	}
	for i := range rounds {
		id := launch(fmt.Sprint("short-", i)).Instance.ID
		look()
		if err := s.change(false, func(m *Model, now time.Time) {
			m.Terminate(m.Instance(id).ProviderID, now)
			m.NodeDeleted(id, now)
		}); err != nil {
			t.Fatal(err)
		}
		look()
	}
	stays := launch("stays").Instance
	if anew < 2 {
		t.Fatalf("the journal was written anew %d times, so nothing was tested", anew)
	}
	check := func() {
		t.Helper()
		if n := len(s.model.instances); n > keepEnded+1 {
			t.Errorf("%d machines are kept, want %d that have ended and one", n, keepEnded)
		}
		for _, i := range []int{0, 1, rounds / 2, rounds - 1} {
			if r := launch(fmt.Sprint("short-", i)); r.Error == nil || r.Error.Kind != cloud.NotFound {
				t.Errorf("claim short-%d was launched again: %+v", i, r)
			}
		}
		if r := launch("stays"); r.Instance == nil || r.Instance.ID != stays.ID {
			t.Errorf("claim stays has another machine: %+v", r)
		}
	}
	check()
	want, err := json.Marshal(s.model.all())
	if err != nil {
		t.Fatal(err)
	}
	tombs := len(s.model.tombs)
	for range 2 { // the second restart finds what the first one wrote
		if err := s.journal.close(); err != nil {
			t.Fatal(err)
		}
		s = open()
		have, err := json.Marshal(s.model.all())
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(have, want) || len(s.model.tombs) != tombs {
			t.Fatalf("after a restart %d machines and %d ids are known, want the same %d and %d", len(s.model.instances), len(s.model.tombs), keepEnded+1, tombs)
		}
		check()
	}
	if err := s.journal.close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d machines, the journal had at most %d bytes", rounds, largest)
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package simulated

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
)

// notes is a guest that remembers what it was told.
type notes struct{ have []string }

func (n *notes) Apply(_ time.Time, data json.RawMessage) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	n.have = append(n.have, s)
	return nil
}

func (*notes) Moved(string) {}

// TestGuest: a machine that a guest adds and the guest's note of it are there after a restart both or not at all, wherever the
// journal was torn.
func TestGuest(t *testing.T) {
	c, err := catalog.Parse("test", []byte(`{"instanceTypes":[{"name":"a","arch":"amd64","vcpu":2,"memoryMiB":8192,"allocatable":{"cpu":"1","memory":"1Gi","pods":"9"},"onDemandUSDPerHour":1}]}`))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "journal")
	open := func() (*Server, *notes) {
		t.Helper()
		n := &notes{}
		s, err := Open(Config{Journal: path, Catalog: c, Guest: n}, noNodes{})
		if err != nil {
			t.Fatal(err)
		}
		return s, n
	}
	s, _ := open()
	var sizes []int64
	for _, id := range []string{"i-1", "i-2"} {
		err := s.Change(true, func(m *Model, now time.Time) {
			m.Add(machines.Instance{ID: id, ProviderID: "x:///z/" + id, InstanceType: "a", Zone: "z", Node: machines.NodeSpec{Name: id}}, now)
			m.Note("of "+id, now)
		})
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, s.journal.size)
	}
	s.journal.close()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cuts := 0
	for cut := int64(0); cut <= int64(len(whole)); cut++ {
		at := whole[:cut]
		if cut != int64(len(whole)) && cut != sizes[0] && cut%7 != 0 && !bytes.HasSuffix(at, []byte("\n")) {
			continue // enough of the places within a line
		}
		if err := os.WriteFile(path, at, 0o600); err != nil {
			t.Fatal(err)
		}
		want := 0
		for _, size := range sizes {
			if cut >= size {
				want++
			}
		}
		s, n := open()
		if have := len(s.model.List(true, time.Time{})); have != want || len(n.have) != want {
			t.Fatalf("cut at %d: have %d machines and %d notes, want %d", cut, have, len(n.have), want)
		}
		s.journal.close()
		cuts++
	}
	if cuts < 10 {
		t.Fatalf("the journal was cut at %d places only", cuts)
	}
	if _, err := Open(Config{Journal: path, Catalog: c}, noNodes{}); err == nil {
		t.Error("a journal with notes was opened without anybody to read them")
	}
}

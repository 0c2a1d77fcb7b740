// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package recording_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/record"
	"github.com/dovetail-sh/dovetail/internal/replay"
	"github.com/dovetail-sh/dovetail/internal/replay/recording"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// TestDamaged: of a recording that was cut off or damaged, what stands before is replayed, and the rest is named with its place.
func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole.zst")
	l := newLab(t, 3, 4)
	l.record(whole)
	l.churn(2 * time.Hour)
	if err := l.w.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	all, _ := read(t, whole)
	for _, x := range []struct {
		name, want string
		damage     func([]byte) []byte
	}{
		{"truncated", "truncated: the last ", func(b []byte) []byte { return b[:len(b)*2/3] }},
		{"corrupt", "corrupt: ", func(b []byte) []byte { b[len(b)*2/3] ^= 0x55; return b }},
	} {
		path := filepath.Join(dir, x.name+".zst")
		if err := os.WriteFile(path, x.damage([]byte(string(text))), 0o600); err != nil {
			t.Fatal(err)
		}
		r, v := read(t, path)
		if len(r.Problems) == 0 || !strings.HasPrefix(r.Problems[0], path+", byte ") || !strings.Contains(r.Problems[0], x.want) {
			t.Errorf("%s: problems %q, want the byte and %q", x.name, r.Problems, x.want)
		}
		if n := len(r.Trace.Claims); n == 0 || n >= len(all.Trace.Claims) {
			t.Errorf("%s: %d claims of %d were read", x.name, n, len(all.Trace.Claims))
		}
		if f := replay.Play(r.Trace, v); f.Launched == 0 || !f.To.Equal(r.Trace.To) || !r.Trace.To.Before(all.Trace.To) {
			t.Errorf("%s: %d launches up to %s; the whole recording ends %s", x.name, f.Launched, f.To, all.Trace.To)
		}
	}
}

// TestInterrupted: a replay that is ended early says so and up to when it went, and has decided until then what the whole one decides.
func TestInterrupted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "whole.zst")
	l := newLab(t, 3, 4)
	l.record(path)
	l.churn(time.Hour)
	if err := l.w.Close(); err != nil {
		t.Fatal(err)
	}
	r, v := read(t, path)
	whole := replay.Play(r.Trace, v)
	limit := start.Add(40 * time.Minute)
	v.Progress = func(at time.Time) bool { return at.Before(limit) }
	part := replay.Play(r.Trace, v)
	if whole.Partial || !part.Partial || part.To.Before(limit) || !part.To.Before(whole.To) {
		t.Errorf("partial %t up to %s, and %t up to %s", part.Partial, part.To, whole.Partial, whole.To)
	}
	n := len(part.Decisions)
	if n < 10 || n >= len(whole.Decisions) || !slices.Equal(part.Decisions, whole.Decisions[:n]) || whole.Decisions[n].At.Before(part.To) {
		t.Errorf("%d decisions up to %s are not those that the whole replay begins with: %v, %v", n, part.To, part.Decisions, whole.Decisions)
	}
	if part.Micro <= 0 || part.Micro >= whole.Micro || part.Launched > whole.Launched || part.Evicted() > whole.Evicted() {
		t.Errorf("the part costs %d and launches %d nodes, the whole %d and %d", part.Micro, part.Launched, whole.Micro, whole.Launched)
	}
}

// TestNoPools: a recording without a NodePool can be replayed with those of a file alone.
func TestNoPools(t *testing.T) {
	path, now := filepath.Join(t.TempDir(), "none.zst"), start
	w, _, err := record.Open(record.Config{Path: path, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	err = w.Synced()
	now = now.Add(time.Minute)
	w.Set("v1", "Namespace", "shop", map[string]any{"metadata": map[string]any{"name": "shop"}})
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	r, err := recording.Read(path, nil, state.NewResourceTable())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Variant(noFiles, offerLab); err == nil || err.Error() != path+": no NodePool in the recording, so no node can be launched; add NodePools with -f FILE" {
		t.Errorf("no NodePool: %v", err)
	}
}

// TestClockSetBack: a run of the recorder whose clock was set back follows the one before it, and nothing of either is lost.
func TestClockSetBack(t *testing.T) {
	path, now := filepath.Join(t.TempDir(), "back.zst"), start
	node := func(name string) map[string]any {
		return map[string]any{"metadata": map[string]any{"name": name, "uid": name, "creationTimestamp": start.Format(time.RFC3339)}}
	}
	for i, from := range []time.Time{start, start.Add(-time.Hour)} {
		now = from
		w, _, err := record.Open(record.Config{Path: path, Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		w.Set("v1", "Node", "a", node("a"))
		if i == 1 {
			w.Set("v1", "Node", "b", node("b"))
		}
		err = w.Synced()
		now = now.Add(10 * time.Minute)
		if i == 0 {
			w.Set("v1", "Node", "b", node("b"))
		} else {
			w.Delete("Node", "b")
		}
		if err := errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
	}
	r, err := recording.Read(path, nil, state.NewResourceTable())
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "the clock was set back between 1 runs, by 1h10m0s") {
		t.Errorf("problems %q", r.Problems)
	}
	for _, n := range r.Trace.Nodes {
		want := time.Time{}
		if n.Node.Name == "b" {
			want = start.Add(20 * time.Minute) // ten minutes of each run
		}
		if !n.Gone.Equal(want) {
			t.Errorf("node %s is gone at %s, want %s", n.Node.Name, n.Gone, want)
		}
	}
	if len(r.Trace.Nodes) != 2 || !r.Trace.To.Equal(start.Add(20*time.Minute)) {
		t.Errorf("%d nodes up to %s, want 2 up to %s", len(r.Trace.Nodes), r.Trace.To, start.Add(20*time.Minute))
	}
}

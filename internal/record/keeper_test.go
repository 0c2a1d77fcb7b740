// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/zstd"
)

// What is handed over before the snapshot is complete is in it, what comes later is a change, and what waits when it ends is written.
func TestKeeper(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.zst")
	synctest.Test(t, func(t *testing.T) {
		w := begin(t, config(path, newClock()))
		k, synced := NewKeeper(), make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 1000 {
			k.Set("v1", "Pod", fmt.Sprint("shop/p", i), pod(fmt.Sprint("p", i), ""))
		}
		close(synced)
		ended := make(chan error)
		go func() { ended <- k.Run(ctx, opened(w), time.Second, synced) }()
		time.Sleep(3 * time.Second)
		k.Set("v1", "Pod", "shop/p0", pod("p0", "n1"))
		k.Delete("Pod", "shop/p1")
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		k.Delete("Pod", "shop/p2") // nobody is there any more
	})
	have, report := keys(t, path)
	if len(have) != 999 || have[0] != "shop/p0=n1" || report.Changes["Pod"] != 2 || len(report.Problems) > 0 {
		t.Errorf("%d objects, the first %q: %+v", len(have), have[0], report)
	}
}

// A disk that hangs ends the recording, and nobody waits for it.
func TestKeeperIsSlow(t *testing.T) {
	w := begin(t, config(filepath.Join(t.TempDir(), "r.zst"), newClock()))
	k := newKeeper(2)
	for i := range 5 {
		k.Set("v1", "Pod", fmt.Sprint("shop/p", i), pod(fmt.Sprint("p", i), ""))
	}
	if err := k.Run(t.Context(), opened(w), time.Hour, nil); !errors.Is(err, errSlow) {
		t.Error(err)
	}
}

// opened returns a Writer as Run opens it.
func opened(w *Writer) func() (*Writer, error) { return func() (*Writer, error) { return w, nil } }

// A disk that hangs when the recording is opened keeps nobody, and a recording that can't be opened holds nothing.
func TestKeeperOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, hangs, ended := NewKeeper(), make(chan error), make(chan error)
		go func() { ended <- k.Run(t.Context(), func() (*Writer, error) { return nil, <-hangs }, time.Second, nil) }()
		k.Set("v1", "Pod", "shop/p0", pod("p0", ""))
		synctest.Wait()
		hangs <- os.ErrPermission
		if err := <-ended; !errors.Is(err, os.ErrPermission) {
			t.Error(err)
		}
		k.Set("v1", "Pod", "shop/p0", pod("p0", "n1"))
		if len(k.changes) > 0 {
			t.Errorf("%d objects are held for a recording that has ended", len(k.changes))
		}
	})
}

// Of the recordings of others the oldest are deleted, and no other file.
func TestPrune(t *testing.T) {
	dir := t.TempDir()
	w := begin(t, config(filepath.Join(dir, "a.zst"), newClock()))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	recording, err := os.ReadFile(filepath.Join(dir, "a.zst"))
	if err != nil {
		t.Fatal(err)
	}
	var z bytes.Buffer
	compress, err := zstd.NewWriter(&z)
	if err == nil {
		_, err = fmt.Fprintln(compress, `{"backup": "of somebody"}`)
	}
	if err := errors.Join(err, compress.Close()); err != nil {
		t.Fatal(err)
	}
	for i, f := range []struct {
		name string
		text []byte
	}{
		{"empty.zst", nil}, {"text.zst", []byte("notes")}, {"backup.zst", z.Bytes()}, {"broken.zst", append(slices.Clone(magic), 0xff, 0xff)}, {"mine.zst", recording}, {"mine.zst.1", recording},
		{"notes.txt", []byte("notes")}, {"a.zst.1", recording}, {"a.zst", recording}, {"b.zst", recording},
	} {
		path, at := filepath.Join(dir, f.name), time.Unix(int64(i), 0)
		if err := errors.Join(os.WriteFile(path, f.text, 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	if err := Prune(dir, filepath.Join(dir, "mine.zst"), int64(2*len(recording))); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	same(t, "files", left, []string{"a.zst", "b.zst", "backup.zst", "broken.zst", "empty.zst", "mine.zst", "mine.zst.1", "notes.txt", "text.zst"})
}

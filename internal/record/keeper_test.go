// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package record

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
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
		go func() { ended <- k.Run(ctx, w, time.Second, synced) }()
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
	if err := k.Run(t.Context(), w, time.Hour, nil); !errors.Is(err, errSlow) {
		t.Error(err)
	}
}

// Of the recordings of others the oldest are deleted.
func TestPrune(t *testing.T) {
	dir := t.TempDir()
	for i, name := range []string{"mine.zst", "mine.zst.1", "notes.txt", "a.zst.1", "a.zst", "b.zst"} {
		path, at := filepath.Join(dir, name), time.Unix(int64(i), 0)
		if err := errors.Join(os.WriteFile(path, make([]byte, 10), 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	if err := Prune(dir, filepath.Join(dir, "mine.zst"), 20); err != nil {
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
	same(t, "files", left, []string{"a.zst", "b.zst", "mine.zst", "mine.zst.1", "notes.txt"})
}

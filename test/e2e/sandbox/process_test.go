// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package sandbox

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// TestKeepRunning checks that a program that ends is restarted after the pauses of a kubelet, until one start lasts, and that it is ended by stop.
func TestKeepRunning(t *testing.T) {
	t.Parallel()
	const ends = 7 // starts that end by themselves, of which one fails
	started := make(chan *Process, 1)
	start := func(before int) (*Process, error) {
		switch {
		case before == 3:
			return nil, errors.New("no such file")
		case before < ends:
			return startProcess(exec.Command("sh", "-c", "exit 2"), filepath.Join(t.TempDir(), "log"))
		}
		p, err := startProcess(exec.Command("sleep", "3600"), filepath.Join(t.TempDir(), "log"))
		started <- p
		return p, err
	}
	var pauses []time.Duration
	stop, err := keepRunning(start, func(_ context.Context, d time.Duration) { pauses = append(pauses, d) })
	if err != nil {
		t.Fatal(err)
	}
	p := <-started
	if p == nil {
		t.Fatal("the last start failed")
	}
	if err := p.Ended(); err != nil {
		t.Error(err)
	}
	stop()
	if p.Ended() == nil {
		t.Error("the process runs after stop")
	}
	want := []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 300 * time.Second}
	if !slices.Equal(pauses, want) {
		t.Errorf("pauses %v, want %v", pauses, want)
	}
	if _, err := keepRunning(func(int) (*Process, error) { return nil, errors.New("no such file") }, nil); err == nil {
		t.Error("the first start failed, and no error is returned")
	}
}

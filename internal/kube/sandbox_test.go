// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/state"
	"github.com/dovetail-sh/dovetail/internal/testwait"
)

// The tests of what is said to an API server run against a real one: the sandbox, with the chart's manifests applied and the
// controller's own identity. They are skipped where bin/dovetail-sandbox is not built or -short is given.
var sandbox struct {
	once sync.Once
	dir  string
	err  error
}

const sandboxBinary = "../../bin/dovetail-sandbox"

func TestMain(m *testing.M) {
	status := m.Run()
	if sandbox.dir != "" {
		if out, err := exec.Command(sandboxBinary, "--dir", sandbox.dir, "down").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "sandbox down: %v\n%s", err, out)
			status = 1
		}
		if err := os.RemoveAll(filepath.Dir(sandbox.dir)); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	os.Exit(status)
}

func startSandbox() error {
	tmp, err := os.MkdirTemp("", "dovetail-kube-")
	if err != nil {
		return err
	}
	sandbox.dir = filepath.Join(tmp, "sb")
	out, err := exec.Command(sandboxBinary, "--dir", sandbox.dir, "up", "--no-autoscaler", "--no-manifests").CombinedOutput()
	if err != nil {
		return fmt.Errorf("sandbox up: %w\n%s", err, out)
	}
	return kubectl(nil, "apply", "-f", "../../charts/dovetail/crds", "-f", "../../charts/dovetail/rights", "-f", "../../charts/dovetail/optional")
}

func kubectl(stdin []byte, args ...string) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), testwait.Scale(2*time.Minute), testwait.ErrLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, sandboxBinary, append([]string{"--dir", sandbox.dir, "kubectl"}, args...)...)
	cmd.Stdin = bytes.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl %v: %w\n%s", args, errors.Join(err, context.Cause(ctx)), out)
	}
	return nil
}

// plane is a test's way to the sandbox: once as the administrator, once as the controller.
type plane struct {
	ctx       context.Context
	admin, us *Client
	actor     *Actor
	table     *state.ResourceTable
}

func newPlane(t *testing.T) *plane {
	t.Helper()
	t.Parallel()
	if testing.Short() {
		t.Skip("needs the sandbox; -short was given")
	}
	if _, err := os.Stat(sandboxBinary); err != nil {
		t.Skip("needs the sandbox: build bin/dovetail-sandbox")
	}
	sandbox.once.Do(func() { sandbox.err = startSandbox() })
	if sandbox.err != nil {
		t.Fatal(sandbox.err)
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), testwait.Left(t, 3*time.Minute), testwait.ErrLimit) // clean-ups use it, too
	t.Cleanup(cancel)
	p := &plane{ctx: ctx, table: state.NewResourceTable()}
	for _, c := range []struct {
		file string
		into **Client
	}{{"kubeconfig", &p.admin}, {"dovetail.kubeconfig", &p.us}} {
		client, err := Connect(t.Context(), filepath.Join(sandbox.dir, c.file), 0, 0, "dovetail-test")
		if err != nil {
			t.Fatal(err)
		}
		*c.into = client
	}
	p.actor = NewActor(p.us, p.table, time.Now)
	return p
}

// writeCounter counts the requests that are no reads.
type writeCounter struct {
	http.RoundTripper
	atomic.Int64
}

func (c *writeCounter) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		c.Add(1)
	}
	return c.RoundTripper.RoundTrip(r)
}

// countWrites counts what the controller's identity writes from now on; to be called before anything is asked for with it.
func (p *plane) countWrites() *writeCounter {
	c := &writeCounter{RoundTripper: p.us.http.Transport}
	p.us.http.Transport = c
	return c
}

// world is a State that a Watch feeds, read by waiting for what it should become.
type world struct {
	t       *testing.T
	changes chan state.Change
	s       *state.State
}

func (p *plane) watch(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, changes: make(chan state.Change, 1024), s: state.New()}
	p.table = w.s.Resources()
	p.actor = NewActor(p.us, p.table, time.Now)
	ctx, cancel := context.WithCancel(p.ctx)
	t.Cleanup(cancel)
	synced, err := Watch(ctx, p.us, p.table, func(c state.Change) {
		select {
		case w.changes <- c:
		case <-ctx.Done():
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for {
		select {
		case c := <-w.changes:
			c(w.s)
		case <-synced:
			return w
		case <-p.ctx.Done():
			t.Fatal("the watch never came to the end of its first lists")
		}
	}
}

// until applies changes until the condition holds.
func (w *world) until(what string, ok func(*state.State) bool) {
	w.t.Helper()
	limit := time.After(testwait.Left(w.t, testwait.Limit))
	for !ok(w.s) {
		select {
		case c := <-w.changes:
			c(w.s)
		case <-limit:
			w.t.Fatalf("never seen: %s", what)
		}
	}
}

func writeFile(name, content string) error { return os.WriteFile(name, []byte(content), 0o600) }

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/kubetest"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/kube/watch"
	"github.com/dovetail-sh/dovetail/internal/kube/write"
	"github.com/dovetail-sh/dovetail/internal/state"
	"github.com/dovetail-sh/dovetail/internal/testwait"
)

func TestMain(m *testing.M) { os.Exit(kubetest.Main(m)) }

// plane is a test's way to the sandbox: once as the administrator, once as the controller.
type plane struct {
	ctx         context.Context
	admin, us   *client.Client
	actor       *write.Actor
	adminConfig *rest.Config
	writes      writeCounter // of us
	objects     *translate.Translator
}

func newPlane(t *testing.T) *plane {
	t.Helper()
	t.Parallel()
	dir := kubetest.Sandbox(t)
	ctx, cancel := context.WithTimeoutCause(context.Background(), testwait.Left(t, 3*time.Minute), testwait.ErrLimit) // clean-ups use it, too
	t.Cleanup(cancel)
	p := &plane{ctx: ctx}
	for _, c := range []struct {
		file string
		into **client.Client
	}{{"kubeconfig", &p.admin}, {"dovetail.kubeconfig", &p.us}} {
		config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, c.file))
		if err != nil {
			t.Fatal(err)
		}
		config.QPS, config.UserAgent = -1, "dovetail-test"
		if c.into == &p.us {
			config.Wrap(func(next http.RoundTripper) http.RoundTripper {
				p.writes.RoundTripper = next
				return &p.writes
			})
		} else {
			p.adminConfig = rest.CopyConfig(config)
		}
		client, err := client.New(t.Context(), config, client.ReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		*c.into = client
	}
	p.objects = &translate.Translator{Table: state.NewResourceTable(), Lookup: p.us.Seen.Lookup()}
	p.actor = write.NewActor(p.us, p.objects, time.Now)
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

// countWrites counts what the controller's identity writes from now on.
func (p *plane) countWrites() *writeCounter {
	p.writes.Store(0)
	return &p.writes
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
	p.objects.Table = w.s.Resources()
	ctx, cancel := context.WithCancel(p.ctx)
	t.Cleanup(cancel)
	synced, err := watch.Watch(ctx, p.us, p.objects, func(c state.Change) {
		select {
		case w.changes <- c:
		case <-ctx.Done():
		}
	}, nil)
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

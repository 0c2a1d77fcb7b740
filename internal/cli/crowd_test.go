// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/kwok"
	"github.com/dovetail-sh/dovetail/internal/controller"
	"github.com/dovetail-sh/dovetail/internal/controller/metrics"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// A thousand clients that ask for the metrics and read a byte a second, from connections that they never give up: the
// metrics are still answered whole, each time at the first try, no more connections than allowed stay open, and what
// is held for the slow ones is a few answers.
func TestSlowClients(t *testing.T) {
	const slow, series = 1000, 1500
	registry, traits := newRegistry(), (&kwok.Provider{}).Traits()
	ctl := controller.New(&controller.Controller{
		Provider: cloud.NewSetAside(shop{traits: traits}, cloud.Wall{}, setAsideFor), State: state.New(), Ledger: ledger.New(1),
		Metrics: metrics.New(registry, "test", traits), Log: slog.New(slog.DiscardHandler), Config: controller.DefaultConfig(), Policy: decide.DefaultPolicy(),
	})
	large := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "large", Help: "Fills an answer."}, []string{"name"})
	registry.MustRegister(large)
	for i := range series {
		large.WithLabelValues(fmt.Sprintf("%0100d", i)).Set(1)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open, most atomic.Int64
	server := newServer(metricsHandler(ctl, registry, false, false), mostConnections)
	noted := server.ConnState
	server.ConnState = func(c net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			most.Store(max(most.Load(), open.Add(1)))
		case http.StateClosed:
			open.Add(-1)
		}
		noted(c, s)
	}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	ask := func() string {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
		r, err := client.Get("http://" + l.Addr().String() + "/metrics")
		if err != nil {
			t.Fatalf("the metrics: %v", err)
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("the metrics: %s, %v after %d bytes", r.Status, err, len(b))
		}
		return string(b)
	}
	before := heap()
	done := make(chan struct{})
	defer close(done)
	for i := range slow {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.(*net.TCPConn).SetReadBuffer(1024)
		if _, err := io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			continue // it has made room for others already
		}
		go readSlowly(c, done)
		if i%200 == 199 {
			if n := strings.Count(ask(), "\nlarge{"); n != series {
				t.Fatalf("with %d slow clients: %d series, want %d", i+1, n, series)
			}
		}
	}
	after := heap()
	t.Logf("%d slow clients: at most %d connections open, the heap has grown by %d kB", slow, most.Load(), (after-before)>>10)
	if most.Load() > 2*mostConnections+1 { // as many are served as are told to leave, and one comes
		t.Errorf("%d connections were open, want at most %d", most.Load(), 2*mostConnections+1)
	}
	if grown := after - before; grown > 64<<20 {
		t.Errorf("the heap has grown by %d MB", grown>>20)
	}
}

// readSlowly reads a byte a second.
func readSlowly(c net.Conn, done chan struct{}) {
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for b := make([]byte, 1); ; {
		if _, err := c.Read(b); err != nil {
			return
		}
		select {
		case <-done:
			return
		case <-every.C:
		}
	}
}

// heap is how many bytes are in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Who makes room for a new connection: first those between two requests, then the one served longest; never the new.
func TestCrowdedServer(t *testing.T) {
	c := newCrowd(3)
	closed := map[string]bool{}
	conn := func(name string) net.Conn { return &namedConn{name: name, closed: closed} }
	a, b, d, e, f := conn("a"), conn("b"), conn("d"), conn("e"), conn("f")
	for _, x := range []net.Conn{a, b, d} {
		c.note(x, http.StateNew)
		c.note(x, http.StateActive)
	}
	c.note(d, http.StateIdle)
	for _, x := range []struct {
		comes net.Conn
		goes  string
	}{{e, "d"}, {f, "a"}} {
		c.note(x.comes, http.StateNew)
		if !closed[x.goes] || len(c.open) != 3 {
			t.Errorf("closed %v of %d, want %s to make room", closed, len(c.open), x.goes)
		}
	}
	c.note(b, http.StateClosed)
	if len(c.open) != 2 || closed["b"] {
		t.Errorf("one has gone, %d are open", len(c.open))
	}
}

type namedConn struct {
	net.Conn
	name   string
	closed map[string]bool
}

func (c *namedConn) Close() error {
	c.closed[c.name] = true
	return nil
}

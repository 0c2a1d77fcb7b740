// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// mostConnections is how many connections one address of the controller keeps open. Prometheus, the kubelet's probes
// and a few people need less; an answer that waits for its reader takes memory, some megabytes for the metrics of a
// large cluster.
const mostConnections = 64

// newServer returns a server that clients can't tie up: requests and headers are bounded, a connection is closed when
// its answer is not taken within two minutes, and at most so many connections are open. A further one takes the place
// of another, so that a thousand clients that read a byte a second keep nobody else from an answer.
func newServer(handler http.Handler, most int) *http.Server {
	c := newCrowd(most)
	return &http.Server{
		Handler: http.MaxBytesHandler(handler, 1<<20), ConnState: c.note, MaxHeaderBytes: 32 << 10,
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: 2 * time.Minute, IdleTimeout: 5 * time.Minute,
	}
}

// crowd bounds the open connections of a server, and the handlers at work.
type crowd struct {
	mu      sync.Mutex
	left    sync.Cond // a handler has returned
	most    int
	turn    int64 // counts what was noted
	open    map[net.Conn]presence
	leaving map[net.Conn]bool // closed here; their handlers have not returned yet
}

// presence is what one connection is at, and since which turn.
type presence struct {
	idle bool // between two requests
	turn int64
}

func newCrowd(most int) *crowd {
	c := &crowd{most: most, open: map[net.Conn]presence{}, leaving: map[net.Conn]bool{}}
	c.left.L = &c.mu
	return c
}

// note is http.Server.ConnState. The server calls it for a new connection before it accepts another. It makes room for
// that, and returns only when no more than as many handlers are at work for connections closed as may be open.
func (c *crowd) note(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if state == http.StateClosed || state == http.StateHijacked {
		delete(c.open, conn)
		delete(c.leaving, conn)
		c.left.Signal()
		return
	}
	if c.leaving[conn] {
		return
	}
	c.turn++
	c.open[conn] = presence{state == http.StateIdle, c.turn}
	if len(c.open) <= c.most {
		return
	}
	last := c.leaves(conn)
	delete(c.open, last)
	c.leaving[last] = true
	if under, ok := last.(interface{ NetConn() net.Conn }); ok {
		last = under.NetConn() // TLS would first say goodbye, to one that doesn't listen
	}
	_ = last.Close() // its handler is told by the failed write
	for len(c.leaving) > c.most {
		c.left.Wait()
	}
}

// leaves chooses who makes room for a new connection: the one longest idle; where none is, the one that has been served
// longest, since an honest request is answered within a second.
func (c *crowd) leaves(newest net.Conn) (out net.Conn) {
	var at presence
	for conn, p := range c.open {
		if conn != newest && (out == nil || p.idle && !at.idle || p.idle == at.idle && p.turn < at.turn) {
			out, at = conn, p
		}
	}
	return out
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package externalgrpc_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/dovetail-sh/dovetail/internal/cloud/externalgrpc"
	"github.com/dovetail-sh/dovetail/internal/cloud/externalgrpc/externalgrpctest"
	"github.com/dovetail-sh/dovetail/internal/cloud/externalgrpc/protocol"
)

// TestServerComesBack: calls succeed soon after a server is reachable again, whether its connections were refused for a long time or its host is lost, which
// ends no connection.
func TestServerComesBack(t *testing.T) {
	for name, x := range map[string]struct {
		down   time.Duration // how long connections are refused at first
		lost   time.Duration // after which a connection sends and receives nothing any more
		within time.Duration
	}{
		"refused": {down: 20 * time.Minute, within: 10 * time.Second},
		"lost":    {lost: 5 * time.Minute, within: 40 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				listener := bufconn.Listen(1 << 16)
				g := grpc.NewServer()
				protocol.RegisterCloudProviderServer(g, &externalgrpctest.Server{})
				go func() { _ = g.Serve(listener) }()
				defer g.Stop()
				dials := 0
				var dialed time.Time
				var longest time.Duration // between two dials
				conn, err := externalgrpc.Dial(&externalgrpc.Config{Address: "127.0.0.1:1"}, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
					if time.Since(began) < x.down {
						if !dialed.IsZero() {
							longest = max(longest, time.Since(dialed))
						}
						dialed = time.Now()
						return nil, errors.New("connection refused")
					}
					dials++
					c, err := listener.DialContext(ctx)
					if err != nil || x.lost == 0 || dials > 1 {
						return c, err
					}
					return newLosable(c, x.lost), nil
				}))
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				client := protocol.NewCloudProviderClient(conn)
				var failed time.Time // the last call that failed
				for time.Since(began) < 25*time.Minute {
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					if _, err := client.Refresh(ctx, &protocol.RefreshRequest{}); err != nil {
						failed = time.Now()
					}
					cancel()
					time.Sleep(2 * time.Second)
				}
				if took := failed.Sub(began.Add(x.down + x.lost)); failed.IsZero() || max(took, longest) > x.within {
					t.Errorf("calls fail %s after the server can be reached, and a dial is repeated after up to %s, want at most %s", took, longest, x.within)
				}
			})
		})
	}
}

// losable is a connection whose peer's host is lost after a time: nothing that is written reaches it, and nothing comes.
type losable struct {
	net.Conn
	lost   chan struct{}
	closed chan struct{}
}

func newLosable(c net.Conn, after time.Duration) *losable {
	l := &losable{c, make(chan struct{}), make(chan struct{})}
	time.AfterFunc(after, func() { close(l.lost) })
	return l
}

func (l *losable) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	select {
	case <-l.lost:
		<-l.closed
		return 0, net.ErrClosed
	default:
		return n, err
	}
}

func (l *losable) Write(b []byte) (int, error) {
	select {
	case <-l.lost:
		return len(b), nil
	default:
		return l.Conn.Write(b)
	}
}

func (l *losable) Close() error {
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	return l.Conn.Close()
}

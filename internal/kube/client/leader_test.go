// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package client

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"
)

// leases is an API server that has one lease, reached without a socket, so that virtual time passes in it. Once it is cut off it answers no more
// and closes no connection.
type leases struct {
	mu      sync.Mutex
	lease   coordinationv1.Lease
	renewed time.Time
	cut     bool
}

func (s *leases) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut {
		s.mu.Unlock()
		<-r.Context().Done()
		s.mu.Lock()
		return nil, context.Cause(r.Context())
	}
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: http.NoBody, Request: r}
	if r.Method != http.MethodGet {
		if err := json.NewDecoder(r.Body).Decode(&s.lease); err != nil {
			return nil, err
		}
		s.lease.APIVersion, s.lease.Kind, s.renewed = "coordination.k8s.io/v1", "Lease", time.Now()
	} else if s.lease.Name == "" {
		answer.StatusCode = http.StatusNotFound
		return answer, nil
	}
	text, err := json.Marshal(&s.lease)
	answer.Body = io.NopCloser(bytes.NewReader(text))
	return answer, err
}

// TestLeaderCutOff: whoever leads stops before the lease runs out where the API server answers no more and closes no connection, which is when
// another may take it.
func TestLeaderCutOff(t *testing.T) {
	for _, l := range []Lease{DefaultLease(), {Namespace: "kube-system", Name: "dovetail", Duration: 4 * time.Second, Renew: 3 * time.Second, Retry: 300 * time.Millisecond}} {
		l.Identity = "us"
		t.Run(l.Duration.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, led := &leases{}, false
				c := &Client{Address: "https://test", Log: slog.New(slog.DiscardHandler),
					config: &rest.Config{Host: "https://test", Transport: s, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}}
				err := Lead(t.Context(), c, l, func(held context.Context) {
					led = true
					time.Sleep(10 * l.Duration) // the lease is renewed meanwhile
					if held.Err() != nil {
						t.Error("the lease was lost while the API server answered")
					}
					s.mu.Lock()
					s.cut = true
					s.mu.Unlock()
					<-held.Done()
				})
				s.mu.Lock()
				defer s.mu.Unlock()
				if on := time.Since(s.renewed); err == nil || !led || on > l.Duration || on < l.Renew/2 {
					t.Errorf("led: %t, for %s after the last renewal, the lease lasts %s: %v", led, on, l.Duration, err)
				}
			})
		})
	}
}

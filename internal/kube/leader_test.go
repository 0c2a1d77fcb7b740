// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"
)

// TestLeaderCutOff: whoever leads stops before the lease runs out where the API server answers no more and closes no connection, which is when
// another may take it.
func TestLeaderCutOff(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var lease coordinationv1.Lease
	var renewed time.Time
	hang := make(chan struct{})
	release := sync.OnceFunc(func() { close(hang) })
	dead := false
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		cut := dead
		mu.Unlock()
		if cut {
			select {
			case <-hang:
			case <-r.Context().Done():
			}
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if r.Method != http.MethodGet {
			if err := json.NewDecoder(r.Body).Decode(&lease); err != nil {
				t.Error(err)
			}
			lease.APIVersion, lease.Kind, renewed = "coordination.k8s.io/v1", "Lease", time.Now()
		} else if lease.Name == "" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(&lease); err != nil {
			t.Error(err)
		}
	}))
	defer srv.Close()
	defer release()
	l := Lease{Namespace: "kube-system", Name: "dovetail", Identity: "us", Duration: 4 * time.Second, Renew: 3 * time.Second, Retry: 300 * time.Millisecond}
	c := &Client{Address: srv.URL, Log: slog.New(slog.DiscardHandler), config: &rest.Config{Host: srv.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}}
	err := Lead(t.Context(), c, l, func(held context.Context) {
		mu.Lock()
		dead = true
		mu.Unlock()
		select {
		case <-held.Done():
		case <-time.After(time.Minute):
		}
	})
	mu.Lock()
	defer mu.Unlock()
	if led := time.Since(renewed); err == nil || led > l.Duration {
		t.Errorf("led for %s after the last renewal, the lease lasts %s: %v", led.Round(time.Millisecond), l.Duration, err)
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/dovetail-sh/dovetail/internal/controller"
)

// serveController serves metrics, ledger, explanations and health on the addresses of the flags, in goroutines that end
// with the context. It returns when the addresses are bound; an error of a server goes to failed.
func serveController(ctx context.Context, f *controllerFlags, ctl *controller.Controller, registry *prometheus.Registry, failed chan<- error) error {
	for _, s := range []struct {
		flag, address string
		handler       http.Handler
	}{
		{"--metrics-address", f.metrics, metricsHandler(ctl, registry, f.profiling)},
		{"--health-address", f.health, healthHandler(ctl)},
	} {
		if s.address == "" {
			continue
		}
		l, err := net.Listen("tcp", s.address)
		if err != nil {
			return fmt.Errorf("listen on %s (%s): %w", s.address, s.flag, err)
		}
		server := newServer(s.handler, mostConnections)
		go func() {
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("serve %s: %w", s.address, err)
			}
		}()
		go func() {
			<-ctx.Done()
			_ = server.Close()
		}()
	}
	return nil
}

// metricsHandler serves /metrics, /ledger, /history, /why and, where asked for, profiles.
func metricsHandler(ctl *controller.Controller, registry *prometheus.Registry, profiling bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/ledger", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(ctl.Ledger.Entries(nil)); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	mux.HandleFunc("/history/", func(w http.ResponseWriter, r *http.Request) { serveHistory(ctl, w, r) })
	mux.HandleFunc("/pending", func(w http.ResponseWriter, r *http.Request) { servePending(ctl, w, r) })
	mux.HandleFunc("/shadow", func(w http.ResponseWriter, r *http.Request) { serveShadow(ctl, w, r) })
	mux.HandleFunc("/why/", func(w http.ResponseWriter, r *http.Request) { serveWhy(ctl, w, r) })
	if profiling {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// healthHandler serves /healthz, and /readyz, which is well once the loop has seen the cluster.
func healthHandler(ctl *controller.Controller) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ctl.IsReady() {
			http.Error(w, "the cluster is not known yet", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package replicas

import (
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/common/route"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/tsdb"
	apiv1 "github.com/prometheus/prometheus/web/api/v1"

	"github.com/dovetail-sh/dovetail/internal/forecast"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/prometheus"
	"github.com/dovetail-sh/dovetail/internal/testwait"
)

const (
	week  = 7 * 24 * 60                   // minutes
	first = int64(29_000_000/week) * week // a Thursday
	weeks = 4
)

// webReplicas are what Deployment web wants in a minute: 20, and 100 more from nine to ten each day.
func webReplicas(minute int64) int {
	if m := minute % (24 * 60); m >= 9*60 && m < 10*60 {
		return 120
	}
	return 20
}

// gone reports whether no server was scraped in a minute: half a day of the second week.
func gone(minute int64) bool {
	m := minute - first
	return m >= week && m < week+12*60
}

// serve serves Prometheus' API over a database with the series of kube-state-metrics: of a Deployment, scraped by two
// servers of which one misses many a minute, of a StatefulSet for a week, and of a ReplicaSet of another namespace.
func serve(t *testing.T) *httptest.Server {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	opts := tsdb.DefaultOptions()
	opts.RetentionDuration = int64(90 * 24 * time.Hour / time.Millisecond)
	db, err := tsdb.Open(t.TempDir(), log, nil, opts, nil)
	if err != nil {
		t.Fatal(err)
	}
	db.DisableCompactions()
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	web := func(instance string) labels.Labels {
		return labels.FromStrings("__name__", "kube_deployment_spec_replicas", "namespace", "shop", "deployment", "web", "instance", instance)
	}
	db1, db2 := web("a"), web("b")
	set := labels.FromStrings("__name__", "kube_statefulset_replicas", "namespace", "shop", "statefulset", "db")
	other := labels.FromStrings("__name__", "kube_replicaset_spec_replicas", "namespace", "other", "replicaset", "web")
	app := db.Appender(t.Context())
	add := func(l labels.Labels, minute int64, v float64) {
		if _, err := app.Append(0, l, minute*60_000, v); err != nil {
			t.Fatal(err)
		}
	}
	for m := first; m < first+weeks*week; m++ {
		switch {
		case gone(m) && !gone(m-1): // as a scrape that failed leaves it
			add(db1, m, math.Float64frombits(value.StaleNaN))
			add(db2, m, math.Float64frombits(value.StaleNaN))
		case !gone(m):
			add(db1, m, float64(webReplicas(m)))
			if m%3 != 0 || m%60 == 0 {
				add(db2, m, float64(webReplicas(m)))
			}
		}
		if m >= first+3*week {
			add(set, m, 5)
		}
		add(other, m, 7)
	}
	if err := app.Commit(); err != nil {
		t.Fatal(err)
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 50_000_000, Timeout: time.Minute})
	t.Cleanup(func() { _ = engine.Close() })
	api := apiv1.NewAPI(engine, db, nil, nil, nil, nil, nil, nil, func() config.Config { return config.Config{} }, nil, apiv1.GlobalURLOptions{},
		func(h http.HandlerFunc) http.HandlerFunc { return h }, nil, "", false, false, 0, log, nil, 0, 0, 0, false, nil,
		nil, nil, nil, nil, nil, nil, nil, false, nil, false, false, false, false, 5*time.Minute, false, false, nil, nil, apiv1.OpenAPIOptions{}, nil)
	router := route.New()
	api.Register(router.WithPrefix("/api/v1"))
	server := httptest.NewServer(router)
	t.Cleanup(server.Close)
	return server
}

// TestReplicas: a real server's answers are what was scraped, minute by minute; a forecast from them knows the spike of
// each day; what was not scraped, and who is not known, is unknown.
func TestReplicas(t *testing.T) {
	s, err := prometheus.Connect(serve(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	ctx := testwait.Context(t)
	ask := func(kind, namespace, name string, from, to int64) []int {
		t.Helper()
		got, err := s.Replicas(ctx, model.Workload{Kind: kind, Namespace: namespace, Name: name}, from, to)
		if err != nil || int64(len(got)) != to-from+1 {
			t.Fatalf("%s: %d minutes, %v", name, len(got), err)
		}
		return got
	}
	h := forecast.New()
	for part := range int64(weeks) {
		from := first + part*week
		for i, n := range ask("Deployment", "shop", "web", from, from+week-1) {
			m := from + int64(i)
			want := webReplicas(m)
			if gone(m) {
				want = -1
			}
			if n != want {
				t.Fatalf("minute %d of week %d: %d replicas, want %d", i, part+1, n, want)
			}
			if n >= 0 {
				if err := h.Observe(m, n); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for i := range int64(9*60 - 2) { // until two minutes before the next day's spike
		if err := h.Observe(first+weeks*week+i, 20); err != nil {
			t.Fatal(err)
		}
	}
	last, _, _ := h.Last()
	if f := h.Forecast(last, 3, 0.95, nil); f.Rise != 100 {
		t.Errorf("before the spike the forecast is %+v", f)
	}
	for i, n := range ask("StatefulSet", "shop", "db", first+5*week/2, first+7*week/2-1) {
		if want := map[bool]int{true: 5, false: -1}[int64(i) >= week/2]; n != want {
			t.Fatalf("StatefulSet: minute %d has %d replicas, want %d", i, n, want)
		}
	}
	if got := ask("ReplicaSet", "other", "web", first, first); got[0] != 7 {
		t.Errorf("ReplicaSet: %v", got)
	}
	for _, nobody := range [][3]string{{"Deployment", "other", "web"}, {"Deployment", "shop", `we"b\`}, {"StatefulSet", "shop", ".*"}} {
		if got := ask(nobody[0], nobody[1], nobody[2], first, first); got[0] != -1 {
			t.Errorf("%v: %v", nobody, got)
		}
	}
}

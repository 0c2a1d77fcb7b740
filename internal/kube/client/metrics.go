// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package client

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/metrics"
)

// RegisterMetrics has every call to an API server counted, by the names and labels that Karpenter's have. client-go
// keeps these counters for the process, so only the first call of it does anything.
func RegisterMetrics(r prometheus.Registerer) {
	m := requestMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "client_go_request_total", Help: "Calls to API servers."}, []string{"code", "method"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "client_go_request_duration_seconds", Help: "Duration of calls to API servers; for a watch, until it is established.",
			Buckets: prometheus.ExponentialBuckets(.001, 1.5, 20)}, []string{"verb", "group", "version", "kind", "subresource"}),
	}
	r.MustRegister(m.requests, m.latency)
	metrics.Register(metrics.RegisterOpts{RequestLatency: m, RequestResult: m})
}

type requestMetrics struct {
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
}

// Increment implements metrics.ResultMetric.
func (m requestMetrics) Increment(_ context.Context, code, method, _ string) {
	m.requests.WithLabelValues(code, method).Inc()
}

// Observe implements metrics.LatencyMetric. client-go gives names and namespaces in the path as {name} and {namespace}.
func (m requestMetrics) Observe(_ context.Context, method string, u url.URL, took time.Duration) {
	if c, ok := describeCall(method, u.Path); ok {
		m.latency.WithLabelValues(c.verb, c.group, c.version, c.kind, c.subresource).Observe(took.Seconds())
	}
}

// apiCall is what a call to an API server is about.
type apiCall struct{ verb, group, version, kind, subresource string }

// describeCall reads a method and a path such as /apis/GROUP/VERSION/namespaces/{namespace}/KIND/{name}/SUBRESOURCE; false:
// the path is of no kind.
func describeCall(method, path string) (c apiCall, ok bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		c.version, parts = parts[1], parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		c.group, c.version, parts = parts[1], parts[2], parts[3:]
	default:
		return c, false
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	c.kind = parts[0]
	named := len(parts) > 1
	if len(parts) > 2 {
		c.subresource = parts[2]
	}
	switch c.verb = method; {
	case method == "POST", method == "PUT" && !named:
		c.verb = "CREATE"
	case method == "PUT":
		c.verb = "UPDATE"
	case method == "GET" && !named:
		c.verb = "LIST"
	}
	return c, true
}

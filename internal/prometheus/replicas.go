// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package prometheus

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	prommodel "github.com/prometheus/common/model"

	"github.com/dovetail-sh/dovetail/internal/model"
)

const (
	// mostAnswerBytes is more than an answer of a week in minutes takes.
	mostAnswerBytes = 8 << 20
	// mostSteps is how many points of a series Prometheus returns at once.
	mostSteps = 11_000
)

// Server is a Prometheus server.
type Server struct{ api promv1.API }

// Connect returns the server at a URL, such as http://prometheus.monitoring:9090, optionally with a path prefix. It makes no call.
// It returns an error if the URL is invalid.
func Connect(address string) (*Server, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("%q is not a URL: %w", address, err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q is not an http or https URL with a host; use for example http://prometheus.monitoring:9090", u.Redacted())
	}
	client, err := api.NewClient(api.Config{Address: address, RoundTripper: bounded{api.DefaultRoundTripper}})
	if err != nil {
		return nil, fmt.Errorf("%q: %w", u.Redacted(), err)
	}
	return &Server{api: promv1.NewAPI(client)}, nil
}

// bounded ends answers that are too large.
type bounded struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		res.Body = http.MaxBytesReader(nil, res.Body, mostAnswerBytes)
	}
	return res, err
}

// Replicas returns the desired replicas of a workload for each minute from first to last, inclusive, in minutes since
// the Unix epoch. A value is -1 if unknown, for example for kinds that kube-state-metrics does not count. If several
// servers report a minute, the highest value is used. It returns an error if the query fails or covers too many
// minutes.
func (s *Server) Replicas(ctx context.Context, w model.Workload, first, last int64) ([]int, error) {
	if last < first || last-first >= mostSteps {
		return nil, fmt.Errorf("ask Prometheus for the replicas of %s: %d minutes, want 1 to %d", w, last-first+1, mostSteps)
	}
	out := make([]int, last-first+1)
	for i := range out {
		out[i] = -1
	}
	query, ok := replicasQuery(w)
	if !ok {
		return out, nil
	}
	at := func(minute int64) time.Time { return time.Unix(60*minute, 0) }
	// Warnings say that a part of the answer may be missing: its minutes are unknown then.
	value, _, _, err := s.api.QueryRange(ctx, query, promv1.Range{Start: at(first), End: at(last), Step: time.Minute})
	if err != nil {
		return nil, fmt.Errorf("ask Prometheus for the replicas of %s: %w", w, shorten(err))
	}
	if value == nil {
		return nil, fmt.Errorf("ask Prometheus for the replicas of %s: the answer has no data", w)
	}
	matrix, ok := value.(prommodel.Matrix)
	if !ok {
		return nil, fmt.Errorf("ask Prometheus for the replicas of %s: the answer is a %s, want a matrix", w, value.Type())
	}
	for _, series := range matrix {
		for _, x := range series.Values {
			i := x.Timestamp.Unix()/60 - first
			if n := float64(x.Value); i >= 0 && i < int64(len(out)) && n >= 0 && n <= math.MaxInt32 {
				out[i] = max(out[i], int(n))
			}
		}
	}
	return out, nil
}

// replicasQuery returns the query for the replicas that a workload wants; ok is false for a kind that is not counted.
func replicasQuery(w model.Workload) (query string, ok bool) {
	var metric, label string
	switch w.Kind {
	case "Deployment":
		metric, label = "kube_deployment_spec_replicas", "deployment"
	case "StatefulSet":
		metric, label = "kube_statefulset_replicas", "statefulset"
	case "ReplicaSet":
		metric, label = "kube_replicaset_spec_replicas", "replicaset"
	default:
		return "", false
	}
	return fmt.Sprintf("max(%s{namespace=%s,%s=%s})", metric, strconv.Quote(w.Namespace), label, strconv.Quote(w.Name)), true
}

// mostErrorText is how much is told of an error: a server's own page can be long.
const mostErrorText = 300

// shorten cuts the text of an error that has a server's page in it.
func shorten(err error) error {
	if e := (*promv1.Error)(nil); errors.As(err, &e) && len(e.Error()) > mostErrorText {
		return errors.New(e.Error()[:mostErrorText] + "…")
	}
	return err
}

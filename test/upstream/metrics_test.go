// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/dovetail-sh/dovetail/internal/testwait"
	"github.com/dovetail-sh/dovetail/test/e2e/metricseries"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
	"github.com/dovetail-sh/dovetail/test/e2e/scaledown"
)

// compared are the prefixes of the metrics that Karpenter's users look at.
var compared = []string{"karpenter_", "operator_", "controller_runtime_", "workqueue_", "client_go_"}

// leftOut are families of Karpenter's controller that Dovetail doesn't serve, and why.
var leftOut = map[string]string{
	"controller_runtime_webhook_panics_total":            "neither has webhooks; it is controller-runtime's own",
	"controller_runtime_conversion_webhook_panics_total": "neither has webhooks; it is controller-runtime's own",
}

// enumerations are labels whose values dashboards and alerts name: what Karpenter shows in a family is shown there by
// Dovetail too, and Dovetail shows no value in any family of Karpenter's that Karpenter doesn't know.
var enumerations = []string{"reason", "decision", "resource_type", "min_values_relaxed", "managed", "phase", "scheduled", "ready", "capacity_type", "policy"}

// byChance are families that a scrape may miss, and the test that shows them.
var byChance = map[string]string{
	"karpenter_pods_provisioning_scheduling_undecided_time_seconds": "a pod is decided on within a third of a second; TestPodTimes",
	"karpenter_scheduler_unfinished_work_seconds":                   "a decision takes milliseconds",
}

// knownUnseen are values that either has, and that a scrape may miss or Karpenter's run here can't show.
var knownUnseen = map[string]string{
	"reason=spot_interrupted": "Karpenter's KWOK controller is told of no interruptions",
	"phase=Pending":           "pods are Pending for a moment",
	"scheduled=false":         "for that moment",
	"ready=false":             "for that moment",
	"managed=false":           "Karpenter shows a node for a moment before it knows whose it is",
	"phase=":                  "kwok sets the phase of a node a moment after it is there",
}

// The metrics of Dovetail and of Karpenter's own controller, after the same series of events on the same instance types: each
// family that Karpenter shows is there with the same type, labels, buckets and quantiles, and says the same of the nodes that
// are left.
func TestMetrics(t *testing.T) {
	ctx := testwait.ContextFor(t, 10*time.Minute)
	t.Chdir(filepath.Join("..", "..")) // binaries are found from the repository's root
	dir := t.TempDir()
	controller := karpenterBinary(t)
	var ours, theirs families
	var both sync.WaitGroup
	both.Go(func() { ours = scrapeSeries(ctx, t, dovetail, controller, filepath.Join(dir, dovetail)) })
	both.Go(func() { theirs = scrapeSeries(ctx, t, karpenter, controller, filepath.Join(dir, karpenter)) })
	both.Wait()
	if t.Failed() {
		return
	}
	vocabulary := map[string]map[string]bool{} // by label: all values that Karpenter shows in any family
	for _, f := range theirs {
		for label, values := range f.values {
			if vocabulary[label] == nil {
				vocabulary[label] = map[string]bool{}
			}
			maps.Copy(vocabulary[label], values)
		}
	}
	checked := 0
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		is := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		if !slices.ContainsFunc(compared, is) {
			continue
		}
		want, have := theirs[name], ours[name]
		if leftOut[name] != "" {
			if have != nil {
				t.Errorf("%s is said to be left out, and is there", name)
			}
			continue
		}
		if have == nil && byChance[name] != "" {
			continue
		}
		checked++
		if have == nil {
			t.Errorf("%s: a %s with labels %v is not there", name, want.kind, want.labels())
			continue
		}
		want.compare(t, name, have)
		if is("karpenter_") {
			want.compareValues(t, name, have, vocabulary)
		}
	}
	if checked < 80 {
		t.Errorf("Karpenter shows %d families, so little was compared", checked)
	}
	for _, name := range []string{"total_pod_requests", "total_pod_limits", "total_daemon_requests", "total_daemon_limits"} {
		name = "karpenter_nodes_" + name
		if want, have := theirs[name].last, ours[name].last; want["cpu"] == 0 || !maps.EqualFunc(want, have, func(a, b float64) bool { return math.Abs(a-b) < 1e-6 }) {
			t.Errorf("%s at the end: %v, want %v", name, have, want)
		}
	}
	t.Logf("%d families compared", checked)
}

// scrapeSeries runs the series with one of the autoscalers on a sandbox of its own.
func scrapeSeries(ctx context.Context, t *testing.T, autoscaler, controller, dir string) families {
	scrapes, err := runSeries(ctx, t, autoscaler, controller, dir)
	if err != nil {
		t.Errorf("%s: %v", autoscaler, err)
		return nil
	}
	out := families{}
	for i, s := range scrapes {
		if err := out.add(s.Text, i == len(scrapes)-1); err != nil {
			t.Errorf("%s: %v", autoscaler, err)
			return nil
		}
	}
	return out
}

func runSeries(ctx context.Context, t *testing.T, autoscaler, controller, dir string) ([]metricseries.Scrape, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	catalog, err := scaledown.WriteCatalogue(dir)
	if err != nil {
		return nil, err
	}
	flags := []string{"--boot", "2s", "--catalog", catalog} // long enough for a scrape to see pods wait; Karpenter's nodes know no boot
	if autoscaler == karpenter {
		flags = append(flags, "--no-autoscaler")
	}
	s, err := sandbox.Up(ctx, filepath.Join(dir, "sandbox"), flags...)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := s.Down(); err != nil {
			t.Error(err)
		}
	}()
	o := metricseries.Options{Log: func(format string, args ...any) { t.Logf(autoscaler+": "+format, args...) }}
	if autoscaler == karpenter {
		stop, url, err := s.StartMeasuredKarpenter(controller, catalog, filepath.Join(dir, "karpenter.log"))
		if err != nil {
			return nil, err
		}
		defer stop()
		o.Metrics = url
	} else {
		all, err := s.Components(sandbox.Controller)
		if err != nil {
			return nil, err
		}
		o.Metrics, o.Interrupt = fmt.Sprintf("http://127.0.0.1:%d/metrics", all[0].Ports["metrics"]), true
	}
	return metricseries.Run(ctx, s, o)
}

// families are what was seen of each metric in any scrape.
type families map[string]*family

type family struct {
	kind      dto.MetricType
	values    map[string]map[string]bool // by label
	bounds    map[float64]bool           // of buckets
	quantiles map[float64]bool
	last      map[string]float64 // in the last scrape: sums of a gauge by label resource_type
}

func (all families) add(text []byte, last bool) error {
	p := expfmt.NewTextParser(model.UTF8Validation)
	list, err := p.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("read the scrape: %w", err)
	}
	for name, f := range list {
		x := all[name]
		if x == nil {
			x = &family{kind: f.GetType(), values: map[string]map[string]bool{}, bounds: map[float64]bool{}, quantiles: map[float64]bool{}, last: map[string]float64{}}
			all[name] = x
		}
		for _, m := range f.GetMetric() {
			resource := ""
			for _, l := range m.GetLabel() {
				if x.values[l.GetName()] == nil {
					x.values[l.GetName()] = map[string]bool{}
				}
				x.values[l.GetName()][l.GetValue()] = true
				if l.GetName() == "resource_type" {
					resource = l.GetValue()
				}
			}
			for _, b := range m.GetHistogram().GetBucket() {
				x.bounds[b.GetUpperBound()] = true
			}
			for _, q := range m.GetSummary().GetQuantile() {
				x.quantiles[q.GetQuantile()] = true
			}
			if last && m.GetGauge().GetValue() != 0 {
				x.last[resource] += m.GetGauge().GetValue()
			}
		}
	}
	return nil
}

func (f *family) labels() []string { return slices.Sorted(maps.Keys(f.values)) }

// compare holds a family of Dovetail against Karpenter's.
func (f *family) compare(t *testing.T, name string, have *family) {
	if have.kind != f.kind {
		t.Errorf("%s is a %s, want a %s", name, have.kind, f.kind)
	}
	want := f.labels()
	if !slices.Equal(have.labels(), want) {
		t.Errorf("%s has labels %v, want %v", name, have.labels(), want)
	}
	for b := range f.bounds {
		if !have.bounds[b] {
			t.Errorf("%s has no bucket up to %g", name, b)
		}
	}
	if !maps.Equal(have.quantiles, f.quantiles) {
		t.Errorf("%s has quantiles %v, want %v", name, have.quantiles, f.quantiles)
	}
}

// compareValues holds the values of its enumerations against Karpenter's.
func (f *family) compareValues(t *testing.T, name string, have *family, vocabulary map[string]map[string]bool) {
	for _, label := range enumerations {
		for v := range f.values[label] {
			if !have.values[label][v] && knownUnseen[label+"="+v] == "" {
				t.Errorf("%s never has %s=%q, Karpenter's has", name, label, v)
			}
		}
		for v := range have.values[label] {
			if f.values[label] != nil && !vocabulary[label][v] && knownUnseen[label+"="+v] == "" {
				t.Errorf("%s has %s=%q, which Karpenter doesn't know", name, label, v)
			}
		}
	}
}

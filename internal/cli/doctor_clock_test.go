// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/doctor"
	"github.com/dovetail-sh/dovetail/internal/kube/manifests"
	"github.com/dovetail-sh/dovetail/internal/record"
	"github.com/dovetail-sh/dovetail/internal/report"
)

// A machine whose clock is an hour ahead does not take a node that boots for one that has failed to: ages are by the cluster's clock.
func TestDoctorClock(t *testing.T) {
	cat, err := catalog.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	const skew = time.Hour
	made := time.Now().Add(-skew - 30*time.Second).UTC().Format(time.RFC3339) // half a minute ago
	node := `{"apiVersion":"v1","kind":"Node","metadata":{"name":"boots","creationTimestamp":"` + made + `","labels":{"node.kubernetes.io/instance-type":"m5.large"}},
		"status":{"conditions":[{"type":"Ready","status":"False","reason":"KubeletNotReady","message":"the network is not up","lastTransitionTime":"` + made + `"}]}}`
	examine := func(skew time.Duration) *doctor.Report {
		m := manifests.New()
		if err := m.Read("node", []byte(node)); err != nil {
			t.Fatal(err)
		}
		in := &doctor.Input{Policy: decide.DefaultPolicy()}
		takeIn(m, cat, nil, in, &report.Doctor{}, time.Now().Add(-skew), true)
		return doctor.Examine(*in)
	}
	finds := func(r *doctor.Report) bool {
		for _, f := range r.Findings {
			if f.Code == doctor.NodeNotReady {
				return true
			}
		}
		return false
	}
	if !finds(examine(0)) {
		t.Error("a node that is not Ready for an hour is not found: the test shows nothing")
	}
	right := examine(skew)
	if finds(right) {
		t.Error("a node of half a minute is taken for one of an hour")
	}
	var b bytes.Buffer
	d := &report.Doctor{Report: right, Cluster: "test", ClockSkew: skew}
	d.Complete()
	if err := report.DoctorText(&b, d); err != nil {
		t.Fatal(err)
	}
	if want := "This machine's clock is 1h0m0s ahead of the API server's"; !strings.Contains(b.String(), want) {
		t.Errorf("it does not say %q:\n%s", want, b.String())
	}
}

// TestDoctorClockOfRecording: a node that was booting when a recording ended is not taken for one that has failed to since.
func TestDoctorClockOfRecording(t *testing.T) {
	end := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	for _, age := range []time.Duration{30 * time.Second, time.Hour} {
		made := end.Add(-age).Format(time.RFC3339)
		path := filepath.Join(t.TempDir(), "boots.zst")
		w, _, err := record.Open(record.Config{Path: path, Now: func() time.Time { return end }})
		if err != nil {
			t.Fatal(err)
		}
		w.Set("v1", "Node", "boots", map[string]any{"metadata": map[string]any{"name": "boots", "creationTimestamp": made, "labels": map[string]any{"node.kubernetes.io/instance-type": "m5.large"}},
			"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "False", "reason": "KubeletNotReady", "lastTransitionTime": made}}}})
		if err := errors.Join(w.Synced(), w.Close()); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		Main(context.Background(), []string{"doctor", "-f", path, "-o", "json"}, strings.NewReader(""), &out, &errs)
		if found, want := strings.Contains(out.String(), string(doctor.NodeNotReady)), age == time.Hour; found != want {
			t.Errorf("a node of %s: NodeNotReady %t, want %t\n%s%s", age, found, want, &out, &errs)
		}
	}
}

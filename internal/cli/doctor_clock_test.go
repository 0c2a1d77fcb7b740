// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/doctor"
	"github.com/dovetail-sh/dovetail/internal/kube/manifests"
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
		takeIn(m, cat, in, time.Now().Add(-skew), true)
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

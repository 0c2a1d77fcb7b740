// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/plan"
)

// A pod whose node cannot come on is not said to wait for kube-scheduler.
func TestCauseOfFindingAboutItsNode(t *testing.T) {
	refused := plan.Finding{Of: plan.Registering, Reason: plan.Reason{Code: plan.CallFailed, Subject: "node/a", Detail: plan.OfCallFailed{Call: "patch", Times: 5, FirstTried: time.Unix(0, 0), Said: "the node team says no"}}}
	for _, c := range []struct {
		name     string
		findings []plan.Finding
		want     string
	}{
		{"none", nil, "waiting for kube-scheduler"},
		{"of its node", []plan.Finding{refused}, Sentence(refused.Reason)},
		{"of its node, and its own", []plan.Finding{refused, {Of: plan.Demand, Reason: plan.Reason{Code: plan.NoPools}}}, Sentence(plan.Reason{Code: plan.NoPools})},
	} {
		if got := CauseOf(&plan.Answer{Findings: c.findings}).Cause; got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

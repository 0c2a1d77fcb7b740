// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// A pod that has completed or failed, or that waits for its finalizer, is told as what it is.
func TestWhyEnded(t *testing.T) {
	now := time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name       string
		pod        model.Pod
		state      string
		step       plan.Code
		finalizers string // what it waits for
	}{
		{"completed", model.Pod{Node: "n", Terminal: true}, "succeeded: it no longer uses capacity of a node", plan.Ended, ""},
		{"failed", model.Pod{Node: "n", Terminal: true, Failed: true}, "failed: it no longer uses capacity of a node", plan.Ended, ""},
		{"completed, waits for its finalizers", model.Pod{Node: "n", Terminal: true, Deleting: now, Finalizers: []string{"a.io/x", "b.io/y"}},
			"succeeded: it no longer uses capacity of a node", plan.PodTerminating, "a.io/x b.io/y"},
		{"deleted before it had a node, waits for its finalizer", model.Pod{Deleting: now, Finalizers: []string{"a.io/x"}}, "pending", plan.PodTerminating, "a.io/x"},
		{"is being deleted", model.Pod{Deleting: now}, "pending", plan.PodTerminating, ""},
		{"ends with its namespace", model.Pod{Deleting: now, EndsWithNamespace: true}, "pending", plan.PodTerminating, ""},
	} {
		c.pod.Namespace, c.pod.Name = "shop", "web"
		a := WhyEnded(&c.pod, now)
		facts := map[string]string{}
		for _, f := range a.Facts {
			facts[f.Name] = f.Value
		}
		if a.Subject != "pod/shop/web" || facts["state"] != c.state || facts["ran on"] != c.pod.Node || a.Step == nil || a.Step.Of != c.step {
			t.Errorf("%s: subject %s, facts %v, step %+v; want state %q and step %s", c.name, a.Subject, facts, a.Step, c.state, c.step)
		}
		if running := !c.pod.Terminal && !c.pod.Deleting.IsZero(); a.Step.Since.IsZero() == running {
			t.Errorf("%s: the grace period ends at %s", c.name, a.Step.Since)
		}
		if said := "shop is being deleted, and its pods with it"; (facts["namespace"] == said) != c.pod.EndsWithNamespace {
			t.Errorf("%s: facts %v", c.name, facts)
		}
		held := ""
		for _, f := range a.Findings {
			if f.Reason.Code == plan.ForeignHold && f.Reason.Subject == "pod/shop/web" {
				held = string(plan.DetailOf[plan.OfHolders](f.Reason).Names)
			}
		}
		if held != c.finalizers || len(a.Findings) > 0 != (c.finalizers != "") {
			t.Errorf("%s: it waits for %q with findings %+v; want finalizers %q", c.name, held, a.Findings, c.finalizers)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/plan"
)

// TestPodsAreGrouped holds what is the same for many pods to one line, with the change once.
func TestPodsAreGrouped(t *testing.T) {
	a := Why{Answer: plan.Answer{Subject: "node/n"}}
	for i := range 18 {
		pod := fmt.Sprintf("pod/shop/web-%d", i)
		a.Findings = append(a.Findings, plan.Finding{Of: plan.Draining, Reason: plan.Reason{Code: plan.DisruptionBudgetPDB, Subject: plan.Object(pod), Detail: plan.OfPDB{Name: "shop/web"}},
			Change: &plan.Change{Object: "poddisruptionbudget/shop/web", Field: "spec.maxUnavailable", Op: plan.Set, Value: "1"}})
		if i < 2 {
			a.Findings = append(a.Findings, plan.Finding{Of: plan.Draining, Reason: plan.Reason{Code: plan.PodDoNotDisrupt, Subject: plan.Object(pod), Detail: plan.OfPodHeld{Annotation: "k", Value: "true"}},
				Change: &plan.Change{Object: pod, Field: "metadata.annotations[k]", Op: plan.Remove}})
		}
	}
	var b bytes.Buffer
	if err := WhyText(&b, &a); err != nil {
		t.Fatal(err)
	}
	const want = `
What its drain is waiting for
  - 18 pods: PodDisruptionBudget shop/web allows no disruption of any of them now
    change: poddisruptionbudget/shop/web spec.maxUnavailable: 1
  - 2 pods: each is annotated k=true
    change: each pod metadata.annotations[k]: remove
`
	if !strings.HasSuffix(b.String(), want) {
		t.Errorf("is\n%s\nwant at its end\n%s", &b, want)
	}
	if a.Findings[0].Reason.Subject != "pod/shop/web-0" {
		t.Error("the text changed the answer")
	}
}

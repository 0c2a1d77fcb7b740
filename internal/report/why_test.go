// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-sh/dovetail/internal/doctor"
	"github.com/dovetail-sh/dovetail/internal/ledger"
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

// TestRefusalsAreOneRow: the pods of a Deployment that are refused in one step for one reason are one row, and push nothing else out; those of a
// later minute or for another reason are another.
func TestRefusalsAreOneRow(t *testing.T) {
	at := time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)
	a := Why{Answer: plan.Answer{Subject: "deployment/shop/web", At: at}, Decided: []ledger.Entry{
		{At: at, Kind: "create", Subject: "nodeclaim/first", Why: []plan.Reason{{Code: plan.Demand}}}}}
	refuse := func(after time.Duration, pod int, code plan.Code) {
		a.Decided = append(a.Decided, ledger.Entry{At: at.Add(after), Kind: ledger.Refuse, Subject: fmt.Sprintf("pod/shop/web-%d", pod), Why: []plan.Reason{{Code: code}}})
	}
	for i := range 18 {
		refuse(time.Second, i, plan.NoPools)
	}
	refuse(2*time.Second, 20, plan.LandingOff)
	refuse(2*time.Minute, 21, plan.NoPools)
	refuse(3*time.Minute, 21, plan.NoPools)
	var b bytes.Buffer
	if err := WhyText(&b, &a); err != nil {
		t.Fatal(err)
	}
	no := Sentence(plan.Reason{Code: plan.NoPools})
	want := `
Past decisions
  2026-03-01T03:00:00Z launched nodeclaim/first: pods need it
  2026-03-01T03:00:01Z refused pod/shop/web-0 and 17 more: ` + no + `
  2026-03-01T03:00:02Z refused pod/shop/web-20: ` + Sentence(plan.Reason{Code: plan.LandingOff}) + `
  2026-03-01T03:02:00Z refused pod/shop/web-21: ` + no + `
  2026-03-01T03:03:00Z refused pod/shop/web-21: ` + no + `
`
	if !strings.HasSuffix(b.String(), want) {
		t.Errorf("is\n%s\nwant at its end\n%s", &b, want)
	}
}

// TestTerminatingText: a pod that runs ends with its grace period, one that has ended is told without.
func TestTerminatingText(t *testing.T) {
	at := time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)
	for since, want := range map[time.Time]string{
		at.Add(time.Minute):  "Nothing blocks it: it is terminating; its grace period ends at 2026-03-01T03:01:00Z.",
		at.Add(-time.Minute): "Nothing blocks it: it is terminating; its grace period ended at 2026-03-01T02:59:00Z.",
		{}:                   "Nothing blocks it: it is terminating.",
	} {
		if got := underWay(&Why{Answer: plan.Answer{Subject: "pod/shop/web", At: at, Step: &plan.Step{Of: plan.PodTerminating, Since: since}}}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A change that makes nodes drift says how many and how many pods that evicts, in why, why pods and the commands of doctor.
func TestChangeTellsDrift(t *testing.T) {
	const want = "causes drift of 3 nodes and evicts 1 pod"
	c := plan.Change{Object: "nodepool/p", Field: "spec.template.metadata.labels[disk]", Op: plan.Set, Value: "nvme", Drifts: 3, Evicts: 1}
	w := plan.Way{Of: plan.Demand, Changes: []plan.Change{c}, Then: plan.Alternative{Kind: plan.Fit, On: "node/n"}}
	commands := (&Doctor{}).Commands(&doctor.Finding{Changes: w.Changes})
	for _, text := range []string{way("pod/n/r", &w), CauseOf(&plan.Answer{Ways: []plan.Way{w}}).Change, commands[0]} {
		if !strings.Contains(text, want) {
			t.Errorf("%q does not say %q", text, want)
		}
	}
}

// Findings of one cause stand below one heading, whatever lies between them.
func TestOneHeadingPerCause(t *testing.T) {
	a := plan.Answer{Subject: "nodepool/p"}
	for _, of := range []plan.Code{plan.Empty, plan.Underutilized, plan.Drifted, plan.Underutilized, plan.Empty} {
		a.Findings = append(a.Findings, plan.Finding{Of: of, Reason: plan.Reason{Code: plan.NoPools, Subject: plan.Object("node/" + of)}})
	}
	var b bytes.Buffer
	if err := WhyText(&b, &Why{Answer: a}); err != nil {
		t.Fatal(err)
	}
	for _, of := range []plan.Code{plan.Empty, plan.Underutilized, plan.Drifted} {
		if n := strings.Count(b.String(), heading(a.Subject, of)); n != 1 {
			t.Errorf("%q is there %d times in\n%s", heading(a.Subject, of), n, b.String())
		}
	}
}

// An answer says whose node would be replaced or removed: "it" is what the answer is about.
func TestAlternativeNamesTheNode(t *testing.T) {
	leave := plan.Alternative{Kind: plan.Leave, Of: plan.Underutilized, Pods: 2, NowMicro: 100_000}
	replace := leave
	replace.Kind, replace.Machines = plan.Replace, []plan.Machine{{Pool: "p", Type: "a", Zone: "z", CapacityType: "spot", PriceMicro: 50_000, Count: 1}}
	nowhere := plan.Alternative{Kind: plan.Replace}
	for subject, want := range map[string][3]string{
		"node/n": {"remove it;", "replace it with 1 ×", "its pods can't"}, "nodeclaim/c": {"remove its node;", "replace its node with 1 ×", "the pods of its node can't"},
		"pod/shop/web": {"remove its node;", "replace its node with 1 ×", "the pods of its node can't"}, "nodepool/p": {"remove its nodes;", "replace its nodes with 1 ×", "its pods can't"},
	} {
		for i, alt := range []plan.Alternative{leave, replace, nowhere} {
			if got := alternative(subject, &alt); !strings.HasPrefix(got, want[i]) {
				t.Errorf("%s: %q, want %q", subject, got, want[i])
			}
		}
	}
}

// A way that launches several nodes says what all of them cost.
func TestWayTellsTheWholePrice(t *testing.T) {
	m := func(name string, micro int64, count int) plan.Machine {
		return plan.Machine{Pool: "p", Type: name, Zone: "z", CapacityType: "on-demand", PriceMicro: micro, Count: count}
	}
	for want, machines := range map[string][]plan.Machine{
		"launch 1 × a in z (on-demand) of NodePool p for $0.153/h":                                                                             {m("a", 153_000, 1)},
		"launch 1 × a in z (on-demand) of NodePool p for $0.153/h, 2 × b in z (on-demand) of NodePool p for $0.0765/h each, $0.306/h in total": {m("a", 153_000, 1), m("b", 76_500, 2)},
	} {
		alt := plan.Alternative{Kind: plan.Buy, Machines: machines}
		for _, x := range machines {
			alt.NewMicro += int64(x.Count) * x.PriceMicro
		}
		if got := alternative("pod/n/r", &alt); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A change after which a pod still waits for what people can't change, such as capacity, is not told.
func TestNoChangeThatDoesNotHelp(t *testing.T) {
	remove := plan.Change{Object: "replicaset/n/r", Field: "spec.template.spec.nodeSelector[karpenter.sh/nodepool]", Op: plan.Remove}
	a := plan.Answer{Subject: "pod/n/r", Findings: []plan.Finding{{Of: plan.Demand, Reason: plan.Reason{Code: plan.NoPools}, Change: &remove}},
		Ways: []plan.Way{{Of: plan.Demand, Changes: []plan.Change{remove, {Object: "offering/t/z/on-demand", Field: "available", Op: plan.Set, Value: "true"}}}}}
	var b bytes.Buffer
	if err := WhyText(&b, &Why{Answer: a}); err != nil {
		t.Fatal(err)
	}
	if c := CauseOf(&a).Change; c != "" || strings.Contains(b.String(), "nodeSelector") {
		t.Errorf("%q and\n%s", c, b.String())
	}
}

// What keeps the nodes of a NodePool whatever they are removed for is said once.
func TestWhyOfAnyCause(t *testing.T) {
	a := Why{Answer: plan.Answer{Subject: "nodepool/p"}}
	for _, of := range poolCauses {
		a.Findings = append(a.Findings, plan.Finding{Of: of, Reason: plan.Reason{Code: plan.Budget, Pool: "p", Subject: "nodepool/p"}, Change: &plan.Change{Object: "nodepool/p", Field: "spec.disruption.budgets[0].nodes", Op: plan.Set, Value: "1"}})
	}
	a.Findings = append(a.Findings, plan.Finding{Of: plan.Underutilized, Reason: plan.Reason{Code: plan.ConsolidationOff, Pool: "p", Subject: "nodepool/p", Detail: plan.OfConsolidationOff{Policy: "WhenEmpty"}}})
	var b strings.Builder
	if err := WhyText(&b, &a); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "\n  - "); n != 2 || strings.Count(b.String(), "What keeps its nodes from being ") != 2 {
		t.Errorf("%d findings, want two under two headings:\n%s", n, b.String())
	}
}

// If capacity is missing, the answer says when the next attempt is, and in how long.
func TestWhyTellsNextAttempt(t *testing.T) {
	at := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	r := plan.Reason{Code: plan.OutOfCapacity, Pool: "p", Detail: plan.OfOutOfCapacity{SetAside: 3}}
	a := Why{Answer: plan.Answer{Subject: "pod/n/a", At: at, Findings: []plan.Finding{{Of: plan.Demand, Reason: r, Until: at.Add(130 * time.Second)}}}}
	var b bytes.Buffer
	if err := WhyText(&b, &a); err != nil {
		t.Fatal(err)
	}
	if want := "\n    next attempt: 2026-07-01T12:02:10Z, in 2m10s\n"; !strings.Contains(b.String(), want) {
		t.Errorf("%s\ndoes not have %q", &b, want)
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/doctor"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// TestDoctorCodesHaveSentences holds the codes that doctor declares to the sentences that report has for them.
func TestDoctorCodesHaveSentences(t *testing.T) {
	known := map[string]bool{}
	for _, c := range DoctorCodes() {
		known[string(c)] = true
		if s := DoctorSentence(&doctor.Finding{Code: c, Subject: "node/x"}); strings.HasPrefix(s, string(c)) || !strings.HasSuffix(s, ".") && c != doctor.Unplaceable {
			t.Errorf("%s: %q is no sentence of its own", c, s)
		}
	}
	declared := 0
	files, err := filepath.Glob("../doctor/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok {
				if id, ok := v.Type.(*ast.Ident); ok && id.Name == "Code" {
					declared++
					if code := strings.Trim(v.Values[0].(*ast.BasicLit).Value, `"`); !known[code] {
						t.Errorf("code %s has no sentence", code)
					}
				}
			}
			return true
		})
	}
	if declared != len(known) || declared == 0 {
		t.Errorf("doctor declares %d codes, report knows %d", declared, len(known))
	}
}

func TestDoctorCommands(t *testing.T) {
	for _, c := range []struct {
		change plan.Change
		want   string
	}{
		{plan.Change{Object: "nodepool/a", Field: "spec.disruption.consolidateAfter", Op: plan.Set, Value: "1m"},
			`kubectl patch nodepool a --type merge -p '{"spec":{"disruption":{"consolidateAfter":"1m"}}}'`},
		{plan.Change{Object: "nodepool/a", Field: "spec.weight", Op: plan.Set, Value: "10"}, `kubectl patch nodepool a --type merge -p '{"spec":{"weight":10}}'`},
		{plan.Change{Object: "nodepool/a", Field: "spec.disruption.budgets[1].nodes", Op: plan.Set, Value: "10%"},
			`kubectl patch nodepool a --type json -p '[{"op":"replace","path":"/spec/disruption/budgets/1/nodes","value":"10%"}]'`},
		{plan.Change{Object: "nodepool/a", Field: "spec.template.spec.requirements[karpenter.sh/capacity-type]", Op: plan.Add, Value: "spot"},
			"kubectl edit nodepool a # spec.template.spec.requirements[karpenter.sh/capacity-type]: add spot"},
		{plan.Change{Object: "deployment/shop/web", Field: "spec.template.metadata.annotations[karpenter.sh/do-not-disrupt]", Op: plan.Remove},
			`kubectl -n shop patch deployment web --type merge -p '{"spec":{"template":{"metadata":{"annotations":{"karpenter.sh/do-not-disrupt":null}}}}}'`},
		{plan.Change{Object: "deployment/shop/web", Field: "spec.template.spec.nodeSelector[topology.kubernetes.io/zone]", Op: plan.Remove},
			`kubectl -n shop patch deployment web --type merge -p '{"spec":{"template":{"spec":{"nodeSelector":{"topology.kubernetes.io/zone":null}}}}}'`},
		{plan.Change{Object: "deployment/shop/web", Field: "spec.template.spec.affinity.nodeAffinity[topology.kubernetes.io/zone]", Op: plan.Remove},
			"kubectl -n shop edit deployment web # spec.template.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution[topology.kubernetes.io/zone]: remove"},
		{plan.Change{Object: "deployment/shop/web", Field: "spec.replicas", Op: plan.Set, Value: "2"}, "kubectl -n shop scale deployment web --replicas=2"},
		{plan.Change{Object: "deployment/shop/web", Field: "spec.template.spec.containers[*].resources.requests.cpu", Op: plan.Set, Value: "100m"},
			"kubectl -n shop set resources deployment web --requests=cpu=100m"},
		{plan.Change{Object: "poddisruptionbudget/shop/web", Field: "spec.maxUnavailable", Op: plan.Set, Value: "1"},
			`kubectl -n shop patch poddisruptionbudget web --type merge -p '{"spec":{"maxUnavailable":1}}'`},
		{plan.Change{Object: "node/n", Field: "metadata.annotations[karpenter.sh/do-not-disrupt]", Op: plan.Remove}, "kubectl annotate node n karpenter.sh/do-not-disrupt-"},
		{plan.Change{Object: "node/n", Field: "spec.unschedulable", Op: plan.Set, Value: "false"}, "kubectl uncordon n"},
		{plan.Change{Object: "node/n", Field: "spec.taints[node.kubernetes.io/out-of-service]", Op: plan.Remove}, "kubectl taint nodes n node.kubernetes.io/out-of-service-"},
		{plan.Change{Object: "nodeclaim/c", Op: plan.Remove}, "kubectl delete nodeclaim c"},
		{plan.Change{Object: "nodegroup/g", Field: "maxSize", Op: plan.Add, Value: "1"}, "aws autoscaling update-auto-scaling-group --auto-scaling-group-name g --max-size 4"},
	} {
		if got := (&Doctor{}).Commands(&doctor.Finding{Have: "3", Changes: []plan.Change{c.change}})[0]; got != c.want {
			t.Errorf("%+v\n  is  %s\n  not %s", c.change, got, c.want)
		}
	}
}

// A price file counts for a type that the catalog lacks only if all nodes are of another cloud; else it takes a catalog that has the type.
func TestPriceOfAnUnknownType(t *testing.T) {
	f := &doctor.Finding{Code: doctor.PriceUnknown, Have: "m9g.large", Changes: []plan.Change{{Object: "catalog", Op: plan.Add, Value: "m9g.large"}}}
	for _, c := range []struct {
		d    Doctor
		want string
	}{{Doctor{}, "--catalog FILE"}, {Doctor{OwnTypes: true}, "--price-file FILE"}, {Doctor{NoTypes: true}, "--price-file FILE"}} {
		if got := c.d.Commands(f); len(got) != 1 || !strings.HasPrefix(got[0], "# ") || !strings.Contains(got[0], "m9g.large") || !strings.HasSuffix(got[0], c.want) {
			t.Errorf("own types %t, no types %t: %q, want %s", c.d.OwnTypes, c.d.NoTypes, got, c.want)
		}
	}
}

// TestJointPatch: the API server refuses a PodDisruptionBudget with both fields, so one command changes the two.
func TestJointPatch(t *testing.T) {
	const pdb = "poddisruptionbudget/shop/web"
	f := doctor.Finding{Code: doctor.PDBNeverAllows, Changes: []plan.Change{{Object: pdb, Field: "spec.maxUnavailable", Op: plan.Set, Value: "1"}, {Object: pdb, Field: "spec.minAvailable", Op: plan.Remove}}}
	want := `kubectl -n shop patch poddisruptionbudget web --type merge -p '{"spec":{"maxUnavailable":1,"minAvailable":null}}'`
	if got := (&Doctor{}).Commands(&f); len(got) != 1 || got[0] != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestHeldDrainIsAStep holds what keeps nodes from being drained to its dollars, and to the first of the next steps.
func TestHeldDrainIsAStep(t *testing.T) {
	pdb := doctor.Finding{Code: doctor.PDBNeverAllows, Severity: doctor.Broken, Subject: "poddisruptionbudget/shop/web", Key: "spec.maxUnavailable", Have: "0",
		Pods: make([]string, 30), Nodes: make([]string, 9), Draining: make([]string, 3), DrainingMicro: 2_033_000, SavingMicro: 1_344_500, Priced: true,
		Changes: []plan.Change{{Object: "poddisruptionbudget/shop/web", Field: "spec.maxUnavailable", Op: plan.Set, Value: "1"}}}
	d := Doctor{Report: &doctor.Report{Findings: []doctor.Finding{pdb}}}
	d.Complete()
	want := DoctorStep{`kubectl -n shop patch poddisruptionbudget web --type merge -p '{"spec":{"maxUnavailable":1}}'`,
		"PodDisruptionBudget shop/web never allows an eviction: spec.maxUnavailable is 0; 30 pods on 9 nodes can't be rescheduled. The drain of 3 of these nodes ($1,484 a month) can't finish until that changes."}
	if d.Steps[0] != want {
		t.Errorf("the first step is %+v", d.Steps[0])
	}
}

// TestStepsKeepFlags holds the commands that doctor prints to the flags that its answer depends on: those of kubectl to the cluster, those of dovetail to
// the prices too.
func TestStepsKeepFlags(t *testing.T) {
	cordoned := doctor.Finding{Code: doctor.NodeCordoned, Severity: doctor.Broken, Subject: "node/n", Changes: []plan.Change{{Object: "node/n", Op: plan.Remove}}}
	flags := DoctorFlags{Cluster: []string{"--context", "my cluster"}, Kubectl: []string{"--context", "my cluster"}, Prices: []string{"--price-file", "p.csv"},
		Planning: []string{"--scheduler-config", "s.yaml"}, Doctor: []string{"--ignore", "StaticPool"}}
	d := Doctor{Report: &doctor.Report{Findings: []doctor.Finding{cordoned}}, Flags: flags}
	d.Complete()
	none := Doctor{Report: &doctor.Report{}, Flags: flags}
	none.Complete()
	var got []string
	for _, s := range append(d.Steps, none.Steps...) {
		got = append(got, s.Command)
	}
	want := []string{
		"kubectl --context 'my cluster' drain n --ignore-daemonsets && kubectl --context 'my cluster' delete node n # then terminate its instance, or lower the size of its group",
		"dovetail plan --compare --live --context 'my cluster' --price-file p.csv --scheduler-config s.yaml",
		"dovetail top --context 'my cluster' --price-file p.csv",
		"dovetail plan --compare --live --context 'my cluster' --price-file p.csv --scheduler-config s.yaml",
		"dovetail top --context 'my cluster' --price-file p.csv",
		"dovetail doctor --html doctor.html --context 'my cluster' --price-file p.csv --scheduler-config s.yaml --ignore StaticPool",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the steps are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	full := doctor.Finding{Have: "3", Changes: []plan.Change{{Object: "nodegroup/g", Field: "maxSize", Op: plan.Add, Value: "1"}}}
	if got := (&Doctor{OwnTypes: true}).Commands(&full)[0]; got != "# raise the maximum size of node group g" {
		t.Errorf("a node group of another cloud than AWS: %s", got)
	}
}

// TestDoctorTextHasNoCodes holds the text to words where another finding, or more of the same, is meant.
func TestDoctorTextHasNoCodes(t *testing.T) {
	d := Doctor{Report: &doctor.Report{Compared: doctor.Compared{SetAside: []string{"a/b-1", "a/b-2"}}, Findings: []doctor.Finding{{Code: doctor.Unplaceable, Severity: doctor.Broken, Subject: "deployment/a/b", Pods: []string{"a/b-1", "a/b-2"}}}}}
	for range mostFindings + 1 {
		d.Findings = append(d.Findings, doctor.Finding{Code: doctor.PDBNeverAllows, Severity: doctor.Costly, Subject: "poddisruptionbudget/a/b", AlsoHeld: []doctor.Code{doctor.PodDoNotDisrupt}})
	}
	var b bytes.Buffer
	if err := DoctorText(&b, &d); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"its nodes are also held by do-not-disrupt pods", "1 more like these", "2 pods", "Excluded from all figures: 2 pending pods for which no node can be launched now: a/b-1, a/b-2."} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &b)
		}
	}
	for _, c := range []doctor.Code{doctor.PDBNeverAllows, doctor.PodDoNotDisrupt} {
		if strings.Contains(b.String(), string(c)) {
			t.Errorf("the text has code %s:\n%s", c, &b)
		}
	}
}

// The nodes that consolidation can remove are named, with the reason why they still exist, or the command that shows it.
func TestRemovableNodes(t *testing.T) {
	moves := doctor.Moves{Removed: 5, Names: []string{"a", "b", "c", "d", "e"}}
	for _, c := range []struct{ running, file, want string }{
		{"", "", "Consolidation can remove nodes a, b, c and 2 more. No autoscaler was found that could remove them."},
		{"Dovetail", "", "Consolidation can remove nodes a, b, c and 2 more. 'dovetail why node/a --context x' shows why it still exists."},
		{"Karpenter", "", "Consolidation can remove nodes a, b, c and 2 more. 'kubectl --context x events -A --for node/a' shows why Karpenter keeps it."},
		{"Cluster Autoscaler", "", "Consolidation can remove nodes a, b, c and 2 more. Cluster Autoscaler removes only nodes whose pods request less than --scale-down-utilization-threshold."},
		{"", "f.yaml", "Consolidation can remove nodes a, b, c and 2 more."},
	} {
		d := Doctor{Report: &doctor.Report{Compared: doctor.Compared{NowMicro: 2, ConsolidatedMicro: 1, Moves: moves}},
			Flags: DoctorFlags{Cluster: []string{"--context", "x"}, Kubectl: []string{"--context", "x"}}}
		if c.running != "" {
			d.Autoscalers = []doctor.Autoscaler{{Name: c.running}}
		}
		if c.file != "" {
			d.Files = []string{c.file}
		}
		if got := doctorNotes(&d); !slices.Contains(got, c.want) {
			t.Errorf("notes %q, want %q", got, c.want)
		}
	}
}

// TestSeveralLimitsThatBlock: limits that save nothing unless all of them are raised are named together, also in the next step.
func TestSeveralLimitsThatBlock(t *testing.T) {
	change := func(object, field, value string) plan.Change {
		return plan.Change{Object: object, Field: field, Op: plan.Set, Value: value}
	}
	f := doctor.Finding{Code: doctor.LimitBlocks, Severity: doctor.Costly, Subject: "nodepool/a", Key: "spec.limits.cpu", Have: "0", SavingMicro: 1_000_000, Priced: true,
		Others:  []doctor.Limit{{Subject: "nodepool/a", Key: "spec.limits.memory", Have: "3Gi"}, {Subject: "capacityquota/all", Key: "spec.limits.resources.nodes", Have: "1"}},
		Changes: []plan.Change{change("nodepool/a", "spec.limits.cpu", "8"), change("nodepool/a", "spec.limits.memory", "9Gi"), change("capacityquota/all", "spec.limits.resources.nodes", "5")}}
	d := Doctor{Report: &doctor.Report{Compared: doctor.Compared{Blocked: []doctor.Finding{f}}, Findings: []doctor.Finding{f}}}
	d.Complete()
	const limits = "limits of NodePool a (spec.limits.cpu, spec.limits.memory) and CapacityQuota all (spec.limits.resources.nodes)"
	note := "The figures respect the " + limits + ", which leave 0 and 3Gi and 1 for replacements: raise all of them to save $730 more."
	if got := doctorNotes(&d); !slices.Contains(got, note) {
		t.Errorf("notes %q, want %q", got, note)
	}
	want := DoctorStep{`kubectl patch nodepool a --type merge -p '{"spec":{"limits":{"cpu":"8"}}}' && kubectl patch nodepool a --type merge -p '{"spec":{"limits":{"memory":"9Gi"}}}' && ` +
		`kubectl patch capacityquota all --type merge -p '{"spec":{"limits":{"resources":{"nodes":"5"}}}}'`,
		"The " + limits + " leave 0 and 3Gi and 1, which is too little for replacements: they are launched before the nodes that they replace are deleted. Raising one alone saves nothing."}
	if d.Steps[0] != want {
		t.Errorf("the step is %+v, want %+v", d.Steps[0], want)
	}
	f.Others = nil
	d.Blocked = []doctor.Finding{f}
	note = "The figures respect the limit of NodePool a (spec.limits.cpu), which leaves 0 for replacements: raise it to save $730 more."
	if got := doctorNotes(&d); !slices.Contains(got, note) {
		t.Errorf("notes %q, want %q", got, note)
	}
}

func TestPerMonth(t *testing.T) {
	for micro, want := range map[int64]string{0: "$0.00", 10_000: "$7.30", 100_000: "$73", 1_700_000: "$1,241", 2_000_000_000: "$1,460,000"} {
		if got := perMonth(micro); got != want {
			t.Errorf("%d micro-dollars an hour: %s, want %s", micro, got, want)
		}
	}
}

// What a saving takes never reads as if there were none.
func TestMovesText(t *testing.T) {
	for want, got := range map[string]string{
		noneAllowed: movesText(&doctor.Moves{}, false, noneAllowed),
		"the pending pods fit on the existing nodes":                            movesText(&doctor.Moves{}, true, noneAllowed),
		"reschedule 2 pods, so that the pending pods fit on the existing nodes": movesText(&doctor.Moves{Pods: 2}, true, noneAllowed),
		"remove 1 node, launch 0, reschedule 0 pods":                            movesText(&doctor.Moves{Removed: 1}, true, noneAllowed),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// One command takes an annotation off all pods that somebody has given it.
func TestAnnotatedPodsCommand(t *testing.T) {
	const field = "metadata.annotations[karpenter.sh/do-not-disrupt]"
	d := Doctor{}
	got := d.Commands(&doctor.Finding{Code: doctor.PodDoNotDisrupt, Changes: []plan.Change{{Object: "pod/shop/a", Field: field, Op: plan.Remove}, {Object: "pod/shop/b", Field: field, Op: plan.Remove},
		{Object: "pod/bank/c", Field: field, Op: plan.Remove}}})
	want := []string{"kubectl -n shop annotate pod a b karpenter.sh/do-not-disrupt-", "kubectl -n bank annotate pod c karpenter.sh/do-not-disrupt-"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

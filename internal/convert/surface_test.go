// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package convert

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestConvertCoversClusterAutoscaler holds what convert knows against testdata/cluster_autoscaler.tsv, which lists all
// that Cluster Autoscaler on AWS is told by: each flag with its default, and each annotation, label, taint, tag and
// object. Each has the same effect, or a sentence says what differs; none is passed over. It logs how many of each.
func TestConvertCoversClusterAutoscaler(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "cluster_autoscaler.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	flags, marks := map[string]int{}, map[string]int{}
	named := map[string]bool{}
	for line := range strings.Lines(string(raw)) {
		kind, rest, _ := strings.Cut(strings.TrimRight(line, "\n"), "\t")
		name, def, _ := strings.Cut(rest, "\t")
		named[kind+" "+name] = true
		switch kind {
		case "flag":
			flags[checkFlag(t, name, def)]++
		case "mark":
			at := slices.IndexFunc(Marks, func(m Mark) bool { return m.Name == name })
			if at < 0 {
				t.Errorf("%s is not in Marks", name)
				continue
			}
			if m := Marks[at]; m.What == "" || m.On == "" || !slices.Contains([]string{InObjects, SameHere, NoEffect, NoMatch}, m.Outcome) {
				t.Errorf("%s: nothing is said: %+v", name, m)
			}
			marks[Marks[at].Outcome]++
		default:
			t.Errorf("line %q: neither flag nor mark", line)
		}
	}
	for _, m := range Marks {
		if !named["mark "+m.Name] {
			t.Errorf("%s is in Marks, and not in the list", m.Name)
		}
	}
	if len(flags) == 0 || len(marks) == 0 {
		t.Fatal("the list is empty")
	}
	t.Logf("flags at their defaults: %v", flags)
	t.Logf("annotations, labels, taints, tags, objects: %v", marks)
}

// checkFlag gives convert one flag with Cluster Autoscaler's default, and returns the outcome.
func checkFlag(t *testing.T, name, def string) string {
	t.Helper()
	at := slices.IndexFunc(caFlags, func(d caFlag) bool { return d.name == name })
	if at < 0 {
		t.Errorf("--%s is not in caFlags", name)
		return ""
	}
	if have := caFlags[at].def; have != def {
		t.Errorf("--%s: default %q, want %q", name, have, def)
	}
	if name == "cloud-provider" {
		def = "aws"
	}
	line := []string{"--nodes=0:3:workers", "--" + name + "=" + def}
	if def == "" && (name == "nodes" || name == "node-group-auto-discovery") {
		line = line[:1]
	}
	c := New(&Input{})
	if err := c.ReadFlags(line); err != nil {
		t.Errorf("--%s=%s: %v", name, def, err)
		return ""
	}
	if err := c.Translate(); err != nil {
		t.Errorf("--%s=%s: %v", name, def, err)
		return ""
	}
	for _, r := range c.Rows {
		if r.Flag == name {
			if len(r.What) < 2 {
				t.Errorf("--%s=%s: nothing is said: %+v", name, def, r)
			}
			return r.Outcome
		}
	}
	if name != "nodes" && name != "node-group-auto-discovery" {
		t.Errorf("--%s=%s: not in what is said", name, def)
	}
	return "not given"
}

// TestConvertOnNarrowTerminals: no line is wider than the terminal, unless it is one word.
func TestConvertOnNarrowTerminals(t *testing.T) {
	rows := []row{
		{[]string{"scale-down-delay-after-add", "10m (default)"}, NoMatch, strings.Repeat("a sentence of several words ", 20)},
		{[]string{"cluster-name", "prod"}, ToController, "--cluster-name=prod"},
	}
	for _, width := range []int{40, 80, 100} {
		var b bytes.Buffer
		writeRows(&b, width, []string{"FLAG", "VALUE"}, rows)
		for line := range strings.Lines(b.String()) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > width {
				t.Errorf("%d columns: %d in %q", width, n, line)
			}
		}
		if !strings.Contains(b.String(), "--cluster-name=prod") {
			t.Errorf("%d columns: lost a row", width)
		}
	}
}

// TestConvertKnowsEveryFlag: each flag says what becomes of it, whether it is given its default or another value.
func TestConvertKnowsEveryFlag(t *testing.T) {
	other := map[int]string{asText: "x", asBool: "false", asInt: "7", asFloat: "0.7", asDuration: "7m", asList: "x"}
	own := map[string]string{"cloud-provider": "aws", "nodes": "1:2:x", "node-group-auto-discovery": "asg:tag=x", "expander": "random",
		"cores-total": "0:7", "memory-total": "0:7", "drain-priority-config": "0:60,1000:0"}
	seen := map[string]bool{}
	for _, d := range caFlags {
		if seen[d.name] {
			t.Errorf("--%s is there twice", d.name)
		}
		seen[d.name] = true
		values := []string{cmp.Or(own[d.name], other[d.kind])}
		if d.name != "cloud-provider" && d.kind != asList {
			values = append(values, d.def)
		}
		if d.kind == asBool {
			values = append(values, "true")
		}
		for _, v := range values {
			c := New(&Input{})
			err := c.ReadFlags([]string{"--nodes=0:3:workers", "--" + d.name + "=" + v})
			if err == nil {
				err = c.Translate()
			}
			if err != nil {
				t.Errorf("--%s=%s: %v", d.name, v, err)
				continue
			}
			said := false
			for _, r := range c.Rows {
				if r.Flag == d.name {
					said = true
					if r.What == "" || !slices.Contains([]string{InObjects, ToController, SameHere, NoEffect, NoMatch}, r.Outcome) {
						t.Errorf("--%s=%s: nothing is said: %+v", d.name, v, r)
					}
				}
			}
			if !said {
				t.Errorf("--%s=%s: not in what is said", d.name, v)
			}
		}
	}
	if len(seen) < 140 {
		t.Errorf("only %d flags are known", len(seen))
	}
}

// TestHelmArgs: the arguments for Helm set only values that the chart has, whatever flags Cluster Autoscaler is given, and everything that the chart requires.
func TestHelmArgs(t *testing.T) {
	data, err := os.ReadFile("../../charts/dovetail/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var chart map[string]any
	if err := yaml.Unmarshal(data, &chart); err != nil {
		t.Fatal(err)
	}
	has := func(name string) bool {
		at := any(chart)
		for part := range strings.SplitSeq(name, ".") {
			fields, ok := at.(map[string]any)
			if at, ok = fields[part]; !ok {
				return false
			}
		}
		return true
	}
	for want, args := range map[string][]string{
		"cloud=aws settings.clusterName=CLUSTER":                                                   {"--nodes=0:3:web"},
		"cloud=aws settings.clusterName=prod settings.limits.coresTotal=0:64 logLevel=info":        {"--nodes=0:3:web", "--cloud-provider=aws", "--cluster-name=prod", "--cores-total=0:64", "--v=4", "--kubeconfig=/etc/kube"},
		"cloud=aws controller.metrics.port=8085 nodeGroups.statusConfigMap=none":                   {"--nodes=0:3:web", "--address=:8085", "--write-status-configmap=false"},
		`controller.extraArgs={--profiling=true,--grpc-expander-url=a\,b}`:                         {"--nodes=0:3:web", "--grpc-expander-url=a,b", "--profiling"},
		"cloud=clusterapi clusterAPI.cluster=NAMESPACE/NAME clusterAPI.managementSecret=SECRET":    {"--cloud-provider=clusterapi", "--cloud-config=/etc/management"},
		"cloud=clusterapi clusterAPI.cluster=ns/one":                                               {"--cloud-provider=clusterapi", "--node-group-auto-discovery=clusterapi:namespace=ns,clusterName=one"},
		"--set-string settings.clusterName=2026":                                                   {"--nodes=0:3:web", "--cluster-name=2026"},
		"--set-string nodeGroups.statusConfigMap=7":                                                {"--nodes=0:3:web", "--status-config-map-name=7"},
		"settings.limits.maxNodesTotal=8 settings.limits.memoryTotal=4:256 settings.clusterName=x": {"--nodes=0:3:web", "--max-nodes-total=8", "--memory-total=4:256", "--cluster-name=x"},
	} {
		c := New(&Input{})
		if err := c.ReadFlags(args); err != nil {
			t.Errorf("%v: %v", args, err)
			continue
		}
		if err := c.Translate(); err != nil {
			t.Errorf("%v: %v", args, err)
			continue
		}
		have := c.HelmArgs()
		for i, arg := range have {
			if name, _, _ := strings.Cut(arg, "="); i > 0 && strings.HasPrefix(have[i-1], "--set") && !has(name) {
				t.Errorf("%v: the chart has no value %s", args, name)
			}
		}
		if set, value, ok := strings.Cut(want, " "); ok && strings.HasPrefix(set, "--") {
			if i := slices.Index(have, value); i < 1 || have[i-1] != set {
				t.Errorf("%v: have %q, want %s before %s", args, have, set, value)
			}
			continue
		}
		for w := range strings.FieldsSeq(want) {
			if !slices.Contains(have, w) {
				t.Errorf("%v: have %q, want %s", args, have, w)
			}
		}
	}
}

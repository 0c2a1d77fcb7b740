// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"bytes"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var seconds = regexp.MustCompile(`"seconds": [0-9.e-]+`)

// TestOrderOfFiles plans the same objects fifty times, in other files and another order each time: what is printed is the same but for
// the time it took.
func TestOrderOfFiles(t *testing.T) {
	var objects []string
	add := func(format string, args ...any) { objects = append(objects, fmt.Sprintf(format, args...)) }
	for i, weight := range []int{10, 1} {
		add("apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: pool-%d}\nspec:\n  weight: %d\n  limits: {cpu: %d}\n  template:\n    spec:\n"+
			"      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}\n"+
			"      requirements:\n      - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}\n", i, weight, 40+1000*i)
	}
	for i := range 6 {
		add("apiVersion: v1\nkind: Node\nmetadata: {name: n%d, labels: {kubernetes.io/hostname: n%d, topology.kubernetes.io/zone: us-east-1%c}}\n"+
			"status:\n  allocatable: {cpu: 4, memory: 8Gi, pods: 20}\n  conditions: [{type: Ready, status: \"True\"}]\n", i, i, 'a'+i%3)
		add("apiVersion: v1\nkind: Pod\nmetadata: {name: on-n%d, labels: {app: w1}}\nspec:\n  nodeName: n%d\n  containers: [{name: c, image: i, resources: {requests: {cpu: 2, memory: 1Gi}}}]\n", i, i)
	}
	for i := range 9 {
		extra := ""
		switch i % 3 {
		case 1:
			extra = fmt.Sprintf("      topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: w%d}}}]\n", i)
		case 2:
			extra = fmt.Sprintf("      affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: w%d}}}]}}\n", i)
		}
		add("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: w%d}\nspec:\n  replicas: %d\n  selector: {matchLabels: {app: w%d}}\n  template:\n    metadata: {labels: {app: w%d}}\n    spec:\n"+
			"      containers: [{name: c, image: i, resources: {requests: {cpu: %dm, memory: %dMi}}}]\n%s", i, 5+i, i, i, 300+400*i, 500+700*(i%4), extra)
	}
	catalogue := filepath.Join(t.TempDir(), "catalogue.json")
	if err := os.WriteFile(catalogue, []byte(`{"region": "here", "zones": ["us-east-1a", "us-east-1b", "us-east-1c"], "instanceTypes": [
		{"name": "m.small", "arch": "amd64", "allocatable": {"cpu": "1930m", "memory": "6903Mi", "pods": "29"}, "onDemandUSDPerHour": 0.1, "spotUSDPerHour": 0.04},
		{"name": "m.large", "arch": "amd64", "allocatable": {"cpu": "3920m", "memory": "14Gi", "pods": "58"}, "onDemandUSDPerHour": 0.2, "spotUSDPerHour": 0.07},
		{"name": "r.large", "arch": "amd64", "allocatable": {"cpu": "3920m", "memory": "28Gi", "pods": "58"}, "onDemandUSDPerHour": 0.25},
		{"name": "c.huge", "arch": "amd64", "allocatable": {"cpu": "15890m", "memory": "28Gi", "pods": "110"}, "onDemandUSDPerHour": 0.68}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewSource(1))
	want := ""
	for i := range 50 {
		dir := t.TempDir()
		args := []string{"plan", "-o", "json", "--catalog", catalogue, "--work", "1000000"}
		files := make([]strings.Builder, 1+r.Intn(5))
		for _, o := range r.Perm(len(objects)) {
			files[r.Intn(len(files))].WriteString("---\n" + objects[o])
		}
		for j := range files {
			if files[j].Len() == 0 {
				continue
			}
			name := filepath.Join(dir, fmt.Sprintf("%d.yaml", j))
			if err := os.WriteFile(name, []byte(files[j].String()), 0o600); err != nil {
				t.Fatal(err)
			}
			args = append(args, "-f", name)
		}
		var out, errs bytes.Buffer
		if status := Main(t.Context(), args, nil, &out, &errs); status != 0 {
			t.Fatalf("order %d: status %d: %s", i, status, errs.String())
		}
		have := seconds.ReplaceAllString(out.String(), "")
		if i == 0 {
			if want = have; strings.Count(want, `"nodePool"`) < 5 {
				t.Fatalf("too little is bought to say anything:\n%s", want)
			}
		}
		if have != want {
			t.Fatalf("the plan depends on the order of its input: order %d\n%s\n---- first\n%s", i, have, want)
		}
	}
}

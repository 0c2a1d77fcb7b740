// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/dovetail-sh/dovetail/internal/record"
)

// recordTo writes objects to a recording.
func recordTo(path string, a *record.Anonymizer, objects []map[string]any) error {
	w, _, err := record.Open(record.Config{Path: path, Anonymizer: a, Now: time.Now})
	if err != nil {
		return err
	}
	for _, o := range objects {
		meta := o["metadata"].(map[string]any)
		w.Set(o["apiVersion"].(string), o["kind"].(string), fmt.Sprint(meta["namespace"], "/", meta["name"]), o)
	}
	if err := w.Synced(); err != nil {
		return err
	}
	return w.Close()
}

// planOf is what a plan says but for names and the time that it took.
type planOf struct {
	NodeClaims []struct {
		NodePool, InstanceType, Zone, CapacityType string
		PricePerHour                               float64
		Pods                                       []string
	}
	Existing []struct {
		Node string
		Pods []string
	}
	Unschedulable []struct {
		Pod     string
		Reasons []struct{ NodePool, Code string }
	}
	Cost struct{ NewPerHour, PremiumPerHour float64 }
}

// shape returns the lines of a plan without names: equal shapes are equal plans up to names.
func (p *planOf) shape() []string {
	var out []string
	for _, c := range p.NodeClaims {
		out = append(out, fmt.Sprintf("launch %s %s %s %s $%g: %d pods", c.NodePool, c.InstanceType, c.Zone, c.CapacityType, c.PricePerHour, len(c.Pods)))
	}
	for _, e := range p.Existing {
		out = append(out, fmt.Sprintf("existing: %d pods", len(e.Pods)))
	}
	for _, u := range p.Unschedulable {
		out = append(out, fmt.Sprint("refused", u.Reasons))
	}
	slices.Sort(out)
	return append(out, fmt.Sprint(p.Cost))
}

func planFile(args ...string) (*planOf, string, error) {
	var out, errs bytes.Buffer
	if status := Main(context.Background(), append([]string{"plan", "-o", "json"}, args...), nil, &out, &errs); status != 0 && status != unplaced {
		return nil, "", fmt.Errorf("status %d: %s", status, errs.String())
	}
	var p planOf
	if err := json.Unmarshal(out.Bytes(), &p); err != nil {
		return nil, "", err
	}
	return &p, seconds.ReplaceAllString(out.String(), ""), nil
}

// drawObjects draws a cluster whose objects refer to each other in the ways that scheduling looks at.
//
// names sort as their tokens do: which of several equal nodes gets a pod is decided by names, and is no relation between objects.
func drawObjects(t *testing.T, r *rand.Rand, names []string) []map[string]any {
	t.Helper()
	var out []map[string]any
	add := func(format string, args ...any) {
		var o map[string]any
		if err := yaml.Unmarshal(fmt.Appendf(nil, format, args...), &o); err != nil {
			t.Fatal(err)
		}
		meta := o["metadata"].(map[string]any)
		meta["uid"] = fmt.Sprint("uid-", len(out))
		meta["creationTimestamp"] = "2026-03-01T00:00:00Z"
		out = append(out, o)
	}
	one := func(of ...string) string { return of[r.IntN(len(of))] }
	teams, stages, spaces := names[:2], names[2:4], []string{"default", names[4], "kube-system"}
	nodeNames, apps, pods := names[5:8], names[8:13], names[13:]
	for _, ns := range spaces {
		add("{apiVersion: v1, kind: Namespace, metadata: {name: %s, labels: {kubernetes.io/metadata.name: %s, stage: %s}}}", ns, ns, one(stages...))
	}
	for i := range 1 + r.IntN(2) {
		labels, taint := "", ""
		if r.IntN(2) == 0 {
			labels = fmt.Sprintf("metadata: {labels: {team: %s, generation: \"%d\"}}, ", one(teams...), 1+r.IntN(9))
		}
		if r.IntN(2) == 0 {
			taint = fmt.Sprintf("taints: [{key: dedicated, value: %s, effect: NoSchedule}], ", one(teams...))
		}
		add("{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: pool-%d}, spec: {weight: %d, template: {%sspec: {%snodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}, requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [%s]}]}}}}",
			i, 10-i, labels, taint, one("spot", "on-demand", "spot, on-demand"))
	}
	nodes := r.IntN(4)
	for i := range nodes {
		add("{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {kubernetes.io/hostname: %s, topology.kubernetes.io/zone: us-east-1%c, team: %s}}, status: {allocatable: {cpu: \"4\", memory: 8Gi, pods: \"20\"}, conditions: [{type: Ready, status: \"True\"}]}}",
			nodeNames[i], nodeNames[i], 'a'+i%3, one(teams...))
	}
	for i := range 1 + r.IntN(5) {
		app, ns := apps[i], one(spaces...)
		rule := one("", "", "nodeSelector: {team: "+one(teams...)+"}, ",
			"tolerations: [{key: dedicated, operator: Equal, value: "+one(teams...)+", effect: NoSchedule}], ",
			"affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: generation, operator: Gt, values: [\"4\"]}]}]}}}, tolerations: [{operator: Exists}], ",
			"affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: "+app+"}}}]}}, tolerations: [{operator: Exists}], ",
			"affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: topology.kubernetes.io/zone, namespaceSelector: {matchLabels: {stage: "+stages[0]+"}}, labelSelector: {matchLabels: {app: "+app+"}}}]}}, tolerations: [{operator: Exists}], ",
			"topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: "+app+"}}, matchLabelKeys: [pod-template-hash]}], tolerations: [{operator: Exists}], ",
			"volumes: [{name: data, persistentVolumeClaim: {claimName: data}}], tolerations: [{operator: Exists}], ")
		if strings.Contains(rule, "claimName") {
			add("{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data, namespace: %s}, spec: {volumeName: disk, storageClassName: fast}, status: {phase: Bound}}", ns)
			add("{apiVersion: v1, kind: PersistentVolume, metadata: {name: disk}, spec: {storageClassName: fast, csi: {driver: ebs.csi.aws.com, volumeHandle: vol-1}, claimRef: {namespace: %s, name: data, uid: %s}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [us-east-1b]}]}]}}}, status: {phase: Bound}}",
				ns, out[len(out)-1]["metadata"].(map[string]any)["uid"])
		}
		for range 1 + r.IntN(4) {
			node := ""
			if nodes > 0 && r.IntN(4) == 0 {
				node = fmt.Sprintf("nodeName: %s, ", nodeNames[r.IntN(nodes)])
			}
			add("{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: %s, labels: {app: %s, pod-template-hash: 7d4f}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: %s-7d4f, uid: rs-%d, controller: true}]}, spec: {%s%scontainers: [{name: c, image: i, env: [{name: PASSWORD, value: hunter2}], resources: {requests: {cpu: %dm, memory: %dMi}}}]}}",
				pods[0], ns, app, app, i, node, rule, 300+400*i, 500+300*i)
			pods = pods[1:]
		}
	}
	return out
}

// sortedNames returns names that sort as their tokens do.
func sortedNames(a *record.Anonymizer) (out []string) {
	// longest[i] ends with name i.
	longest := make([][]string, 500)
	for i := range longest {
		name := fmt.Sprintf("n%03d", i)
		for j := range i {
			if before := longest[j]; len(before) > len(longest[i]) && a.Token(before[len(before)-1]) < a.Token(name) {
				longest[i] = before
			}
		}
		if longest[i] = append(slices.Clip(longest[i]), name); len(longest[i]) > len(out) {
			out = longest[i]
		}
	}
	return out
}

// worlds is how many clusters TestRecordedPlans draws.
const worlds = 30

// TestRecordedPlans plans for drawn clusters: for the objects as they are, as a recording keeps them, and as an anonymized one does.
// The first two plans are equal byte for byte, the third up to names.
func TestRecordedPlans(t *testing.T) {
	dir, n := t.TempDir(), 0
	catalogue := filepath.Join(dir, "catalogue.json")
	if err := os.WriteFile(catalogue, []byte(`{"region": "here", "zones": ["us-east-1a", "us-east-1b", "us-east-1c"], "instanceTypes": [
		{"name": "m.small", "arch": "amd64", "allocatable": {"cpu": "1930m", "memory": "6903Mi", "pods": "29"}, "onDemandUSDPerHour": 0.1, "spotUSDPerHour": 0.04},
		{"name": "m.large", "arch": "amd64", "allocatable": {"cpu": "3920m", "memory": "14Gi", "pods": "58"}, "onDemandUSDPerHour": 0.2, "spotUSDPerHour": 0.07},
		{"name": "c.huge", "arch": "amd64", "allocatable": {"cpu": "15890m", "memory": "28Gi", "pods": "110"}, "onDemandUSDPerHour": 0.68}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "key"), []byte(strings.Repeat("5a", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := record.OpenAnonymizer(filepath.Join(dir, "key"), false)
	if err != nil {
		t.Fatal(err)
	}
	launched, refused := 0, 0
	names := sortedNames(a)
	for n = range worlds {
		objects := drawObjects(t, rand.New(rand.NewPCG(uint64(n), 0)), names)
		file := func(name string) string { return filepath.Join(dir, fmt.Sprint(n, name)) }
		raw, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{os.WriteFile(file("objects.json"), raw, 0o600), recordTo(file("plain"), nil, objects), recordTo(file("tokens"), a, objects)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		of := func(name string) (*planOf, string) {
			p, text, err := planFile("--catalog", catalogue, "--work", "100000", "-f", file(name))
			if err != nil {
				t.Fatalf("world %d, %s: %v", n, name, err)
			}
			return p, text
		}
		want, wantText := of("objects.json")
		if _, text := of("plain"); text != wantText {
			t.Fatalf("world %d, recorded:\n%s\nas it was:\n%s", n, text, wantText)
		}
		tokens, text := of("tokens")
		if have, want := tokens.shape(), want.shape(); !slices.Equal(have, want) {
			t.Fatalf("world %d, anonymized:\n%s\nas it was:\n%s", n, strings.Join(have, "\n"), strings.Join(want, "\n"))
		}
		if strings.Contains(text, names[8]) {
			t.Fatalf("a name is left in the anonymized plan:\n%s", text)
		}
		launched, refused = launched+len(want.NodeClaims), refused+len(want.Unschedulable)
	}
	if launched < worlds/2 || refused == 0 {
		t.Errorf("%d clusters had %d nodes launched and %d pods refused, which shows little", worlds, launched, refused)
	}
}

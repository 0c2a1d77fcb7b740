// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// tight is a catalogue of one type with 16 CPUs for pods, in the form of Karpenter's KWOK instance types: 100m and 10Mi are kept back.
const tight = `[{"name": "exact-16", "architecture": "amd64", "operatingSystems": ["linux"],
  "resources": {"cpu": "16100m", "memory": "65546Mi", "pods": "110", "ephemeral-storage": "20Gi"},
  "offerings": [{"Price": 1.6, "Available": true, "Requirements": [
    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
    {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-a"]}]}]}]`

// The 25-pod example: ten nodes hold 5 pods of 10 CPUs, 5 of 6 and 15 of 16/3 with nothing to spare, so every pod has to go where the
// plan put it, and kube-scheduler on its own spreads the small ones over all.
func tightPods(e *env) {
	e.t.Helper()
	e.deploy("large", 5, e.pod("10", "1Gi"))
	e.deploy("middle", 5, e.pod("6", "1Gi"))
	e.deploy("small", 15, e.pod("5330m", "1Gi"))
	// One plan for all of them: the pool comes when kube-scheduler has refused them all.
	e.podsRefused(25)
	e.nodePool(map[string]any{"spec.template.spec.requirements": only("exact-16")})
}

func tightCatalog(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tight.json")
	if err := os.WriteFile(file, []byte(tight), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestExactLanding(t *testing.T) {
	e := newEnv(t, own(t, "--catalog", tightCatalog(t)), "tight")
	tightPods(e)
	pods := e.podsRun(25)
	all := e.claimsAre(10, "Ready", ready)
	if n := len(e.launches(e.name)); n != 10 {
		t.Errorf("%d machines were launched, want 10", n)
	}
	nodeOf := map[string]string{}
	for _, c := range all {
		nodeOf[c.Name] = c.Status.NodeName
	}
	// A plan speaks of how many pods of each kind a node gets: once nobody else is waiting, a node is opened, and pods alike may change places.
	planned, landed := map[string]int{}, map[string]int{}
	perNode := map[string]bool{}
	for i := range pods {
		p := &pods[i]
		kind := p.Labels["app"]
		perNode[p.Spec.NodeName] = true
		landed[kind+" on "+p.Spec.NodeName]++
		if r := reservations(p); len(r) != 1 {
			t.Errorf("pod %s tolerates the reservations of %q, want one", p.Name, r)
		} else {
			planned[kind+" on "+nodeOf[r[0]]]++
		}
	}
	if !maps.Equal(planned, landed) {
		t.Errorf("the pods landed as %v, planned were %v", landed, planned)
	}
	if len(perNode) != 10 {
		t.Errorf("the pods are on %d nodes, want 10: %v", len(perNode), landed)
	}
	e.until("no node is reserved any more", func() error {
		for _, n := range e.nodes() {
			if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == reservedTaint }) {
				return fmt.Errorf("%s has taints %v", n.Name, n.Spec.Taints)
			}
		}
		return nil
	})
}

// Without exact landing everything runs in the end as well. What the first landing left over is not ours to decide, so it is told only.
func TestWithoutExactLanding(t *testing.T) {
	e := newEnv(t, own(t, "--catalog", tightCatalog(t), "--controller-arg", "--exact-landing=false"), "loose")
	tightPods(e)
	pods := e.podsRun(25)
	launches := e.launches(e.name)
	if len(launches) < 10 {
		t.Fatalf("%d machines were launched for what fills 10", len(launches))
	}
	first := map[string]bool{}
	for _, in := range launches[:10] {
		first[in.Node.Name] = true
	}
	left := 0
	for i := range pods {
		if !first[pods[i].Spec.NodeName] {
			left++
		}
		if r := reservations(&pods[i]); len(r) > 0 {
			t.Errorf("pod %s tolerates the reservations of %q, and there are none", pods[i].Name, r)
		}
	}
	t.Logf("exact landing off: %d of 25 pods were left over by the ten nodes planned for them, and %d more nodes were bought", left, len(launches)-10)
	for _, c := range e.claimsAre(len(launches), "Ready", ready) {
		if c.Annotations["dovetail.sh/not-reserved"] == "" {
			t.Errorf("claim %s does not say why it is not reserved: %v", c.Name, c.Annotations)
		}
	}
}

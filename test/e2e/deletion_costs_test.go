// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// With the feature gate, a Deployment that is scaled down empties whole nodes: kube-controller-manager deletes the pods with the least deletion cost, and
// none has to be evicted.
func TestDeletionCosts(t *testing.T) {
	t.Parallel()
	const n, left = 8, 4
	s := own(t, "--controller-arg", "--feature-gates=PodDeletionCostManagement=true")
	e := newEnv(t, s, "costs")
	e.nodePool(map[string]any{"spec.template.spec.requirements": only("m5.large"), "spec.disruption.consolidateAfter": "Never"})
	e.deploy("web", n, e.pod("800m", "1Gi")) // two on each node
	before := e.podsRun(n)
	on := map[string][]string{} // uids of pods by node
	for _, p := range before {
		on[p.Spec.NodeName] = append(on[p.Spec.NodeName], string(p.UID))
	}
	if len(on) != n/2 {
		t.Fatalf("%d pods on %d nodes, want two on each", n, len(on))
	}
	e.untilWithin(2*time.Minute, "pods have deletion costs, those of a node the same", func() error {
		costs := map[string]string{} // by node
		for _, p := range e.pods() {
			cost := p.Annotations[corev1.PodDeletionCost]
			if v, err := strconv.Atoi(cost); err != nil || v >= 0 {
				return fmt.Errorf("pod %s has deletion cost %q, want a negative one", p.Name, cost)
			}
			if have := costs[p.Spec.NodeName]; have != "" && have != cost {
				return fmt.Errorf("pods of node %s have deletion costs %s and %s", p.Spec.NodeName, have, cost)
			}
			costs[p.Spec.NodeName] = cost
		}
		return nil
	})
	e.scale("web", left)
	e.until(fmt.Sprintf("%d pods are left", left), func() error {
		if pods := e.pods(); len(pods) != left {
			return fmt.Errorf("there are %d", len(pods))
		}
		return nil
	})
	stay := map[string]int{}
	for _, p := range e.podsRun(left) {
		stay[p.Spec.NodeName]++
	}
	for node, pods := range stay {
		if pods != len(on[node]) {
			t.Errorf("node %s has %d of its %d pods: the scale-down has not emptied whole nodes", node, pods, len(on[node]))
		}
	}
}

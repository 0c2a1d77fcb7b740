// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"errors"
	"fmt"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A static NodePool has as many nodes as its limit allows, each with a pod, and its template changes: no node can be replaced first. With the feature gate, one after the
// other is terminated, though the leader is killed meanwhile, and the NodePool launches another in its place. The pods' PodDisruptionBudget holds, and no more than one
// node is missing at a time.
func TestTerminateFirst(t *testing.T) {
	t.Parallel()
	const n = 3
	s := own(t, "--replicas", "2", "--controller-arg", "--feature-gates=TerminateFirstDrift=true", "--controller-arg", "--leader-elect-lease-duration="+pace(3*time.Second).String(),
		"--controller-arg", "--leader-elect-renew-deadline="+pace(2*time.Second).String(), "--controller-arg", "--leader-elect-retry-period=500ms")
	e := newEnv(t, s, "first")
	e.nodePool(map[string]any{"spec.replicas": n, "spec.limits": map[string]any{"nodes": fmt.Sprint(n)}, "spec.template.spec.requirements": only("m5.large"),
		"spec.disruption.budgets": []any{map[string]any{"nodes": "1"}}})
	e.deploy("web", n, e.pod("1200m", "1Gi"))
	e.podsRun(n)
	least := intstr.FromInt32(n - 1)
	_, err := s.Kube.PolicyV1().PodDisruptionBudgets(e.name).Create(e.ctx, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &least, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}, metav1.CreateOptions{})
	e.must(err)
	old := map[string]bool{}
	for _, c := range e.claims() {
		old[string(c.UID)] = true
	}
	e.must(s.Patch(e.ctx, pools+"/"+e.name, `{"spec":{"template":{"metadata":{"labels":{"revision":"two"}}}}}`))
	killed := ""
	e.untilWithin(5*time.Minute, "every node is of the new template", func() error {
		ready, going := 0, 0
		var left []error
		for _, c := range e.claims() {
			if old[string(c.UID)] { // names come again
				left = append(left, fmt.Errorf("nodeclaim %s is there", c.Name))
			}
			if c.DeletionTimestamp != nil {
				going++
			} else if isTrue(&c, "Initialized") {
				ready++
			}
		}
		if ready < n-1 {
			t.Fatalf("%d of %d nodes are there, and %d are going; the budget allows 1 to be missing", ready, n, going)
		}
		if going > 0 && killed == "" {
			killed = e.killLeader()
		}
		return errors.Join(left...)
	})
	e.podsRun(n)
	if killed == "" {
		t.Error("the leader was not killed")
	}
	if all := len(e.launches(e.name)); all != 2*n {
		t.Errorf("%d machines were launched, want %d and one for each of them", all, n)
	}
}

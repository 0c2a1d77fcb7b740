// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
)

// What is coming is capacity: a second wave that fits beside the first on machines that are still to become Ready buys nothing, and a deleted pod's
// successor takes the place that was bought for it. No kubelet starts before the controller has decided on the second wave, however long that takes.
func TestSecondWave(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "waves")
	e.must(s.Create(e.ctx, classes, "{apiVersion: karpenter.kwok.sh/v1alpha1, kind: KWOKNodeClass, metadata: {name: "+e.name+"}, spec: {nodeRegistrationDelay: 2s}}"))
	h := e.watchClaims()
	e.nodePool(map[string]any{"spec.template.spec.requirements": only("m5.xlarge"), "spec.template.spec.nodeClassRef.name": e.name,
		"spec.template.metadata.annotations": map[string]string{kubeletAnnotation: "stopped"}})
	e.deploy("first", 6, e.pod("2500m", "1Gi")) // one to a machine, which has 3,920m
	bought := e.claimsAre(6, "Launched", func(c *karpv1.NodeClaim) bool { return isTrue(c, karpv1.ConditionLaunched) })
	e.deploy("second", 6, e.pod("1200m", "1Gi"))
	victim := ""
	for _, p := range e.pods() {
		if p.Labels["app"] == "first" {
			victim = p.Name
		}
	}
	e.must(s.Kube.CoreV1().Pods(e.name).Delete(e.ctx, victim, metav1.DeleteOptions{}))
	e.podsRefused(12)
	// A pod that no machine holds is refused by the step that decides on it, and that one knows all who were refused before it.
	e.deploy("last", 1, e.pod("100", "1Gi"))
	e.event("Pod", "last-", "FailedScheduling", "NodePool "+e.name+":")
	e.must(s.Kube.AppsV1().Deployments(e.name).Delete(e.ctx, "last", metav1.DeleteOptions{}))
	for _, n := range e.nodes() {
		if slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}) {
			t.Fatalf("node %s is Ready though its kubelet has not been started: nothing was in flight, and the test proves nothing", n.Name)
		}
	}
	e.startKubelets()
	pods := e.podsRun(12)
	on := map[string]map[string]int{}
	for _, p := range pods {
		if on[p.Spec.NodeName] == nil {
			on[p.Spec.NodeName] = map[string]int{}
		}
		on[p.Spec.NodeName][p.Labels["app"]]++
	}
	for node, apps := range on {
		if apps["first"] != 1 || apps["second"] != 1 {
			t.Errorf("node %s has %v, want one pod of each wave", node, apps)
		}
	}
	if seen := h.seen(t); len(seen) != len(bought) {
		t.Errorf("%d claims were made, want the %d of the first wave: %s", len(seen), len(bought), fmt.Sprint(len(e.launches(e.name)), " launches"))
	}
	if n := len(e.launches(e.name)); n != 6 {
		t.Errorf("%d machines were launched, want 6", n)
	}
	nodeOf := map[string]string{}
	for _, c := range e.claimsAre(6, "Ready", ready) {
		nodeOf[c.Name] = c.Status.NodeName
	}
	for i := range pods {
		for _, r := range reservations(&pods[i]) {
			if nodeOf[r] != pods[i].Spec.NodeName {
				t.Errorf("pod %s was let in to %s and runs on %s", pods[i].Name, nodeOf[r], pods[i].Spec.NodeName)
			}
		}
	}
}

// startKubelets waits until every claim of the pool has its node, and has the kubelets begin that kubeletAnnotation holds back.
func (e *env) startKubelets() {
	e.t.Helper()
	e.until("every machine has a node whose kubelet runs", func() error {
		nodes, all := e.nodes(), e.claims()
		for i := range nodes {
			if nodes[i].Annotations[kubeletAnnotation] != "" {
				if err := e.s.Patch(e.ctx, "/api/v1/nodes/"+nodes[i].Name, `{"metadata":{"annotations":{"`+kubeletAnnotation+`":null}}}`); err != nil {
					return err
				}
			}
		}
		if len(all) == 0 || len(nodes) < len(all) {
			return fmt.Errorf("%d nodes of %d claims", len(nodes), len(all))
		}
		return nil
	})
}

// Pods that fit on a node which is there already are kube-scheduler's affair.
func TestFreeRoomIsUsed(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "room")
	e.nodePool(map[string]any{"spec.template.spec.requirements": only("m5.2xlarge")})
	e.deploy("first", 1, e.pod("5", "1Gi"))
	e.podsRun(1)
	e.claimsAre(1, "Ready", ready)
	e.deploy("second", 5, e.pod("500m", "1Gi"))
	e.podsRun(6)
	if n := len(e.launches(e.name)); n != 1 {
		t.Errorf("%d machines were launched, want 1", n)
	}
}

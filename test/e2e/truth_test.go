// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

// names waits until the answer about an object has a reason of a code whose text holds the words.
func (e *env) names(subject string, code plan.Code, words ...string) {
	e.t.Helper()
	e.until(fmt.Sprintf("why %s names %s %s", subject, code, strings.Join(words, " ")), func() error {
		a, err := e.answer(subject)
		if err != nil {
			return err
		}
		for _, f := range a.Findings {
			text := f.Reason.Subject + " " + f.Reason.Key + " " + f.Reason.Have
			if f.Reason.Code == code && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
				return nil
			}
		}
		return fmt.Errorf("it says %+v", a.Findings)
	})
}

// TestEmptyNodeKeptForItsDaemonSet: a DaemonSet's PodDisruptionBudget that allows no disruption keeps a node that has no
// other pod. Nothing of a removal is begun until it allows one.
func TestEmptyNodeKeptForItsDaemonSet(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "daemon-pdb")
	e.nodePool(map[string]any{"spec.template.spec.requirements": only("m5.xlarge"), "spec.disruption.consolidateAfter": "0s"})
	agent := e.pod("100m", "64Mi")
	agent.Labels["app"] = "agent"
	_, err := s.Kube.AppsV1().DaemonSets(e.name).Create(e.ctx, &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agent"},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "agent"}}, Template: agent}}, metav1.CreateOptions{})
	e.must(err)
	one := intstr.FromInt32(1)
	_, err = s.Kube.PolicyV1().PodDisruptionBudgets(e.name).Create(e.ctx, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "agent"},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "agent"}}}}, metav1.CreateOptions{})
	e.must(err)
	e.deploy("web", 1, e.pod("1", "1Gi"))
	e.podsRun(2)
	claim := e.claimsAre(1, "Ready", ready)[0]
	e.scale("web", 0)
	e.podsRun(1)
	e.names("node/"+claim.Status.NodeName, plan.DisruptionBudgetPDB, e.name+"/agent")
	n := e.node(claim.Status.NodeName)
	if slices.ContainsFunc(n.Spec.Taints, func(x corev1.Taint) bool { return x.Key == model.TaintDisrupted }) || n.DeletionTimestamp != nil {
		t.Errorf("the removal has begun: taints %v, deletion %v", n.Spec.Taints, n.DeletionTimestamp)
	}
	e.claimsAre(1, "Ready", ready)
	e.must(s.Kube.PolicyV1().PodDisruptionBudgets(e.name).Delete(e.ctx, "agent", metav1.DeleteOptions{}))
	e.givenBack()
}

// TestPoolMadeAgain deletes a NodePool with --cascade=orphan and creates it again: its NodeClaim is its own again, owner
// reference included, and goes with it when it is deleted for good.
func TestPoolMadeAgain(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "pool-again")
	fields := map[string]any{"spec.template.spec.requirements": only("m5.xlarge")}
	e.nodePool(fields)
	e.deploy("web", 1, e.pod("1", "1Gi"))
	e.podsRun(1)
	claim := e.claimsAre(1, "Ready", ready)[0]
	first := e.pool().UID
	orphan := metav1.DeletePropagationOrphan
	e.must(s.Kube.CoreV1().RESTClient().Delete().AbsPath(pools + "/" + e.name).Body(&metav1.DeleteOptions{PropagationPolicy: &orphan}).Do(e.ctx).Error())
	e.until("the NodePool is gone and its NodeClaim has no owner", func() error {
		c := e.claims()
		if len(c) != 1 || len(c[0].OwnerReferences) > 0 {
			return fmt.Errorf("%d claims: %+v", len(c), c)
		}
		_, err := sandbox.Get[metav1.PartialObjectMetadata](e.ctx, s, pools+"/"+e.name)
		if err == nil {
			return fmt.Errorf("the NodePool is there")
		}
		return nil
	})
	e.nodePool(fields)
	again := e.pool().UID
	if again == first {
		t.Fatal("the NodePool is the same one")
	}
	e.until("the NodePool owns its NodeClaim again", func() error {
		c := e.claims()
		if len(c) != 1 || c[0].UID != claim.UID {
			return fmt.Errorf("%d claims, not the one from before", len(c))
		}
		if !slices.ContainsFunc(c[0].OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == again }) {
			return fmt.Errorf("its owners are %v", c[0].OwnerReferences)
		}
		return nil
	})
	e.scale("web", 0)
	e.must(s.Delete(e.ctx, pools+"/"+e.name, ""))
	e.givenBack()
}

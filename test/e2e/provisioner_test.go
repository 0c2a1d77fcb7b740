// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpv1alpha5 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha5"
	"github.com/dovetail-sh/dovetail/internal/testwait"
	"github.com/dovetail-sh/dovetail/test/e2e/sandbox"
)

const provisioners = "/apis/karpenter.sh/v1alpha5/provisioners"

// A Provisioner of the old API is enough to buy with, and says what became of each of its fields.
func TestProvisioner(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "old")
	e.must(s.Create(e.ctx, provisioners, fmt.Sprintf(`
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: old}
spec:
  labels: {%s: old}
  requirements:
  - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large, m5.xlarge]}
  - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}
  taints: [{key: example.com/t, effect: PreferNoSchedule}]
  limits: {resources: {cpu: "100"}}
  weight: 7
  ttlSecondsAfterEmpty: 1
  kubeletConfiguration: {maxPods: 20}
`, testLabel)))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testwait.Scale(limit))
		defer cancel()
		for _, path := range []string{provisioners + "/old", pools + "/old"} {
			if err := s.Delete(ctx, path, ""); err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
	})
	e.poolCondition(e.name, karpv1.ConditionReady, metav1.ConditionTrue)
	pool := e.pool()
	p, err := sandbox.Get[karpv1alpha5.Provisioner](e.ctx, s, provisioners+"/old")
	e.must(err)
	if !slices.ContainsFunc(pool.OwnerReferences, func(r metav1.OwnerReference) bool { return r.Kind == "Provisioner" && r.UID == p.UID }) {
		t.Errorf("the NodePool's owners are %+v, want the Provisioner", pool.OwnerReferences)
	}
	d := pool.Spec.Disruption
	if d.ConsolidationPolicy != karpv1.ConsolidationPolicyWhenEmpty || d.ConsolidateAfter.Duration == nil || d.ConsolidateAfter.Duration.Seconds() != 1 ||
		pool.Spec.Template.Spec.ExpireAfter.Duration != nil || pool.Spec.Weight == nil || *pool.Spec.Weight != 7 || len(d.Budgets) != 1 || d.Budgets[0].Nodes != "100%" {
		t.Errorf("the NodePool's spec is %+v", pool.Spec)
	}

	e.deploy("web", 2, e.pod("1", "1Gi"))
	e.podsRun(2)
	nodes := e.nodes()
	if len(nodes) == 0 {
		t.Fatal("the pods run, but the Provisioner has no node")
	}
	for _, n := range nodes {
		wantAll(t, "label of node "+n.Name, n.Labels, map[string]string{
			"karpenter.sh/provisioner-name": "old", "karpenter.sh/nodepool": "old", "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"})
	}
	// Pods of that time choose by the label that the API no longer lets a pool have.
	pod := e.pod("1500m", "1Gi")
	pod.Spec.NodeSelector = map[string]string{"karpenter.sh/provisioner-name": "old"}
	e.deploy("by-name", 1, pod)
	e.podsRun(3)

	e.until("the Provisioner says what became of it", func() error {
		p, err := sandbox.Get[karpv1alpha5.Provisioner](e.ctx, s, provisioners+"/old")
		if err != nil {
			return err
		}
		ready, translated := conditionOf(p.Status.Conditions, karpv1alpha5.ConditionReady), conditionOf(p.Status.Conditions, karpv1alpha5.ConditionTranslated)
		tr := p.Status.Translation
		if ready == nil || ready.Status != metav1.ConditionTrue || translated == nil || tr == nil || tr.NodePool != "old" || tr.ObservedGeneration != p.Generation {
			return fmt.Errorf("conditions %s, translation %+v", conditionsText(p.Status.Conditions), tr)
		}
		if translated.Status != metav1.ConditionFalse || len(tr.Untranslated) != 1 || tr.Untranslated[0].Field != "spec.kubeletConfiguration" || tr.Untranslated[0].Message == "" {
			return fmt.Errorf("untranslated: %s, %+v", conditionsText(p.Status.Conditions), tr.Untranslated)
		}
		for _, field := range []string{"spec.labels", "spec.requirements", "spec.taints", "spec.limits.resources", "spec.weight", "spec.ttlSecondsAfterEmpty"} {
			if !slices.ContainsFunc(tr.Translated, func(f karpv1alpha5.TranslatedField) bool { return f.Field == field && f.NodePoolField != "" }) {
				return fmt.Errorf("nothing is said of %s: %+v", field, tr.Translated)
			}
		}
		if p.Status.Resources.Cpu().IsZero() {
			return fmt.Errorf("resources: %v", p.Status.Resources)
		}
		return nil
	})
	e.scale("web", 0)
	e.scale("by-name", 0)
	e.givenBack()
}

// A change of the Provisioner reaches its NodePool; a NodePool of somebody else is left alone.
func TestProvisionerChangesAndConflicts(t *testing.T) {
	s := shared(t)
	t.Parallel()
	e := newEnv(t, s, "old-changes")
	text := "{apiVersion: karpenter.sh/v1alpha5, kind: Provisioner, metadata: {name: %s}, spec: {labels: {" + testLabel + ": " + e.name + "}, weight: 1}}"
	e.otherPool("old-taken", map[string]any{"spec.weight": 50})
	e.must(s.Create(e.ctx, provisioners, fmt.Sprintf(text, "old-taken")))
	e.must(s.Create(e.ctx, provisioners, fmt.Sprintf(text, e.name)))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testwait.Scale(limit))
		defer cancel()
		for _, path := range []string{provisioners + "/" + e.name, provisioners + "/old-taken", pools + "/" + e.name} {
			if err := s.Delete(ctx, path, ""); err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
	})
	e.poolCondition(e.name, karpv1.ConditionReady, metav1.ConditionTrue)
	e.must(s.Patch(e.ctx, provisioners+"/"+e.name, `{"spec":{"weight":9}}`))
	e.until("the NodePool has the new weight", func() error {
		if w := e.pool().Spec.Weight; w == nil || *w != 9 {
			return fmt.Errorf("weight %v", w)
		}
		return nil
	})
	e.until("the Provisioner says that its name is taken", func() error {
		p, err := sandbox.Get[karpv1alpha5.Provisioner](e.ctx, s, provisioners+"/old-taken")
		if err != nil {
			return err
		}
		if c := conditionOf(p.Status.Conditions, karpv1alpha5.ConditionTranslated); c == nil || c.Status != metav1.ConditionFalse || c.Reason != karpv1alpha5.ReasonNodePoolConflict {
			return fmt.Errorf("%s", conditionsText(p.Status.Conditions))
		}
		return nil
	})
	taken, err := sandbox.Get[karpv1.NodePool](e.ctx, s, pools+"/old-taken")
	e.must(err)
	if taken.Spec.Weight == nil || *taken.Spec.Weight != 50 || len(taken.OwnerReferences) > 0 {
		t.Errorf("the NodePool of somebody else is now %+v, owned by %+v", taken.Spec, taken.OwnerReferences)
	}
}

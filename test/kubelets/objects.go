// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const nodePool = `{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: default}, spec: {
  template: {spec: {nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}, expireAfter: Never,
    requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]}},
  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 10s, budgets: [{nodes: "100%"}]}}}`

// setUp makes the NodePool, the DaemonSets, and the Deployments without pods, each with a PodDisruptionBudget that lets a quarter of its pods go.
func (b *bench) setUp(ctx context.Context) error {
	s := b.Sandbox
	if err := s.Create(ctx, "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses", "{apiVersion: karpenter.kwok.sh/v1alpha1, kind: KWOKNodeClass, metadata: {name: default}, spec: {}}"); err != nil {
		return fmt.Errorf("create the node class: %w", err)
	}
	if err := s.Create(ctx, "/apis/karpenter.sh/v1/nodepools", nodePool); err != nil {
		return fmt.Errorf("create the NodePool: %w", err)
	}
	for _, name := range []string{"agent", "logs"} {
		d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
		d.Spec.Selector, d.Spec.Template = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, template(name, "100m", 0)
		if _, err := s.Kube.AppsV1().DaemonSets("default").Create(ctx, d, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create DaemonSet %s: %w", name, err)
		}
	}
	quarter, none := intstr.FromString("25%"), int32(0)
	for _, k := range kinds {
		selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": k.name}}
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: k.name}}
		d.Spec.Replicas, d.Spec.Selector, d.Spec.Template = &none, selector, template(k.name, k.cpu, k.stop)
		if _, err := s.Kube.AppsV1().Deployments("default").Create(ctx, d, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create Deployment %s: %w", k.name, err)
		}
		budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: k.name}, Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &quarter, Selector: selector}}
		if _, err := s.Kube.PolicyV1().PodDisruptionBudgets("default").Create(ctx, budget, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create PodDisruptionBudget %s: %w", k.name, err)
		}
	}
	return nil
}

// template is a pod of an app with a grace period of thirty seconds, which takes some of them to stop.
func template(app, cpu string, stop int) corev1.PodTemplateSpec {
	grace := int64(30)
	t := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}}}
	t.Spec.TerminationGracePeriodSeconds = &grace
	c := corev1.Container{Name: "c", Image: "registry.k8s.io/pause:3.10", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("64Mi")}}}
	if stop > 0 {
		c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: int64(stop)}}}
	}
	t.Spec.Containers = []corev1.Container{c}
	return t
}

// scale sets how many pods of each kind are wanted.
func (b *bench) scale(ctx context.Context, to []int) error {
	for i, k := range kinds {
		b.want[i] = to[i]
		if err := b.Sandbox.Patch(ctx, "/apis/apps/v1/namespaces/default/deployments/"+k.name, fmt.Sprintf(`{"spec":{"replicas":%d}}`, to[i])); err != nil {
			return err
		}
	}
	return nil
}

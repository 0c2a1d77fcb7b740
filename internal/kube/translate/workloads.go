// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Replicas returns the number of replicas of a workload, which defaults to 1.
func Replicas(n *int32) int {
	if n == nil {
		return 1
	}
	return int(*n)
}

// daemonTolerations returns the tolerations that the DaemonSet controller adds to every pod.
func daemonTolerations(hostNetwork bool) []corev1.Toleration {
	out := []corev1.Toleration{
		{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeDiskPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodePIDPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	}
	if hostNetwork {
		out = append(out, corev1.Toleration{
			Key: corev1.TaintNodeNetworkUnavailable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule,
		})
	}
	return out
}

// DaemonSet translates a DaemonSet to the pods that it creates, including admission defaults. The tolerations are only
// those of the template and of the DaemonSet controller, which does not apply admission plugins when it decides whether
// a node gets a pod.
func (t *Translator) DaemonSet(d *appsv1.DaemonSet) *model.Daemon {
	pod := &corev1.Pod{Spec: *d.Spec.Template.Spec.DeepCopy()}
	pod.Namespace, pod.Labels = d.Namespace, d.Spec.Template.Labels
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}
	onlyNamedNode(&pod.Spec)
	tolerations := append(slices.Clone(pod.Spec.Tolerations), daemonTolerations(pod.Spec.HostNetwork)...)
	t.Admit(pod)
	pod.Spec.Tolerations = tolerations
	return &model.Daemon{Namespace: d.Namespace, Name: d.Name, UID: string(d.UID), Class: t.class(pod, true),
		Generation: d.Annotations[appsv1.DeprecatedTemplateGeneration]}
}

// onlyNamedNode has a template that names a node say so by node affinity: the DaemonSet controller makes a pod for that node alone, if
// the rest of the template allows it.
func onlyNamedNode(s *corev1.PodSpec) {
	if s.NodeName == "" {
		return
	}
	is := corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{s.NodeName}}
	s.NodeName = ""
	if s.Affinity == nil {
		s.Affinity = &corev1.Affinity{}
	}
	if s.Affinity.NodeAffinity == nil {
		s.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	a := s.Affinity.NodeAffinity
	if a.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		a.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{is}}}}
		return
	}
	terms := a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	for i := range terms {
		if len(terms[i].MatchExpressions)+len(terms[i].MatchFields) > 0 { // an empty term matches no node
			terms[i].MatchFields = append(terms[i].MatchFields, is)
		}
	}
}

// Deployment translates a Deployment.
func (t *Translator) Deployment(d *appsv1.Deployment) *model.Deployment {
	out := &model.Deployment{
		Namespace: d.Namespace, Name: d.Name, UID: string(d.UID), Surge: d.Annotations[model.AnnotationSurge], Replicas: 1, Paused: d.Spec.Paused,
		Recreate: d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType, RestartedAt: d.Spec.Template.Annotations[model.AnnotationRestartedAt],
	}
	if d.Spec.Replicas != nil {
		out.Replicas = *d.Spec.Replicas
	}
	if r := d.Spec.Strategy.RollingUpdate; r != nil && r.MaxSurge != nil && !out.Recreate {
		if n, err := intstr.GetScaledValueFromIntOrPercent(r.MaxSurge, int(out.Replicas), true); err == nil {
			out.MaxSurge = int32(n)
		}
	}
	out.Rolling = d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas < out.Replicas
	return out
}

// PDB translates a PodDisruptionBudget.
func (t *Translator) PDB(p *policyv1.PodDisruptionBudget) *model.PDB {
	out := &model.PDB{
		Namespace: p.Namespace, Name: p.Name, Selector: selector(nil, "", p.Spec.Selector),
		DisruptionsAllowed: p.Status.DisruptionsAllowed,
		AlwaysAllowUnready: p.Spec.UnhealthyPodEvictionPolicy != nil && *p.Spec.UnhealthyPodEvictionPolicy == policyv1.AlwaysAllow,
		Healthy:            p.Status.CurrentHealthy, Desired: p.Status.DesiredHealthy, Expected: p.Status.ExpectedPods,
	}
	if v := p.Spec.MinAvailable; v != nil {
		out.MinAvailable = v.String()
	}
	if v := p.Spec.MaxUnavailable; v != nil {
		out.MaxUnavailable = v.String()
	}
	return out
}

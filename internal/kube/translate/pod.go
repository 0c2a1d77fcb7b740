// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	karpv1alpha5 "github.com/dovetail-sh/dovetail/api/karpenter/v1alpha5"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// annotationResizedByVPA is on pods that VPA has resized in place.
const annotationResizedByVPA = "vpaInPlaceUpdated"

// annotationSafeToEvict is Cluster Autoscaler's word for pods that may be moved, or may not.
const annotationSafeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"

// Pod translates a pod.
func (t *Translator) Pod(p *corev1.Pod) *model.Pod {
	out := &model.Pod{
		Namespace: p.Namespace, Name: p.Name, UID: string(p.UID),
		Node: p.Spec.NodeName, Nominated: p.Status.NominatedNodeName, Created: p.CreationTimestamp.Time, Seen: ResourceVersion(p.ResourceVersion),
		Terminal: p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed,
		Failed:   p.Status.Phase == corev1.PodFailed, Finalizers: p.Finalizers,
		Gated: len(p.Spec.SchedulingGates) > 0, GracePeriod: 30 * time.Second,
	}
	if o := metav1.GetControllerOfNoCopy(p); o != nil {
		out.Owner = model.Owner{Kind: bounded(o.Kind), Name: bounded(o.Name), UID: bounded(string(o.UID))}
		if hash := p.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; hash != "" && o.Kind == "ReplicaSet" {
			if name, ok := strings.CutSuffix(o.Name, "-"+hash); ok {
				out.Deployment = name
			}
		}
	}
	out.Deleting = DeletionTime(p)
	if g := p.Spec.TerminationGracePeriodSeconds; g != nil {
		out.GracePeriod = time.Duration(*g) * time.Second
	}
	for i := range p.Status.Conditions {
		switch c := &p.Status.Conditions[i]; c.Type {
		case corev1.PodReady:
			if out.Ready = c.Status == corev1.ConditionTrue; out.Ready {
				out.ReadySince = c.LastTransitionTime.Time
			}
		case corev1.PodScheduled:
			switch {
			case c.Status == corev1.ConditionTrue:
				out.Bound = c.LastTransitionTime.Time
			case c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable:
				out.Unschedulable, out.Refusal = c.LastTransitionTime.Time, shortened(c.Message)
			}
		}
	}
	if out.Node == "" {
		out.Bound = time.Time{}
	} else {
		out.Starting = p.Status.Phase == "" || p.Status.Phase == corev1.PodPending
		out.Unschedulable, out.Refusal = time.Time{}, ""
		if out.Bound.IsZero() {
			// Bound without kube-scheduler (spec.nodeName was given): no condition says when.
			out.Bound = p.CreationTimestamp.Time
		}
	}
	if len(p.Annotations) > 0 {
		_, out.Mirror = p.Annotations[corev1.MirrorPodAnnotationKey]
		out.DoNotDisrupt = p.Annotations[karpv1.AnnotationDoNotDisrupt]
		if out.DoNotDisrupt == "" && p.Annotations[karpv1alpha5.AnnotationDoNotEvict] == "true" {
			out.DoNotDisrupt, out.DoNotEvict = "true", true
		}
		out.ByVPA = p.Annotations[annotationResizedByVPA] != ""
		out.SafeToEvict, out.RestartCost = p.Annotations[annotationSafeToEvict], p.Annotations[model.AnnotationRestartCost]
		out.RestartedAt, out.Surge = p.Annotations[model.AnnotationRestartedAt], p.Annotations[model.AnnotationSurge]
		out.DisruptionCost = disruptionCost(p.Annotations)
		out.DeletionCost, out.OwnDeletionCost = p.Annotations[corev1.PodDeletionCost], p.Annotations[model.AnnotationDeletionCost]
	}
	out.Mirror = out.Mirror || out.Owner.Kind == "Node"
	for i := range p.Spec.Tolerations {
		if p.Spec.Tolerations[i].Key == model.TaintReserved && p.Spec.Tolerations[i].Value != "" {
			v := p.Spec.Tolerations[i].Value
			if !slices.Contains(out.Reservations, v) {
				out.Reservations = append(out.Reservations, v)
			}
			out.ReservedFor = v
		}
	}
	out.Gang, _ = t.gangOf(p)
	out.Consumes = t.consumed(p)
	podRuleFacts(out, p)
	out.Class = t.class(p, out.Mirror || out.Owner.Kind == "DaemonSet")
	return out
}

// mostMessageBytes is how much of what another component says is kept.
const mostMessageBytes = 512

// shortened returns the beginning of a message.
func shortened(s string) string {
	if len(s) <= mostMessageBytes {
		return s
	}
	return strings.ToValidUTF8(s[:mostMessageBytes], "") + "…"
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresources "k8s.io/component-helpers/resource"

	bufferv1beta1 "github.com/dovetail-sh/dovetail/api/autoscaling/v1beta1"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Reasons of the conditions of a CapacityBuffer about the objects that it refers to.
const (
	bufferResolved            = "Resolved"
	bufferPodTemplateNotFound = "PodTemplateNotFound"
	bufferScalableRefNotFound = "ScalableRefNotFound"
	BufferResolutionFailed    = "ResolutionFailed"
	bufferQuotasAllocated     = "ResourceQuotasAllocated"
	bufferWithinQuotas        = "WithinResourceQuotas"
)

// mostVirtual is how many pods capacity is held for by one buffer: more is a digit too many, or a limit far above all else.
const mostVirtual = model.MostExpected

// PodShape is the pod template of a CapacityBuffer, and the number of replicas of its workload.
type PodShape struct {
	Template     *corev1.PodTemplateSpec // nil: unknown
	templateName string                  // of the PodTemplate; empty: the template is a workload's
	generation   int64                   // of the PodTemplate
	Replicas     int32                   // replicas of the workload; 0 without a workload
	Reason, Why  string                  // why the template is unknown
}

// SizedBuffer is a translated CapacityBuffer before quotas are applied.
type SizedBuffer struct {
	*model.Buffer
	Version  uint64
	Requests corev1.ResourceList // of one pod, including the resource pods
	Template *corev1.PodSpec     // as written; nil: unknown
}

// CapacityBuffer translates a buffer with pods of this shape. ApplyQuotas applies quotas.
func (t *Translator) CapacityBuffer(b *bufferv1beta1.CapacityBuffer, shape PodShape) SizedBuffer {
	m := &model.Buffer{
		Namespace: b.Namespace, Name: b.Name, UID: string(b.UID), Created: b.CreationTimestamp.Time, MaxHourMicro: -1, Total: -1,
		Group: b.Annotations[model.AnnotationShareGroup], Status: BufferStatus(b), TemplateName: shape.templateName, TemplateGeneration: shape.generation,
	}
	out := SizedBuffer{Buffer: m, Version: ResourceVersion(b.ResourceVersion)}
	refuse := func(reason, why string) SizedBuffer {
		m.Ready = model.Condition{Status: "False", Reason: reason, Message: why}
		return out
	}
	if s := b.Spec.ProvisioningStrategy; s != nil && *s != "" && *s != bufferv1beta1.StrategyActiveCapacity {
		return refuse(BufferResolutionFailed, fmt.Sprintf("spec.provisioningStrategy %q is not supported; use %q", *s, bufferv1beta1.StrategyActiveCapacity))
	}
	if text, ok := b.Annotations[model.AnnotationMaxHour]; ok {
		micro, ok := model.ParseDollars(text)
		if !ok {
			return refuse(BufferResolutionFailed, fmt.Sprintf("metadata.annotations[%s] %q is not a price; use a number of dollars from 0 to 1000000, such as \"0.50\"", model.AnnotationMaxHour, text))
		}
		m.MaxHourMicro = micro
	}
	if shape.Template == nil {
		return refuse(shape.Reason, shape.Why)
	}
	pod := t.virtualPod(b.Namespace, shape.Template)
	m.Like = &model.Pod{Namespace: b.Namespace, Class: t.class(pod, false), Created: m.Created, Expected: true, Buffer: m.Key()}
	out.Template = &shape.Template.Spec
	out.Requests = podresources.PodRequests(pod, podresources.PodResourcesOptions{})
	out.Requests[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	m.Replicas = bufferReplicas(&b.Spec, shape.Replicas, out.Requests)
	if text, ok := b.Annotations[model.AnnotationTotalReplicas]; ok {
		total, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return refuse(BufferResolutionFailed, fmt.Sprintf("metadata.annotations[%s] %q is not a number of replicas; use one such as \"300\"", model.AnnotationTotalReplicas, text))
		}
		m.Total = int(total)
		if ref := b.Spec.ScalableRef; ref != nil {
			m.Workload = model.Workload{Namespace: b.Namespace, Kind: ref.Kind, Name: ref.Name}
		}
	}
	m.Ready = model.Condition{Status: "True", Reason: bufferResolved, Message: fmt.Sprintf("Capacity is requested for %s.", model.Count(m.Replicas, "pod"))}
	if m.Replicas > mostVirtual {
		m.Ready.Message = fmt.Sprintf("Capacity is requested for %d pods, and held for %d, the maximum of one buffer.", m.Replicas, mostVirtual)
		m.Replicas = mostVirtual
	}
	return out
}

// virtualPod is a pod of a template as it would be made, without what ties it to one node or to claims, and of the lowest priority.
func (t *Translator) virtualPod(namespace string, template *corev1.PodTemplateSpec) *corev1.Pod {
	pod := podOf(namespace, template)
	lowest := int32(model.VirtualPriority)
	pod.Spec.Priority, pod.Spec.PriorityClassName = &lowest, ""
	t.Admit(pod)
	return pod
}

// templatePod is a pod of a template as it would be made, without what ties it to one node or to claims.
func (t *Translator) templatePod(namespace string, template *corev1.PodTemplateSpec) *corev1.Pod {
	pod := podOf(namespace, template)
	t.Admit(pod)
	return pod
}

// podOf is a pod of a template without what ties it to one node or to claims. Its ephemeral volumes are kept: their StorageClass says where
// these can be made.
func podOf(namespace string, template *corev1.PodTemplateSpec) *corev1.Pod {
	pod := &corev1.Pod{Spec: *template.Spec.DeepCopy()}
	pod.Namespace, pod.Labels = namespace, template.Labels
	s := &pod.Spec
	s.NodeName, s.SchedulingGates = "", nil
	s.Volumes = slices.DeleteFunc(s.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil })
	return pod
}

// bufferReplicas returns the number of pods for which a buffer wants capacity, before quotas: the larger of replicas and
// percentage, but at most as many as limits allow; with limits alone, that number.
func bufferReplicas(s *bufferv1beta1.CapacityBufferSpec, workload int32, requests corev1.ResourceList) int {
	want, said := int64(0), false
	if s.Replicas != nil {
		want, said = max(0, int64(*s.Replicas)), true
	}
	if s.Percentage != nil && s.ScalableRef != nil {
		want, said = max(want, (int64(workload)*int64(*s.Percentage)+99)/100), true
	}
	if fit, bounded := podsWithin(s.Limits, requests); bounded && (!said || fit < want) {
		want = fit
	}
	return int(min(want, math.MaxInt32))
}

// podsWithin returns how many pods with these requests fit in amounts; bounded is false if they request none of these
// resources.
func podsWithin(amounts, requests corev1.ResourceList) (pods int64, bounded bool) {
	pods = math.MaxInt64
	for name, amount := range amounts {
		if r, ok := requests[name]; ok && r.Sign() > 0 {
			pods, bounded = min(pods, max(0, quotient(amount, r))), true
		}
	}
	return pods, bounded
}

// quotient returns how many times r fits in amount, computed in milli-units if those are exact.
func quotient(amount, r resource.Quantity) int64 {
	switch {
	case amount.Cmp(r) < 0:
		return 0
	case amount.CmpInt64(mostAmount/1000) < 0:
		return MilliOf(amount) / MilliOf(r)
	}
	return AmountOf(amount) / AmountOf(r)
}

// BufferStatus translates the status stored in the API server.
func BufferStatus(b *bufferv1beta1.CapacityBuffer) model.BufferStatus {
	out := model.BufferStatus{Replicas: -1, Conditions: Conditions(b.Status.Conditions)}
	if r := b.Status.PodTemplateRef; r != nil {
		out.TemplateName = r.Name
	}
	if g := b.Status.PodTemplateGeneration; g != nil {
		out.TemplateGeneration = *g
	}
	if n := b.Status.Replicas; n != nil {
		out.Replicas = int(*n)
	}
	if s := b.Status.ProvisioningStrategy; s != nil {
		out.Strategy = *s
	}
	return out
}

// ShapeOfTemplate returns the pod shape of a buffer with this PodTemplate; nil: the PodTemplate does not exist.
func ShapeOfTemplate(b *bufferv1beta1.CapacityBuffer, t *corev1.PodTemplate) PodShape {
	if t == nil {
		return PodShape{Reason: bufferPodTemplateNotFound, Why: fmt.Sprintf("spec.podTemplateRef: PodTemplate %s/%s not found; create it, or correct the reference", b.Namespace, b.Spec.PodTemplateRef.Name)}
	}
	return PodShape{Template: &t.Template, templateName: t.Name, generation: t.Generation}
}

// ShapeWithoutReference returns the pod shape of a buffer without a reference.
func ShapeWithoutReference() PodShape {
	return PodShape{Reason: BufferResolutionFailed, Why: "neither spec.podTemplateRef nor spec.scalableRef is set; set one of them"}
}

// ShapeOfMissing returns the pod shape of a buffer whose workload does not exist.
func ShapeOfMissing(b *bufferv1beta1.CapacityBuffer) PodShape {
	ref := b.Spec.ScalableRef
	return PodShape{Reason: bufferScalableRefNotFound, Why: fmt.Sprintf("spec.scalableRef: %s %s/%s not found; create it, or correct the reference", ref.Kind, b.Namespace, ref.Name)}
}

// ShapeOfWorkload returns the pod shape of a workload with its own pod template.
func ShapeOfWorkload(t *corev1.PodTemplateSpec, replicas *int32) PodShape {
	return PodShape{Template: t, Replicas: int32(Replicas(replicas))}
}

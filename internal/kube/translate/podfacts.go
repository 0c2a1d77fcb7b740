// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	corev1 "k8s.io/api/core/v1"
	podresources "k8s.io/component-helpers/resource"

	"github.com/dovetail-sh/dovetail/internal/state"
)

// PodFacts returns the metrics data of a pod. Limits are summed like requests; a pod without limits has none.
func (t *Translator) PodFacts(p *corev1.Pod) *state.PodFacts {
	out := &state.PodFacts{
		Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Node: p.Spec.NodeName, Phase: string(p.Status.Phase), Created: p.CreationTimestamp.Time,
		ClaimsResources: len(p.Spec.ResourceClaims) > 0,
	}
	if len(p.OwnerReferences) > 0 {
		o := &p.OwnerReferences[0]
		out.OwnerVersion, out.OwnerKind, out.OwnerName = o.APIVersion, o.Kind, o.Name
	}
	for i := range p.OwnerReferences {
		out.Daemon = out.Daemon || p.OwnerReferences[i].Kind == "DaemonSet"
	}
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case corev1.PodReady:
			out.Ready, out.ReadyAt = true, c.LastTransitionTime.Time
		case corev1.PodScheduled:
			out.Scheduled, out.ScheduledAt = true, c.LastTransitionTime.Time
		}
	}
	if limits := podresources.PodLimits(p, podresources.PodResourcesOptions{}); len(limits) > 0 {
		out.Limits = t.Resources(limits, 0)
		if out.Limits.IsZero() {
			out.Limits = nil
		}
	}
	return out
}

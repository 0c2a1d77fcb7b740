// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// DefaultSpread returns the default topology spread constraints of kube-scheduler for a pod without constraints: the
// defaults, with the selectors of the pod's Services and of its controller; nil if none selects it. of is the selector
// of the controller.
func (t *Translator) DefaultSpread(p *corev1.Pod, of *metav1.LabelSelector) []corev1.TopologySpreadConstraint {
	name := p.Spec.SchedulerName
	if name == "" {
		name = corev1.DefaultSchedulerName
	}
	defaults := t.Defaults[name]
	if len(defaults) == 0 || len(p.Spec.TopologySpreadConstraints) > 0 || t.Lookup == nil {
		return nil
	}
	sel := &metav1.LabelSelector{}
	for _, s := range t.Lookup.Services(p.Namespace) {
		if len(s.Spec.Selector) > 0 && labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(p.Labels)) {
			if sel.MatchLabels == nil {
				sel.MatchLabels = map[string]string{}
			}
			maps.Copy(sel.MatchLabels, s.Spec.Selector)
		}
	}
	if of != nil {
		for _, k := range slices.Sorted(maps.Keys(of.MatchLabels)) {
			sel.MatchExpressions = append(sel.MatchExpressions, metav1.LabelSelectorRequirement{Key: k, Operator: metav1.LabelSelectorOpIn, Values: []string{of.MatchLabels[k]}})
		}
		sel.MatchExpressions = append(sel.MatchExpressions, of.MatchExpressions...)
	}
	if len(sel.MatchLabels)+len(sel.MatchExpressions) == 0 {
		return nil
	}
	out := slices.Clone(defaults)
	for i := range out {
		out[i].LabelSelector = sel
	}
	return out
}

// Kinds of controllers whose selectors kube-scheduler uses.
const (
	KindReplicaSet  = "ReplicaSet"
	KindStatefulSet = "StatefulSet"
	KindController  = "ReplicationController"
)

// selectorOfOwner returns the pod selector of the pod's controller, nil if kube-scheduler does not use it.
func (t *Translator) selectorOfOwner(p *corev1.Pod) *metav1.LabelSelector {
	o := metav1.GetControllerOfNoCopy(p)
	if o == nil || t.Lookup == nil {
		return nil
	}
	switch {
	case o.APIVersion == appsv1.SchemeGroupVersion.String() && (o.Kind == KindReplicaSet || o.Kind == KindStatefulSet), o.APIVersion == "v1" && o.Kind == KindController:
		return t.Lookup.OwnerSelector(o.Kind, p.Namespace, o.Name)
	}
	return nil
}

// TakesDefaults reports whether the default constraints of the scheduler apply to a pod.
func (t *Translator) TakesDefaults(p *corev1.Pod) bool {
	name := p.Spec.SchedulerName
	if name == "" {
		name = corev1.DefaultSchedulerName
	}
	return len(t.Defaults[name]) > 0 && len(p.Spec.TopologySpreadConstraints) == 0
}

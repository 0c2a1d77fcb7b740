// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package manifests

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/headroom"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// Headrooms returns the Headrooms of the set with their target workloads, by namespace and name. Call Feed first.
func (m *Set) Headrooms(table *state.ResourceTable) []headroom.Targeted {
	t := &translate.Translator{Table: table, Lookup: m, Defaults: m.Scheduler}
	var out []headroom.Targeted
	for _, o := range m.objects {
		h, ok := o.Object.(*dovetailv1alpha1.Headroom)
		if !ok {
			continue
		}
		in := headroom.Targeted{Object: t.Headroom(h)}
		for i := range m.objects {
			if x := m.objects[i]; x.GetNamespace() == h.Namespace && isTarget(&h.Spec.Target, x) {
				in.Targets = append(in.Targets, m.target(t, x))
			}
		}
		if len(in.Targets) == 0 {
			in.Problems = append(in.Problems, headroom.Problem{Reason: headroom.TargetNotFound, Field: "spec.target", Why: "the input has no workload that it names or selects", Remedy: "Add it to the input"})
		}
		out = append(out, in)
	}
	return out
}

// isTarget reports whether a Headroom of its namespace is for an object.
func isTarget(target *dovetailv1alpha1.HeadroomTarget, o object) bool {
	switch o.Object.(type) {
	case *corev1.PodTemplate:
		return target.PodTemplateRef != nil && target.PodTemplateRef.Name == o.GetName()
	case *appsv1.Deployment, *appsv1.StatefulSet:
		if target.Selector != nil {
			chosen, err := metav1.LabelSelectorAsSelector(target.Selector)
			return err == nil && chosen.Matches(labels.Set(o.GetLabels()))
		}
	case *appsv1.ReplicaSet:
	default:
		return false
	}
	w := target.Workload
	return w != nil && w.Kind == o.kind && w.Name == o.GetName()
}

func (m *Set) target(t *translate.Translator, o object) headroom.Target {
	out := headroom.Target{WorkloadName: headroom.WorkloadName{Namespace: o.GetNamespace(), Group: appsv1.GroupName, Kind: o.kind, Name: o.GetName()}}
	var template *corev1.PodTemplateSpec
	switch x := o.Object.(type) {
	case *corev1.PodTemplate:
		template, out.Group = &x.Template, ""
	case *appsv1.Deployment:
		template, out.Replicas = &x.Spec.Template, translate.Replicas(x.Spec.Replicas)
	case *appsv1.StatefulSet:
		template, out.Replicas = &x.Spec.Template, translate.Replicas(x.Spec.Replicas)
	case *appsv1.ReplicaSet:
		template, out.Replicas = &x.Spec.Template, translate.Replicas(x.Spec.Replicas)
	}
	p := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	p.Namespace, p.Name = o.GetNamespace(), "" // what pods of a template are called is not up to it
	m.admit(t, p, o.kind+" "+translate.Key(o), 0)
	out.Class = t.Pod(p).Class
	return out
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/headroom"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// HeadroomInput is a Headroom with the workloads that it is for.
type HeadroomInput struct {
	headroom.Object // what can't be resolved is among its Problems
	Targets         []headroom.Target
}

// ListHeadrooms reads the Headrooms of a namespace as they are; of all where it is empty.
func ListHeadrooms(ctx context.Context, c *Client, namespace string) ([]dovetailv1alpha1.Headroom, error) {
	var list dovetailv1alpha1.HeadroomList
	err := c.Dovetail.Get().Namespace(namespace).Resource("headrooms").Do(ctx).Into(&list)
	if isNotFound(err) {
		return nil, fmt.Errorf("API server %s does not serve headrooms.%s: install the CustomResourceDefinitions of charts/dovetail/crds", c.Address, dovetailv1alpha1.Group)
	}
	if err != nil {
		return nil, fmt.Errorf("list headrooms of API server %s: %w", c.Address, err)
	}
	slices.SortFunc(list.Items, func(a, b dovetailv1alpha1.Headroom) int { return cmp.Compare(key(&a), key(&b)) })
	return list.Items, nil
}

// ReadHeadrooms reads all Headrooms of a cluster and the workloads that they are for, by namespace and name.
func ReadHeadrooms(ctx context.Context, c *Client, table *state.ResourceTable) ([]HeadroomInput, error) {
	list, err := ListHeadrooms(ctx, c, "")
	if err != nil {
		return nil, err
	}
	x := NewHeadrooms(c, table, nil)
	var out []HeadroomInput
	for i := range list {
		c.headrooms.set(key(&list[i]), &list[i])
		in := HeadroomInput{Object: x.t.Headroom(&list[i])}
		var problem headroom.Problem
		if in.Targets, err = x.Targets(ctx, &in.Spec); errors.As(err, &problem) {
			in.Problems = append(in.Problems, problem)
		} else if err != nil {
			return nil, err
		}
		out = append(out, in)
	}
	return out, nil
}

// Headrooms returns the Headrooms that were read and the workloads that they are for, by namespace and name. Call Feed
// first.
func (m *Manifests) Headrooms(table *state.ResourceTable) []HeadroomInput {
	t := &translate.Translator{Table: table, Lookup: m, Defaults: m.Scheduler}
	var out []HeadroomInput
	for _, o := range m.objects {
		h, ok := o.Object.(*dovetailv1alpha1.Headroom)
		if !ok {
			continue
		}
		in := HeadroomInput{Object: t.Headroom(h)}
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

func (m *Manifests) target(t *translate.Translator, o object) headroom.Target {
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
	p.Namespace = o.GetNamespace()
	m.admit(t, p, o.kind+" "+key(o), 0)
	out.Class = t.Pod(p).Class
	return out
}

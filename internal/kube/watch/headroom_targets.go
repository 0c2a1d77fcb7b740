// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package watch

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/headroom"
	"github.com/dovetail-sh/dovetail/internal/kube/client"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Targets returns the current target workloads of a Headroom, by kind and name. The error is a headroom.Problem if the
// spec is invalid.
func (x *Headrooms) Targets(ctx context.Context, s *headroom.Spec) ([]headroom.Target, error) {
	h, ok := x.c.Seen.Headrooms.Get(s.Key())
	if !ok {
		return nil, fmt.Errorf("read targets of headroom %s: it is gone", s.Key())
	}
	var out []headroom.Target
	var err error
	switch target := &h.Spec.Target; {
	case target.PodTemplateRef != nil:
		out, err = x.templateTarget(ctx, s, target.PodTemplateRef.Name)
	case target.Workload != nil:
		out, err = x.workloadTarget(ctx, s, target.Workload)
	case target.Selector != nil:
		out, err = x.selectedTargets(ctx, s, target.Selector)
	default:
		return nil, headroom.Problem{Reason: headroom.InvalidSpec, Field: "spec.target", Why: "it is empty", Remedy: "Give one of workload, selector and podTemplateRef"}
	}
	slices.SortFunc(out, func(a, b headroom.Target) int { return cmp.Compare(a.String(), b.String()) })
	return out, err
}

// missingTarget converts an API server error for a target to a Problem, if it is one.
func missingTarget(err error, s *headroom.Spec, field, kind, name string) error {
	value := kind + " " + s.Namespace + "/" + name
	switch {
	case apierrors.IsNotFound(err):
		return headroom.Problem{Reason: headroom.TargetNotFound, Field: field, Value: value, Why: "there is no such object", Remedy: "Create it, or name another"}
	case apierrors.IsForbidden(err):
		return headroom.Problem{Reason: headroom.TargetNotReadable, Field: field, Value: value, Why: "Dovetail may not read it",
			Remedy: "Allow its ServiceAccount to get the kind and its scale subresource"}
	}
	return fmt.Errorf("read target %s of headroom %s: %w", value, s.Key(), err)
}

func (x *Headrooms) templateTarget(ctx context.Context, s *headroom.Spec, name string) ([]headroom.Target, error) {
	var t corev1.PodTemplate
	if err := x.c.Core.Get().Namespace(s.Namespace).Resource("podtemplates").Name(name).Do(ctx).Into(&t); err != nil {
		return nil, missingTarget(err, s, "spec.target.podTemplateRef", "PodTemplate", name)
	}
	return []headroom.Target{{WorkloadName: headroom.WorkloadName{Namespace: s.Namespace, Kind: "PodTemplate", Name: name}, Class: x.classOf(s.Namespace, &t.Template)}}, nil
}

func (x *Headrooms) workloadTarget(ctx context.Context, s *headroom.Spec, ref *dovetailv1alpha1.HeadroomWorkload) ([]headroom.Target, error) {
	gv, err := schema.ParseGroupVersion(cmp.Or(ref.APIVersion, appsv1.SchemeGroupVersion.String()))
	if err != nil {
		return nil, headroom.Problem{Reason: headroom.InvalidSpec, Field: "spec.target.workload.apiVersion", Value: ref.APIVersion, Why: "it is not a group and version", Remedy: "Use one such as apps/v1"}
	}
	get := func(resource string, into runtime.Object) error {
		return x.c.Apps.Get().Namespace(s.Namespace).Resource(resource).Name(ref.Name).Do(ctx).Into(into)
	}
	var out headroom.Target
	switch {
	case gv != appsv1.SchemeGroupVersion:
		return x.scaledTarget(ctx, s, gv, ref)
	case ref.Kind == "Deployment":
		var d appsv1.Deployment
		err = get("deployments", &d)
		out = x.target(&d.ObjectMeta, ref.Kind, d.Spec.Replicas, &d.Spec.Template)
	case ref.Kind == "StatefulSet":
		var d appsv1.StatefulSet
		err = get("statefulsets", &d)
		out = x.target(&d.ObjectMeta, ref.Kind, d.Spec.Replicas, &d.Spec.Template)
	case ref.Kind == "ReplicaSet":
		var d appsv1.ReplicaSet
		err = get("replicasets", &d)
		out = x.target(&d.ObjectMeta, ref.Kind, d.Spec.Replicas, &d.Spec.Template)
	default:
		return x.scaledTarget(ctx, s, gv, ref)
	}
	if err != nil {
		return nil, missingTarget(err, s, "spec.target.workload", ref.Kind, ref.Name)
	}
	return []headroom.Target{out}, nil
}

// target is a workload of group apps.
func (x *Headrooms) target(o *metav1.ObjectMeta, kind string, replicas *int32, template *corev1.PodTemplateSpec) headroom.Target {
	return headroom.Target{
		WorkloadName: headroom.WorkloadName{Namespace: o.Namespace, Group: appsv1.GroupName, Kind: kind, Name: o.Name},
		Replicas:     translate.Replicas(replicas), Class: x.classOf(o.Namespace, template),
	}
}

// classOf translates a pod of a template as the API server would store it.
func (x *Headrooms) classOf(namespace string, template *corev1.PodTemplateSpec) *model.Class {
	p := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	p.Namespace, p.Name = namespace, "" // what pods of a template are called is not up to it
	x.t.Admit(p)
	return x.t.Pod(p).Class
}

// scaledTarget reads any workload through its scale subresource. What its pods request is not known from there.
func (x *Headrooms) scaledTarget(ctx context.Context, s *headroom.Spec, gv schema.GroupVersion, ref *dovetailv1alpha1.HeadroomWorkload) ([]headroom.Target, error) {
	plural, err := resourceOf(ctx, x.c, gv, ref.Kind)
	if err != nil {
		return nil, err
	}
	if plural == "" {
		return nil, headroom.Problem{Reason: headroom.TargetNotFound, Field: "spec.target.workload", Value: gv.String() + " " + ref.Kind,
			Why: "the API server has no such kind with a scale subresource", Remedy: "Name a Deployment, a StatefulSet or another kind that can be scaled"}
	}
	raw, err := x.c.Dovetail.Get().AbsPath(pathOf(gv), "namespaces", s.Namespace, plural, ref.Name, "scale").Do(ctx).Raw()
	if err != nil {
		return nil, missingTarget(err, s, "spec.target.workload", ref.Kind, ref.Name)
	}
	var scale autoscalingv1.Scale
	if err := json.Unmarshal(raw, &scale); err != nil {
		return nil, fmt.Errorf("read the scale of %s %s/%s: %w", ref.Kind, s.Namespace, ref.Name, err)
	}
	return []headroom.Target{{
		WorkloadName: headroom.WorkloadName{Namespace: s.Namespace, Group: gv.Group, Kind: ref.Kind, Name: ref.Name}, Replicas: int(scale.Spec.Replicas),
	}}, nil
}

// pathOf is where an API group's version is served.
func pathOf(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.String()
}

// resourceOf returns the name under which a kind that can be scaled is served; empty: there is none.
func resourceOf(ctx context.Context, c *client.Client, gv schema.GroupVersion, kind string) (string, error) {
	var list metav1.APIResourceList
	err := c.Core.Get().AbsPath(pathOf(gv)).SetHeader("Accept", "application/json").Do(ctx).Into(&list)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("ask API server %s for %s: %w", c.Address, gv, err)
	}
	served := map[string]bool{}
	for _, r := range list.APIResources {
		served[r.Name] = true
	}
	for _, r := range list.APIResources {
		if r.Kind == kind && served[r.Name+"/scale"] {
			return r.Name, nil
		}
	}
	return "", nil
}

// selectedTargets lists the Deployments and StatefulSets that a selector chooses.
func (x *Headrooms) selectedTargets(ctx context.Context, s *headroom.Spec, sel *metav1.LabelSelector) ([]headroom.Target, error) {
	chosen, err := metav1.LabelSelectorAsSelector(sel)
	if err != nil {
		return nil, headroom.Problem{Reason: headroom.InvalidSpec, Field: "spec.target.selector", Why: err.Error(), Remedy: "Correct the selector"}
	}
	list := func(resource string, into runtime.Object) error {
		return x.c.Apps.Get().Namespace(s.Namespace).Resource(resource).Param("labelSelector", chosen.String()).Do(ctx).Into(into)
	}
	var deployments appsv1.DeploymentList
	var sets appsv1.StatefulSetList
	if err := list("deployments", &deployments); err != nil {
		return nil, fmt.Errorf("list deployments for headroom %s: %w", s.Key(), err)
	}
	if err := list("statefulsets", &sets); err != nil {
		return nil, fmt.Errorf("list statefulsets for headroom %s: %w", s.Key(), err)
	}
	var out []headroom.Target
	for i := range deployments.Items {
		d := &deployments.Items[i]
		out = append(out, x.target(&d.ObjectMeta, "Deployment", d.Spec.Replicas, &d.Spec.Template))
	}
	for i := range sets.Items {
		d := &sets.Items[i]
		out = append(out, x.target(&d.ObjectMeta, "StatefulSet", d.Spec.Replicas, &d.Spec.Template))
	}
	if len(out) == 0 {
		return nil, headroom.Problem{Reason: headroom.TargetNotFound, Field: "spec.target.selector", Value: chosen.String(),
			Why: "it selects no Deployment and no StatefulSet of namespace " + s.Namespace, Remedy: "Label the workloads, or change the selector"}
	}
	return out, nil
}

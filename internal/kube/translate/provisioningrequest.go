// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Status details of a ProvisioningRequest that store its retries across restarts.
const (
	DetailRetryAt  = "dovetail.sh/retry-at"
	DetailAttempts = "dovetail.sh/attempts"
)

// ProvisioningRequest translates a request with the PodTemplates of its namespace, by name; nil: it belongs to another
// autoscaler.
func (t *Translator) ProvisioningRequest(u *unstructured.Unstructured, template func(name string) *corev1.PodTemplate) *model.ProvisioningRequest {
	o := object(u.Object)
	if !isOurRequest(o) {
		return nil
	}
	r := &model.ProvisioningRequest{Namespace: u.GetNamespace(), Name: u.GetName(), UID: string(u.GetUID()), Created: u.GetCreationTimestamp().Time,
		CheckOnly: o.text("spec", "provisioningClassName") == classCheckCapacity, NoRetry: o.text("spec", "parameters", "noRetry") == "true",
		ValidFor: requestValidity, Status: requestConditions(o)}
	details := func(name string) string { return o.text("status", "provisioningClassDetails", name) }
	if at, err := time.Parse(time.RFC3339, details(DetailRetryAt)); err == nil {
		r.RetryAt = at
	}
	if n, err := strconv.ParseUint(details(DetailAttempts), 10, 16); err == nil {
		r.Attempts = int(n)
	}
	refuse := func(reason, why string) *model.ProvisioningRequest {
		r.Sets, r.Accepted = nil, model.Condition{Status: "False", Reason: reason, Message: why}
		return r
	}
	if s := o.text("spec", "parameters", "ValidUntilSeconds"); s != "" {
		n, err := strconv.ParseUint(s, 10, 31)
		if err != nil || n == 0 {
			return refuse("InvalidParameter", fmt.Sprintf("spec.parameters[ValidUntilSeconds] %q is not a number of seconds; use one such as \"3600\"", s))
		}
		r.ValidFor = time.Duration(n) * time.Second
	}
	total := 0
	for i, s := range o.list("spec", "podSets") {
		name, count := s.text("podTemplateRef", "name"), s.count(0, "count")
		if total += count; total > mostVirtual {
			return refuse("TooManyPods", fmt.Sprintf("capacity is provisioned for at most %d pods of one request", mostVirtual))
		}
		pt := template(name)
		if pt == nil {
			return refuse("PodTemplateNotFound", fmt.Sprintf("spec.podSets[%d].podTemplateRef: PodTemplate %s/%s not found; create it, or replace the request", i, r.Namespace, name))
		}
		pod := t.templatePod(r.Namespace, &pt.Template)
		pod.Annotations = map[string]string{consumesRequest: r.Name}
		for k, v := range pt.Template.Annotations {
			if k == kueueRequiredTopology || k == kueuePreferredTopology || k == kueuePodSetGroup {
				pod.Annotations[k] = v
			}
		}
		set := model.RequestedPods{Class: t.class(pod, false), Count: count}
		set.Gang, _ = t.gangOf(pod)
		r.Sets = append(r.Sets, set)
	}
	r.Accepted = model.Condition{Status: "True", Reason: "Accepted", Message: fmt.Sprintf("Looking for capacity for %s.", model.Count(total, "pod"))}
	for i := range r.Sets {
		g := r.Gang()
		g.Domain, g.Prefers, g.PodSet = r.Sets[i].Gang.Domain, r.Sets[i].Gang.Prefers, r.Sets[i].Gang.PodSet
		r.Sets[i].Gang = g
	}
	return r
}

// requestConditions returns the conditions of a request as the API server has them.
func requestConditions(o object) map[string]model.Condition {
	var list []metav1.Condition
	for _, c := range o.list("status", "conditions") {
		x := metav1.Condition{Type: c.text("type"), Status: metav1.ConditionStatus(c.text("status")), Reason: c.text("reason"), Message: c.text("message"), ObservedGeneration: int64(c.count(0, "observedGeneration"))}
		if at, err := time.Parse(time.RFC3339, c.text("lastTransitionTime")); err == nil {
			x.LastTransitionTime = metav1.NewTime(at)
		}
		list = append(list, x)
	}
	return Conditions(list)
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// ApplyQuotas lowers the replicas of a namespace's buffers to what its ResourceQuotas allow, oldest buffer first,
// because pods that the quota refuses need no capacity. A quota with scopes applies to the buffers whose pods it
// selects.
func ApplyQuotas(buffers []SizedBuffer, quotas []*corev1.ResourceQuota) {
	if len(quotas) == 0 {
		return
	}
	slices.SortFunc(buffers, func(a, b SizedBuffer) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name))
	})
	left := make([]corev1.ResourceList, len(quotas))
	for i, q := range quotas {
		left[i] = corev1.ResourceList{}
		for name, hard := range q.Spec.Hard {
			amount := hard.DeepCopy()
			amount.Sub(q.Status.Used[name])
			left[i][quotaResource(name)] = smaller(left[i], quotaResource(name), amount)
		}
	}
	for _, b := range buffers {
		if b.Like == nil {
			continue
		}
		want, by := b.Replicas, ""
		for i, q := range quotas {
			if !quotaSelects(q, b.Template) {
				continue
			}
			if fit, bounded := podsWithin(left[i], b.Requests); bounded && fit < int64(b.Replicas) {
				b.Replicas, by = int(fit), q.Name
			}
		}
		for i, q := range quotas {
			if !quotaSelects(q, b.Template) {
				continue
			}
			for name, amount := range left[i] {
				r := b.Requests[name]
				r.Mul(int64(b.Replicas))
				amount.Sub(r)
				left[i][name] = amount
			}
		}
		b.Limited = model.Condition{Status: "False", Reason: bufferWithinQuotas, Message: "The namespace's ResourceQuotas leave enough for all pods of the buffer."}
		if by != "" {
			b.Limited = model.Condition{Status: "True", Reason: bufferQuotasAllocated,
				Message: fmt.Sprintf("ResourceQuota %s allows %d of %s; raise it, or request fewer.", by, b.Replicas, model.Count(want, "pod"))}
		}
	}
}

// smaller returns the smaller of an amount and that of a resource in a list.
func smaller(list corev1.ResourceList, name corev1.ResourceName, amount resource.Quantity) resource.Quantity {
	if have, ok := list[name]; ok && have.Cmp(amount) < 0 {
		return have
	}
	return amount
}

// quotaResource is the resource of pods that an entry of a ResourceQuota bounds.
func quotaResource(name corev1.ResourceName) corev1.ResourceName {
	switch name {
	case "count/pods":
		return corev1.ResourcePods
	}
	return corev1.ResourceName(strings.TrimPrefix(string(name), "requests."))
}

// quotaSelects reports whether pods of a template count towards a quota: each of its scopes and expressions must hold.
func quotaSelects(q *corev1.ResourceQuota, pod *corev1.PodSpec) bool {
	for _, scope := range q.Spec.Scopes {
		if !scopeHolds(corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists}, pod) {
			return false
		}
	}
	if q.Spec.ScopeSelector == nil {
		return true
	}
	for _, e := range q.Spec.ScopeSelector.MatchExpressions {
		if !scopeHolds(e, pod) {
			return false
		}
	}
	return true
}

// scopeHolds reports whether an expression over a quota's scope selects pods of a template. A template that names no
// PriorityClass has none, whatever the cluster's default is. Scopes of what is no pod select none.
func scopeHolds(e corev1.ScopedResourceSelectorRequirement, pod *corev1.PodSpec) bool {
	switch e.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return pod.ActiveDeadlineSeconds != nil
	case corev1.ResourceQuotaScopeNotTerminating:
		return pod.ActiveDeadlineSeconds == nil
	case corev1.ResourceQuotaScopeBestEffort:
		return isBestEffort(pod)
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !isBestEffort(pod)
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return refersToNamespaces(pod)
	case corev1.ResourceQuotaScopePriorityClass:
		class := pod.PriorityClassName
		switch e.Operator {
		case corev1.ScopeSelectorOpIn:
			return slices.Contains(e.Values, class)
		case corev1.ScopeSelectorOpNotIn:
			return !slices.Contains(e.Values, class)
		case corev1.ScopeSelectorOpExists:
			return class != ""
		case corev1.ScopeSelectorOpDoesNotExist:
			return class == ""
		}
	}
	return false
}

// isBestEffort reports whether neither a pod nor any of its containers has requests or limits of CPU or memory.
func isBestEffort(pod *corev1.PodSpec) bool {
	var all []corev1.ResourceRequirements
	if pod.Resources != nil {
		all = append(all, *pod.Resources)
	}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		all = append(all, c.Resources)
	}
	for _, r := range all {
		for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
			for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				if amount := list[name]; amount.Sign() > 0 {
					return false
				}
			}
		}
	}
	return true
}

// refersToNamespaces reports whether an affinity between pods asks about other namespaces.
func refersToNamespaces(pod *corev1.PodSpec) bool {
	if pod.Affinity == nil {
		return false
	}
	var terms []corev1.PodAffinityTerm
	var weighted []corev1.WeightedPodAffinityTerm
	if a := pod.Affinity.PodAffinity; a != nil {
		terms, weighted = append(terms, a.RequiredDuringSchedulingIgnoredDuringExecution...), append(weighted, a.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	if a := pod.Affinity.PodAntiAffinity; a != nil {
		terms, weighted = append(terms, a.RequiredDuringSchedulingIgnoredDuringExecution...), append(weighted, a.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	for _, w := range weighted {
		terms = append(terms, w.PodAffinityTerm)
	}
	return slices.ContainsFunc(terms, func(t corev1.PodAffinityTerm) bool { return len(t.Namespaces) > 0 || t.NamespaceSelector != nil })
}

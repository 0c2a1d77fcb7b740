// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package translate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresources "k8s.io/component-helpers/resource"
)

// PodQuotas tracks what the ResourceQuotas of a namespace leave for pods that are created one after another.
type PodQuotas struct {
	quotas []*corev1.ResourceQuota // by name
	used   []corev1.ResourceList
}

// NewPodQuotas returns the remaining quotas of a namespace with existing pods. Usage is read from the status of a quota.
// Usage missing there, as in a file written by hand, is computed from the existing pods.
func NewPodQuotas(quotas []*corev1.ResourceQuota, existing []*corev1.Pod) *PodQuotas {
	out := &PodQuotas{quotas: slices.SortedFunc(slices.Values(quotas), func(a, b *corev1.ResourceQuota) int { return strings.Compare(a.Name, b.Name) })}
	for _, q := range out.quotas {
		used := corev1.ResourceList{}
		for _, p := range existing {
			if quotaSelects(q, &p.Spec) {
				addAll(used, podUsage(p), q.Spec.Hard)
			}
		}
		maps.Copy(used, q.Status.Used)
		out.used = append(out.used, used)
	}
	return out
}

// Admit admits as many of n equal pods as the quotas allow. It returns their number, and why the API server refuses the
// others; empty if none. The pods must have passed all other admission, since quotas are checked last.
func (x *PodQuotas) Admit(p *corev1.Pod, n int) (admitted int, refused string) {
	usage := podUsage(p)
	var bounds []int // indexes of quotas that bound the pods
	for i, q := range x.quotas {
		if !quotaSelects(q, &p.Spec) {
			continue
		}
		if missing := missingForQuota(p, q.Spec.Hard); missing != "" {
			return 0, fmt.Sprintf("ResourceQuota %s: %s", q.Name, missing)
		}
		bounds = append(bounds, i)
	}
	for ; admitted < n; admitted++ {
		for _, i := range bounds {
			if refused = exceeded(x.quotas[i], x.used[i], usage); refused != "" {
				return admitted, refused
			}
		}
		for _, i := range bounds {
			addAll(x.used[i], usage, x.quotas[i].Spec.Hard)
		}
	}
	return n, ""
}

// Quotas returns the quotas by name, with current usage.
func (x *PodQuotas) Quotas() []*corev1.ResourceQuota {
	out := make([]*corev1.ResourceQuota, len(x.quotas))
	for i, q := range x.quotas {
		out[i] = q.DeepCopy()
		out[i].Status.Used = x.used[i].DeepCopy()
	}
	return out
}

// exceeded returns which amount of a quota a pod of this usage would exceed; empty if none.
func exceeded(q *corev1.ResourceQuota, used, usage corev1.ResourceList) string {
	for _, name := range sortedNames(q.Spec.Hard) {
		asked, ok := usage[name]
		if !ok {
			continue
		}
		hard, sum := q.Spec.Hard[name], asked.DeepCopy()
		have := used[name]
		sum.Add(have)
		if sum.Cmp(hard) > 0 {
			return exceededText(q, name, asked, have, hard)
		}
	}
	return ""
}

// exceededText returns the message for a pod that would exceed a quota with its amount of a resource.
func exceededText(q *corev1.ResourceQuota, name corev1.ResourceName, asked, used, hard resource.Quantity) string {
	return fmt.Sprintf("ResourceQuota %s: the pod requests %s %s, and %s of %s are in use", q.Name, asked.String(), name, used.String(), hard.String())
}

// addAll adds to a list what another has of the resources that a third one names.
func addAll(into, amounts, names corev1.ResourceList) {
	for name, amount := range amounts {
		if _, ok := names[name]; ok {
			sum := into[name]
			sum.Add(amount)
			into[name] = sum
		}
	}
}

// podUsage returns the quota usage of a pod, by resource names of quotas.
func podUsage(p *corev1.Pod) corev1.ResourceList {
	one := *resource.NewQuantity(1, resource.DecimalSI)
	out := corev1.ResourceList{"count/pods": one} // also of pods that have ended
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return out
	}
	out[corev1.ResourcePods] = one
	none := podresources.PodResourcesOptions{}
	maps.Copy(out, quotaNames(podresources.PodRequests(p, none), podresources.PodLimits(p, none)))
	return out
}

// quotaNames returns requests and limits by the names that quotas have for them.
func quotaNames(requests, limits corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, amount := range requests {
		out["requests."+name] = amount
		if isComputeResource(name) || isHugePages(name) {
			out[name] = amount
		}
	}
	for name, amount := range limits {
		if isComputeResource(name) {
			out["limits."+name] = amount
		}
	}
	return out
}

// isComputeResource reports whether quotas know requests of a resource by its own name, and its limits.
func isComputeResource(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage
}

// missingForQuota returns which amount a container must specify because a quota bounds it; empty if all do. Only CPU and memory must
// be specified, and not if the pod as a whole has resources.
func missingForQuota(p *corev1.Pod, hard corev1.ResourceList) string {
	if podresources.IsPodLevelResourcesSet(p) {
		return ""
	}
	for _, name := range sortedNames(hard) {
		switch strings.TrimPrefix(strings.TrimPrefix(string(name), "requests."), "limits.") {
		case string(corev1.ResourceCPU), string(corev1.ResourceMemory):
		default:
			continue
		}
		for _, c := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
			if _, ok := quotaNames(c.Resources.Requests, c.Resources.Limits)[name]; !ok {
				return fmt.Sprintf("container %s must specify %s", c.Name, name)
			}
		}
	}
	return ""
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package manifests

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// FullQuota is a resource of which a ResourceQuota leaves nothing: the API server refuses pods that ask for more.
type FullQuota struct {
	Namespace, Name, Resource string
	Used, Hard                string // quantities
	Twice                     string // of Hard
}

// FullQuotas returns the ResourceQuotas that leave pods nothing of a resource, by namespace, name and resource.
func (m *Set) FullQuotas() (out []FullQuota) {
	for _, q := range m.resourceQuotas {
		for resource, hard := range q.Status.Hard {
			used, known := q.Status.Used[resource]
			if !known || !ofPods(resource) || used.Cmp(hard) < 0 || hard.Sign() <= 0 {
				continue
			}
			twice := hard.DeepCopy()
			twice.Add(hard)
			out = append(out, FullQuota{q.Namespace, q.Name, string(resource), used.String(), hard.String(), twice.String()})
		}
	}
	slices.SortFunc(out, func(a, b FullQuota) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(a.Resource, b.Resource))
	})
	return out
}

// ofPods reports whether a quota's resource is what pods ask for, or counts them.
func ofPods(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, "count/pods":
		return true
	case corev1.ResourceRequestsStorage:
		return false
	}
	return strings.HasPrefix(string(name), "requests.") || strings.HasPrefix(string(name), "limits.")
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package manifests

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// FullQuota is an exhausted resource of a ResourceQuota: the API server refuses pods that request more of it.
type FullQuota struct {
	Namespace, Name, Resource string
	Used, Hard                string // quantities
	Twice                     string // twice the value of Hard
}

// FullQuotas returns the exhausted resources of ResourceQuotas, by namespace, name and resource.
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

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package manifests

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/dovetail-sh/dovetail/internal/kube/translate"
)

// scale notes within which bounds a HorizontalPodAutoscaler keeps a workload.
func (m *Set) scale(by metav1.Object, kind, name string, least *int32, most int32) {
	m.horizontal[translate.OwnerKey(kind, by.GetNamespace(), name)] = horizontal{translate.Key(by), translate.Replicas(least), int(most)}
}

// replicas returns how many replicas a workload will have: as its object says, within the bounds of its HorizontalPodAutoscaler,
// which leaves a workload without replicas alone. How many the autoscaler's metrics ask for within them is not in the input.
func (m *Set) replicas(kind string, o metav1.Object, spec *int32) int {
	n := translate.Replicas(spec)
	h, ok := m.horizontal[translate.OwnerKey(kind, o.GetNamespace(), o.GetName())]
	if !ok || n == 0 {
		return n
	}
	n = min(max(n, h.least), max(h.most, h.least))
	if h.least < h.most {
		m.Assumed = append(m.Assumed, fmt.Sprintf("replicas (%d to %d) set by HorizontalPodAutoscaler %s: %d are assumed", h.least, h.most, h.name, n))
	}
	return n
}

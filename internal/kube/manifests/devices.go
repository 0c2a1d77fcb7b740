// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package manifests

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	karpv1 "github.com/dovetail-sh/dovetail/api/karpenter/v1"
	"github.com/dovetail-sh/dovetail/internal/devices"
	"github.com/dovetail-sh/dovetail/internal/kube/translate"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// claimant is a pod with resource claims, or resources that a DeviceClass may stand for.
type claimant struct {
	pod   *corev1.Pod
	owner model.Owner // zero: what the pod itself says
}

// setPod hands a pod to a State.
func (m *Set) setPod(s *state.State, t *translate.Translator, p *corev1.Pod, owner model.Owner) {
	if asksForDevices(p) {
		m.claimants[translate.Key(p)] = claimant{p, owner}
	}
	q := demand(t.Pod(p))
	if owner != (model.Owner{}) {
		q.Owner = owner
	}
	s.SetPod(q)
}

// asksForDevices reports whether a pod may need devices.
func asksForDevices(p *corev1.Pod) bool {
	return len(p.Spec.ResourceClaims) > 0 || devices.RequestsExtended(p)
}

// settleDevices translates again what depends on devices and claims when all pods are known, because which devices are
// distinguished depends on all claims.
func (m *Set) settleDevices(s *state.State, t *translate.Translator) {
	for range 3 { // the second time finds nothing, as a rule
		x := m.devices.Stale()
		if x.IsEmpty() {
			return
		}
		for _, key := range slices.Sorted(maps.Keys(m.claimants)) {
			m.setPod(s, t, m.claimants[key].pod, m.claimants[key].owner)
		}
		for _, o := range m.objects {
			switch o := o.Object.(type) {
			case *corev1.Node:
				s.SetNode(t.Node(o), translate.ResourceVersion(o.ResourceVersion))
			case *karpv1.NodeClaim:
				s.SetClaim(t.NodeClaim(o), translate.ResourceVersion(o.ResourceVersion))
			case *appsv1.DaemonSet:
				s.SetDaemon(t.DaemonSet(o))
			}
		}
		m.setBuffers(s, t)
		s.Pools.SetDevices(t.DevicesOfTypes(m.devices))
	}
}

// defaultDeviceRequests fills in what an API server would.
func defaultDeviceRequests(s *resourceapi.ResourceClaimSpec) {
	fill := func(mode *resourceapi.DeviceAllocationMode, count *int64) {
		if *mode == "" {
			*mode = resourceapi.DeviceAllocationModeExactCount
		}
		if *mode == resourceapi.DeviceAllocationModeExactCount && *count == 0 {
			*count = 1
		}
	}
	for i := range s.Devices.Requests {
		r := &s.Devices.Requests[i]
		if r.Exactly != nil {
			fill(&r.Exactly.AllocationMode, &r.Exactly.Count)
		}
		for j := range r.FirstAvailable {
			fill(&r.FirstAvailable[j].AllocationMode, &r.FirstAvailable[j].Count)
		}
	}
}

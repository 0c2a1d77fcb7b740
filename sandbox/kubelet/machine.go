// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package main

import (
	"fmt"
	"maps"
	"slices"

	cadvisorapi "github.com/google/cadvisor/lib/model"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
	cadvisortest "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
	"k8s.io/kubernetes/pkg/kubelet/cm"

	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
)

// size is what a machine has, in the interface by which the kubelet asks
// cadvisor for it.
type size struct {
	cadvisortest.Fake
	info     cadvisorapi.MachineInfo
	pods     int32
	storage  resource.Quantity
	reserved corev1.ResourceList // capacity that is not allocatable: reserved for the system and the kubelet, and the eviction thresholds
	devices  corev1.ResourceList // as a device plugin would report them
}

// newSize returns the size of a machine whose node shall have this capacity and
// allocatable.
func newSize(n machines.NodeSpec) (*size, error) {
	s := &size{reserved: corev1.ResourceList{}, devices: corev1.ResourceList{}}
	s.info.MachineID, s.info.SystemUUID, s.info.BootID = n.ProviderID, n.ProviderID, n.BootID
	for _, key := range slices.Sorted(maps.Keys(n.Capacity)) {
		name := corev1.ResourceName(key)
		have, err := resource.ParseQuantity(n.Capacity[key])
		if err != nil {
			return nil, fmt.Errorf("capacity: %s %q: %w", key, n.Capacity[key], err)
		}
		free := have
		if text, ok := n.Allocatable[key]; ok {
			if free, err = resource.ParseQuantity(text); err != nil {
				return nil, fmt.Errorf("allocatable: %s %q: %w", key, text, err)
			}
		}
		switch name {
		case corev1.ResourceCPU:
			s.info.NumCores = int(have.Value()) // A kubelet counts whole ones; a catalog may have a part of one.
			have = *resource.NewQuantity(int64(s.info.NumCores), resource.DecimalSI)
		case corev1.ResourceMemory:
			s.info.MemoryCapacity = uint64(have.Value())
		case corev1.ResourcePods:
			s.pods = int32(have.Value())
			continue
		case corev1.ResourceEphemeralStorage:
			s.storage = have
		default:
			if !have.IsZero() {
				s.devices[name] = have
			}
			continue
		}
		have.Sub(free)
		s.reserved[name] = have
	}
	return s, nil
}

// MachineInfo returns the machine as cadvisor describes it.
func (s *size) MachineInfo(klog.Logger) (*cadvisorapi.MachineInfo, error) {
	info := s.info
	return &info, nil
}

// manager returns a container manager without cgroups that knows the machine's
// disk, what is reserved of it, and its devices.
func (s *size) manager() cm.ContainerManager {
	return manager{cm.NewStubContainerManagerWithDevicePluginResource(s.devices), s}
}

type manager struct {
	cm.ContainerManager
	size *size
}

func (m manager) GetCapacity(klog.Logger, bool) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceEphemeralStorage: m.size.storage}
}

func (m manager) GetNodeAllocatableReservation() corev1.ResourceList { return m.size.reserved }

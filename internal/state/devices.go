// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package state

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// DeviceSource returns the devices of dynamic resource allocation that a new node of an instance type in a pool is expected to
// publish, as amounts of resources. Nil: none are known.
type DeviceSource interface {
	OfType(pool string, t *model.InstanceType) model.Resources
}

// SetDevices sets the source of the devices of instance types. It is called again if the results of the source may have changed.
func (t *Pools) SetDevices(s DeviceSource) {
	t.devices = s
	t.applyOverlays()
}

// applyDevices returns the types with the devices that nodes of them will have. Types without any stay as they are.
func applyDevices(s DeviceSource, pool string, types []*model.InstanceType) []*model.InstanceType {
	if s == nil {
		return types
	}
	out := types
	for i, t := range types {
		found := s.OfType(pool, t)
		if found.IsZero() {
			continue
		}
		if &out[0] == &types[0] {
			out = slices.Clone(types)
		}
		x := *t
		x.Devices, x.Allocatable = found, t.Allocatable.Add(found)
		out[i] = &x
	}
	return out
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package devices

import resourceapi "k8s.io/api/resource/v1"

// TypeSlice is a part of what the nodes of an instance type publish as ResourceSlices.
type TypeSlice struct {
	Driver         string                   `json:"driver"`
	Pool           string                   `json:"pool,omitempty"` // empty: the driver's pool of the node
	Devices        []resourceapi.Device     `json:"devices,omitempty"`
	SharedCounters []resourceapi.CounterSet `json:"sharedCounters,omitempty"`
}

// ParseTypeSlices reads a YAML or JSON list of TypeSlices. Unknown fields and values that the API server would reject are errors.
func ParseTypeSlices(text string) ([]TypeSlice, error) { return nil, nil }

// SlicesOfNode returns what a node has published. It is nil if the node has no devices, or if a pool of it is incomplete or being updated.
func (b *Book) SlicesOfNode(node string) []TypeSlice { return nil }

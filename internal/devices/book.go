// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package devices turns the devices of dynamic resource allocation (resource.k8s.io/v1) into counted resources: amounts that pods request and
// nodes have, in the manner of extended resources. Allocation is done by the allocator that kube-scheduler uses. Start reading at Book.
package devices

import (
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// Book holds the device classes, slices, claims and templates of a cluster. It is not safe for concurrent use.
type Book struct {
	generation int64
}

// New returns an empty Book.
func New() *Book { return &Book{} }

// SetClass stores a DeviceClass; nil deletes it. It reports whether amounts of pods or nodes may have changed.
func (b *Book) SetClass(name string, c *resourceapi.DeviceClass) bool { return false }

// SetSlice stores a ResourceSlice; nil deletes it.
func (b *Book) SetSlice(name string, s *resourceapi.ResourceSlice) bool { return false }

// SetClaim stores a ResourceClaim under its key, namespace/name; nil deletes it.
func (b *Book) SetClaim(key string, c *resourceapi.ResourceClaim) bool { return false }

// SetTemplate stores a ResourceClaimTemplate under its key, namespace/name; nil deletes it.
func (b *Book) SetTemplate(key string, t *resourceapi.ResourceClaimTemplate) bool { return false }

// TypeSlice is a slice of devices that a node of some instance type will publish.
type TypeSlice struct {
	Driver         string                   `json:"driver"`
	Pool           string                   `json:"pool,omitempty"` // empty: one pool for each driver and node
	Devices        []resourceapi.Device     `json:"devices,omitempty"`
	SharedCounters []resourceapi.CounterSet `json:"sharedCounters,omitempty"`
}

// ParseTypeSlices reads a YAML or JSON list of TypeSlices, rejects unknown fields, and validates them.
func ParseTypeSlices(text string) ([]TypeSlice, error) { return nil, nil }

// SetType stores the slices that nodes of a kind (an instance type, or an instance type of a NodePool: the caller's key) will have. Nil
// deletes them. The labels are those of such a node, for slices with a nodeSelector.
func (b *Book) SetType(key string, labels map[string]string, slices []TypeSlice) bool { return false }

// Need is what a pod needs of devices.
type Need struct {
	Amounts     map[string]int64      // resource name -> amount
	NodeTerms   []corev1.NodeSelector // of allocated claims: all must match
	Unallocated bool                  // kube-scheduler has still to allocate a claim: only it may bind the pod
	Unsupported []string              // sentences; if there is one, the pod can't be placed
}

// OfPod returns what a pod needs of devices. It is zero for a pod without resource claims.
func (b *Book) OfPod(p *corev1.Pod) Need { return Need{} }

// OfNode returns the amounts of each resource that are free on a node: devices allocated to claims are not counted.
func (b *Book) OfNode(n *corev1.Node) map[string]int64 { return nil }

// SlicesOfNode returns the slices that a node has published, as those of a node to come; nil if a pool of it is incomplete or if it has none.
func (b *Book) SlicesOfNode(n *corev1.Node) []TypeSlice { return nil }

// OfType returns the amounts of each resource that a node of a kind (see SetType) will have.
func (b *Book) OfType(key string) map[string]int64 { return nil }

// Words names a resource of Amounts for a person: "device of class gpu.example.com". It is empty if the resource is not one of devices.
func (b *Book) Words(resource string) string { return "" }

// Generation changes whenever names or amounts of anything may have changed; pods with claims and all nodes are then translated again.
func (b *Book) Generation() int64 { return b.generation }

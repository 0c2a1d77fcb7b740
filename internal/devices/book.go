// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package devices turns the devices of dynamic resource allocation (resource.k8s.io/v1) into counted resources: amounts that pods request and
// nodes have, in the manner of extended resources. Amounts are exact: the allocator that kube-scheduler uses finds devices for a group of pods
// on a node if and only if the node has the amounts that they request. Requests that can't be counted are refused with a reason.
//
// The package watches nothing and writes nothing. Start reading at Book; structure.go has the rule by which requests become resources.
package devices

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// Prefix starts the name of every resource of devices: "devices/<class>", or "devices/<class>#<hash>" if the devices are not exactly those of
// the class.
const Prefix = "devices/"

// Book holds the device classes, slices, claims and templates of a cluster, and which pods use them. It is not safe for concurrent use.
type Book struct {
	changes changes
}

// New returns an empty Book.
func New() *Book { return &Book{} }

// SetClass stores a DeviceClass; nil deletes it.
func (b *Book) SetClass(name string, c *resourceapi.DeviceClass) {}

// SetSlice stores a ResourceSlice; nil deletes it.
func (b *Book) SetSlice(name string, s *resourceapi.ResourceSlice) {}

// SetClaim stores a ResourceClaim under its key, namespace/name; nil deletes it.
func (b *Book) SetClaim(key string, c *resourceapi.ResourceClaim) {}

// SetTemplate stores a ResourceClaimTemplate under its key, namespace/name; nil deletes it.
func (b *Book) SetTemplate(key string, t *resourceapi.ResourceClaimTemplate) {}

// SetType stores the slices that a node to come will publish, under a key of the caller: an instance type, or an instance type of a NodePool.
// Nil deletes them.
func (b *Book) SetType(key string, slices []TypeSlice) {}

// Need is what a pod needs of devices.
type Need struct {
	Amounts     map[string]int64      // resource name -> amount
	NodeTerms   []corev1.NodeSelector // of allocated claims: a node of the pod matches all of them
	Node        string                // where claims of the pod are allocated; empty: nowhere yet
	Unallocated bool                  // kube-scheduler has still to allocate or reserve a claim: nobody else may bind the pod
	Unsupported []string              // sentences: why the pod can't be placed
}

// OfPod returns what a pod needs of devices, and remembers that the pod uses its claims. The Need of a pod without claims is zero.
func (b *Book) OfPod(p *corev1.Pod) Need { return Need{} }

// ForgetPod forgets a pod that was deleted or has ended. Its key is namespace/name.
func (b *Book) ForgetPod(key string) {}

// OfNode returns the amount of each resource that is free on a node: devices that are allocated to claims are not counted.
func (b *Book) OfNode(node string) map[string]int64 { return nil }

// OfType returns the amount of each resource that a node to come will have.
func (b *Book) OfType(key string) map[string]int64 { return nil }

// Changes are the objects whose Need or amounts may have changed.
type Changes struct {
	All   bool     // names of resources have changed: all pods with claims, all nodes and all types
	Nodes []string // names of nodes
	Pods  []string // namespace/name of pods that OfPod remembers
}

type changes struct {
	all         bool
	nodes, pods map[string]bool
}

// Changes returns what has changed since the last call.
func (b *Book) Changes() Changes {
	c := Changes{All: b.changes.all, Nodes: slices.Sorted(maps.Keys(b.changes.nodes)), Pods: slices.Sorted(maps.Keys(b.changes.pods))}
	b.changes = changes{}
	return c
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package v1

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Labels on NodeClaims and Nodes. Those of the field at large (zone, instance type, architecture) are in k8s.io/api/core/v1.
const (
	// LabelNodePool names the NodePool that a NodeClaim and its Node belong to.
	LabelNodePool = Group + "/nodepool"
	// LabelCapacityType is one of the CapacityType constants.
	LabelCapacityType = Group + "/capacity-type"
	// LabelRegistered is "true" on a Node that was matched with its NodeClaim.
	LabelRegistered = Group + "/registered"
	// LabelInitialized is "true" on a Node that was once found fit for use.
	LabelInitialized = Group + "/initialized"
	// LabelDoNotSyncTaints is "true" on a Node whose own agent sets its taints, so that registration leaves them alone.
	LabelDoNotSyncTaints = Group + "/do-not-sync-taints"
)

// LabelValueTrue is the value of LabelRegistered, LabelInitialized and LabelDoNotSyncTaints.
const LabelValueTrue = "true"

// Values of LabelCapacityType.
const (
	CapacityTypeSpot     = "spot"
	CapacityTypeOnDemand = "on-demand"
	CapacityTypeReserved = "reserved"
)

// Values of kubernetes.io/arch.
const (
	ArchitectureAMD64 = "amd64"
	ArchitectureARM64 = "arm64"
)

// Annotations.
const (
	// AnnotationDoNotDisrupt keeps a Pod ("true" or a duration) or a Node ("true") from being moved voluntarily.
	AnnotationDoNotDisrupt = Group + "/do-not-disrupt"
	// AnnotationDisruptionCost on a Pod is what evicting it costs, a 32-bit integer. Without it the pod-deletion-cost counts.
	AnnotationDisruptionCost = Group + "/disruption-cost"
	// AnnotationNodePoolHash is NodePool.Hash, on the NodePool and on each NodeClaim as it was when bought.
	AnnotationNodePoolHash = Group + "/nodepool-hash"
	// AnnotationNodePoolHashVersion is the NodePoolHashVersion that AnnotationNodePoolHash was computed with.
	AnnotationNodePoolHashVersion = Group + "/nodepool-hash-version"
	// AnnotationTerminationTimestamp is when a NodeClaim's pods are no longer waited for, in RFC 3339.
	AnnotationTerminationTimestamp = Group + "/nodeclaim-termination-timestamp"
	// AnnotationMinValuesRelaxed is "true" on a NodeClaim bought with fewer choices than minValues asked for.
	AnnotationMinValuesRelaxed = Group + "/nodeclaim-min-values-relaxed"
	// AnnotationDRADrivers lists, by comma, the DRA drivers whose devices the pods of a NodeClaim were promised.
	AnnotationDRADrivers = Group + "/requested-dra-drivers"
	// AnnotationProviderCompatibility carries a provider's data across API versions.
	AnnotationProviderCompatibility = "compatibility." + Group + "/provider"
)

// LabelExcludeFromLoadBalancers is set, to LabelExcludeFromLoadBalancersValue, on a Node that is about to go, so that load
// balancers stop sending to it. The value tells the setter from a person's own setting.
const (
	LabelExcludeFromLoadBalancers      = corev1.LabelNodeExcludeBalancers
	LabelExcludeFromLoadBalancersValue = "karpenter"
)

// FinalizerTermination keeps a NodeClaim until its instance is gone, and a Node until its pods are.
const FinalizerTermination = Group + "/termination"

// Taint keys.
const (
	// TaintKeyDisrupted marks a Node that is being emptied. Its effect is NoSchedule.
	TaintKeyDisrupted = Group + "/disrupted"
	// TaintKeyUnregistered is on a Node from boot until it is matched with its NodeClaim. Its effect is NoExecute.
	TaintKeyUnregistered = Group + "/unregistered"
)

// TaintDisrupted is the taint of a Node that is being emptied.
func TaintDisrupted() corev1.Taint {
	return corev1.Taint{Key: TaintKeyDisrupted, Effect: corev1.TaintEffectNoSchedule}
}

// TaintUnregistered is the taint of a Node that is not matched with its NodeClaim yet.
func TaintUnregistered() corev1.Taint {
	return corev1.Taint{Key: TaintKeyUnregistered, Effect: corev1.TaintEffectNoExecute}
}

// NodeClassLabel is the label key under which a Node and a NodeClaim name their node class.
func NodeClassLabel(group, kind string) string { return group + "/" + strings.ToLower(kind) }

// ResourceNodes is the pseudo resource by which NodePoolSpec.Limits bounds the count of nodes.
const ResourceNodes corev1.ResourceName = "nodes"

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

// Labels and taints that the house itself reads.
const (
	LabelNodePool     = "karpenter.sh/nodepool"
	LabelCapacityType = "karpenter.sh/capacity-type"
	LabelRegistered   = "karpenter.sh/registered"
	LabelInitialized  = "karpenter.sh/initialized"

	LabelDoNotSyncTaints = "karpenter.sh/do-not-sync-taints" // "true": the node's kubelet has written all its taints; registration adds none

	LabelZone         = "topology.kubernetes.io/zone"
	LabelRegion       = "topology.kubernetes.io/region"
	LabelInstanceType = "node.kubernetes.io/instance-type"
	LabelArch         = "kubernetes.io/arch"
	LabelOS           = "kubernetes.io/os"
	LabelWindowsBuild = "node.kubernetes.io/windows-build"
	LabelHostname     = "kubernetes.io/hostname"
	LabelNodeGroup    = "dovetail.sh/node-group" // offerings with this label share a limit: the remaining size of their node group
	LabelProvisioner  = "karpenter.sh/provisioner-name"

	// On pods of DaemonSets: the generation of their template.
	LabelTemplateGeneration = "pod-template-generation"
	LabelRevisionHash       = "controller-revision-hash"

	TaintUnregistered = "karpenter.sh/unregistered"
	TaintDisrupted    = "karpenter.sh/disrupted"
	TaintReserved     = "dovetail.sh/reserved"
	TaintRebooting    = "karpenter.sh/rebooting"
	AnnotationAdopt   = "dovetail.sh/adopt" // on a NodeClaim created for an existing instance: the provider ID of the instance

	// AnnotationBooked on a NodeClaim is the time since which its existing node is reserved for pods of ProvisioningRequests.
	AnnotationBooked = "dovetail.sh/booked"

	// AnnotationPrice on a node, or on a MachineDeployment of Cluster API, is the price of a node in dollars per hour.
	AnnotationPrice = "dovetail.sh/price-per-hour"
	// AnnotationClusterName and AnnotationClusterNamespace on a node name the Cluster object of Cluster API that it belongs to.
	AnnotationClusterName      = "cluster.x-k8s.io/cluster-name"
	AnnotationClusterNamespace = "cluster.x-k8s.io/cluster-namespace"

	// AnnotationReserved is "true" on a NodeClaim whose node is reserved for its pods.
	AnnotationReserved = "dovetail.sh/reserved"
	// AnnotationNotReserved is the code of the reason why a NodeClaim is not reserved.
	AnnotationNotReserved = "dovetail.sh/not-reserved"

	// AnnotationLaunchPrice on a claim is what its node cost when it was launched, dollars an hour as FormatMicro writes them. It
	// counts against limits while no NodePool is offered the node's instance type.
	AnnotationLaunchPrice = "dovetail.sh/launch-price"
	// AnnotationLaunchPriceEstimated is "true" if AnnotationLaunchPrice is an estimate.
	AnnotationLaunchPriceEstimated = "dovetail.sh/launch-price-estimated"

	// AnnotationBootID on a claim whose node is rebooted is the node's boot ID before that: it is there from just before the reboot is asked
	// of the cloud, which is not done again then. AnnotationRebootDrain is how long pods are waited for before (a duration), and
	// AnnotationReboots when the last reboots were asked for (RFC 3339, the earliest first).
	AnnotationBootID      = "karpenter.sh/reboot-pre-boot-id"
	AnnotationRebootDrain = "karpenter.sh/reboot-termination-grace-period"
	AnnotationReboots     = "dovetail.sh/reboots"

	// AnnotationPoolHash on a claim is the hash of the NodePool's template that it was made from, AnnotationPoolHashVersion how that
	// was computed: PoolHashVersion, or as an older Karpenter did.
	AnnotationPoolHash        = "karpenter.sh/nodepool-hash"
	AnnotationPoolHashVersion = "karpenter.sh/nodepool-hash-version"
	PoolHashVersion           = "v3"
)

// RegisteredLabels are the labels that every node of a NodeClaim has once it is registered and initialized.
func RegisteredLabels() Labels {
	return Labels{LabelRegistered: "true", LabelInitialized: "true"}
}

// Capacity types.
const (
	OnDemand = "on-demand"
	Spot     = "spot"
	Reserved = "reserved"
)

// CapacityTypeOf returns a node's capacity type from Karpenter's label, or from those of EKS, GKE and AKS; empty: none is
// set.
func CapacityTypeOf(node Labels) string {
	switch {
	case node[LabelCapacityType] != "":
		return node[LabelCapacityType]
	case node["eks.amazonaws.com/capacityType"] == "SPOT", node["cloud.google.com/gke-spot"] == "true", node["kubernetes.azure.com/scalesetpriority"] == "spot":
		return Spot
	case node["eks.amazonaws.com/capacityType"] == "ON_DEMAND":
		return OnDemand
	}
	return ""
}

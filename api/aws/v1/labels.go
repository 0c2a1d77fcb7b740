// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package v1

// Labels by which a pod or a pool can choose among EC2 machines.
const (
	LabelInstanceHypervisor                   = Group + "/instance-hypervisor"
	LabelInstanceEncryptionInTransitSupported = Group + "/instance-encryption-in-transit-supported"
	LabelInstanceCategory                     = Group + "/instance-category"
	LabelInstanceFamily                       = Group + "/instance-family"
	LabelInstanceGeneration                   = Group + "/instance-generation"
	LabelInstanceSize                         = Group + "/instance-size"
	LabelInstanceCapabilityFlex               = Group + "/instance-capability-flex"
	LabelInstanceLocalNVMe                    = Group + "/instance-local-nvme"
	LabelInstanceCPU                          = Group + "/instance-cpu"
	LabelInstanceCPUManufacturer              = Group + "/instance-cpu-manufacturer"
	LabelInstanceCPUSustainedClockSpeedMhz    = Group + "/instance-cpu-sustained-clock-speed-mhz"
	LabelInstanceMemory                       = Group + "/instance-memory"
	LabelInstanceEBSBandwidth                 = Group + "/instance-ebs-bandwidth"
	LabelInstanceNetworkBandwidth             = Group + "/instance-network-bandwidth"
	LabelInstanceGPUName                      = Group + "/instance-gpu-name"
	LabelInstanceGPUManufacturer              = Group + "/instance-gpu-manufacturer"
	LabelInstanceGPUCount                     = Group + "/instance-gpu-count"
	LabelInstanceGPUMemory                    = Group + "/instance-gpu-memory"
	LabelInstanceAcceleratorName              = Group + "/instance-accelerator-name"
	LabelInstanceAcceleratorManufacturer      = Group + "/instance-accelerator-manufacturer"
	LabelInstanceAcceleratorCount             = Group + "/instance-accelerator-count"
	LabelInstanceTenancy                      = Group + "/instance-tenancy"
	LabelNodeClass                            = Group + "/ec2nodeclass"
	LabelCapacityReservationID                = Group + "/capacity-reservation-id"
	LabelCapacityReservationType              = Group + "/capacity-reservation-type"
	LabelCapacityReservationInterruptible     = Group + "/capacity-reservation-interruptible"
	LabelPlacementGroupID                     = Group + "/placement-group-id"
	LabelPlacementGroupPartition              = Group + "/placement-group-partition"
	LabelZoneID                               = "topology.k8s.aws/zone-id"
)

// WellKnownLabels are the labels of the domain Group that a NodePool may require or set; as in Karpenter's AWS
// provider, the domain has no others.
func WellKnownLabels() []string {
	return []string{
		LabelInstanceHypervisor, LabelInstanceEncryptionInTransitSupported, LabelInstanceCategory, LabelInstanceFamily,
		LabelInstanceGeneration, LabelInstanceSize, LabelInstanceCapabilityFlex, LabelInstanceLocalNVMe, LabelInstanceCPU,
		LabelInstanceCPUManufacturer, LabelInstanceCPUSustainedClockSpeedMhz, LabelInstanceMemory, LabelInstanceEBSBandwidth,
		LabelInstanceNetworkBandwidth, LabelInstanceGPUName, LabelInstanceGPUManufacturer, LabelInstanceGPUCount,
		LabelInstanceGPUMemory, LabelInstanceAcceleratorName, LabelInstanceAcceleratorManufacturer,
		LabelInstanceAcceleratorCount, LabelInstanceTenancy, LabelNodeClass, LabelCapacityReservationID,
		LabelCapacityReservationType, LabelCapacityReservationInterruptible, LabelPlacementGroupID,
		LabelPlacementGroupPartition,
	}
}

// Annotations.
const (
	// AnnotationEC2NodeClassHash is EC2NodeClass.Hash, on a NodeClaim as it was when its machine was bought.
	AnnotationEC2NodeClassHash = Group + "/ec2nodeclass-hash"
	// AnnotationEC2NodeClassHashVersion is the EC2NodeClassHashVersion that it was computed with.
	AnnotationEC2NodeClassHashVersion = Group + "/ec2nodeclass-hash-version"
)

// FinalizerTermination keeps an EC2NodeClass until what was made for it is gone.
const FinalizerTermination = Group + "/termination"

// Tags of what is bought.
const (
	TagNodePool    = "karpenter.sh/nodepool"
	TagNodeClaim   = "karpenter.sh/nodeclaim"
	TagClusterName = "eks:eks-cluster-name"
	// TagClaimUID is the uid of the NodeClaim that a machine was bought for. A machine without it is not ours to end unasked.
	TagClaimUID = "dovetail.sh/nodeclaim-uid"
)

// Image families.
const (
	AMIFamilyAL2          = "AL2"
	AMIFamilyAL2023       = "AL2023"
	AMIFamilyBottlerocket = "Bottlerocket"
	AMIFamilyCustom       = "Custom"
	AMIFamilyWindows2019  = "Windows2019"
	AMIFamilyWindows2022  = "Windows2022"
	AMIFamilyWindows2025  = "Windows2025"
)

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plan

// details are the types of Detail by code, one for each: Nothing where the code says all.
var details = map[Code]Detail{
	NoPools: Nothing{}, Taint: OfTaint{}, Requirement: OfRequirement{}, NoInstanceType: OfNoInstanceType{}, Resource: OfSize{}, CameShort: OfSize{},
	ShortAgain: OfSize{}, Offering: OfOffering{}, OutOfCapacity: OfOutOfCapacity{}, GroupMaximum: OfGroupMaximum{}, Limit: OfLimit{},
	SharedLimit: OfSharedLimit{}, MinValues: OfMinValues{}, TopologySpread: OfTopologySpread{}, PodAffinity: OfPodAffinity{},
	PodAntiAffinity: OfPodAntiAffinity{}, HostPortConflict: OfHostPort{}, VolumeTopology: OfVolumeTopology{}, VolumeLimit: OfVolumeLimit{},
	VolumeExclusive: OfVolumeExclusive{}, VolumeClaim: OfVolumeClaim{}, VolumeStorage: OfVolumeStorage{}, Unsupported: OfUnsupported{},
	NodeName: OfNodeName{}, Mismatch: OfMismatch{}, PlanRefused: OfPlanRefused{}, PoolNotReady: OfPoolNotReady{}, TooComplex: OfTooComplex{},
	WorkShare: OfWorkShare{}, ResourceShare: OfResourceShare{}, NotSchedulable: OfNotSchedulable{},

	ClusterMinimum: OfClusterMinimum{}, NoHome: OfNoHome{},
}

// DetailFor returns an empty Detail of the type that belongs to a code; nil: there is no such code.
func DetailFor(code Code) Detail { return details[code] }

// Nothing is the Detail of codes that say all there is to say.
type Nothing struct{ detail }

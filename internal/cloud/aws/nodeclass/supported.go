// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodeclass

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/catalogue"
)

// Supports reports whether EC2 launches an instance type with the settings of the class, and its images boot there.
// Unpublished properties of a type are assumed to be supported. Sources: EC2's DescribeInstanceTypes, and in the EC2
// User Guide "Configurable idle connection tracking timeouts" (Nitro instances) and "Nested virtualization".
func (r *Resolved) Supports(t *catalogue.TypeInfo) bool {
	spec := &r.Spec
	switch {
	case spec.EnclaveOptions != nil && spec.EnclaveOptions.Enabled && !t.Enclaves,
		spec.ConnectionTracking != nil && t.Labels[awsv1.LabelInstanceHypervisor] == string(types.InstanceTypeHypervisorXen),
		spec.CPUOptions != nil && spec.CPUOptions.NestedVirtualization != nil && *spec.CPUOptions.NestedVirtualization == string(types.NestedVirtualizationSpecificationEnabled) && !t.NestedVirtualization,
		r.Placement != nil && len(t.PlacementStrategies) > 0 && !slices.Contains(t.PlacementStrategies, string(r.Placement.Strategy)),
		r.Family == FamilyAL2023 && strings.HasPrefix(t.Name, "a1."): // its kernel needs ARMv8.2
		return false
	}
	return r.EFAInterfaces() <= t.ExtendedResources[catalogue.ResourceEFA] && hasInterfaces(spec.NetworkInterfaces, t)
}

// hasInterfaces reports whether a type has the network cards and interfaces that a class configures.
func hasInterfaces(list []*awsv1.NetworkInterface, t *catalogue.TypeInfo) bool {
	if len(t.CardInterfaces) == 0 {
		return true
	}
	onCard := map[int32]int64{}
	for _, n := range list {
		if int(n.NetworkCardIndex) >= len(t.CardInterfaces) || int64(n.DeviceIndex) >= t.CardInterfaces[n.NetworkCardIndex] {
			return false
		}
		if onCard[n.NetworkCardIndex]++; onCard[n.NetworkCardIndex] > t.CardInterfaces[n.NetworkCardIndex] {
			return false
		}
	}
	return true
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodeclass

import (
	"encoding/json"
	"fmt"

	"cel.dev/cel-go/cel"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/catalogue"
)

// windowsBuilds are the builds of the Windows versions that the image families are named after.
var windowsBuilds = map[string]string{
	awsv1.AMIFamilyWindows2019: "10.0.17763", awsv1.AMIFamilyWindows2022: "10.0.20348", awsv1.AMIFamilyWindows2025: "10.0.26100",
}

// WindowsBuild returns the value of node.kubernetes.io/windows-build on nodes of the class; empty if they do not run
// Windows.
func (c *Class) WindowsBuild() string { return windowsBuilds[c.Family] }

// Class is the spec of an EC2NodeClass.
type Class struct {
	Name, UID, GenerationKey string // GenerationKey changes with the generation of the class
	Spec                     awsv1.EC2NodeClassSpec
	Family                   string
	KubeletConfig            *KubeletConfig
	kubeletErr               error
}

// Read reads an EC2NodeClass for an operation op. Errors: Denied for another kind of class, NotReady if the spec is
// invalid. An invalid kubelet configuration is not an error here, but reported in the status of the class.
func Read(op string, c cloud.NodeClass) (*Class, error) {
	if c.Group != awsv1.Group || c.Kind != awsv1.KindEC2NodeClass {
		return nil, &cloud.Error{Kind: cloud.Denied, Op: op, Object: c.Name, Err: fmt.Errorf(
			"node class is a %s of %s, need a %s of %s", c.Kind, c.Group, awsv1.KindEC2NodeClass, awsv1.Group)}
	}
	out := &Class{Name: c.Name, UID: c.UID, GenerationKey: fmt.Sprintf("%s/%s/%d", c.Name, c.UID, c.Generation)}
	if len(c.Spec) > 0 {
		if err := json.Unmarshal(c.Spec, &out.Spec); err != nil {
			return nil, awsapi.NotReadyError(op, c.Name, "EC2NodeClass %s: spec: %w", c.Name, err)
		}
	}
	out.Family = out.Spec.Family()
	if out.Family == "" {
		for i, t := range out.Spec.AMISelectorTerms {
			if t.Alias != "" {
				return nil, awsapi.NotReadyError(op, c.Name, "EC2NodeClass %s: spec.amiSelectorTerms[%d].alias: %q has an unknown family; use al2, al2023, bottlerocket, windows2019, windows2022 or windows2025", c.Name, i, t.Alias)
			}
		}
		return nil, awsapi.NotReadyError(op, c.Name, "EC2NodeClass %s: spec.amiFamily: missing, and no amiSelectorTerm is an alias; set one of them", c.Name)
	}
	var raw []byte
	if out.Spec.Kubelet != nil {
		raw = out.Spec.Kubelet.Raw
	}
	if out.KubeletConfig, out.kubeletErr = readKubeletConfig(raw); out.kubeletErr != nil {
		out.KubeletConfig = &KubeletConfig{}
	}
	return out, nil
}

// PodlessENIs returns the number of interfaces of the default network card without pod addresses: reserved interfaces,
// and EFA-only interfaces of the class.
func (c *Class) PodlessENIs(reserved int) int64 {
	n := int64(reserved)
	for _, i := range c.Spec.NetworkInterfaces {
		if i.NetworkCardIndex == 0 && i.InterfaceType == awsv1.InterfaceTypeEFAOnly {
			n++
		}
	}
	return n
}

// EFAInterfaces returns the number of EFA-only interfaces in spec.networkInterfaces.
func (c *Class) EFAInterfaces() (n int64) {
	for _, i := range c.Spec.NetworkInterfaces {
		if i.InterfaceType == awsv1.InterfaceTypeEFAOnly {
			n++
		}
	}
	return n
}

// OSLabel returns the value of kubernetes.io/os on nodes of the class.
func (c *Class) OSLabel() string {
	if IsWindows(c.Family) {
		return "windows"
	}
	return "linux"
}

// RootDevice returns the name of the device with the pods' ephemeral storage, unless a mapping sets another.
func RootDevice(family string) string {
	switch {
	case family == FamilyBottlerocket:
		return "/dev/xvdb"
	case IsWindows(family):
		return "/dev/sda1"
	}
	return "/dev/xvda"
}

// EphemeralStorage returns the ephemeral storage of a node of a type, in bytes: of its local disks if the class combines
// them in a RAID, otherwise of the volume that has it.
func (c *Class) EphemeralStorage(t *catalogue.TypeInfo) int64 {
	if p := c.Spec.InstanceStorePolicy; p != nil && *p == awsv1.InstanceStorePolicyRAID0 && t.LocalGB > 0 {
		return t.LocalGB * 1_000_000_000
	}
	size := func(m *awsv1.BlockDeviceMapping) int64 {
		if m.EBS != nil && m.EBS.VolumeSize != nil {
			return m.EBS.VolumeSize.Value()
		}
		return 0
	}
	mappings := c.Spec.BlockDeviceMappings
	for _, m := range mappings {
		if m.RootVolume && size(m) > 0 {
			return size(m)
		}
	}
	if n := len(mappings); n > 0 && c.Family == familyCustom && size(mappings[n-1]) > 0 {
		return size(mappings[n-1])
	}
	for _, m := range mappings {
		if awsapi.Deref(m.DeviceName) == RootDevice(c.Family) && size(m) > 0 {
			return size(m)
		}
	}
	if IsWindows(c.Family) && len(mappings) == 0 {
		return 50 * catalogue.GiB
	}
	return 20 * catalogue.GiB
}

// BootVolumes returns the number of EBS volumes that a machine of the class boots with.
func (c *Class) BootVolumes() (n int64) {
	for _, m := range c.Spec.BlockDeviceMappings {
		if m.EBS != nil {
			n++
		}
	}
	switch {
	case n > 0:
		return n
	case c.Family == FamilyBottlerocket:
		return 2 // of the system and of containers
	}
	return 1
}

// Resolver resolves EC2NodeClasses to resources of the account, and creates instance profiles for classes with a role.
type Resolver struct {
	aws            *awsapi.Account
	subnets        *awsapi.Cache[[]*Subnet]
	securityGroups *awsapi.Cache[[]SecurityGroup]
	reservations   *awsapi.Cache[[]Reservation]
	placements     *awsapi.Cache[*types.PlacementGroup]
	images         *awsapi.Cache[[]Image]
	profiles       *awsapi.Cache[string]
	cluster        *awsapi.Cache[Cluster]
	kubelets       *awsapi.Cache[KubeletsByType]
	catalogue      *catalogue.Store
	expressionEnv  func() (*cel.Env, error)
	ended          endedClasses
}

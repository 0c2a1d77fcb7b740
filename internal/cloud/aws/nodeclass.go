// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"encoding/json"
	"fmt"
	"strings"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// The image families.
const (
	familyAL2          = awsv1.AMIFamilyAL2
	familyAL2023       = awsv1.AMIFamilyAL2023
	familyBottlerocket = awsv1.AMIFamilyBottlerocket
	familyCustom       = awsv1.AMIFamilyCustom
)

func isWindows(family string) bool { return strings.HasPrefix(family, "Windows") }

// nodeClass is a node class as it is written, read.
type nodeClass struct {
	name, uid, generationKey string // generationKey changes with the class's generation
	spec                     awsv1.EC2NodeClassSpec
	family                   string
	kubeletConfig            *kubeletConfig
	kubeletErr               error
}

// readNodeClass reads a node class; a kubelet configuration that can't be used is kept for the class's status to tell.
func readNodeClass(op string, c cloud.NodeClass) (*nodeClass, error) {
	if c.Group != awsv1.Group || c.Kind != awsv1.KindEC2NodeClass {
		return nil, &cloud.Error{Kind: cloud.Denied, Op: op, Object: c.Name, Err: fmt.Errorf(
			"node class is a %s of %s, need a %s of %s", c.Kind, c.Group, awsv1.KindEC2NodeClass, awsv1.Group)}
	}
	out := &nodeClass{name: c.Name, uid: c.UID, generationKey: fmt.Sprintf("%s/%s/%d", c.Name, c.UID, c.Generation)}
	if len(c.Spec) > 0 {
		if err := json.Unmarshal(c.Spec, &out.spec); err != nil {
			return nil, notReadyError(op, c.Name, "EC2NodeClass %s: spec: %w", c.Name, err)
		}
	}
	out.family = out.spec.Family()
	if out.family == "" {
		for i, t := range out.spec.AMISelectorTerms {
			if t.Alias != "" {
				return nil, notReadyError(op, c.Name, "EC2NodeClass %s: spec.amiSelectorTerms[%d].alias: %q is of no known family; use al2, al2023, bottlerocket, windows2019, windows2022 or windows2025", c.Name, i, t.Alias)
			}
		}
		return nil, notReadyError(op, c.Name, "EC2NodeClass %s: spec.amiFamily: missing, and no amiSelectorTerm is an alias; set one of them", c.Name)
	}
	var raw []byte
	if out.spec.Kubelet != nil {
		raw = out.spec.Kubelet.Raw
	}
	if out.kubeletConfig, out.kubeletErr = readKubeletConfig(raw); out.kubeletErr != nil {
		out.kubeletConfig = &kubeletConfig{}
	}
	return out, nil
}

// osLabel is what kubernetes.io/os says on the class's nodes.
func (c *nodeClass) osLabel() string {
	if isWindows(c.family) {
		return "windows"
	}
	return "linux"
}

// rootDevice is the device that pods' ephemeral storage is on when no mapping says so.
func rootDevice(family string) string {
	switch {
	case family == familyBottlerocket:
		return "/dev/xvdb"
	case isWindows(family):
		return "/dev/sda1"
	}
	return "/dev/xvda"
}

// ephemeralStorage is a node's ephemeral storage in bytes.
func (c *nodeClass) ephemeralStorage(t *typeInfo) int64 {
	if p := c.spec.InstanceStorePolicy; p != nil && *p == awsv1.InstanceStorePolicyRAID0 && t.localGB > 0 {
		return t.localGB * 1_000_000_000
	}
	size := func(m *awsv1.BlockDeviceMapping) int64 {
		if m.EBS != nil && m.EBS.VolumeSize != nil {
			return m.EBS.VolumeSize.Value()
		}
		return 0
	}
	mappings := c.spec.BlockDeviceMappings
	for _, m := range mappings {
		if m.RootVolume && size(m) > 0 {
			return size(m)
		}
	}
	if n := len(mappings); n > 0 && c.family == familyCustom && size(mappings[n-1]) > 0 {
		return size(mappings[n-1])
	}
	for _, m := range mappings {
		if deref(m.DeviceName) == rootDevice(c.family) && size(m) > 0 {
			return size(m)
		}
	}
	if isWindows(c.family) && len(mappings) == 0 {
		return 50 * gib
	}
	return 20 * gib
}

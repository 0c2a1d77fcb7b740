// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package catalogue

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// How many volumes of pods a machine takes, as the EBS CSI driver works it out: shared attachments count network
// interfaces and local disks, dedicated ones do not.
func TestEBSVolumes(t *testing.T) {
	number := func(n int32) *int32 { return &n }
	shared := &types.EbsInfo{AttachmentLimitType: types.AttachmentLimitTypeShared, MaximumEbsAttachments: number(28)}
	dedicated := &types.EbsInfo{AttachmentLimitType: types.AttachmentLimitTypeDedicated, MaximumEbsAttachments: number(64)}
	disks := &types.InstanceStorageInfo{NvmeSupport: types.EphemeralNvmeSupportRequired, Disks: []types.DiskInfo{{Count: number(2)}}}
	for _, c := range []struct {
		name         string
		info         types.InstanceTypeInfo
		enis, booted int64
		want         int64
	}{
		{"shared", types.InstanceTypeInfo{EbsInfo: shared}, 4, 1, 25},
		{"shared, one interface", types.InstanceTypeInfo{EbsInfo: shared}, 1, 1, 26},
		{"shared, with disks", types.InstanceTypeInfo{EbsInfo: shared, InstanceStorageInfo: disks}, 4, 1, 23},
		{"shared, two volumes to boot from", types.InstanceTypeInfo{EbsInfo: shared}, 4, 2, 24},
		{"dedicated, with disks", types.InstanceTypeInfo{EbsInfo: dedicated, InstanceStorageInfo: disks}, 4, 1, 63},
		{"nothing said", types.InstanceTypeInfo{}, 4, 1, 25},
		{"Xen", types.InstanceTypeInfo{EbsInfo: shared, Hypervisor: types.InstanceTypeHypervisorXen}, 4, 1, 39},
		{"as good as none", types.InstanceTypeInfo{EbsInfo: &types.EbsInfo{AttachmentLimitType: types.AttachmentLimitTypeShared, MaximumEbsAttachments: number(2)}}, 4, 1, 1},
	} {
		x := TypeInfo{ENIs: c.enis}
		x.readAttachments(&c.info)
		if got := x.EBSVolumes(c.booted); got != c.want {
			t.Errorf("%s: %d volumes, want %d", c.name, got, c.want)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/apimachinery/pkg/api/resource"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/catalogue"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/nodeclass"
)

// buildTemplate writes the launch template of one variant, for machines that register as j says. Equal arguments give
// equal templates.
func buildTemplate(clusterName string, r *nodeclass.Resolved, pool string, j nodeclass.Registration, v templateVariant) (*launchTemplate, error) {
	data, err := r.WriteUserData(clusterName, j)
	if err != nil {
		return nil, err
	}
	d := &types.RequestLaunchTemplateData{
		ImageId: &v.imageID, BlockDeviceMappings: blockDevices(&r.Spec, r.Family),
		IamInstanceProfile: &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: &r.Profile},
	}
	if !v.openReservations {
		// What is reserved is bought as such or not at all.
		d.CapacityReservationSpecification = &types.LaunchTemplateCapacityReservationSpecificationRequest{CapacityReservationPreference: types.CapacityReservationPreferenceNone}
	}
	if data != "" {
		d.UserData = &data
	}
	if v.reservationID != "" {
		d.CapacityReservationSpecification = &types.LaunchTemplateCapacityReservationSpecificationRequest{
			CapacityReservationTarget: &types.CapacityReservationTarget{CapacityReservationId: &v.reservationID},
		}
		switch v.kind {
		case capacityBlock:
			d.InstanceMarketOptions = &types.LaunchTemplateInstanceMarketOptionsRequest{MarketType: types.MarketTypeCapacityBlock}
		case interruptibleReservation:
			d.InstanceMarketOptions = &types.LaunchTemplateInstanceMarketOptionsRequest{MarketType: types.MarketTypeInterruptibleCapacityReservation}
			d.CapacityReservationSpecification.CapacityReservationPreference = types.CapacityReservationPreferenceCapacityReservationsOnly
		}
	}
	if awsapi.Deref(r.Spec.DetailedMonitoring) {
		d.Monitoring = &types.LaunchTemplatesMonitoringRequest{Enabled: sdk.Bool(true)}
	}
	d.MetadataOptions = metadataOptions(r.Spec.MetadataOptions)
	d.Placement = placement(r.Placement, v)
	if o := r.Spec.CPUOptions; o != nil && o.NestedVirtualization != nil {
		d.CpuOptions = &types.LaunchTemplateCpuOptionsRequest{NestedVirtualization: types.NestedVirtualizationSpecification(*o.NestedVirtualization)}
	}
	if o := r.Spec.EnclaveOptions; o != nil && o.Enabled {
		d.EnclaveOptions = &types.LaunchTemplateEnclaveOptionsRequest{Enabled: sdk.Bool(true)}
	}
	var groups []string
	for _, g := range r.SecurityGroups {
		groups = append(groups, g.ID)
	}
	if d.NetworkInterfaces = networkInterfaces(&r.Spec, groups, v.efaInterfaces, r.Cluster.IPv6); d.NetworkInterfaces == nil {
		d.SecurityGroupIds = groups
	}
	tags := r.ResourceTags(clusterName, pool)
	kinds := []types.ResourceType{types.ResourceTypeNetworkInterface}
	if v.spot { // EC2 refuses the tag where there is no such request
		kinds = append(kinds, types.ResourceTypeSpotInstancesRequest)
	}
	for _, kind := range kinds {
		d.TagSpecifications = append(d.TagSpecifications, types.LaunchTemplateTagSpecificationRequest{ResourceType: kind, Tags: tags})
	}
	text, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("write launch template of EC2NodeClass %s: %w", r.Name, err)
	}
	sum := sha256.Sum256(append([]byte(clusterName+"\n"), text...))
	return &launchTemplate{templatePrefix + hex.EncodeToString(sum[:10]), d, tags}, nil
}

// placement is where in EC2 a machine is to stand; nil: anywhere. A placement group is named by its id, since one that
// another account shares can't be named otherwise.
func placement(group *types.PlacementGroup, v templateVariant) *types.LaunchTemplatePlacementRequest {
	if group == nil && v.tenancy != tenancyDedicated {
		return nil
	}
	out := &types.LaunchTemplatePlacementRequest{}
	if v.tenancy == tenancyDedicated {
		out.Tenancy = types.TenancyDedicated
	}
	if group != nil {
		out.GroupId = group.GroupId
		if n, err := strconv.ParseInt(v.partition, 10, 32); err == nil {
			out.PartitionNumber = sdk.Int32(int32(n))
		}
	}
	return out
}

// metadataOptions say how a machine's metadata can be read from it; m is what the class says, or nil. Tags are never
// part of the metadata: an account may have them there by default, and EC2 then refuses ours, whose keys have a slash.
func metadataOptions(m *awsv1.MetadataOptions) *types.LaunchTemplateInstanceMetadataOptionsRequest {
	out := &types.LaunchTemplateInstanceMetadataOptionsRequest{InstanceMetadataTags: types.LaunchTemplateInstanceMetadataTagsStateDisabled}
	if m == nil {
		return out
	}
	out.HttpEndpoint = types.LaunchTemplateInstanceMetadataEndpointState(awsapi.Deref(m.HTTPEndpoint))
	out.HttpTokens = types.LaunchTemplateHttpTokensState(awsapi.Deref(m.HTTPTokens))
	out.HttpProtocolIpv6 = types.LaunchTemplateInstanceMetadataProtocolIpv6(awsapi.Deref(m.HTTPProtocolIPv6))
	if m.HTTPPutResponseHopLimit != nil {
		out.HttpPutResponseHopLimit = sdk.Int32(int32(*m.HTTPPutResponseHopLimit))
	}
	return out
}

// networkInterfaces are the network interfaces of a machine with these security groups and so many interfaces for
// EFA; nil where the one that every machine has will do. In an IPv6 cluster each but an EFA-only one has an IPv6
// address of its own, by which the node is known, and prefixes are IPv6 ones.
func networkInterfaces(spec *awsv1.EC2NodeClassSpec, groups []string, efa int64, ipv6 bool) []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest {
	list := spec.NetworkInterfaces
	if len(list) == 0 && efa > 0 {
		for i := range int32(efa) {
			n := &awsv1.NetworkInterface{NetworkCardIndex: i, InterfaceType: "efa"}
			if i > 0 {
				n.DeviceIndex = 1
			}
			list = append(list, n)
		}
	}
	if len(list) == 0 {
		if spec.AssociatePublicIPAddress == nil && spec.ConnectionTracking == nil && spec.IPPrefixCount == nil && !ipv6 {
			return nil
		}
		list = []*awsv1.NetworkInterface{{InterfaceType: awsv1.InterfaceTypeInterface}}
	}
	var out []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest
	for _, n := range list {
		o := types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{
			NetworkCardIndex: sdk.Int32(n.NetworkCardIndex), DeviceIndex: sdk.Int32(n.DeviceIndex), InterfaceType: sdk.String(string(n.InterfaceType)), Groups: groups,
		}
		if n.NetworkCardIndex == 0 && n.DeviceIndex == 0 {
			if len(list) == 1 {
				o.AssociatePublicIpAddress = spec.AssociatePublicIPAddress // EC2 takes it with one interface only
			}
		}
		if n.InterfaceType != awsv1.InterfaceTypeEFAOnly {
			if ipv6 {
				o.Ipv6PrefixCount = spec.IPPrefixCount
			} else {
				o.Ipv4PrefixCount = spec.IPPrefixCount
			}
		}
		if ipv6 && n.InterfaceType != awsv1.InterfaceTypeEFAOnly {
			o.PrimaryIpv6, o.Ipv6AddressCount = sdk.Bool(true), sdk.Int32(1)
		}
		if c := spec.ConnectionTracking; c != nil && n.InterfaceType != awsv1.InterfaceTypeEFAOnly {
			o.ConnectionTrackingSpecification = &types.ConnectionTrackingSpecificationRequest{
				TcpEstablishedTimeout: c.TCPEstablishedTimeout, UdpStreamTimeout: c.UDPStreamTimeout, UdpTimeout: c.UDPTimeout,
			}
		}
		out = append(out, o)
	}
	return out
}

// blockDevices are the volumes of a machine: the class's, or those of its image family.
func blockDevices(spec *awsv1.EC2NodeClassSpec, family string) []types.LaunchTemplateBlockDeviceMappingRequest {
	list := spec.BlockDeviceMappings
	if len(list) == 0 {
		list = familyBlockDevices(family)
	}
	var out []types.LaunchTemplateBlockDeviceMappingRequest
	for _, m := range list {
		o := types.LaunchTemplateBlockDeviceMappingRequest{DeviceName: m.DeviceName}
		if e := m.EBS; e != nil {
			o.Ebs = &types.LaunchTemplateEbsBlockDeviceRequest{
				DeleteOnTermination: e.DeleteOnTermination, Encrypted: e.Encrypted, KmsKeyId: e.KMSKeyID, SnapshotId: e.SnapshotID,
				VolumeInitializationRate: e.VolumeInitializationRate, VolumeType: types.VolumeType(awsapi.Deref(e.VolumeType)),
			}
			if e.IOPS != nil {
				o.Ebs.Iops = sdk.Int32(int32(*e.IOPS))
			}
			if e.Throughput != nil {
				o.Ebs.Throughput = sdk.Int32(int32(*e.Throughput))
			}
			if e.VolumeSize != nil {
				o.Ebs.VolumeSize = sdk.Int32(int32((e.VolumeSize.Value() + catalogue.GiB - 1) / catalogue.GiB))
			}
		}
		out = append(out, o)
	}
	return out
}

// familyBlockDevices are the volumes that machines of an image family have when the class gives none.
func familyBlockDevices(family string) []*awsv1.BlockDeviceMapping {
	device := func(name, size string) *awsv1.BlockDeviceMapping {
		q := resource.MustParse(size)
		return &awsv1.BlockDeviceMapping{DeviceName: &name, EBS: &awsv1.BlockDevice{Encrypted: sdk.Bool(true), VolumeType: sdk.String("gp3"), VolumeSize: &q, DeleteOnTermination: sdk.Bool(true)}}
	}
	switch {
	case family == nodeclass.FamilyAL2, family == nodeclass.FamilyAL2023:
		return []*awsv1.BlockDeviceMapping{device("/dev/xvda", "20Gi")}
	case family == nodeclass.FamilyBottlerocket:
		return []*awsv1.BlockDeviceMapping{device("/dev/xvda", "4Gi"), device("/dev/xvdb", "20Gi")}
	case nodeclass.IsWindows(family):
		return []*awsv1.BlockDeviceMapping{device("/dev/sda1", "50Gi")}
	}
	return nil
}

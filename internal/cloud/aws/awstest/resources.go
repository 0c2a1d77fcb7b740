// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/shapes"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/wire"
)

// volumesOf are the volumes of an instance that a launch template asks for: those of the image, and what the template says of these and of others.
func volumesOf(im *image, data *shapes.EC2RequestLaunchTemplateData) []volume {
	var out []volume
	at := func(device string) *volume {
		for i := range out {
			if out[i].Device == device {
				return &out[i]
			}
		}
		out = append(out, volume{Device: device, SizeGB: 8, Type: "gp3"})
		return &out[len(out)-1]
	}
	for _, b := range im.described().BlockDeviceMappings {
		at(b.DeviceName).SizeGB = *b.Ebs.VolumeSize
	}
	for _, b := range data.BlockDeviceMappings {
		if b.Ebs == nil {
			continue
		}
		v := at(b.DeviceName)
		set(&v.Type, b.Ebs.VolumeType)
		if b.Ebs.VolumeSize != nil {
			v.SizeGB = *b.Ebs.VolumeSize
		}
		v.IOPS, v.Throughput, v.Encrypted, v.Key, v.Snapshot = b.Ebs.Iops, b.Ebs.Throughput, is(b.Ebs.Encrypted), b.Ebs.KmsKeyId, b.Ebs.SnapshotId
	}
	tags := map[string]string{}
	for _, s := range data.TagSpecifications {
		if s.ResourceType == "volume" {
			maps.Copy(tags, tagMap(s.Tags))
		}
	}
	for i := range out {
		out[i].Tags = tags
		if v := &out[i]; v.Type == "gp3" { // what it has without being asked for more
			if v.IOPS == nil {
				v.IOPS = new(int64(3000))
			}
			if v.Throughput == nil {
				v.Throughput = new(int64(125))
			}
		}
	}
	return out
}

func volumeID(i *instance, v *volume) string { return id("vol", i.ID, v.Device) }

// filteredBy reports whether an object passes all filters, given its values by their names. Every name that it has is known.
func filteredBy(filters []shapes.EC2Filter, tags map[string]string, values map[string][]string) (bool, error) {
	return filtered(filters, tags, func(name string) ([]string, bool) {
		have, known := values[name]
		return have, known
	})
}

func (t *tx) describeVolumes(in *shapes.EC2DescribeVolumesRequest) (*shapes.EC2DescribeVolumesResult, error) {
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	var all []shapes.EC2Volume
	found := map[string]bool{}
	for _, i := range t.alive() {
		if !t.visible(i) {
			continue
		}
		m := t.machine(i)
		for n := range i.Volumes {
			v := &i.Volumes[n]
			vol := volumeID(i, v)
			if len(in.VolumeIds) > 0 && !slices.Contains(in.VolumeIds, vol) {
				continue
			}
			found[vol] = true
			pass, err := filteredBy(in.Filters, v.Tags, map[string][]string{
				"attachment.instance-id": {i.ID}, "attachment.device": {v.Device}, "attachment.status": {"attached"}, "attachment.delete-on-termination": {"true"},
				"availability-zone": {m.Zone}, "volume-id": {vol}, "volume-type": {v.Type}, "size": {strconv.FormatInt(v.SizeGB, 10)}, "status": {"in-use"},
				"encrypted": {strconv.FormatBool(v.Encrypted)}, "snapshot-id": {v.Snapshot},
			})
			if err != nil {
				return nil, err
			}
			if pass {
				all = append(all, shapes.EC2Volume{
					VolumeId: vol, AvailabilityZone: m.Zone, CreateTime: pointer(m.Launched), Encrypted: new(v.Encrypted), KmsKeyId: v.Key, Size: new(v.SizeGB), SnapshotId: v.Snapshot,
					State: "in-use", Iops: v.IOPS, Throughput: v.Throughput, VolumeType: v.Type, Tags: tagList(v.Tags),
					Attachments: []shapes.EC2VolumeAttachment{{AttachTime: pointer(m.Launched), Device: v.Device, InstanceId: i.ID, State: "attached", VolumeId: vol, DeleteOnTermination: new(true)}},
				})
			}
		}
	}
	for _, vol := range in.VolumeIds {
		if !found[vol] {
			return nil, wire.Refuse("InvalidVolume.NotFound", "The volume '%s' does not exist.", vol)
		}
	}
	slices.SortFunc(all, func(a, b shapes.EC2Volume) int { return strings.Compare(a.VolumeId, b.VolumeId) })
	some, next := page(all, func(v shapes.EC2Volume) string { return v.VolumeId }, in.NextToken, in.MaxResults, 500)
	return &shapes.EC2DescribeVolumesResult{Volumes: some, NextToken: next}, nil
}

func (t *tx) describeNetworkInterfaces(in *shapes.EC2DescribeNetworkInterfacesRequest) (*shapes.EC2DescribeNetworkInterfacesResult, error) {
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	var all []shapes.EC2NetworkInterface
	found := map[string]bool{}
	for _, i := range t.alive() {
		if !t.visible(i) {
			continue
		}
		m, eni := t.machine(i), id("eni", i.ID)
		if len(in.NetworkInterfaceIds) > 0 && !slices.Contains(in.NetworkInterfaceIds, eni) {
			continue
		}
		found[eni] = true
		pass, err := filteredBy(in.Filters, nil, map[string][]string{
			"network-interface-id": {eni}, "attachment.instance-id": {i.ID}, "attachment.status": {"attached"}, "attachment.device-index": {"0"}, "availability-zone": {m.Zone},
			"group-id": i.Groups, "private-ip-address": {i.IP}, "addresses.private-ip-address": {i.IP}, "private-dns-name": {m.Node.Name}, "status": {"in-use"},
			"subnet-id": {i.Subnet}, "vpc-id": {t.world.vpc.VpcId}, "owner-id": {t.settings.Account}, "interface-type": {"interface"},
		})
		if err != nil {
			return nil, err
		}
		if pass {
			all = append(all, shapes.EC2NetworkInterface{
				NetworkInterfaceId: eni, AvailabilityZone: m.Zone, Groups: t.groupsOf(i), InterfaceType: "interface", OwnerId: t.settings.Account, PrivateDnsName: m.Node.Name,
				MacAddress: macAddress(i), PrivateIpAddresses: []shapes.EC2NetworkInterfacePrivateIpAddress{{Primary: new(true), PrivateDnsName: m.Node.Name, PrivateIpAddress: i.IP}},
				PrivateIpAddress: i.IP, RequesterManaged: new(false), SourceDestCheck: new(true), Status: "in-use", SubnetId: i.Subnet, VpcId: t.world.vpc.VpcId,
				Attachment: &shapes.EC2NetworkInterfaceAttachment{AttachTime: pointer(m.Launched), AttachmentId: id("eni-attach", i.ID), DeleteOnTermination: new(true), DeviceIndex: new(int64(0)),
					NetworkCardIndex: new(int64(0)), InstanceId: i.ID, InstanceOwnerId: t.settings.Account, Status: "attached"},
			})
		}
	}
	for _, eni := range in.NetworkInterfaceIds {
		if !found[eni] {
			return nil, wire.Refuse("InvalidNetworkInterfaceID.NotFound", "The networkInterface ID '%s' does not exist", eni)
		}
	}
	slices.SortFunc(all, func(a, b shapes.EC2NetworkInterface) int {
		return strings.Compare(a.NetworkInterfaceId, b.NetworkInterfaceId)
	})
	some, next := page(all, func(n shapes.EC2NetworkInterface) string { return n.NetworkInterfaceId }, in.NextToken, in.MaxResults, 1000)
	return &shapes.EC2DescribeNetworkInterfacesResult{NetworkInterfaces: some, NextToken: next}, nil
}

// macAddress is that of an instance's interface.
func macAddress(i *instance) string {
	h := hash("mac", i.ID)
	return fmt.Sprintf("0a:%02x:%02x:%02x:%02x:%02x", h[0], h[1], h[2], h[3], h[4]) // administered locally, as AWS's
}

// groupsOf are the security groups of an instance.
func (t *tx) groupsOf(i *instance) (out []shapes.EC2GroupIdentifier) {
	for _, id := range i.Groups {
		if g := t.securityGroup(id); g != nil {
			out = append(out, shapes.EC2GroupIdentifier{GroupName: g.GroupName, GroupId: id})
		}
	}
	return out
}

func (t *tx) describeTags(in *shapes.EC2DescribeTagsRequest) (*shapes.EC2DescribeTagsResult, error) {
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	var all []shapes.EC2TagDescription
	var wrong error
	add := func(kind, id string, tags map[string]string) {
		for _, k := range slices.Sorted(maps.Keys(tags)) {
			pass, err := filteredBy(in.Filters, map[string]string{k: tags[k]}, map[string][]string{"key": {k}, "value": {tags[k]}, "resource-id": {id}, "resource-type": {kind}})
			if err != nil {
				wrong = err
			}
			if pass {
				all = append(all, shapes.EC2TagDescription{Key: k, ResourceId: id, ResourceType: kind, Value: tags[k]})
			}
		}
	}
	add("vpc", t.world.vpc.VpcId, tagMap(t.world.vpc.Tags))
	for _, s := range t.world.subnets {
		add("subnet", s.SubnetId, tagMap(s.Tags))
	}
	for _, g := range t.world.groups {
		add("security-group", g.GroupId, tagMap(g.Tags))
	}
	for _, have := range t.templates.sorted() {
		add("launch-template", have.ID, have.Tags)
	}
	for _, r := range t.reserved.sorted() {
		add("capacity-reservation", r.ID, r.Tags)
	}
	for _, i := range t.instances.sorted() {
		if !t.visible(i) {
			continue
		}
		add("instance", i.ID, i.Tags)
		if !gone(t.machine(i)) {
			for n := range i.Volumes {
				add("volume", volumeID(i, &i.Volumes[n]), i.Volumes[n].Tags)
			}
		}
	}
	if wrong != nil {
		return nil, wrong
	}
	key := func(d shapes.EC2TagDescription) string { return d.ResourceId + " " + d.Key }
	slices.SortFunc(all, func(a, b shapes.EC2TagDescription) int { return strings.Compare(key(a), key(b)) })
	some, next := page(all, key, in.NextToken, in.MaxResults, 1000)
	return &shapes.EC2DescribeTagsResult{Tags: some, NextToken: next}, nil
}

// describeRegions: the account has one.
func (t *tx) describeRegions(in *shapes.EC2DescribeRegionsRequest) (*shapes.EC2DescribeRegionsResult, error) {
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	r := shapes.EC2Region{Endpoint: "ec2." + t.catalog.Region + ".amazonaws.com", RegionName: t.catalog.Region, OptInStatus: "opt-in-not-required"}
	for _, name := range in.RegionNames {
		if name != r.RegionName {
			return nil, wire.Refuse("InvalidParameterValue", "Invalid region name: %s", name)
		}
	}
	pass, err := filteredBy(in.Filters, nil, map[string][]string{"endpoint": {r.Endpoint}, "region-name": {r.RegionName}, "opt-in-status": {r.OptInStatus}})
	if err != nil || !pass {
		return &shapes.EC2DescribeRegionsResult{}, err
	}
	return &shapes.EC2DescribeRegionsResult{Regions: []shapes.EC2Region{r}}, nil
}

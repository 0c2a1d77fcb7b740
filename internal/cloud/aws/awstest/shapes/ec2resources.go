// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package shapes

import "time"

// More shapes of EC2, as in ec2.go: those of regions, tags, volumes and network interfaces.

type EC2DescribeRegionsRequest struct {
	Filters     []EC2Filter `in:"Filter"`
	RegionNames []string    `in:"RegionName"`
	DryRun      *bool       `in:"DryRun"`
	AllRegions  *bool       `in:"AllRegions"`
}

type EC2DescribeRegionsResult struct {
	Regions []EC2Region `xml:"regionInfo>item,omitempty"`
}

type EC2Region struct {
	Endpoint    string `xml:"regionEndpoint,omitempty"`
	RegionName  string `xml:"regionName,omitempty"`
	OptInStatus string `xml:"optInStatus,omitempty"`
}

type EC2DescribeTagsRequest struct {
	DryRun     *bool       `in:"DryRun"`
	Filters    []EC2Filter `in:"Filter"`
	MaxResults *int64      `in:"MaxResults"`
	NextToken  string      `in:"NextToken"`
}

type EC2DescribeTagsResult struct {
	NextToken string              `xml:"nextToken,omitempty"`
	Tags      []EC2TagDescription `xml:"tagSet>item,omitempty"`
}

type EC2TagDescription struct {
	Key          string `xml:"key,omitempty"`
	ResourceId   string `xml:"resourceId,omitempty"`
	ResourceType string `xml:"resourceType,omitempty"`
	Value        string `xml:"value"`
}

type EC2DescribeVolumesRequest struct {
	Filters    []EC2Filter `in:"Filter"`
	VolumeIds  []string    `in:"VolumeId"`
	DryRun     *bool       `in:"DryRun"`
	MaxResults *int64      `in:"MaxResults"`
	NextToken  string      `in:"NextToken"`
}

type EC2DescribeVolumesResult struct {
	Volumes   []EC2Volume `xml:"volumeSet>item,omitempty"`
	NextToken string      `xml:"nextToken,omitempty"`
}

type EC2Volume struct {
	Attachments      []EC2VolumeAttachment `xml:"attachmentSet>item,omitempty"`
	AvailabilityZone string                `xml:"availabilityZone,omitempty"`
	CreateTime       *time.Time            `xml:"createTime,omitempty"`
	Encrypted        *bool                 `xml:"encrypted,omitempty"`
	KmsKeyId         string                `xml:"kmsKeyId,omitempty"`
	Size             *int64                `xml:"size,omitempty"`
	SnapshotId       string                `xml:"snapshotId,omitempty"`
	State            string                `xml:"status,omitempty"`
	VolumeId         string                `xml:"volumeId,omitempty"`
	Iops             *int64                `xml:"iops,omitempty"`
	Tags             []EC2Tag              `xml:"tagSet>item,omitempty"`
	VolumeType       string                `xml:"volumeType,omitempty"`
	Throughput       *int64                `xml:"throughput,omitempty"`
}

type EC2VolumeAttachment struct {
	AttachTime          *time.Time `xml:"attachTime,omitempty"`
	Device              string     `xml:"device,omitempty"`
	InstanceId          string     `xml:"instanceId,omitempty"`
	State               string     `xml:"status,omitempty"`
	VolumeId            string     `xml:"volumeId,omitempty"`
	DeleteOnTermination *bool      `xml:"deleteOnTermination,omitempty"`
}

type EC2InstanceBlockDeviceMapping struct {
	DeviceName string                     `xml:"deviceName,omitempty"`
	Ebs        *EC2EbsInstanceBlockDevice `xml:"ebs,omitempty"`
}

type EC2EbsInstanceBlockDevice struct {
	AttachTime          *time.Time `xml:"attachTime,omitempty"`
	DeleteOnTermination *bool      `xml:"deleteOnTermination,omitempty"`
	Status              string     `xml:"status,omitempty"`
	VolumeId            string     `xml:"volumeId,omitempty"`
}

type EC2Monitoring struct {
	State string `xml:"state,omitempty"`
}

type EC2InstanceNetworkInterfaceAssociation struct {
	IpOwnerId     string `xml:"ipOwnerId,omitempty"`
	PublicDnsName string `xml:"publicDnsName,omitempty"`
	PublicIp      string `xml:"publicIp,omitempty"`
}

type EC2InstanceNetworkInterfaceAttachment struct {
	AttachTime          *time.Time `xml:"attachTime,omitempty"`
	AttachmentId        string     `xml:"attachmentId,omitempty"`
	DeleteOnTermination *bool      `xml:"deleteOnTermination,omitempty"`
	DeviceIndex         *int64     `xml:"deviceIndex,omitempty"`
	Status              string     `xml:"status,omitempty"`
	NetworkCardIndex    *int64     `xml:"networkCardIndex,omitempty"`
}

type EC2InstancePrivateIpAddress struct {
	Primary          *bool  `xml:"primary,omitempty"`
	PrivateDnsName   string `xml:"privateDnsName,omitempty"`
	PrivateIpAddress string `xml:"privateIpAddress,omitempty"`
}

type EC2NetworkInterfacePrivateIpAddress struct {
	Primary          *bool  `xml:"primary,omitempty"`
	PrivateDnsName   string `xml:"privateDnsName,omitempty"`
	PrivateIpAddress string `xml:"privateIpAddress,omitempty"`
}

type EC2DescribeNetworkInterfacesRequest struct {
	Filters             []EC2Filter `in:"Filter"`
	DryRun              *bool       `in:"DryRun"`
	NetworkInterfaceIds []string    `in:"NetworkInterfaceId"`
	NextToken           string      `in:"NextToken"`
	MaxResults          *int64      `in:"MaxResults"`
}

type EC2DescribeNetworkInterfacesResult struct {
	NetworkInterfaces []EC2NetworkInterface `xml:"networkInterfaceSet>item,omitempty"`
	NextToken         string                `xml:"nextToken,omitempty"`
}

type EC2NetworkInterface struct {
	Attachment         *EC2NetworkInterfaceAttachment        `xml:"attachment,omitempty"`
	AvailabilityZone   string                                `xml:"availabilityZone,omitempty"`
	Groups             []EC2GroupIdentifier                  `xml:"groupSet>item,omitempty"`
	InterfaceType      string                                `xml:"interfaceType,omitempty"`
	NetworkInterfaceId string                                `xml:"networkInterfaceId,omitempty"`
	OwnerId            string                                `xml:"ownerId,omitempty"`
	PrivateDnsName     string                                `xml:"privateDnsName,omitempty"`
	PrivateIpAddress   string                                `xml:"privateIpAddress,omitempty"`
	Description        string                                `xml:"description"`
	MacAddress         string                                `xml:"macAddress,omitempty"`
	PrivateIpAddresses []EC2NetworkInterfacePrivateIpAddress `xml:"privateIpAddressesSet>item,omitempty"`
	RequesterManaged   *bool                                 `xml:"requesterManaged,omitempty"`
	SourceDestCheck    *bool                                 `xml:"sourceDestCheck,omitempty"`
	Status             string                                `xml:"status,omitempty"`
	SubnetId           string                                `xml:"subnetId,omitempty"`
	VpcId              string                                `xml:"vpcId,omitempty"`
}

type EC2NetworkInterfaceAttachment struct {
	AttachTime          *time.Time `xml:"attachTime,omitempty"`
	AttachmentId        string     `xml:"attachmentId,omitempty"`
	DeleteOnTermination *bool      `xml:"deleteOnTermination,omitempty"`
	DeviceIndex         *int64     `xml:"deviceIndex,omitempty"`
	NetworkCardIndex    *int64     `xml:"networkCardIndex,omitempty"`
	InstanceId          string     `xml:"instanceId,omitempty"`
	InstanceOwnerId     string     `xml:"instanceOwnerId,omitempty"`
	Status              string     `xml:"status,omitempty"`
}

type EC2Tag struct {
	Key   string `in:"Key" xml:"key,omitempty"`
	Value string `in:"Value" xml:"value"`
}

type EC2Filter struct {
	Name   string   `in:"Name"`
	Values []string `in:"Value"`
}

type EC2GroupIdentifier struct {
	GroupName string `xml:"groupName,omitempty"`
	GroupId   string `xml:"groupId,omitempty"`
}

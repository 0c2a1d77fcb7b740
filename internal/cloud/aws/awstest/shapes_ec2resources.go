// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import "time"

// More shapes of EC2, as in shapes_ec2.go: those of regions, tags, volumes and network interfaces.

type ec2DescribeRegionsRequest struct {
	Filters     []ec2Filter `in:"Filter"`
	RegionNames []string    `in:"RegionName"`
	DryRun      *bool       `in:"DryRun"`
	AllRegions  *bool       `in:"AllRegions"`
}

type ec2DescribeRegionsResult struct {
	Regions []ec2Region `xml:"regionInfo>item,omitempty"`
}

type ec2Region struct {
	Endpoint    string `xml:"regionEndpoint,omitempty"`
	RegionName  string `xml:"regionName,omitempty"`
	OptInStatus string `xml:"optInStatus,omitempty"`
}

type ec2DescribeTagsRequest struct {
	DryRun     *bool       `in:"DryRun"`
	Filters    []ec2Filter `in:"Filter"`
	MaxResults *int64      `in:"MaxResults"`
	NextToken  string      `in:"NextToken"`
}

type ec2DescribeTagsResult struct {
	NextToken string              `xml:"nextToken,omitempty"`
	Tags      []ec2TagDescription `xml:"tagSet>item,omitempty"`
}

type ec2TagDescription struct {
	Key          string `xml:"key,omitempty"`
	ResourceId   string `xml:"resourceId,omitempty"`
	ResourceType string `xml:"resourceType,omitempty"`
	Value        string `xml:"value"`
}

type ec2DescribeVolumesRequest struct {
	Filters    []ec2Filter `in:"Filter"`
	VolumeIds  []string    `in:"VolumeId"`
	DryRun     *bool       `in:"DryRun"`
	MaxResults *int64      `in:"MaxResults"`
	NextToken  string      `in:"NextToken"`
}

type ec2DescribeVolumesResult struct {
	Volumes   []ec2Volume `xml:"volumeSet>item,omitempty"`
	NextToken string      `xml:"nextToken,omitempty"`
}

type ec2Volume struct {
	Attachments      []ec2VolumeAttachment `xml:"attachmentSet>item,omitempty"`
	AvailabilityZone string                `xml:"availabilityZone,omitempty"`
	CreateTime       *time.Time            `xml:"createTime,omitempty"`
	Encrypted        *bool                 `xml:"encrypted,omitempty"`
	KmsKeyId         string                `xml:"kmsKeyId,omitempty"`
	Size             *int64                `xml:"size,omitempty"`
	SnapshotId       string                `xml:"snapshotId,omitempty"`
	State            string                `xml:"status,omitempty"`
	VolumeId         string                `xml:"volumeId,omitempty"`
	Iops             *int64                `xml:"iops,omitempty"`
	Tags             []ec2Tag              `xml:"tagSet>item,omitempty"`
	VolumeType       string                `xml:"volumeType,omitempty"`
	Throughput       *int64                `xml:"throughput,omitempty"`
}

type ec2VolumeAttachment struct {
	AttachTime          *time.Time `xml:"attachTime,omitempty"`
	Device              string     `xml:"device,omitempty"`
	InstanceId          string     `xml:"instanceId,omitempty"`
	State               string     `xml:"status,omitempty"`
	VolumeId            string     `xml:"volumeId,omitempty"`
	DeleteOnTermination *bool      `xml:"deleteOnTermination,omitempty"`
}

type ec2InstanceBlockDeviceMapping struct {
	DeviceName string                     `xml:"deviceName,omitempty"`
	Ebs        *ec2EbsInstanceBlockDevice `xml:"ebs,omitempty"`
}

type ec2EbsInstanceBlockDevice struct {
	AttachTime          *time.Time `xml:"attachTime,omitempty"`
	DeleteOnTermination *bool      `xml:"deleteOnTermination,omitempty"`
	Status              string     `xml:"status,omitempty"`
	VolumeId            string     `xml:"volumeId,omitempty"`
}

type ec2Monitoring struct {
	State string `xml:"state,omitempty"`
}

type ec2InstanceNetworkInterfaceAssociation struct {
	IpOwnerId     string `xml:"ipOwnerId,omitempty"`
	PublicDnsName string `xml:"publicDnsName,omitempty"`
	PublicIp      string `xml:"publicIp,omitempty"`
}

type ec2InstanceNetworkInterfaceAttachment struct {
	AttachTime          *time.Time `xml:"attachTime,omitempty"`
	AttachmentId        string     `xml:"attachmentId,omitempty"`
	DeleteOnTermination *bool      `xml:"deleteOnTermination,omitempty"`
	DeviceIndex         *int64     `xml:"deviceIndex,omitempty"`
	Status              string     `xml:"status,omitempty"`
	NetworkCardIndex    *int64     `xml:"networkCardIndex,omitempty"`
}

type ec2InstancePrivateIpAddress struct {
	Primary          *bool  `xml:"primary,omitempty"`
	PrivateDnsName   string `xml:"privateDnsName,omitempty"`
	PrivateIpAddress string `xml:"privateIpAddress,omitempty"`
}

type ec2NetworkInterfacePrivateIpAddress struct {
	Primary          *bool  `xml:"primary,omitempty"`
	PrivateDnsName   string `xml:"privateDnsName,omitempty"`
	PrivateIpAddress string `xml:"privateIpAddress,omitempty"`
}

type ec2DescribeNetworkInterfacesRequest struct {
	Filters             []ec2Filter `in:"Filter"`
	DryRun              *bool       `in:"DryRun"`
	NetworkInterfaceIds []string    `in:"NetworkInterfaceId"`
	NextToken           string      `in:"NextToken"`
	MaxResults          *int64      `in:"MaxResults"`
}

type ec2DescribeNetworkInterfacesResult struct {
	NetworkInterfaces []ec2NetworkInterface `xml:"networkInterfaceSet>item,omitempty"`
	NextToken         string                `xml:"nextToken,omitempty"`
}

type ec2NetworkInterface struct {
	Attachment         *ec2NetworkInterfaceAttachment        `xml:"attachment,omitempty"`
	AvailabilityZone   string                                `xml:"availabilityZone,omitempty"`
	Groups             []ec2GroupIdentifier                  `xml:"groupSet>item,omitempty"`
	InterfaceType      string                                `xml:"interfaceType,omitempty"`
	NetworkInterfaceId string                                `xml:"networkInterfaceId,omitempty"`
	OwnerId            string                                `xml:"ownerId,omitempty"`
	PrivateDnsName     string                                `xml:"privateDnsName,omitempty"`
	PrivateIpAddress   string                                `xml:"privateIpAddress,omitempty"`
	Description        string                                `xml:"description"`
	MacAddress         string                                `xml:"macAddress,omitempty"`
	PrivateIpAddresses []ec2NetworkInterfacePrivateIpAddress `xml:"privateIpAddressesSet>item,omitempty"`
	RequesterManaged   *bool                                 `xml:"requesterManaged,omitempty"`
	SourceDestCheck    *bool                                 `xml:"sourceDestCheck,omitempty"`
	Status             string                                `xml:"status,omitempty"`
	SubnetId           string                                `xml:"subnetId,omitempty"`
	VpcId              string                                `xml:"vpcId,omitempty"`
}

type ec2NetworkInterfaceAttachment struct {
	AttachTime          *time.Time `xml:"attachTime,omitempty"`
	AttachmentId        string     `xml:"attachmentId,omitempty"`
	DeleteOnTermination *bool      `xml:"deleteOnTermination,omitempty"`
	DeviceIndex         *int64     `xml:"deviceIndex,omitempty"`
	NetworkCardIndex    *int64     `xml:"networkCardIndex,omitempty"`
	InstanceId          string     `xml:"instanceId,omitempty"`
	InstanceOwnerId     string     `xml:"instanceOwnerId,omitempty"`
	Status              string     `xml:"status,omitempty"`
}

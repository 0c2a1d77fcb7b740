// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import "time"

// The shapes of EC2, version 2016-11-15: of every call served, the members read and written. A type is named as its shape in the
// service model, a field as its member; test/awsmodels holds names and tags against that model.

type ec2CreateFleetRequest struct {
	DryRun                           *bool                                  `in:"DryRun"`
	ClientToken                      string                                 `in:"ClientToken"`
	SpotOptions                      *ec2SpotOptionsRequest                 `in:"SpotOptions"`
	OnDemandOptions                  *ec2OnDemandOptionsRequest             `in:"OnDemandOptions"`
	ExcessCapacityTerminationPolicy  string                                 `in:"ExcessCapacityTerminationPolicy"`
	LaunchTemplateConfigs            []ec2FleetLaunchTemplateConfigRequest  `in:"LaunchTemplateConfigs"`
	TargetCapacitySpecification      *ec2TargetCapacitySpecificationRequest `in:"TargetCapacitySpecification"`
	TerminateInstancesWithExpiration *bool                                  `in:"TerminateInstancesWithExpiration"`
	Type                             string                                 `in:"Type"`
	ValidFrom                        *time.Time                             `in:"ValidFrom"`
	ValidUntil                       *time.Time                             `in:"ValidUntil"`
	ReplaceUnhealthyInstances        *bool                                  `in:"ReplaceUnhealthyInstances"`
	TagSpecifications                []ec2TagSpecification                  `in:"TagSpecification"`
	Context                          string                                 `in:"Context"`
}

type ec2SpotOptionsRequest struct {
	AllocationStrategy           string                                    `in:"AllocationStrategy"`
	MaintenanceStrategies        *ec2FleetSpotMaintenanceStrategiesRequest `in:"MaintenanceStrategies"`
	InstanceInterruptionBehavior string                                    `in:"InstanceInterruptionBehavior"`
	InstancePoolsToUseCount      *int64                                    `in:"InstancePoolsToUseCount"`
	SingleInstanceType           *bool                                     `in:"SingleInstanceType"`
	SingleAvailabilityZone       *bool                                     `in:"SingleAvailabilityZone"`
	MinTargetCapacity            *int64                                    `in:"MinTargetCapacity"`
	MaxTotalPrice                string                                    `in:"MaxTotalPrice"`
}

type ec2FleetSpotMaintenanceStrategiesRequest struct {
	CapacityRebalance *ec2FleetSpotCapacityRebalanceRequest `in:"CapacityRebalance"`
}

type ec2FleetSpotCapacityRebalanceRequest struct {
	ReplacementStrategy string `in:"ReplacementStrategy"`
	TerminationDelay    *int64 `in:"TerminationDelay"`
}

type ec2OnDemandOptionsRequest struct {
	AllocationStrategy         string                                `in:"AllocationStrategy"`
	CapacityReservationOptions *ec2CapacityReservationOptionsRequest `in:"CapacityReservationOptions"`
	SingleInstanceType         *bool                                 `in:"SingleInstanceType"`
	SingleAvailabilityZone     *bool                                 `in:"SingleAvailabilityZone"`
	MinTargetCapacity          *int64                                `in:"MinTargetCapacity"`
	MaxTotalPrice              string                                `in:"MaxTotalPrice"`
}

type ec2CapacityReservationOptionsRequest struct {
	UsageStrategy string `in:"UsageStrategy"`
}

type ec2FleetLaunchTemplateConfigRequest struct {
	LaunchTemplateSpecification *ec2FleetLaunchTemplateSpecificationRequest `in:"LaunchTemplateSpecification"`
	Overrides                   []ec2FleetLaunchTemplateOverridesRequest    `in:"Overrides"`
}

type ec2FleetLaunchTemplateSpecificationRequest struct {
	LaunchTemplateId   string `in:"LaunchTemplateId"`
	LaunchTemplateName string `in:"LaunchTemplateName"`
	Version            string `in:"Version"`
}

type ec2FleetLaunchTemplateOverridesRequest struct {
	InstanceType     string        `in:"InstanceType"`
	MaxPrice         string        `in:"MaxPrice"`
	SubnetId         string        `in:"SubnetId"`
	AvailabilityZone string        `in:"AvailabilityZone"`
	WeightedCapacity *float64      `in:"WeightedCapacity"`
	Priority         *float64      `in:"Priority"`
	Placement        *ec2Placement `in:"Placement"`
	ImageId          string        `in:"ImageId"`
}

type ec2CapacityReservationSpecificationResponse struct {
	CapacityReservationPreference string                                `xml:"capacityReservationPreference,omitempty"`
	CapacityReservationTarget     *ec2CapacityReservationTargetResponse `xml:"capacityReservationTarget,omitempty"`
}

type ec2Placement struct {
	AvailabilityZone   string `in:"AvailabilityZone" xml:"availabilityZone,omitempty"`
	AvailabilityZoneId string `in:"AvailabilityZoneId" xml:"availabilityZoneId,omitempty"`
	GroupName          string `in:"GroupName" xml:"groupName,omitempty"`
	PartitionNumber    *int64 `in:"PartitionNumber" xml:"partitionNumber,omitempty"`
	Tenancy            string `in:"Tenancy" xml:"tenancy,omitempty"`
	GroupId            string `in:"GroupId" xml:"groupId,omitempty"`
}

type ec2TargetCapacitySpecificationRequest struct {
	TotalTargetCapacity       *int64 `in:"TotalTargetCapacity"`
	OnDemandTargetCapacity    *int64 `in:"OnDemandTargetCapacity"`
	SpotTargetCapacity        *int64 `in:"SpotTargetCapacity"`
	DefaultTargetCapacityType string `in:"DefaultTargetCapacityType"`
	TargetCapacityUnitType    string `in:"TargetCapacityUnitType"`
}

type ec2TagSpecification struct {
	ResourceType string   `in:"ResourceType"`
	Tags         []ec2Tag `in:"Tag"`
}

type ec2Tag struct {
	Key   string `in:"Key" xml:"key,omitempty"`
	Value string `in:"Value" xml:"value"`
}

type ec2CreateFleetResult struct {
	FleetId   string                   `xml:"fleetId,omitempty"`
	Errors    []ec2CreateFleetError    `xml:"errorSet>item,omitempty"`
	Instances []ec2CreateFleetInstance `xml:"fleetInstanceSet>item,omitempty"`
}

type ec2CreateFleetError struct {
	LaunchTemplateAndOverrides *ec2LaunchTemplateAndOverridesResponse `xml:"launchTemplateAndOverrides,omitempty"`
	Lifecycle                  string                                 `xml:"lifecycle,omitempty"`
	ErrorCode                  string                                 `xml:"errorCode,omitempty"`
	ErrorMessage               string                                 `xml:"errorMessage,omitempty"`
}

type ec2LaunchTemplateAndOverridesResponse struct {
	LaunchTemplateSpecification *ec2FleetLaunchTemplateSpecification `xml:"launchTemplateSpecification,omitempty"`
	Overrides                   *ec2FleetLaunchTemplateOverrides     `xml:"overrides,omitempty"`
}

type ec2FleetLaunchTemplateSpecification struct {
	LaunchTemplateId   string `xml:"launchTemplateId,omitempty"`
	LaunchTemplateName string `xml:"launchTemplateName,omitempty"`
	Version            string `xml:"version,omitempty"`
}

type ec2FleetLaunchTemplateOverrides struct {
	InstanceType     string   `xml:"instanceType,omitempty"`
	MaxPrice         string   `xml:"maxPrice,omitempty"`
	SubnetId         string   `xml:"subnetId,omitempty"`
	AvailabilityZone string   `xml:"availabilityZone,omitempty"`
	WeightedCapacity *float64 `xml:"weightedCapacity,omitempty"`
	Priority         *float64 `xml:"priority,omitempty"`
	ImageId          string   `xml:"imageId,omitempty"`
}

type ec2CreateFleetInstance struct {
	LaunchTemplateAndOverrides *ec2LaunchTemplateAndOverridesResponse `xml:"launchTemplateAndOverrides,omitempty"`
	Lifecycle                  string                                 `xml:"lifecycle,omitempty"`
	InstanceIds                []string                               `xml:"instanceIds>item,omitempty"`
	InstanceType               string                                 `xml:"instanceType,omitempty"`
	Platform                   string                                 `xml:"platform,omitempty"`
}

type ec2DescribeInstancesRequest struct {
	Filters     []ec2Filter `in:"Filter"`
	InstanceIds []string    `in:"InstanceId"`
	DryRun      *bool       `in:"DryRun"`
	MaxResults  *int64      `in:"MaxResults"`
	NextToken   string      `in:"NextToken"`
}

type ec2Filter struct {
	Name   string   `in:"Name"`
	Values []string `in:"Value"`
}

type ec2DescribeInstancesResult struct {
	Reservations []ec2Reservation `xml:"reservationSet>item,omitempty"`
	NextToken    string           `xml:"nextToken,omitempty"`
}

type ec2Reservation struct {
	Instances     []ec2Instance `xml:"instancesSet>item,omitempty"`
	OwnerId       string        `xml:"ownerId,omitempty"`
	ReservationId string        `xml:"reservationId,omitempty"`
}

type ec2Instance struct {
	AmiLaunchIndex                   *int64                                       `xml:"amiLaunchIndex,omitempty"`
	ImageId                          string                                       `xml:"imageId,omitempty"`
	InstanceId                       string                                       `xml:"instanceId,omitempty"`
	InstanceType                     string                                       `xml:"instanceType,omitempty"`
	LaunchTime                       *time.Time                                   `xml:"launchTime,omitempty"`
	Placement                        *ec2Placement                                `xml:"placement,omitempty"`
	PrivateDnsName                   string                                       `xml:"privateDnsName,omitempty"`
	PrivateIpAddress                 string                                       `xml:"privateIpAddress,omitempty"`
	State                            *ec2InstanceState                            `xml:"instanceState,omitempty"`
	StateTransitionReason            string                                       `xml:"reason,omitempty"`
	SubnetId                         string                                       `xml:"subnetId,omitempty"`
	VpcId                            string                                       `xml:"vpcId,omitempty"`
	Architecture                     string                                       `xml:"architecture,omitempty"`
	ClientToken                      string                                       `xml:"clientToken,omitempty"`
	EbsOptimized                     *bool                                        `xml:"ebsOptimized,omitempty"`
	EnaSupport                       *bool                                        `xml:"enaSupport,omitempty"`
	Hypervisor                       string                                       `xml:"hypervisor,omitempty"`
	IamInstanceProfile               *ec2IamInstanceProfile                       `xml:"iamInstanceProfile,omitempty"`
	InstanceLifecycle                string                                       `xml:"instanceLifecycle,omitempty"`
	NetworkInterfaces                []ec2InstanceNetworkInterface                `xml:"networkInterfaceSet>item,omitempty"`
	BlockDeviceMappings              []ec2InstanceBlockDeviceMapping              `xml:"blockDeviceMapping>item,omitempty"`
	Monitoring                       *ec2Monitoring                               `xml:"monitoring,omitempty"`
	PublicDnsName                    string                                       `xml:"dnsName,omitempty"`
	PublicIpAddress                  string                                       `xml:"ipAddress,omitempty"`
	SourceDestCheck                  *bool                                        `xml:"sourceDestCheck,omitempty"`
	PlatformDetails                  string                                       `xml:"platformDetails,omitempty"`
	UsageOperation                   string                                       `xml:"usageOperation,omitempty"`
	RootDeviceName                   string                                       `xml:"rootDeviceName,omitempty"`
	RootDeviceType                   string                                       `xml:"rootDeviceType,omitempty"`
	SecurityGroups                   []ec2GroupIdentifier                         `xml:"groupSet>item,omitempty"`
	SpotInstanceRequestId            string                                       `xml:"spotInstanceRequestId,omitempty"`
	StateReason                      *ec2StateReason                              `xml:"stateReason,omitempty"`
	CapacityReservationSpecification *ec2CapacityReservationSpecificationResponse `xml:"capacityReservationSpecification,omitempty"`
	Tags                             []ec2Tag                                     `xml:"tagSet>item,omitempty"`
	VirtualizationType               string                                       `xml:"virtualizationType,omitempty"`
	CapacityReservationId            string                                       `xml:"capacityReservationId,omitempty"`
	MetadataOptions                  *ec2InstanceMetadataOptionsResponse          `xml:"metadataOptions,omitempty"`
}

type ec2InstanceState struct {
	Code *int64 `xml:"code,omitempty"`
	Name string `xml:"name,omitempty"`
}

type ec2IamInstanceProfile struct {
	Arn string `xml:"arn,omitempty"`
	Id  string `xml:"id,omitempty"`
}

type ec2InstanceNetworkInterface struct {
	Association        *ec2InstanceNetworkInterfaceAssociation `xml:"association,omitempty"`
	Attachment         *ec2InstanceNetworkInterfaceAttachment  `xml:"attachment,omitempty"`
	Description        string                                  `xml:"description"`
	MacAddress         string                                  `xml:"macAddress,omitempty"`
	PrivateIpAddresses []ec2InstancePrivateIpAddress           `xml:"privateIpAddressesSet>item,omitempty"`
	OwnerId            string                                  `xml:"ownerId,omitempty"`
	SourceDestCheck    *bool                                   `xml:"sourceDestCheck,omitempty"`
	Groups             []ec2GroupIdentifier                    `xml:"groupSet>item,omitempty"`
	NetworkInterfaceId string                                  `xml:"networkInterfaceId,omitempty"`
	PrivateDnsName     string                                  `xml:"privateDnsName,omitempty"`
	PrivateIpAddress   string                                  `xml:"privateIpAddress,omitempty"`
	Status             string                                  `xml:"status,omitempty"`
	SubnetId           string                                  `xml:"subnetId,omitempty"`
	VpcId              string                                  `xml:"vpcId,omitempty"`
	InterfaceType      string                                  `xml:"interfaceType,omitempty"`
}

type ec2GroupIdentifier struct {
	GroupName string `xml:"groupName,omitempty"`
	GroupId   string `xml:"groupId,omitempty"`
}

type ec2StateReason struct {
	Code    string `xml:"code,omitempty"`
	Message string `xml:"message,omitempty"`
}

type ec2InstanceMetadataOptionsResponse struct {
	State                   string `xml:"state,omitempty"`
	HttpTokens              string `xml:"httpTokens,omitempty"`
	HttpPutResponseHopLimit *int64 `xml:"httpPutResponseHopLimit,omitempty"`
	HttpEndpoint            string `xml:"httpEndpoint,omitempty"`
	HttpProtocolIpv6        string `xml:"httpProtocolIpv6,omitempty"`
	InstanceMetadataTags    string `xml:"instanceMetadataTags,omitempty"`
}

type ec2DescribeInstanceStatusRequest struct {
	Filters             []ec2Filter `in:"Filter"`
	InstanceIds         []string    `in:"InstanceId"`
	MaxResults          *int64      `in:"MaxResults"`
	NextToken           string      `in:"NextToken"`
	DryRun              *bool       `in:"DryRun"`
	IncludeAllInstances *bool       `in:"IncludeAllInstances"`
}

type ec2DescribeInstanceStatusResult struct {
	InstanceStatuses []ec2InstanceStatus `xml:"instanceStatusSet>item,omitempty"`
	NextToken        string              `xml:"nextToken,omitempty"`
}

type ec2InstanceStatus struct {
	AvailabilityZone string                    `xml:"availabilityZone,omitempty"`
	Events           []ec2InstanceStatusEvent  `xml:"eventsSet>item,omitempty"`
	InstanceId       string                    `xml:"instanceId,omitempty"`
	InstanceState    *ec2InstanceState         `xml:"instanceState,omitempty"`
	InstanceStatus   *ec2InstanceStatusSummary `xml:"instanceStatus,omitempty"`
	SystemStatus     *ec2InstanceStatusSummary `xml:"systemStatus,omitempty"`
}

type ec2InstanceStatusEvent struct {
	InstanceEventId   string     `xml:"instanceEventId,omitempty"`
	Code              string     `xml:"code,omitempty"`
	Description       string     `xml:"description,omitempty"`
	NotAfter          *time.Time `xml:"notAfter,omitempty"`
	NotBefore         *time.Time `xml:"notBefore,omitempty"`
	NotBeforeDeadline *time.Time `xml:"notBeforeDeadline,omitempty"`
}

type ec2InstanceStatusSummary struct {
	Details []ec2InstanceStatusDetails `xml:"details>item,omitempty"`
	Status  string                     `xml:"status,omitempty"`
}

type ec2InstanceStatusDetails struct {
	ImpairedSince *time.Time `xml:"impairedSince,omitempty"`
	Name          string     `xml:"name,omitempty"`
	Status        string     `xml:"status,omitempty"`
}

type ec2TerminateInstancesRequest struct {
	InstanceIds []string `in:"InstanceId"`
	DryRun      *bool    `in:"DryRun"`
}

type ec2RebootInstancesRequest struct {
	InstanceIds []string `in:"InstanceId"`
	DryRun      *bool    `in:"DryRun"`
}

type ec2TerminateInstancesResult struct {
	TerminatingInstances []ec2InstanceStateChange `xml:"instancesSet>item,omitempty"`
}

type ec2InstanceStateChange struct {
	CurrentState  *ec2InstanceState `xml:"currentState,omitempty"`
	InstanceId    string            `xml:"instanceId,omitempty"`
	PreviousState *ec2InstanceState `xml:"previousState,omitempty"`
}

type ec2RunInstancesRequest struct {
	BlockDeviceMappings   []ec2BlockDeviceMapping                    `in:"BlockDeviceMapping"`
	ImageId               string                                     `in:"ImageId"`
	InstanceType          string                                     `in:"InstanceType"`
	MaxCount              *int64                                     `in:"MaxCount"`
	MinCount              *int64                                     `in:"MinCount"`
	Monitoring            *ec2RunInstancesMonitoringEnabled          `in:"Monitoring"`
	Placement             *ec2Placement                              `in:"Placement"`
	SecurityGroupIds      []string                                   `in:"SecurityGroupId"`
	SubnetId              string                                     `in:"SubnetId"`
	UserData              string                                     `in:"UserData"`
	ClientToken           string                                     `in:"ClientToken"`
	DryRun                *bool                                      `in:"DryRun"`
	EbsOptimized          *bool                                      `in:"EbsOptimized"`
	IamInstanceProfile    *ec2IamInstanceProfileSpecification        `in:"IamInstanceProfile"`
	NetworkInterfaces     []ec2InstanceNetworkInterfaceSpecification `in:"NetworkInterface"`
	TagSpecifications     []ec2TagSpecification                      `in:"TagSpecification"`
	LaunchTemplate        *ec2LaunchTemplateSpecification            `in:"LaunchTemplate"`
	InstanceMarketOptions *ec2InstanceMarketOptionsRequest           `in:"InstanceMarketOptions"`
	MetadataOptions       *ec2InstanceMetadataOptionsRequest         `in:"MetadataOptions"`
}

type ec2BlockDeviceMapping struct {
	DeviceName  string             `in:"DeviceName" xml:"deviceName,omitempty"`
	VirtualName string             `in:"VirtualName" xml:"virtualName,omitempty"`
	Ebs         *ec2EbsBlockDevice `in:"Ebs" xml:"ebs,omitempty"`
	NoDevice    string             `in:"NoDevice" xml:"noDevice,omitempty"`
}

type ec2EbsBlockDevice struct {
	DeleteOnTermination *bool  `in:"DeleteOnTermination" xml:"deleteOnTermination,omitempty"`
	Iops                *int64 `in:"Iops" xml:"iops,omitempty"`
	SnapshotId          string `in:"SnapshotId" xml:"snapshotId,omitempty"`
	VolumeSize          *int64 `in:"VolumeSize" xml:"volumeSize,omitempty"`
	VolumeType          string `in:"VolumeType" xml:"volumeType,omitempty"`
	KmsKeyId            string `in:"KmsKeyId" xml:"kmsKeyId,omitempty"`
	Throughput          *int64 `in:"Throughput" xml:"throughput,omitempty"`
	OutpostArn          string `in:"OutpostArn" xml:"outpostArn,omitempty"`
	Encrypted           *bool  `in:"Encrypted" xml:"encrypted,omitempty"`
}

type ec2RunInstancesMonitoringEnabled struct {
	Enabled *bool `in:"Enabled"`
}

type ec2IamInstanceProfileSpecification struct {
	Arn  string `in:"Arn"`
	Name string `in:"Name"`
}

type ec2InstanceNetworkInterfaceSpecification struct {
	AssociatePublicIpAddress *bool    `in:"AssociatePublicIpAddress"`
	DeleteOnTermination      *bool    `in:"DeleteOnTermination"`
	Description              string   `in:"Description"`
	DeviceIndex              *int64   `in:"DeviceIndex"`
	Groups                   []string `in:"SecurityGroupId"`
	SubnetId                 string   `in:"SubnetId"`
	InterfaceType            string   `in:"InterfaceType"`
	NetworkCardIndex         *int64   `in:"NetworkCardIndex"`
	Ipv4PrefixCount          *int64   `in:"Ipv4PrefixCount"`
}

type ec2LaunchTemplateSpecification struct {
	LaunchTemplateId   string `in:"LaunchTemplateId"`
	LaunchTemplateName string `in:"LaunchTemplateName"`
	Version            string `in:"Version"`
}

type ec2InstanceMarketOptionsRequest struct {
	MarketType  string                `in:"MarketType"`
	SpotOptions *ec2SpotMarketOptions `in:"SpotOptions"`
}

type ec2SpotMarketOptions struct {
	MaxPrice                     string     `in:"MaxPrice"`
	SpotInstanceType             string     `in:"SpotInstanceType"`
	BlockDurationMinutes         *int64     `in:"BlockDurationMinutes"`
	ValidUntil                   *time.Time `in:"ValidUntil"`
	InstanceInterruptionBehavior string     `in:"InstanceInterruptionBehavior"`
}

type ec2InstanceMetadataOptionsRequest struct {
	HttpTokens              string `in:"HttpTokens"`
	HttpPutResponseHopLimit *int64 `in:"HttpPutResponseHopLimit"`
	HttpEndpoint            string `in:"HttpEndpoint"`
	HttpProtocolIpv6        string `in:"HttpProtocolIpv6"`
	InstanceMetadataTags    string `in:"InstanceMetadataTags"`
}

type ec2CreateTagsRequest struct {
	DryRun    *bool    `in:"DryRun"`
	Resources []string `in:"ResourceId"`
	Tags      []ec2Tag `in:"Tag"`
}

type ec2DeleteTagsRequest struct {
	DryRun    *bool    `in:"DryRun"`
	Resources []string `in:"ResourceId"`
	Tags      []ec2Tag `in:"Tag"`
}

type ec2CreateLaunchTemplateRequest struct {
	DryRun             *bool                         `in:"DryRun"`
	ClientToken        string                        `in:"ClientToken"`
	LaunchTemplateName string                        `in:"LaunchTemplateName"`
	VersionDescription string                        `in:"VersionDescription"`
	LaunchTemplateData *ec2RequestLaunchTemplateData `in:"LaunchTemplateData"`
	TagSpecifications  []ec2TagSpecification         `in:"TagSpecification"`
}

type ec2RequestLaunchTemplateData struct {
	EbsOptimized                     *bool                                                           `in:"EbsOptimized"`
	IamInstanceProfile               *ec2LaunchTemplateIamInstanceProfileSpecificationRequest        `in:"IamInstanceProfile"`
	BlockDeviceMappings              []ec2LaunchTemplateBlockDeviceMappingRequest                    `in:"BlockDeviceMapping"`
	NetworkInterfaces                []ec2LaunchTemplateInstanceNetworkInterfaceSpecificationRequest `in:"NetworkInterface"`
	ImageId                          string                                                          `in:"ImageId"`
	InstanceType                     string                                                          `in:"InstanceType"`
	KeyName                          string                                                          `in:"KeyName"`
	Monitoring                       *ec2LaunchTemplatesMonitoringRequest                            `in:"Monitoring"`
	Placement                        *ec2LaunchTemplatePlacementRequest                              `in:"Placement"`
	DisableApiTermination            *bool                                                           `in:"DisableApiTermination"`
	UserData                         string                                                          `in:"UserData"`
	TagSpecifications                []ec2LaunchTemplateTagSpecificationRequest                      `in:"TagSpecification"`
	SecurityGroupIds                 []string                                                        `in:"SecurityGroupId"`
	InstanceMarketOptions            *ec2LaunchTemplateInstanceMarketOptionsRequest                  `in:"InstanceMarketOptions"`
	CreditSpecification              *ec2CreditSpecificationRequest                                  `in:"CreditSpecification"`
	CpuOptions                       *ec2LaunchTemplateCpuOptionsRequest                             `in:"CpuOptions"`
	CapacityReservationSpecification *ec2LaunchTemplateCapacityReservationSpecificationRequest       `in:"CapacityReservationSpecification"`
	MetadataOptions                  *ec2LaunchTemplateInstanceMetadataOptionsRequest                `in:"MetadataOptions"`
	EnclaveOptions                   *ec2LaunchTemplateEnclaveOptionsRequest                         `in:"EnclaveOptions"`
	PrivateDnsNameOptions            *ec2LaunchTemplatePrivateDnsNameOptionsRequest                  `in:"PrivateDnsNameOptions"`
	MaintenanceOptions               *ec2LaunchTemplateInstanceMaintenanceOptionsRequest             `in:"MaintenanceOptions"`
}

type ec2LaunchTemplateIamInstanceProfileSpecificationRequest struct {
	Arn  string `in:"Arn"`
	Name string `in:"Name"`
}

type ec2LaunchTemplateBlockDeviceMappingRequest struct {
	DeviceName  string                                  `in:"DeviceName"`
	VirtualName string                                  `in:"VirtualName"`
	Ebs         *ec2LaunchTemplateEbsBlockDeviceRequest `in:"Ebs"`
	NoDevice    string                                  `in:"NoDevice"`
}

type ec2LaunchTemplateEbsBlockDeviceRequest struct {
	Encrypted           *bool  `in:"Encrypted"`
	DeleteOnTermination *bool  `in:"DeleteOnTermination"`
	Iops                *int64 `in:"Iops"`
	KmsKeyId            string `in:"KmsKeyId"`
	SnapshotId          string `in:"SnapshotId"`
	VolumeSize          *int64 `in:"VolumeSize"`
	VolumeType          string `in:"VolumeType"`
	Throughput          *int64 `in:"Throughput"`
}

type ec2LaunchTemplateInstanceNetworkInterfaceSpecificationRequest struct {
	AssociatePublicIpAddress        *bool                                      `in:"AssociatePublicIpAddress"`
	DeleteOnTermination             *bool                                      `in:"DeleteOnTermination"`
	Description                     string                                     `in:"Description"`
	DeviceIndex                     *int64                                     `in:"DeviceIndex"`
	Groups                          []string                                   `in:"SecurityGroupId"`
	InterfaceType                   string                                     `in:"InterfaceType"`
	Ipv6AddressCount                *int64                                     `in:"Ipv6AddressCount"`
	NetworkInterfaceId              string                                     `in:"NetworkInterfaceId"`
	SubnetId                        string                                     `in:"SubnetId"`
	NetworkCardIndex                *int64                                     `in:"NetworkCardIndex"`
	Ipv4PrefixCount                 *int64                                     `in:"Ipv4PrefixCount"`
	Ipv6PrefixCount                 *int64                                     `in:"Ipv6PrefixCount"`
	PrimaryIpv6                     *bool                                      `in:"PrimaryIpv6"`
	ConnectionTrackingSpecification *ec2ConnectionTrackingSpecificationRequest `in:"ConnectionTrackingSpecification"`
}

type ec2ConnectionTrackingSpecificationRequest struct {
	TcpEstablishedTimeout *int64 `in:"TcpEstablishedTimeout"`
	UdpStreamTimeout      *int64 `in:"UdpStreamTimeout"`
	UdpTimeout            *int64 `in:"UdpTimeout"`
}

type ec2LaunchTemplatesMonitoringRequest struct {
	Enabled *bool `in:"Enabled"`
}

type ec2LaunchTemplatePlacementRequest struct {
	AvailabilityZone string `in:"AvailabilityZone"`
	GroupName        string `in:"GroupName"`
	Tenancy          string `in:"Tenancy"`
	PartitionNumber  *int64 `in:"PartitionNumber"`
	GroupId          string `in:"GroupId"`
}

type ec2LaunchTemplateTagSpecificationRequest struct {
	ResourceType string   `in:"ResourceType"`
	Tags         []ec2Tag `in:"Tag"`
}

type ec2LaunchTemplateInstanceMarketOptionsRequest struct {
	MarketType  string                                     `in:"MarketType"`
	SpotOptions *ec2LaunchTemplateSpotMarketOptionsRequest `in:"SpotOptions"`
}

type ec2LaunchTemplateSpotMarketOptionsRequest struct {
	MaxPrice                     string     `in:"MaxPrice"`
	SpotInstanceType             string     `in:"SpotInstanceType"`
	BlockDurationMinutes         *int64     `in:"BlockDurationMinutes"`
	ValidUntil                   *time.Time `in:"ValidUntil"`
	InstanceInterruptionBehavior string     `in:"InstanceInterruptionBehavior"`
}

type ec2CreditSpecificationRequest struct {
	CpuCredits string `in:"CpuCredits"`
}

type ec2LaunchTemplateCpuOptionsRequest struct {
	CoreCount      *int64 `in:"CoreCount"`
	ThreadsPerCore *int64 `in:"ThreadsPerCore"`
	AmdSevSnp      string `in:"AmdSevSnp"`
}

type ec2LaunchTemplateCapacityReservationSpecificationRequest struct {
	CapacityReservationPreference string                        `in:"CapacityReservationPreference"`
	CapacityReservationTarget     *ec2CapacityReservationTarget `in:"CapacityReservationTarget"`
}

type ec2CapacityReservationTarget struct {
	CapacityReservationId               string `in:"CapacityReservationId"`
	CapacityReservationResourceGroupArn string `in:"CapacityReservationResourceGroupArn"`
}

type ec2LaunchTemplateInstanceMetadataOptionsRequest struct {
	HttpTokens              string `in:"HttpTokens"`
	HttpPutResponseHopLimit *int64 `in:"HttpPutResponseHopLimit"`
	HttpEndpoint            string `in:"HttpEndpoint"`
	HttpProtocolIpv6        string `in:"HttpProtocolIpv6"`
	InstanceMetadataTags    string `in:"InstanceMetadataTags"`
}

type ec2LaunchTemplateEnclaveOptionsRequest struct {
	Enabled *bool `in:"Enabled"`
}

type ec2LaunchTemplatePrivateDnsNameOptionsRequest struct {
	HostnameType                    string `in:"HostnameType"`
	EnableResourceNameDnsARecord    *bool  `in:"EnableResourceNameDnsARecord"`
	EnableResourceNameDnsAAAARecord *bool  `in:"EnableResourceNameDnsAAAARecord"`
}

type ec2LaunchTemplateInstanceMaintenanceOptionsRequest struct {
	AutoRecovery string `in:"AutoRecovery"`
}

type ec2CreateLaunchTemplateResult struct {
	LaunchTemplate *ec2LaunchTemplate    `xml:"launchTemplate,omitempty"`
	Warning        *ec2ValidationWarning `xml:"warning,omitempty"`
}

type ec2LaunchTemplate struct {
	LaunchTemplateId     string     `xml:"launchTemplateId,omitempty"`
	LaunchTemplateName   string     `xml:"launchTemplateName,omitempty"`
	CreateTime           *time.Time `xml:"createTime,omitempty"`
	CreatedBy            string     `xml:"createdBy,omitempty"`
	DefaultVersionNumber *int64     `xml:"defaultVersionNumber,omitempty"`
	LatestVersionNumber  *int64     `xml:"latestVersionNumber,omitempty"`
	Tags                 []ec2Tag   `xml:"tagSet>item,omitempty"`
}

type ec2ValidationWarning struct {
	Errors []ec2ValidationError `xml:"errorSet>item,omitempty"`
}

type ec2ValidationError struct {
	Code    string `xml:"code,omitempty"`
	Message string `xml:"message,omitempty"`
}

type ec2DescribeLaunchTemplatesRequest struct {
	DryRun              *bool       `in:"DryRun"`
	LaunchTemplateIds   []string    `in:"LaunchTemplateId"`
	LaunchTemplateNames []string    `in:"LaunchTemplateName"`
	Filters             []ec2Filter `in:"Filter"`
	NextToken           string      `in:"NextToken"`
	MaxResults          *int64      `in:"MaxResults"`
}

type ec2DescribeLaunchTemplatesResult struct {
	LaunchTemplates []ec2LaunchTemplate `xml:"launchTemplates>item,omitempty"`
	NextToken       string              `xml:"nextToken,omitempty"`
}

type ec2DescribeLaunchTemplateVersionsRequest struct {
	DryRun             *bool       `in:"DryRun"`
	LaunchTemplateId   string      `in:"LaunchTemplateId"`
	LaunchTemplateName string      `in:"LaunchTemplateName"`
	Versions           []string    `in:"LaunchTemplateVersion"`
	MinVersion         string      `in:"MinVersion"`
	MaxVersion         string      `in:"MaxVersion"`
	NextToken          string      `in:"NextToken"`
	MaxResults         *int64      `in:"MaxResults"`
	Filters            []ec2Filter `in:"Filter"`
	ResolveAlias       *bool       `in:"ResolveAlias"`
}

type ec2DescribeLaunchTemplateVersionsResult struct {
	LaunchTemplateVersions []ec2LaunchTemplateVersion `xml:"launchTemplateVersionSet>item,omitempty"`
	NextToken              string                     `xml:"nextToken,omitempty"`
}

type ec2LaunchTemplateVersion struct {
	LaunchTemplateId   string                         `xml:"launchTemplateId,omitempty"`
	LaunchTemplateName string                         `xml:"launchTemplateName,omitempty"`
	VersionNumber      *int64                         `xml:"versionNumber,omitempty"`
	VersionDescription string                         `xml:"versionDescription,omitempty"`
	CreateTime         *time.Time                     `xml:"createTime,omitempty"`
	CreatedBy          string                         `xml:"createdBy,omitempty"`
	DefaultVersion     *bool                          `xml:"defaultVersion,omitempty"`
	LaunchTemplateData *ec2ResponseLaunchTemplateData `xml:"launchTemplateData,omitempty"`
}

type ec2ResponseLaunchTemplateData struct {
	EbsOptimized                     *bool                                                      `xml:"ebsOptimized,omitempty"`
	IamInstanceProfile               *ec2LaunchTemplateIamInstanceProfileSpecification          `xml:"iamInstanceProfile,omitempty"`
	BlockDeviceMappings              []ec2LaunchTemplateBlockDeviceMapping                      `xml:"blockDeviceMappingSet>item,omitempty"`
	NetworkInterfaces                []ec2LaunchTemplateInstanceNetworkInterfaceSpecification   `xml:"networkInterfaceSet>item,omitempty"`
	ImageId                          string                                                     `xml:"imageId,omitempty"`
	InstanceType                     string                                                     `xml:"instanceType,omitempty"`
	KeyName                          string                                                     `xml:"keyName,omitempty"`
	Monitoring                       *ec2LaunchTemplatesMonitoring                              `xml:"monitoring,omitempty"`
	Placement                        *ec2LaunchTemplatePlacement                                `xml:"placement,omitempty"`
	DisableApiTermination            *bool                                                      `xml:"disableApiTermination,omitempty"`
	UserData                         string                                                     `xml:"userData,omitempty"`
	TagSpecifications                []ec2LaunchTemplateTagSpecification                        `xml:"tagSpecificationSet>item,omitempty"`
	SecurityGroupIds                 []string                                                   `xml:"securityGroupIdSet>item,omitempty"`
	InstanceMarketOptions            *ec2LaunchTemplateInstanceMarketOptions                    `xml:"instanceMarketOptions,omitempty"`
	CreditSpecification              *ec2CreditSpecification                                    `xml:"creditSpecification,omitempty"`
	CpuOptions                       *ec2LaunchTemplateCpuOptions                               `xml:"cpuOptions,omitempty"`
	CapacityReservationSpecification *ec2LaunchTemplateCapacityReservationSpecificationResponse `xml:"capacityReservationSpecification,omitempty"`
	MetadataOptions                  *ec2LaunchTemplateInstanceMetadataOptions                  `xml:"metadataOptions,omitempty"`
	EnclaveOptions                   *ec2LaunchTemplateEnclaveOptions                           `xml:"enclaveOptions,omitempty"`
	PrivateDnsNameOptions            *ec2LaunchTemplatePrivateDnsNameOptions                    `xml:"privateDnsNameOptions,omitempty"`
	MaintenanceOptions               *ec2LaunchTemplateInstanceMaintenanceOptions               `xml:"maintenanceOptions,omitempty"`
}

type ec2LaunchTemplateIamInstanceProfileSpecification struct {
	Arn  string `xml:"arn,omitempty"`
	Name string `xml:"name,omitempty"`
}

type ec2LaunchTemplateBlockDeviceMapping struct {
	DeviceName  string                           `xml:"deviceName,omitempty"`
	VirtualName string                           `xml:"virtualName,omitempty"`
	Ebs         *ec2LaunchTemplateEbsBlockDevice `xml:"ebs,omitempty"`
	NoDevice    string                           `xml:"noDevice,omitempty"`
}

type ec2LaunchTemplateEbsBlockDevice struct {
	Encrypted           *bool  `xml:"encrypted,omitempty"`
	DeleteOnTermination *bool  `xml:"deleteOnTermination,omitempty"`
	Iops                *int64 `xml:"iops,omitempty"`
	KmsKeyId            string `xml:"kmsKeyId,omitempty"`
	SnapshotId          string `xml:"snapshotId,omitempty"`
	VolumeSize          *int64 `xml:"volumeSize,omitempty"`
	VolumeType          string `xml:"volumeType,omitempty"`
	Throughput          *int64 `xml:"throughput,omitempty"`
}

type ec2LaunchTemplateInstanceNetworkInterfaceSpecification struct {
	AssociatePublicIpAddress        *bool                               `xml:"associatePublicIpAddress,omitempty"`
	DeleteOnTermination             *bool                               `xml:"deleteOnTermination,omitempty"`
	Description                     string                              `xml:"description,omitempty"`
	DeviceIndex                     *int64                              `xml:"deviceIndex,omitempty"`
	Groups                          []string                            `xml:"groupSet>groupId,omitempty"`
	InterfaceType                   string                              `xml:"interfaceType,omitempty"`
	Ipv6AddressCount                *int64                              `xml:"ipv6AddressCount,omitempty"`
	NetworkInterfaceId              string                              `xml:"networkInterfaceId,omitempty"`
	SubnetId                        string                              `xml:"subnetId,omitempty"`
	NetworkCardIndex                *int64                              `xml:"networkCardIndex,omitempty"`
	Ipv4PrefixCount                 *int64                              `xml:"ipv4PrefixCount,omitempty"`
	Ipv6PrefixCount                 *int64                              `xml:"ipv6PrefixCount,omitempty"`
	PrimaryIpv6                     *bool                               `xml:"primaryIpv6,omitempty"`
	ConnectionTrackingSpecification *ec2ConnectionTrackingSpecification `xml:"connectionTrackingSpecification,omitempty"`
}

type ec2ConnectionTrackingSpecification struct {
	TcpEstablishedTimeout *int64 `xml:"tcpEstablishedTimeout,omitempty"`
	UdpTimeout            *int64 `xml:"udpTimeout,omitempty"`
	UdpStreamTimeout      *int64 `xml:"udpStreamTimeout,omitempty"`
}

type ec2LaunchTemplatesMonitoring struct {
	Enabled *bool `xml:"enabled,omitempty"`
}

type ec2LaunchTemplatePlacement struct {
	AvailabilityZone string `xml:"availabilityZone,omitempty"`
	GroupName        string `xml:"groupName,omitempty"`
	Tenancy          string `xml:"tenancy,omitempty"`
	PartitionNumber  *int64 `xml:"partitionNumber,omitempty"`
	GroupId          string `xml:"groupId,omitempty"`
}

type ec2LaunchTemplateTagSpecification struct {
	ResourceType string   `xml:"resourceType,omitempty"`
	Tags         []ec2Tag `xml:"tagSet>item,omitempty"`
}

type ec2LaunchTemplateInstanceMarketOptions struct {
	MarketType  string                              `xml:"marketType,omitempty"`
	SpotOptions *ec2LaunchTemplateSpotMarketOptions `xml:"spotOptions,omitempty"`
}

type ec2LaunchTemplateSpotMarketOptions struct {
	MaxPrice                     string     `xml:"maxPrice,omitempty"`
	SpotInstanceType             string     `xml:"spotInstanceType,omitempty"`
	BlockDurationMinutes         *int64     `xml:"blockDurationMinutes,omitempty"`
	ValidUntil                   *time.Time `xml:"validUntil,omitempty"`
	InstanceInterruptionBehavior string     `xml:"instanceInterruptionBehavior,omitempty"`
}

type ec2CreditSpecification struct {
	CpuCredits string `xml:"cpuCredits,omitempty"`
}

type ec2LaunchTemplateCpuOptions struct {
	CoreCount      *int64 `xml:"coreCount,omitempty"`
	ThreadsPerCore *int64 `xml:"threadsPerCore,omitempty"`
	AmdSevSnp      string `xml:"amdSevSnp,omitempty"`
}

type ec2LaunchTemplateCapacityReservationSpecificationResponse struct {
	CapacityReservationPreference string                                `xml:"capacityReservationPreference,omitempty"`
	CapacityReservationTarget     *ec2CapacityReservationTargetResponse `xml:"capacityReservationTarget,omitempty"`
}

type ec2CapacityReservationTargetResponse struct {
	CapacityReservationId               string `xml:"capacityReservationId,omitempty"`
	CapacityReservationResourceGroupArn string `xml:"capacityReservationResourceGroupArn,omitempty"`
}

type ec2LaunchTemplateInstanceMetadataOptions struct {
	State                   string `xml:"state,omitempty"`
	HttpTokens              string `xml:"httpTokens,omitempty"`
	HttpPutResponseHopLimit *int64 `xml:"httpPutResponseHopLimit,omitempty"`
	HttpEndpoint            string `xml:"httpEndpoint,omitempty"`
	HttpProtocolIpv6        string `xml:"httpProtocolIpv6,omitempty"`
	InstanceMetadataTags    string `xml:"instanceMetadataTags,omitempty"`
}

type ec2LaunchTemplateEnclaveOptions struct {
	Enabled *bool `xml:"enabled,omitempty"`
}

type ec2LaunchTemplatePrivateDnsNameOptions struct {
	HostnameType                    string `xml:"hostnameType,omitempty"`
	EnableResourceNameDnsARecord    *bool  `xml:"enableResourceNameDnsARecord,omitempty"`
	EnableResourceNameDnsAAAARecord *bool  `xml:"enableResourceNameDnsAAAARecord,omitempty"`
}

type ec2LaunchTemplateInstanceMaintenanceOptions struct {
	AutoRecovery string `xml:"autoRecovery,omitempty"`
}

type ec2DeleteLaunchTemplateRequest struct {
	DryRun             *bool  `in:"DryRun"`
	LaunchTemplateId   string `in:"LaunchTemplateId"`
	LaunchTemplateName string `in:"LaunchTemplateName"`
}

type ec2DeleteLaunchTemplateResult struct {
	LaunchTemplate *ec2LaunchTemplate `xml:"launchTemplate,omitempty"`
}

type ec2DescribeSubnetsRequest struct {
	Filters    []ec2Filter `in:"Filter"`
	SubnetIds  []string    `in:"SubnetId"`
	DryRun     *bool       `in:"DryRun"`
	NextToken  string      `in:"NextToken"`
	MaxResults *int64      `in:"MaxResults"`
}

type ec2DescribeSubnetsResult struct {
	Subnets   []ec2Subnet `xml:"subnetSet>item,omitempty"`
	NextToken string      `xml:"nextToken,omitempty"`
}

type ec2Subnet struct {
	AvailabilityZone            string   `xml:"availabilityZone,omitempty"`
	AvailabilityZoneId          string   `xml:"availabilityZoneId,omitempty"`
	AvailableIpAddressCount     *int64   `xml:"availableIpAddressCount,omitempty"`
	CidrBlock                   string   `xml:"cidrBlock,omitempty"`
	DefaultForAz                *bool    `xml:"defaultForAz,omitempty"`
	MapPublicIpOnLaunch         *bool    `xml:"mapPublicIpOnLaunch,omitempty"`
	State                       string   `xml:"state,omitempty"`
	SubnetId                    string   `xml:"subnetId,omitempty"`
	VpcId                       string   `xml:"vpcId,omitempty"`
	OwnerId                     string   `xml:"ownerId,omitempty"`
	AssignIpv6AddressOnCreation *bool    `xml:"assignIpv6AddressOnCreation,omitempty"`
	Tags                        []ec2Tag `xml:"tagSet>item,omitempty"`
	SubnetArn                   string   `xml:"subnetArn,omitempty"`
}

type ec2DescribeSecurityGroupsRequest struct {
	Filters    []ec2Filter `in:"Filter"`
	GroupIds   []string    `in:"GroupId"`
	GroupNames []string    `in:"GroupName"`
	DryRun     *bool       `in:"DryRun"`
	NextToken  string      `in:"NextToken"`
	MaxResults *int64      `in:"MaxResults"`
}

type ec2DescribeSecurityGroupsResult struct {
	SecurityGroups []ec2SecurityGroup `xml:"securityGroupInfo>item,omitempty"`
	NextToken      string             `xml:"nextToken,omitempty"`
}

type ec2SecurityGroup struct {
	Description         string            `xml:"groupDescription,omitempty"`
	GroupName           string            `xml:"groupName,omitempty"`
	OwnerId             string            `xml:"ownerId,omitempty"`
	GroupId             string            `xml:"groupId,omitempty"`
	Tags                []ec2Tag          `xml:"tagSet>item,omitempty"`
	VpcId               string            `xml:"vpcId,omitempty"`
	IpPermissionsEgress []ec2IpPermission `xml:"ipPermissionsEgress>item,omitempty"`
}

type ec2IpPermission struct {
	IpProtocol string       `xml:"ipProtocol,omitempty"`
	IpRanges   []ec2IpRange `xml:"ipRanges>item,omitempty"`
}

type ec2IpRange struct {
	CidrIp string `xml:"cidrIp,omitempty"`
}

type ec2DescribeImagesRequest struct {
	ExecutableUsers   []string    `in:"ExecutableBy"`
	Filters           []ec2Filter `in:"Filter"`
	ImageIds          []string    `in:"ImageId"`
	Owners            []string    `in:"Owner"`
	IncludeDeprecated *bool       `in:"IncludeDeprecated"`
	IncludeDisabled   *bool       `in:"IncludeDisabled"`
	DryRun            *bool       `in:"DryRun"`
	MaxResults        *int64      `in:"MaxResults"`
	NextToken         string      `in:"NextToken"`
}

type ec2DescribeImagesResult struct {
	Images    []ec2Image `xml:"imagesSet>item,omitempty"`
	NextToken string     `xml:"nextToken,omitempty"`
}

type ec2Image struct {
	Architecture        string                  `xml:"architecture,omitempty"`
	CreationDate        string                  `xml:"creationDate,omitempty"`
	ImageId             string                  `xml:"imageId,omitempty"`
	ImageLocation       string                  `xml:"imageLocation,omitempty"`
	ImageType           string                  `xml:"imageType,omitempty"`
	Public              *bool                   `xml:"isPublic,omitempty"`
	OwnerId             string                  `xml:"imageOwnerId,omitempty"`
	Platform            string                  `xml:"platform,omitempty"`
	PlatformDetails     string                  `xml:"platformDetails,omitempty"`
	State               string                  `xml:"imageState,omitempty"`
	BlockDeviceMappings []ec2BlockDeviceMapping `xml:"blockDeviceMapping>item,omitempty"`
	Description         string                  `xml:"description,omitempty"`
	EnaSupport          *bool                   `xml:"enaSupport,omitempty"`
	Hypervisor          string                  `xml:"hypervisor,omitempty"`
	ImageOwnerAlias     string                  `xml:"imageOwnerAlias,omitempty"`
	Name                string                  `xml:"name,omitempty"`
	RootDeviceName      string                  `xml:"rootDeviceName,omitempty"`
	RootDeviceType      string                  `xml:"rootDeviceType,omitempty"`
	Tags                []ec2Tag                `xml:"tagSet>item,omitempty"`
	VirtualizationType  string                  `xml:"virtualizationType,omitempty"`
	BootMode            string                  `xml:"bootMode,omitempty"`
	DeprecationTime     string                  `xml:"deprecationTime,omitempty"`
}

type ec2DescribeInstanceTypesRequest struct {
	DryRun        *bool       `in:"DryRun"`
	InstanceTypes []string    `in:"InstanceType"`
	Filters       []ec2Filter `in:"Filter"`
	MaxResults    *int64      `in:"MaxResults"`
	NextToken     string      `in:"NextToken"`
}

type ec2DescribeInstanceTypesResult struct {
	InstanceTypes []ec2InstanceTypeInfo `xml:"instanceTypeSet>item,omitempty"`
	NextToken     string                `xml:"nextToken,omitempty"`
}

type ec2InstanceTypeInfo struct {
	InstanceType                  string                       `xml:"instanceType,omitempty"`
	CurrentGeneration             *bool                        `xml:"currentGeneration,omitempty"`
	SupportedUsageClasses         []string                     `xml:"supportedUsageClasses>item,omitempty"`
	SupportedRootDeviceTypes      []string                     `xml:"supportedRootDeviceTypes>item,omitempty"`
	SupportedVirtualizationTypes  []string                     `xml:"supportedVirtualizationTypes>item,omitempty"`
	BareMetal                     *bool                        `xml:"bareMetal,omitempty"`
	Hypervisor                    string                       `xml:"hypervisor,omitempty"`
	NitroEnclavesSupport          string                       `xml:"nitroEnclavesSupport,omitempty"`
	ProcessorInfo                 *ec2ProcessorInfo            `xml:"processorInfo,omitempty"`
	VCpuInfo                      *ec2VCpuInfo                 `xml:"vCpuInfo,omitempty"`
	MemoryInfo                    *ec2MemoryInfo               `xml:"memoryInfo,omitempty"`
	InstanceStorageSupported      *bool                        `xml:"instanceStorageSupported,omitempty"`
	InstanceStorageInfo           *ec2InstanceStorageInfo      `xml:"instanceStorageInfo,omitempty"`
	EbsInfo                       *ec2EbsInfo                  `xml:"ebsInfo,omitempty"`
	NetworkInfo                   *ec2NetworkInfo              `xml:"networkInfo,omitempty"`
	GpuInfo                       *ec2GpuInfo                  `xml:"gpuInfo,omitempty"`
	InferenceAcceleratorInfo      *ec2InferenceAcceleratorInfo `xml:"inferenceAcceleratorInfo,omitempty"`
	BurstablePerformanceSupported *bool                        `xml:"burstablePerformanceSupported,omitempty"`
	SupportedBootModes            []string                     `xml:"supportedBootModes>item,omitempty"`
	NeuronInfo                    *ec2NeuronInfo               `xml:"neuronInfo,omitempty"`
}

type ec2ProcessorInfo struct {
	SupportedArchitectures   []string `xml:"supportedArchitectures>item,omitempty"`
	SustainedClockSpeedInGhz *float64 `xml:"sustainedClockSpeedInGhz,omitempty"`
	Manufacturer             string   `xml:"manufacturer,omitempty"`
}

type ec2VCpuInfo struct {
	DefaultVCpus          *int64  `xml:"defaultVCpus,omitempty"`
	DefaultCores          *int64  `xml:"defaultCores,omitempty"`
	DefaultThreadsPerCore *int64  `xml:"defaultThreadsPerCore,omitempty"`
	ValidThreadsPerCore   []int64 `xml:"validThreadsPerCore>item,omitempty"`
}

type ec2MemoryInfo struct {
	SizeInMiB *int64 `xml:"sizeInMiB,omitempty"`
}

type ec2InstanceStorageInfo struct {
	TotalSizeInGB     *int64        `xml:"totalSizeInGB,omitempty"`
	Disks             []ec2DiskInfo `xml:"disks>item,omitempty"`
	NvmeSupport       string        `xml:"nvmeSupport,omitempty"`
	EncryptionSupport string        `xml:"encryptionSupport,omitempty"`
}

type ec2DiskInfo struct {
	SizeInGB *int64 `xml:"sizeInGB,omitempty"`
	Count    *int64 `xml:"count,omitempty"`
	Type     string `xml:"type,omitempty"`
}

type ec2EbsInfo struct {
	EbsOptimizedSupport string               `xml:"ebsOptimizedSupport,omitempty"`
	EncryptionSupport   string               `xml:"encryptionSupport,omitempty"`
	EbsOptimizedInfo    *ec2EbsOptimizedInfo `xml:"ebsOptimizedInfo,omitempty"`
	NvmeSupport         string               `xml:"nvmeSupport,omitempty"`
}

type ec2EbsOptimizedInfo struct {
	BaselineBandwidthInMbps  *int64   `xml:"baselineBandwidthInMbps,omitempty"`
	BaselineThroughputInMBps *float64 `xml:"baselineThroughputInMBps,omitempty"`
	BaselineIops             *int64   `xml:"baselineIops,omitempty"`
	MaximumBandwidthInMbps   *int64   `xml:"maximumBandwidthInMbps,omitempty"`
	MaximumThroughputInMBps  *float64 `xml:"maximumThroughputInMBps,omitempty"`
	MaximumIops              *int64   `xml:"maximumIops,omitempty"`
}

type ec2NetworkInfo struct {
	NetworkPerformance           string               `xml:"networkPerformance,omitempty"`
	MaximumNetworkInterfaces     *int64               `xml:"maximumNetworkInterfaces,omitempty"`
	MaximumNetworkCards          *int64               `xml:"maximumNetworkCards,omitempty"`
	DefaultNetworkCardIndex      *int64               `xml:"defaultNetworkCardIndex,omitempty"`
	NetworkCards                 []ec2NetworkCardInfo `xml:"networkCards>item,omitempty"`
	Ipv4AddressesPerInterface    *int64               `xml:"ipv4AddressesPerInterface,omitempty"`
	Ipv6AddressesPerInterface    *int64               `xml:"ipv6AddressesPerInterface,omitempty"`
	Ipv6Supported                *bool                `xml:"ipv6Supported,omitempty"`
	EnaSupport                   string               `xml:"enaSupport,omitempty"`
	EfaSupported                 *bool                `xml:"efaSupported,omitempty"`
	EfaInfo                      *ec2EfaInfo          `xml:"efaInfo,omitempty"`
	EncryptionInTransitSupported *bool                `xml:"encryptionInTransitSupported,omitempty"`
}

type ec2NetworkCardInfo struct {
	NetworkCardIndex         *int64   `xml:"networkCardIndex,omitempty"`
	NetworkPerformance       string   `xml:"networkPerformance,omitempty"`
	MaximumNetworkInterfaces *int64   `xml:"maximumNetworkInterfaces,omitempty"`
	BaselineBandwidthInGbps  *float64 `xml:"baselineBandwidthInGbps,omitempty"`
	PeakBandwidthInGbps      *float64 `xml:"peakBandwidthInGbps,omitempty"`
}

type ec2EfaInfo struct {
	MaximumEfaInterfaces *int64 `xml:"maximumEfaInterfaces,omitempty"`
}

type ec2GpuInfo struct {
	Gpus                []ec2GpuDeviceInfo `xml:"gpus>item,omitempty"`
	TotalGpuMemoryInMiB *int64             `xml:"totalGpuMemoryInMiB,omitempty"`
}

type ec2GpuDeviceInfo struct {
	Name         string                  `xml:"name,omitempty"`
	Manufacturer string                  `xml:"manufacturer,omitempty"`
	Count        *int64                  `xml:"count,omitempty"`
	MemoryInfo   *ec2GpuDeviceMemoryInfo `xml:"memoryInfo,omitempty"`
}

type ec2GpuDeviceMemoryInfo struct {
	SizeInMiB *int64 `xml:"sizeInMiB,omitempty"`
}

type ec2InferenceAcceleratorInfo struct {
	Accelerators              []ec2InferenceDeviceInfo `xml:"accelerators>member,omitempty"`
	TotalInferenceMemoryInMiB *int64                   `xml:"totalInferenceMemoryInMiB,omitempty"`
}

type ec2InferenceDeviceInfo struct {
	Count        *int64                        `xml:"count,omitempty"`
	Name         string                        `xml:"name,omitempty"`
	Manufacturer string                        `xml:"manufacturer,omitempty"`
	MemoryInfo   *ec2InferenceDeviceMemoryInfo `xml:"memoryInfo,omitempty"`
}

type ec2InferenceDeviceMemoryInfo struct {
	SizeInMiB *int64 `xml:"sizeInMiB,omitempty"`
}

type ec2NeuronInfo struct {
	NeuronDevices                []ec2NeuronDeviceInfo `xml:"neuronDevices>item,omitempty"`
	TotalNeuronDeviceMemoryInMiB *int64                `xml:"totalNeuronDeviceMemoryInMiB,omitempty"`
}

type ec2NeuronDeviceInfo struct {
	Count      *int64                     `xml:"count,omitempty"`
	Name       string                     `xml:"name,omitempty"`
	CoreInfo   *ec2NeuronDeviceCoreInfo   `xml:"coreInfo,omitempty"`
	MemoryInfo *ec2NeuronDeviceMemoryInfo `xml:"memoryInfo,omitempty"`
}

type ec2NeuronDeviceCoreInfo struct {
	Count   *int64 `xml:"count,omitempty"`
	Version *int64 `xml:"version,omitempty"`
}

type ec2NeuronDeviceMemoryInfo struct {
	SizeInMiB *int64 `xml:"sizeInMiB,omitempty"`
}

type ec2DescribeInstanceTypeOfferingsRequest struct {
	DryRun       *bool       `in:"DryRun"`
	LocationType string      `in:"LocationType"`
	Filters      []ec2Filter `in:"Filter"`
	MaxResults   *int64      `in:"MaxResults"`
	NextToken    string      `in:"NextToken"`
}

type ec2DescribeInstanceTypeOfferingsResult struct {
	InstanceTypeOfferings []ec2InstanceTypeOffering `xml:"instanceTypeOfferingSet>item,omitempty"`
	NextToken             string                    `xml:"nextToken,omitempty"`
}

type ec2InstanceTypeOffering struct {
	InstanceType string `xml:"instanceType,omitempty"`
	LocationType string `xml:"locationType,omitempty"`
	Location     string `xml:"location,omitempty"`
}

type ec2DescribeSpotPriceHistoryRequest struct {
	Filters             []ec2Filter `in:"Filter"`
	AvailabilityZone    string      `in:"AvailabilityZone"`
	DryRun              *bool       `in:"DryRun"`
	EndTime             *time.Time  `in:"EndTime"`
	InstanceTypes       []string    `in:"InstanceType"`
	MaxResults          *int64      `in:"MaxResults"`
	NextToken           string      `in:"NextToken"`
	ProductDescriptions []string    `in:"ProductDescription"`
	StartTime           *time.Time  `in:"StartTime"`
}

type ec2DescribeSpotPriceHistoryResult struct {
	NextToken        string         `xml:"nextToken,omitempty"`
	SpotPriceHistory []ec2SpotPrice `xml:"spotPriceHistorySet>item,omitempty"`
}

type ec2SpotPrice struct {
	AvailabilityZone   string     `xml:"availabilityZone,omitempty"`
	InstanceType       string     `xml:"instanceType,omitempty"`
	ProductDescription string     `xml:"productDescription,omitempty"`
	SpotPrice          string     `xml:"spotPrice,omitempty"`
	Timestamp          *time.Time `xml:"timestamp,omitempty"`
}

type ec2DescribeCapacityReservationsRequest struct {
	CapacityReservationIds []string    `in:"CapacityReservationId"`
	NextToken              string      `in:"NextToken"`
	MaxResults             *int64      `in:"MaxResults"`
	Filters                []ec2Filter `in:"Filter"`
	DryRun                 *bool       `in:"DryRun"`
}

type ec2DescribeCapacityReservationsResult struct {
	NextToken            string                   `xml:"nextToken,omitempty"`
	CapacityReservations []ec2CapacityReservation `xml:"capacityReservationSet>item,omitempty"`
}

type ec2CapacityReservation struct {
	CapacityReservationId  string     `xml:"capacityReservationId,omitempty"`
	OwnerId                string     `xml:"ownerId,omitempty"`
	CapacityReservationArn string     `xml:"capacityReservationArn,omitempty"`
	AvailabilityZoneId     string     `xml:"availabilityZoneId,omitempty"`
	InstanceType           string     `xml:"instanceType,omitempty"`
	InstancePlatform       string     `xml:"instancePlatform,omitempty"`
	AvailabilityZone       string     `xml:"availabilityZone,omitempty"`
	Tenancy                string     `xml:"tenancy,omitempty"`
	TotalInstanceCount     *int64     `xml:"totalInstanceCount,omitempty"`
	AvailableInstanceCount *int64     `xml:"availableInstanceCount,omitempty"`
	State                  string     `xml:"state,omitempty"`
	StartDate              *time.Time `xml:"startDate,omitempty"`
	EndDate                *time.Time `xml:"endDate,omitempty"`
	EndDateType            string     `xml:"endDateType,omitempty"`
	InstanceMatchCriteria  string     `xml:"instanceMatchCriteria,omitempty"`
	CreateDate             *time.Time `xml:"createDate,omitempty"`
	Tags                   []ec2Tag   `xml:"tagSet>item,omitempty"`
	ReservationType        string     `xml:"reservationType,omitempty"`
}

type ec2DescribePlacementGroupsRequest struct {
	Filters    []ec2Filter `in:"Filter"`
	DryRun     *bool       `in:"DryRun"`
	GroupNames []string    `in:"GroupName"`
	GroupIds   []string    `in:"GroupId"`
}

type ec2DescribePlacementGroupsResult struct {
	PlacementGroups []ec2PlacementGroup `xml:"placementGroupSet>item,omitempty"`
}

type ec2PlacementGroup struct {
	GroupName      string   `xml:"groupName,omitempty"`
	State          string   `xml:"state,omitempty"`
	Strategy       string   `xml:"strategy,omitempty"`
	PartitionCount *int64   `xml:"partitionCount,omitempty"`
	GroupId        string   `xml:"groupId,omitempty"`
	Tags           []ec2Tag `xml:"tagSet>item,omitempty"`
	GroupArn       string   `xml:"groupArn,omitempty"`
	SpreadLevel    string   `xml:"spreadLevel,omitempty"`
}

type ec2DescribeAvailabilityZonesRequest struct {
	Filters              []ec2Filter `in:"Filter"`
	ZoneNames            []string    `in:"ZoneName"`
	ZoneIds              []string    `in:"ZoneId"`
	AllAvailabilityZones *bool       `in:"AllAvailabilityZones"`
}

type ec2DescribeAvailabilityZonesResult struct {
	AvailabilityZones []ec2AvailabilityZone `xml:"availabilityZoneInfo>item,omitempty"`
}

type ec2AvailabilityZone struct {
	State              string `xml:"zoneState,omitempty"`
	OptInStatus        string `xml:"optInStatus,omitempty"`
	RegionName         string `xml:"regionName,omitempty"`
	ZoneName           string `xml:"zoneName,omitempty"`
	ZoneId             string `xml:"zoneId,omitempty"`
	GroupName          string `xml:"groupName,omitempty"`
	NetworkBorderGroup string `xml:"networkBorderGroup,omitempty"`
	ZoneType           string `xml:"zoneType,omitempty"`
}

type ec2DescribeVpcsRequest struct {
	Filters    []ec2Filter `in:"Filter"`
	VpcIds     []string    `in:"VpcId"`
	DryRun     *bool       `in:"DryRun"`
	NextToken  string      `in:"NextToken"`
	MaxResults *int64      `in:"MaxResults"`
}

type ec2DescribeVpcsResult struct {
	Vpcs      []ec2Vpc `xml:"vpcSet>item,omitempty"`
	NextToken string   `xml:"nextToken,omitempty"`
}

type ec2Vpc struct {
	CidrBlock               string                       `xml:"cidrBlock,omitempty"`
	State                   string                       `xml:"state,omitempty"`
	VpcId                   string                       `xml:"vpcId,omitempty"`
	OwnerId                 string                       `xml:"ownerId,omitempty"`
	IsDefault               *bool                        `xml:"isDefault,omitempty"`
	Tags                    []ec2Tag                     `xml:"tagSet>item,omitempty"`
	DhcpOptionsId           string                       `xml:"dhcpOptionsId,omitempty"`
	InstanceTenancy         string                       `xml:"instanceTenancy,omitempty"`
	CidrBlockAssociationSet []ec2VpcCidrBlockAssociation `xml:"cidrBlockAssociationSet>item,omitempty"`
}

type ec2VpcCidrBlockAssociation struct {
	AssociationId  string                `xml:"associationId,omitempty"`
	CidrBlock      string                `xml:"cidrBlock,omitempty"`
	CidrBlockState *ec2VpcCidrBlockState `xml:"cidrBlockState,omitempty"`
}

type ec2VpcCidrBlockState struct {
	State string `xml:"state,omitempty"`
}

type ec2GetInstanceTypesFromInstanceRequirementsRequest struct {
	DryRun               *bool                           `in:"DryRun"`
	ArchitectureTypes    []string                        `in:"ArchitectureType"`
	VirtualizationTypes  []string                        `in:"VirtualizationType"`
	InstanceRequirements *ec2InstanceRequirementsRequest `in:"InstanceRequirements"`
	MaxResults           *int64                          `in:"MaxResults"`
	NextToken            string                          `in:"NextToken"`
}

type ec2InstanceRequirementsRequest struct {
	VCpuCount             *ec2VCpuCountRangeRequest `in:"VCpuCount"`
	MemoryMiB             *ec2MemoryMiBRequest      `in:"MemoryMiB"`
	CpuManufacturers      []string                  `in:"CpuManufacturer"`
	ExcludedInstanceTypes []string                  `in:"ExcludedInstanceType"`
	AllowedInstanceTypes  []string                  `in:"AllowedInstanceType"`
	BareMetal             string                    `in:"BareMetal"`
	BurstablePerformance  string                    `in:"BurstablePerformance"`
}

type ec2VCpuCountRangeRequest struct {
	Min *int64 `in:"Min"`
	Max *int64 `in:"Max"`
}

type ec2MemoryMiBRequest struct {
	Min *int64 `in:"Min"`
	Max *int64 `in:"Max"`
}

type ec2GetInstanceTypesFromInstanceRequirementsResult struct {
	InstanceTypes []ec2InstanceTypeInfoFromInstanceRequirements `xml:"instanceTypeSet>item,omitempty"`
	NextToken     string                                        `xml:"nextToken,omitempty"`
}

type ec2InstanceTypeInfoFromInstanceRequirements struct {
	InstanceType string `xml:"instanceType,omitempty"`
}

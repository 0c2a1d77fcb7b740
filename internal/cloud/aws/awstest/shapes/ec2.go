// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package shapes

import "time"

// The shapes of EC2, version 2016-11-15: of every call served, the members read and written. A type is named as its shape in the
// service model, a field as its member; test/awsmodels holds names and tags against that model.

type EC2CreateFleetRequest struct {
	DryRun                           *bool                                  `in:"DryRun"`
	ClientToken                      string                                 `in:"ClientToken"`
	SpotOptions                      *EC2SpotOptionsRequest                 `in:"SpotOptions"`
	OnDemandOptions                  *EC2OnDemandOptionsRequest             `in:"OnDemandOptions"`
	ExcessCapacityTerminationPolicy  string                                 `in:"ExcessCapacityTerminationPolicy"`
	LaunchTemplateConfigs            []EC2FleetLaunchTemplateConfigRequest  `in:"LaunchTemplateConfigs"`
	TargetCapacitySpecification      *EC2TargetCapacitySpecificationRequest `in:"TargetCapacitySpecification"`
	TerminateInstancesWithExpiration *bool                                  `in:"TerminateInstancesWithExpiration"`
	Type                             string                                 `in:"Type"`
	ValidFrom                        *time.Time                             `in:"ValidFrom"`
	ValidUntil                       *time.Time                             `in:"ValidUntil"`
	ReplaceUnhealthyInstances        *bool                                  `in:"ReplaceUnhealthyInstances"`
	TagSpecifications                []EC2TagSpecification                  `in:"TagSpecification"`
	Context                          string                                 `in:"Context"`
}

type EC2SpotOptionsRequest struct {
	AllocationStrategy           string                                    `in:"AllocationStrategy"`
	MaintenanceStrategies        *EC2FleetSpotMaintenanceStrategiesRequest `in:"MaintenanceStrategies"`
	InstanceInterruptionBehavior string                                    `in:"InstanceInterruptionBehavior"`
	InstancePoolsToUseCount      *int64                                    `in:"InstancePoolsToUseCount"`
	SingleInstanceType           *bool                                     `in:"SingleInstanceType"`
	SingleAvailabilityZone       *bool                                     `in:"SingleAvailabilityZone"`
	MinTargetCapacity            *int64                                    `in:"MinTargetCapacity"`
	MaxTotalPrice                string                                    `in:"MaxTotalPrice"`
}

type EC2FleetSpotMaintenanceStrategiesRequest struct {
	CapacityRebalance *EC2FleetSpotCapacityRebalanceRequest `in:"CapacityRebalance"`
}

type EC2FleetSpotCapacityRebalanceRequest struct {
	ReplacementStrategy string `in:"ReplacementStrategy"`
	TerminationDelay    *int64 `in:"TerminationDelay"`
}

type EC2OnDemandOptionsRequest struct {
	AllocationStrategy         string                                `in:"AllocationStrategy"`
	CapacityReservationOptions *EC2CapacityReservationOptionsRequest `in:"CapacityReservationOptions"`
	SingleInstanceType         *bool                                 `in:"SingleInstanceType"`
	SingleAvailabilityZone     *bool                                 `in:"SingleAvailabilityZone"`
	MinTargetCapacity          *int64                                `in:"MinTargetCapacity"`
	MaxTotalPrice              string                                `in:"MaxTotalPrice"`
}

type EC2CapacityReservationOptionsRequest struct {
	UsageStrategy string `in:"UsageStrategy"`
}

type EC2FleetLaunchTemplateConfigRequest struct {
	LaunchTemplateSpecification *EC2FleetLaunchTemplateSpecificationRequest `in:"LaunchTemplateSpecification"`
	Overrides                   []EC2FleetLaunchTemplateOverridesRequest    `in:"Overrides"`
}

type EC2FleetLaunchTemplateSpecificationRequest struct {
	LaunchTemplateId   string `in:"LaunchTemplateId"`
	LaunchTemplateName string `in:"LaunchTemplateName"`
	Version            string `in:"Version"`
}

type EC2FleetLaunchTemplateOverridesRequest struct {
	InstanceType     string        `in:"InstanceType"`
	MaxPrice         string        `in:"MaxPrice"`
	SubnetId         string        `in:"SubnetId"`
	AvailabilityZone string        `in:"AvailabilityZone"`
	WeightedCapacity *float64      `in:"WeightedCapacity"`
	Priority         *float64      `in:"Priority"`
	Placement        *EC2Placement `in:"Placement"`
	ImageId          string        `in:"ImageId"`
}

type EC2CapacityReservationSpecificationResponse struct {
	CapacityReservationPreference string                                `xml:"capacityReservationPreference,omitempty"`
	CapacityReservationTarget     *EC2CapacityReservationTargetResponse `xml:"capacityReservationTarget,omitempty"`
}

type EC2Placement struct {
	AvailabilityZone   string `in:"AvailabilityZone" xml:"availabilityZone,omitempty"`
	AvailabilityZoneId string `in:"AvailabilityZoneId" xml:"availabilityZoneId,omitempty"`
	GroupName          string `in:"GroupName" xml:"groupName,omitempty"`
	PartitionNumber    *int64 `in:"PartitionNumber" xml:"partitionNumber,omitempty"`
	Tenancy            string `in:"Tenancy" xml:"tenancy,omitempty"`
	GroupId            string `in:"GroupId" xml:"groupId,omitempty"`
}

type EC2TargetCapacitySpecificationRequest struct {
	TotalTargetCapacity       *int64 `in:"TotalTargetCapacity"`
	OnDemandTargetCapacity    *int64 `in:"OnDemandTargetCapacity"`
	SpotTargetCapacity        *int64 `in:"SpotTargetCapacity"`
	DefaultTargetCapacityType string `in:"DefaultTargetCapacityType"`
	TargetCapacityUnitType    string `in:"TargetCapacityUnitType"`
}

type EC2TagSpecification struct {
	ResourceType string   `in:"ResourceType"`
	Tags         []EC2Tag `in:"Tag"`
}

type EC2CreateFleetResult struct {
	FleetId   string                   `xml:"fleetId,omitempty"`
	Errors    []EC2CreateFleetError    `xml:"errorSet>item,omitempty"`
	Instances []EC2CreateFleetInstance `xml:"fleetInstanceSet>item,omitempty"`
}

type EC2CreateFleetError struct {
	LaunchTemplateAndOverrides *EC2LaunchTemplateAndOverridesResponse `xml:"launchTemplateAndOverrides,omitempty"`
	Lifecycle                  string                                 `xml:"lifecycle,omitempty"`
	ErrorCode                  string                                 `xml:"errorCode,omitempty"`
	ErrorMessage               string                                 `xml:"errorMessage,omitempty"`
}

type EC2LaunchTemplateAndOverridesResponse struct {
	LaunchTemplateSpecification *EC2FleetLaunchTemplateSpecification `xml:"launchTemplateSpecification,omitempty"`
	Overrides                   *EC2FleetLaunchTemplateOverrides     `xml:"overrides,omitempty"`
}

type EC2FleetLaunchTemplateSpecification struct {
	LaunchTemplateId   string `xml:"launchTemplateId,omitempty"`
	LaunchTemplateName string `xml:"launchTemplateName,omitempty"`
	Version            string `xml:"version,omitempty"`
}

type EC2FleetLaunchTemplateOverrides struct {
	InstanceType     string   `xml:"instanceType,omitempty"`
	MaxPrice         string   `xml:"maxPrice,omitempty"`
	SubnetId         string   `xml:"subnetId,omitempty"`
	AvailabilityZone string   `xml:"availabilityZone,omitempty"`
	WeightedCapacity *float64 `xml:"weightedCapacity,omitempty"`
	Priority         *float64 `xml:"priority,omitempty"`
	ImageId          string   `xml:"imageId,omitempty"`
}

type EC2CreateFleetInstance struct {
	LaunchTemplateAndOverrides *EC2LaunchTemplateAndOverridesResponse `xml:"launchTemplateAndOverrides,omitempty"`
	Lifecycle                  string                                 `xml:"lifecycle,omitempty"`
	InstanceIds                []string                               `xml:"instanceIds>item,omitempty"`
	InstanceType               string                                 `xml:"instanceType,omitempty"`
	Platform                   string                                 `xml:"platform,omitempty"`
}

type EC2DescribeInstancesRequest struct {
	Filters     []EC2Filter `in:"Filter"`
	InstanceIds []string    `in:"InstanceId"`
	DryRun      *bool       `in:"DryRun"`
	MaxResults  *int64      `in:"MaxResults"`
	NextToken   string      `in:"NextToken"`
}

type EC2DescribeInstancesResult struct {
	Reservations []EC2Reservation `xml:"reservationSet>item,omitempty"`
	NextToken    string           `xml:"nextToken,omitempty"`
}

type EC2Reservation struct {
	Instances     []EC2Instance `xml:"instancesSet>item,omitempty"`
	OwnerId       string        `xml:"ownerId,omitempty"`
	ReservationId string        `xml:"reservationId,omitempty"`
}

type EC2Instance struct {
	AmiLaunchIndex                   *int64                                       `xml:"amiLaunchIndex,omitempty"`
	ImageId                          string                                       `xml:"imageId,omitempty"`
	InstanceId                       string                                       `xml:"instanceId,omitempty"`
	InstanceType                     string                                       `xml:"instanceType,omitempty"`
	LaunchTime                       *time.Time                                   `xml:"launchTime,omitempty"`
	Placement                        *EC2Placement                                `xml:"placement,omitempty"`
	PrivateDnsName                   string                                       `xml:"privateDnsName,omitempty"`
	PrivateIpAddress                 string                                       `xml:"privateIpAddress,omitempty"`
	State                            *EC2InstanceState                            `xml:"instanceState,omitempty"`
	StateTransitionReason            string                                       `xml:"reason,omitempty"`
	SubnetId                         string                                       `xml:"subnetId,omitempty"`
	VpcId                            string                                       `xml:"vpcId,omitempty"`
	Architecture                     string                                       `xml:"architecture,omitempty"`
	ClientToken                      string                                       `xml:"clientToken,omitempty"`
	EbsOptimized                     *bool                                        `xml:"ebsOptimized,omitempty"`
	EnaSupport                       *bool                                        `xml:"enaSupport,omitempty"`
	Hypervisor                       string                                       `xml:"hypervisor,omitempty"`
	IamInstanceProfile               *EC2IamInstanceProfile                       `xml:"iamInstanceProfile,omitempty"`
	InstanceLifecycle                string                                       `xml:"instanceLifecycle,omitempty"`
	NetworkInterfaces                []EC2InstanceNetworkInterface                `xml:"networkInterfaceSet>item,omitempty"`
	BlockDeviceMappings              []EC2InstanceBlockDeviceMapping              `xml:"blockDeviceMapping>item,omitempty"`
	Monitoring                       *EC2Monitoring                               `xml:"monitoring,omitempty"`
	PublicDnsName                    string                                       `xml:"dnsName,omitempty"`
	PublicIpAddress                  string                                       `xml:"ipAddress,omitempty"`
	SourceDestCheck                  *bool                                        `xml:"sourceDestCheck,omitempty"`
	PlatformDetails                  string                                       `xml:"platformDetails,omitempty"`
	UsageOperation                   string                                       `xml:"usageOperation,omitempty"`
	RootDeviceName                   string                                       `xml:"rootDeviceName,omitempty"`
	RootDeviceType                   string                                       `xml:"rootDeviceType,omitempty"`
	SecurityGroups                   []EC2GroupIdentifier                         `xml:"groupSet>item,omitempty"`
	SpotInstanceRequestId            string                                       `xml:"spotInstanceRequestId,omitempty"`
	StateReason                      *EC2StateReason                              `xml:"stateReason,omitempty"`
	CapacityReservationSpecification *EC2CapacityReservationSpecificationResponse `xml:"capacityReservationSpecification,omitempty"`
	Tags                             []EC2Tag                                     `xml:"tagSet>item,omitempty"`
	VirtualizationType               string                                       `xml:"virtualizationType,omitempty"`
	CapacityReservationId            string                                       `xml:"capacityReservationId,omitempty"`
	MetadataOptions                  *EC2InstanceMetadataOptionsResponse          `xml:"metadataOptions,omitempty"`
}

type EC2InstanceState struct {
	Code *int64 `xml:"code,omitempty"`
	Name string `xml:"name,omitempty"`
}

type EC2IamInstanceProfile struct {
	Arn string `xml:"arn,omitempty"`
	Id  string `xml:"id,omitempty"`
}

type EC2InstanceNetworkInterface struct {
	Association        *EC2InstanceNetworkInterfaceAssociation `xml:"association,omitempty"`
	Attachment         *EC2InstanceNetworkInterfaceAttachment  `xml:"attachment,omitempty"`
	Description        string                                  `xml:"description"`
	MacAddress         string                                  `xml:"macAddress,omitempty"`
	PrivateIpAddresses []EC2InstancePrivateIpAddress           `xml:"privateIpAddressesSet>item,omitempty"`
	OwnerId            string                                  `xml:"ownerId,omitempty"`
	SourceDestCheck    *bool                                   `xml:"sourceDestCheck,omitempty"`
	Groups             []EC2GroupIdentifier                    `xml:"groupSet>item,omitempty"`
	NetworkInterfaceId string                                  `xml:"networkInterfaceId,omitempty"`
	PrivateDnsName     string                                  `xml:"privateDnsName,omitempty"`
	PrivateIpAddress   string                                  `xml:"privateIpAddress,omitempty"`
	Status             string                                  `xml:"status,omitempty"`
	SubnetId           string                                  `xml:"subnetId,omitempty"`
	VpcId              string                                  `xml:"vpcId,omitempty"`
	InterfaceType      string                                  `xml:"interfaceType,omitempty"`
}

type EC2StateReason struct {
	Code    string `xml:"code,omitempty"`
	Message string `xml:"message,omitempty"`
}

type EC2InstanceMetadataOptionsResponse struct {
	State                   string `xml:"state,omitempty"`
	HttpTokens              string `xml:"httpTokens,omitempty"`
	HttpPutResponseHopLimit *int64 `xml:"httpPutResponseHopLimit,omitempty"`
	HttpEndpoint            string `xml:"httpEndpoint,omitempty"`
	HttpProtocolIpv6        string `xml:"httpProtocolIpv6,omitempty"`
	InstanceMetadataTags    string `xml:"instanceMetadataTags,omitempty"`
}

type EC2DescribeInstanceStatusRequest struct {
	Filters             []EC2Filter `in:"Filter"`
	InstanceIds         []string    `in:"InstanceId"`
	MaxResults          *int64      `in:"MaxResults"`
	NextToken           string      `in:"NextToken"`
	DryRun              *bool       `in:"DryRun"`
	IncludeAllInstances *bool       `in:"IncludeAllInstances"`
}

type EC2DescribeInstanceStatusResult struct {
	InstanceStatuses []EC2InstanceStatus `xml:"instanceStatusSet>item,omitempty"`
	NextToken        string              `xml:"nextToken,omitempty"`
}

type EC2InstanceStatus struct {
	AvailabilityZone string                    `xml:"availabilityZone,omitempty"`
	Events           []EC2InstanceStatusEvent  `xml:"eventsSet>item,omitempty"`
	InstanceId       string                    `xml:"instanceId,omitempty"`
	InstanceState    *EC2InstanceState         `xml:"instanceState,omitempty"`
	InstanceStatus   *EC2InstanceStatusSummary `xml:"instanceStatus,omitempty"`
	SystemStatus     *EC2InstanceStatusSummary `xml:"systemStatus,omitempty"`
}

type EC2InstanceStatusEvent struct {
	InstanceEventId   string     `xml:"instanceEventId,omitempty"`
	Code              string     `xml:"code,omitempty"`
	Description       string     `xml:"description,omitempty"`
	NotAfter          *time.Time `xml:"notAfter,omitempty"`
	NotBefore         *time.Time `xml:"notBefore,omitempty"`
	NotBeforeDeadline *time.Time `xml:"notBeforeDeadline,omitempty"`
}

type EC2InstanceStatusSummary struct {
	Details []EC2InstanceStatusDetails `xml:"details>item,omitempty"`
	Status  string                     `xml:"status,omitempty"`
}

type EC2InstanceStatusDetails struct {
	ImpairedSince *time.Time `xml:"impairedSince,omitempty"`
	Name          string     `xml:"name,omitempty"`
	Status        string     `xml:"status,omitempty"`
}

type EC2TerminateInstancesRequest struct {
	InstanceIds []string `in:"InstanceId"`
	DryRun      *bool    `in:"DryRun"`
}

type EC2RebootInstancesRequest struct {
	InstanceIds []string `in:"InstanceId"`
	DryRun      *bool    `in:"DryRun"`
}

type EC2TerminateInstancesResult struct {
	TerminatingInstances []EC2InstanceStateChange `xml:"instancesSet>item,omitempty"`
}

type EC2InstanceStateChange struct {
	CurrentState  *EC2InstanceState `xml:"currentState,omitempty"`
	InstanceId    string            `xml:"instanceId,omitempty"`
	PreviousState *EC2InstanceState `xml:"previousState,omitempty"`
}

type EC2RunInstancesRequest struct {
	BlockDeviceMappings   []EC2BlockDeviceMapping                    `in:"BlockDeviceMapping"`
	ImageId               string                                     `in:"ImageId"`
	InstanceType          string                                     `in:"InstanceType"`
	MaxCount              *int64                                     `in:"MaxCount"`
	MinCount              *int64                                     `in:"MinCount"`
	Monitoring            *EC2RunInstancesMonitoringEnabled          `in:"Monitoring"`
	Placement             *EC2Placement                              `in:"Placement"`
	SecurityGroupIds      []string                                   `in:"SecurityGroupId"`
	SubnetId              string                                     `in:"SubnetId"`
	UserData              string                                     `in:"UserData"`
	ClientToken           string                                     `in:"ClientToken"`
	DryRun                *bool                                      `in:"DryRun"`
	EbsOptimized          *bool                                      `in:"EbsOptimized"`
	IamInstanceProfile    *EC2IamInstanceProfileSpecification        `in:"IamInstanceProfile"`
	NetworkInterfaces     []EC2InstanceNetworkInterfaceSpecification `in:"NetworkInterface"`
	TagSpecifications     []EC2TagSpecification                      `in:"TagSpecification"`
	LaunchTemplate        *EC2LaunchTemplateSpecification            `in:"LaunchTemplate"`
	InstanceMarketOptions *EC2InstanceMarketOptionsRequest           `in:"InstanceMarketOptions"`
	MetadataOptions       *EC2InstanceMetadataOptionsRequest         `in:"MetadataOptions"`
}

type EC2BlockDeviceMapping struct {
	DeviceName  string             `in:"DeviceName" xml:"deviceName,omitempty"`
	VirtualName string             `in:"VirtualName" xml:"virtualName,omitempty"`
	Ebs         *EC2EbsBlockDevice `in:"Ebs" xml:"ebs,omitempty"`
	NoDevice    string             `in:"NoDevice" xml:"noDevice,omitempty"`
}

type EC2EbsBlockDevice struct {
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

type EC2RunInstancesMonitoringEnabled struct {
	Enabled *bool `in:"Enabled"`
}

type EC2IamInstanceProfileSpecification struct {
	Arn  string `in:"Arn"`
	Name string `in:"Name"`
}

type EC2InstanceNetworkInterfaceSpecification struct {
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

type EC2LaunchTemplateSpecification struct {
	LaunchTemplateId   string `in:"LaunchTemplateId"`
	LaunchTemplateName string `in:"LaunchTemplateName"`
	Version            string `in:"Version"`
}

type EC2InstanceMarketOptionsRequest struct {
	MarketType  string                `in:"MarketType"`
	SpotOptions *EC2SpotMarketOptions `in:"SpotOptions"`
}

type EC2SpotMarketOptions struct {
	MaxPrice                     string     `in:"MaxPrice"`
	SpotInstanceType             string     `in:"SpotInstanceType"`
	BlockDurationMinutes         *int64     `in:"BlockDurationMinutes"`
	ValidUntil                   *time.Time `in:"ValidUntil"`
	InstanceInterruptionBehavior string     `in:"InstanceInterruptionBehavior"`
}

type EC2InstanceMetadataOptionsRequest struct {
	HttpTokens              string `in:"HttpTokens"`
	HttpPutResponseHopLimit *int64 `in:"HttpPutResponseHopLimit"`
	HttpEndpoint            string `in:"HttpEndpoint"`
	HttpProtocolIpv6        string `in:"HttpProtocolIpv6"`
	InstanceMetadataTags    string `in:"InstanceMetadataTags"`
}

type EC2CreateTagsRequest struct {
	DryRun    *bool    `in:"DryRun"`
	Resources []string `in:"ResourceId"`
	Tags      []EC2Tag `in:"Tag"`
}

type EC2DeleteTagsRequest struct {
	DryRun    *bool    `in:"DryRun"`
	Resources []string `in:"ResourceId"`
	Tags      []EC2Tag `in:"Tag"`
}

type EC2CreateLaunchTemplateRequest struct {
	DryRun             *bool                         `in:"DryRun"`
	ClientToken        string                        `in:"ClientToken"`
	LaunchTemplateName string                        `in:"LaunchTemplateName"`
	VersionDescription string                        `in:"VersionDescription"`
	LaunchTemplateData *EC2RequestLaunchTemplateData `in:"LaunchTemplateData"`
	TagSpecifications  []EC2TagSpecification         `in:"TagSpecification"`
}

type EC2RequestLaunchTemplateData struct {
	EbsOptimized                     *bool                                                           `in:"EbsOptimized"`
	IamInstanceProfile               *EC2LaunchTemplateIamInstanceProfileSpecificationRequest        `in:"IamInstanceProfile"`
	BlockDeviceMappings              []EC2LaunchTemplateBlockDeviceMappingRequest                    `in:"BlockDeviceMapping"`
	NetworkInterfaces                []EC2LaunchTemplateInstanceNetworkInterfaceSpecificationRequest `in:"NetworkInterface"`
	ImageId                          string                                                          `in:"ImageId"`
	InstanceType                     string                                                          `in:"InstanceType"`
	KeyName                          string                                                          `in:"KeyName"`
	Monitoring                       *EC2LaunchTemplatesMonitoringRequest                            `in:"Monitoring"`
	Placement                        *EC2LaunchTemplatePlacementRequest                              `in:"Placement"`
	DisableApiTermination            *bool                                                           `in:"DisableApiTermination"`
	UserData                         string                                                          `in:"UserData"`
	TagSpecifications                []EC2LaunchTemplateTagSpecificationRequest                      `in:"TagSpecification"`
	SecurityGroupIds                 []string                                                        `in:"SecurityGroupId"`
	InstanceMarketOptions            *EC2LaunchTemplateInstanceMarketOptionsRequest                  `in:"InstanceMarketOptions"`
	CreditSpecification              *EC2CreditSpecificationRequest                                  `in:"CreditSpecification"`
	CpuOptions                       *EC2LaunchTemplateCpuOptionsRequest                             `in:"CpuOptions"`
	CapacityReservationSpecification *EC2LaunchTemplateCapacityReservationSpecificationRequest       `in:"CapacityReservationSpecification"`
	MetadataOptions                  *EC2LaunchTemplateInstanceMetadataOptionsRequest                `in:"MetadataOptions"`
	EnclaveOptions                   *EC2LaunchTemplateEnclaveOptionsRequest                         `in:"EnclaveOptions"`
	PrivateDnsNameOptions            *EC2LaunchTemplatePrivateDnsNameOptionsRequest                  `in:"PrivateDnsNameOptions"`
	MaintenanceOptions               *EC2LaunchTemplateInstanceMaintenanceOptionsRequest             `in:"MaintenanceOptions"`
}

type EC2LaunchTemplateIamInstanceProfileSpecificationRequest struct {
	Arn  string `in:"Arn"`
	Name string `in:"Name"`
}

type EC2LaunchTemplateBlockDeviceMappingRequest struct {
	DeviceName  string                                  `in:"DeviceName"`
	VirtualName string                                  `in:"VirtualName"`
	Ebs         *EC2LaunchTemplateEbsBlockDeviceRequest `in:"Ebs"`
	NoDevice    string                                  `in:"NoDevice"`
}

type EC2LaunchTemplateEbsBlockDeviceRequest struct {
	Encrypted           *bool  `in:"Encrypted"`
	DeleteOnTermination *bool  `in:"DeleteOnTermination"`
	Iops                *int64 `in:"Iops"`
	KmsKeyId            string `in:"KmsKeyId"`
	SnapshotId          string `in:"SnapshotId"`
	VolumeSize          *int64 `in:"VolumeSize"`
	VolumeType          string `in:"VolumeType"`
	Throughput          *int64 `in:"Throughput"`
}

type EC2LaunchTemplateInstanceNetworkInterfaceSpecificationRequest struct {
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
	ConnectionTrackingSpecification *EC2ConnectionTrackingSpecificationRequest `in:"ConnectionTrackingSpecification"`
}

type EC2ConnectionTrackingSpecificationRequest struct {
	TcpEstablishedTimeout *int64 `in:"TcpEstablishedTimeout"`
	UdpStreamTimeout      *int64 `in:"UdpStreamTimeout"`
	UdpTimeout            *int64 `in:"UdpTimeout"`
}

type EC2LaunchTemplatesMonitoringRequest struct {
	Enabled *bool `in:"Enabled"`
}

type EC2LaunchTemplatePlacementRequest struct {
	AvailabilityZone string `in:"AvailabilityZone"`
	GroupName        string `in:"GroupName"`
	Tenancy          string `in:"Tenancy"`
	PartitionNumber  *int64 `in:"PartitionNumber"`
	GroupId          string `in:"GroupId"`
}

type EC2LaunchTemplateTagSpecificationRequest struct {
	ResourceType string   `in:"ResourceType"`
	Tags         []EC2Tag `in:"Tag"`
}

type EC2LaunchTemplateInstanceMarketOptionsRequest struct {
	MarketType  string                                     `in:"MarketType"`
	SpotOptions *EC2LaunchTemplateSpotMarketOptionsRequest `in:"SpotOptions"`
}

type EC2LaunchTemplateSpotMarketOptionsRequest struct {
	MaxPrice                     string     `in:"MaxPrice"`
	SpotInstanceType             string     `in:"SpotInstanceType"`
	BlockDurationMinutes         *int64     `in:"BlockDurationMinutes"`
	ValidUntil                   *time.Time `in:"ValidUntil"`
	InstanceInterruptionBehavior string     `in:"InstanceInterruptionBehavior"`
}

type EC2CreditSpecificationRequest struct {
	CpuCredits string `in:"CpuCredits"`
}

type EC2LaunchTemplateCpuOptionsRequest struct {
	CoreCount      *int64 `in:"CoreCount"`
	ThreadsPerCore *int64 `in:"ThreadsPerCore"`
	AmdSevSnp      string `in:"AmdSevSnp"`
}

type EC2LaunchTemplateCapacityReservationSpecificationRequest struct {
	CapacityReservationPreference string                        `in:"CapacityReservationPreference"`
	CapacityReservationTarget     *EC2CapacityReservationTarget `in:"CapacityReservationTarget"`
}

type EC2CapacityReservationTarget struct {
	CapacityReservationId               string `in:"CapacityReservationId"`
	CapacityReservationResourceGroupArn string `in:"CapacityReservationResourceGroupArn"`
}

type EC2LaunchTemplateInstanceMetadataOptionsRequest struct {
	HttpTokens              string `in:"HttpTokens"`
	HttpPutResponseHopLimit *int64 `in:"HttpPutResponseHopLimit"`
	HttpEndpoint            string `in:"HttpEndpoint"`
	HttpProtocolIpv6        string `in:"HttpProtocolIpv6"`
	InstanceMetadataTags    string `in:"InstanceMetadataTags"`
}

type EC2LaunchTemplateEnclaveOptionsRequest struct {
	Enabled *bool `in:"Enabled"`
}

type EC2LaunchTemplatePrivateDnsNameOptionsRequest struct {
	HostnameType                    string `in:"HostnameType"`
	EnableResourceNameDnsARecord    *bool  `in:"EnableResourceNameDnsARecord"`
	EnableResourceNameDnsAAAARecord *bool  `in:"EnableResourceNameDnsAAAARecord"`
}

type EC2LaunchTemplateInstanceMaintenanceOptionsRequest struct {
	AutoRecovery string `in:"AutoRecovery"`
}

type EC2CreateLaunchTemplateResult struct {
	LaunchTemplate *EC2LaunchTemplate    `xml:"launchTemplate,omitempty"`
	Warning        *EC2ValidationWarning `xml:"warning,omitempty"`
}

type EC2LaunchTemplate struct {
	LaunchTemplateId     string     `xml:"launchTemplateId,omitempty"`
	LaunchTemplateName   string     `xml:"launchTemplateName,omitempty"`
	CreateTime           *time.Time `xml:"createTime,omitempty"`
	CreatedBy            string     `xml:"createdBy,omitempty"`
	DefaultVersionNumber *int64     `xml:"defaultVersionNumber,omitempty"`
	LatestVersionNumber  *int64     `xml:"latestVersionNumber,omitempty"`
	Tags                 []EC2Tag   `xml:"tagSet>item,omitempty"`
}

type EC2ValidationWarning struct {
	Errors []EC2ValidationError `xml:"errorSet>item,omitempty"`
}

type EC2ValidationError struct {
	Code    string `xml:"code,omitempty"`
	Message string `xml:"message,omitempty"`
}

type EC2DescribeLaunchTemplatesRequest struct {
	DryRun              *bool       `in:"DryRun"`
	LaunchTemplateIds   []string    `in:"LaunchTemplateId"`
	LaunchTemplateNames []string    `in:"LaunchTemplateName"`
	Filters             []EC2Filter `in:"Filter"`
	NextToken           string      `in:"NextToken"`
	MaxResults          *int64      `in:"MaxResults"`
}

type EC2DescribeLaunchTemplatesResult struct {
	LaunchTemplates []EC2LaunchTemplate `xml:"launchTemplates>item,omitempty"`
	NextToken       string              `xml:"nextToken,omitempty"`
}

type EC2DescribeLaunchTemplateVersionsRequest struct {
	DryRun             *bool       `in:"DryRun"`
	LaunchTemplateId   string      `in:"LaunchTemplateId"`
	LaunchTemplateName string      `in:"LaunchTemplateName"`
	Versions           []string    `in:"LaunchTemplateVersion"`
	MinVersion         string      `in:"MinVersion"`
	MaxVersion         string      `in:"MaxVersion"`
	NextToken          string      `in:"NextToken"`
	MaxResults         *int64      `in:"MaxResults"`
	Filters            []EC2Filter `in:"Filter"`
	ResolveAlias       *bool       `in:"ResolveAlias"`
}

type EC2DescribeLaunchTemplateVersionsResult struct {
	LaunchTemplateVersions []EC2LaunchTemplateVersion `xml:"launchTemplateVersionSet>item,omitempty"`
	NextToken              string                     `xml:"nextToken,omitempty"`
}

type EC2LaunchTemplateVersion struct {
	LaunchTemplateId   string                         `xml:"launchTemplateId,omitempty"`
	LaunchTemplateName string                         `xml:"launchTemplateName,omitempty"`
	VersionNumber      *int64                         `xml:"versionNumber,omitempty"`
	VersionDescription string                         `xml:"versionDescription,omitempty"`
	CreateTime         *time.Time                     `xml:"createTime,omitempty"`
	CreatedBy          string                         `xml:"createdBy,omitempty"`
	DefaultVersion     *bool                          `xml:"defaultVersion,omitempty"`
	LaunchTemplateData *EC2ResponseLaunchTemplateData `xml:"launchTemplateData,omitempty"`
}

type EC2ResponseLaunchTemplateData struct {
	EbsOptimized                     *bool                                                      `xml:"ebsOptimized,omitempty"`
	IamInstanceProfile               *EC2LaunchTemplateIamInstanceProfileSpecification          `xml:"iamInstanceProfile,omitempty"`
	BlockDeviceMappings              []EC2LaunchTemplateBlockDeviceMapping                      `xml:"blockDeviceMappingSet>item,omitempty"`
	NetworkInterfaces                []EC2LaunchTemplateInstanceNetworkInterfaceSpecification   `xml:"networkInterfaceSet>item,omitempty"`
	ImageId                          string                                                     `xml:"imageId,omitempty"`
	InstanceType                     string                                                     `xml:"instanceType,omitempty"`
	KeyName                          string                                                     `xml:"keyName,omitempty"`
	Monitoring                       *EC2LaunchTemplatesMonitoring                              `xml:"monitoring,omitempty"`
	Placement                        *EC2LaunchTemplatePlacement                                `xml:"placement,omitempty"`
	DisableApiTermination            *bool                                                      `xml:"disableApiTermination,omitempty"`
	UserData                         string                                                     `xml:"userData,omitempty"`
	TagSpecifications                []EC2LaunchTemplateTagSpecification                        `xml:"tagSpecificationSet>item,omitempty"`
	SecurityGroupIds                 []string                                                   `xml:"securityGroupIdSet>item,omitempty"`
	InstanceMarketOptions            *EC2LaunchTemplateInstanceMarketOptions                    `xml:"instanceMarketOptions,omitempty"`
	CreditSpecification              *EC2CreditSpecification                                    `xml:"creditSpecification,omitempty"`
	CpuOptions                       *EC2LaunchTemplateCpuOptions                               `xml:"cpuOptions,omitempty"`
	CapacityReservationSpecification *EC2LaunchTemplateCapacityReservationSpecificationResponse `xml:"capacityReservationSpecification,omitempty"`
	MetadataOptions                  *EC2LaunchTemplateInstanceMetadataOptions                  `xml:"metadataOptions,omitempty"`
	EnclaveOptions                   *EC2LaunchTemplateEnclaveOptions                           `xml:"enclaveOptions,omitempty"`
	PrivateDnsNameOptions            *EC2LaunchTemplatePrivateDnsNameOptions                    `xml:"privateDnsNameOptions,omitempty"`
	MaintenanceOptions               *EC2LaunchTemplateInstanceMaintenanceOptions               `xml:"maintenanceOptions,omitempty"`
}

type EC2LaunchTemplateIamInstanceProfileSpecification struct {
	Arn  string `xml:"arn,omitempty"`
	Name string `xml:"name,omitempty"`
}

type EC2LaunchTemplateBlockDeviceMapping struct {
	DeviceName  string                           `xml:"deviceName,omitempty"`
	VirtualName string                           `xml:"virtualName,omitempty"`
	Ebs         *EC2LaunchTemplateEbsBlockDevice `xml:"ebs,omitempty"`
	NoDevice    string                           `xml:"noDevice,omitempty"`
}

type EC2LaunchTemplateEbsBlockDevice struct {
	Encrypted           *bool  `xml:"encrypted,omitempty"`
	DeleteOnTermination *bool  `xml:"deleteOnTermination,omitempty"`
	Iops                *int64 `xml:"iops,omitempty"`
	KmsKeyId            string `xml:"kmsKeyId,omitempty"`
	SnapshotId          string `xml:"snapshotId,omitempty"`
	VolumeSize          *int64 `xml:"volumeSize,omitempty"`
	VolumeType          string `xml:"volumeType,omitempty"`
	Throughput          *int64 `xml:"throughput,omitempty"`
}

type EC2LaunchTemplateInstanceNetworkInterfaceSpecification struct {
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
	ConnectionTrackingSpecification *EC2ConnectionTrackingSpecification `xml:"connectionTrackingSpecification,omitempty"`
}

type EC2ConnectionTrackingSpecification struct {
	TcpEstablishedTimeout *int64 `xml:"tcpEstablishedTimeout,omitempty"`
	UdpTimeout            *int64 `xml:"udpTimeout,omitempty"`
	UdpStreamTimeout      *int64 `xml:"udpStreamTimeout,omitempty"`
}

type EC2LaunchTemplatesMonitoring struct {
	Enabled *bool `xml:"enabled,omitempty"`
}

type EC2LaunchTemplatePlacement struct {
	AvailabilityZone string `xml:"availabilityZone,omitempty"`
	GroupName        string `xml:"groupName,omitempty"`
	Tenancy          string `xml:"tenancy,omitempty"`
	PartitionNumber  *int64 `xml:"partitionNumber,omitempty"`
	GroupId          string `xml:"groupId,omitempty"`
}

type EC2LaunchTemplateTagSpecification struct {
	ResourceType string   `xml:"resourceType,omitempty"`
	Tags         []EC2Tag `xml:"tagSet>item,omitempty"`
}

type EC2LaunchTemplateInstanceMarketOptions struct {
	MarketType  string                              `xml:"marketType,omitempty"`
	SpotOptions *EC2LaunchTemplateSpotMarketOptions `xml:"spotOptions,omitempty"`
}

type EC2LaunchTemplateSpotMarketOptions struct {
	MaxPrice                     string     `xml:"maxPrice,omitempty"`
	SpotInstanceType             string     `xml:"spotInstanceType,omitempty"`
	BlockDurationMinutes         *int64     `xml:"blockDurationMinutes,omitempty"`
	ValidUntil                   *time.Time `xml:"validUntil,omitempty"`
	InstanceInterruptionBehavior string     `xml:"instanceInterruptionBehavior,omitempty"`
}

type EC2CreditSpecification struct {
	CpuCredits string `xml:"cpuCredits,omitempty"`
}

type EC2LaunchTemplateCpuOptions struct {
	CoreCount      *int64 `xml:"coreCount,omitempty"`
	ThreadsPerCore *int64 `xml:"threadsPerCore,omitempty"`
	AmdSevSnp      string `xml:"amdSevSnp,omitempty"`
}

type EC2LaunchTemplateCapacityReservationSpecificationResponse struct {
	CapacityReservationPreference string                                `xml:"capacityReservationPreference,omitempty"`
	CapacityReservationTarget     *EC2CapacityReservationTargetResponse `xml:"capacityReservationTarget,omitempty"`
}

type EC2CapacityReservationTargetResponse struct {
	CapacityReservationId               string `xml:"capacityReservationId,omitempty"`
	CapacityReservationResourceGroupArn string `xml:"capacityReservationResourceGroupArn,omitempty"`
}

type EC2LaunchTemplateInstanceMetadataOptions struct {
	State                   string `xml:"state,omitempty"`
	HttpTokens              string `xml:"httpTokens,omitempty"`
	HttpPutResponseHopLimit *int64 `xml:"httpPutResponseHopLimit,omitempty"`
	HttpEndpoint            string `xml:"httpEndpoint,omitempty"`
	HttpProtocolIpv6        string `xml:"httpProtocolIpv6,omitempty"`
	InstanceMetadataTags    string `xml:"instanceMetadataTags,omitempty"`
}

type EC2LaunchTemplateEnclaveOptions struct {
	Enabled *bool `xml:"enabled,omitempty"`
}

type EC2LaunchTemplatePrivateDnsNameOptions struct {
	HostnameType                    string `xml:"hostnameType,omitempty"`
	EnableResourceNameDnsARecord    *bool  `xml:"enableResourceNameDnsARecord,omitempty"`
	EnableResourceNameDnsAAAARecord *bool  `xml:"enableResourceNameDnsAAAARecord,omitempty"`
}

type EC2LaunchTemplateInstanceMaintenanceOptions struct {
	AutoRecovery string `xml:"autoRecovery,omitempty"`
}

type EC2DeleteLaunchTemplateRequest struct {
	DryRun             *bool  `in:"DryRun"`
	LaunchTemplateId   string `in:"LaunchTemplateId"`
	LaunchTemplateName string `in:"LaunchTemplateName"`
}

type EC2DeleteLaunchTemplateResult struct {
	LaunchTemplate *EC2LaunchTemplate `xml:"launchTemplate,omitempty"`
}

type EC2DescribeSubnetsRequest struct {
	Filters    []EC2Filter `in:"Filter"`
	SubnetIds  []string    `in:"SubnetId"`
	DryRun     *bool       `in:"DryRun"`
	NextToken  string      `in:"NextToken"`
	MaxResults *int64      `in:"MaxResults"`
}

type EC2DescribeSubnetsResult struct {
	Subnets   []EC2Subnet `xml:"subnetSet>item,omitempty"`
	NextToken string      `xml:"nextToken,omitempty"`
}

type EC2Subnet struct {
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
	Tags                        []EC2Tag `xml:"tagSet>item,omitempty"`
	SubnetArn                   string   `xml:"subnetArn,omitempty"`
}

type EC2DescribeSecurityGroupsRequest struct {
	Filters    []EC2Filter `in:"Filter"`
	GroupIds   []string    `in:"GroupId"`
	GroupNames []string    `in:"GroupName"`
	DryRun     *bool       `in:"DryRun"`
	NextToken  string      `in:"NextToken"`
	MaxResults *int64      `in:"MaxResults"`
}

type EC2DescribeSecurityGroupsResult struct {
	SecurityGroups []EC2SecurityGroup `xml:"securityGroupInfo>item,omitempty"`
	NextToken      string             `xml:"nextToken,omitempty"`
}

type EC2SecurityGroup struct {
	Description         string            `xml:"groupDescription,omitempty"`
	GroupName           string            `xml:"groupName,omitempty"`
	OwnerId             string            `xml:"ownerId,omitempty"`
	GroupId             string            `xml:"groupId,omitempty"`
	Tags                []EC2Tag          `xml:"tagSet>item,omitempty"`
	VpcId               string            `xml:"vpcId,omitempty"`
	IpPermissionsEgress []EC2IpPermission `xml:"ipPermissionsEgress>item,omitempty"`
}

type EC2IpPermission struct {
	IpProtocol string       `xml:"ipProtocol,omitempty"`
	IpRanges   []EC2IpRange `xml:"ipRanges>item,omitempty"`
}

type EC2IpRange struct {
	CidrIp string `xml:"cidrIp,omitempty"`
}

type EC2DescribeImagesRequest struct {
	ExecutableUsers   []string    `in:"ExecutableBy"`
	Filters           []EC2Filter `in:"Filter"`
	ImageIds          []string    `in:"ImageId"`
	Owners            []string    `in:"Owner"`
	IncludeDeprecated *bool       `in:"IncludeDeprecated"`
	IncludeDisabled   *bool       `in:"IncludeDisabled"`
	DryRun            *bool       `in:"DryRun"`
	MaxResults        *int64      `in:"MaxResults"`
	NextToken         string      `in:"NextToken"`
}

type EC2DescribeImagesResult struct {
	Images    []EC2Image `xml:"imagesSet>item,omitempty"`
	NextToken string     `xml:"nextToken,omitempty"`
}

type EC2Image struct {
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
	BlockDeviceMappings []EC2BlockDeviceMapping `xml:"blockDeviceMapping>item,omitempty"`
	Description         string                  `xml:"description,omitempty"`
	EnaSupport          *bool                   `xml:"enaSupport,omitempty"`
	Hypervisor          string                  `xml:"hypervisor,omitempty"`
	ImageOwnerAlias     string                  `xml:"imageOwnerAlias,omitempty"`
	Name                string                  `xml:"name,omitempty"`
	RootDeviceName      string                  `xml:"rootDeviceName,omitempty"`
	RootDeviceType      string                  `xml:"rootDeviceType,omitempty"`
	Tags                []EC2Tag                `xml:"tagSet>item,omitempty"`
	VirtualizationType  string                  `xml:"virtualizationType,omitempty"`
	BootMode            string                  `xml:"bootMode,omitempty"`
	DeprecationTime     string                  `xml:"deprecationTime,omitempty"`
}

type EC2DescribeInstanceTypesRequest struct {
	DryRun        *bool       `in:"DryRun"`
	InstanceTypes []string    `in:"InstanceType"`
	Filters       []EC2Filter `in:"Filter"`
	MaxResults    *int64      `in:"MaxResults"`
	NextToken     string      `in:"NextToken"`
}

type EC2DescribeInstanceTypesResult struct {
	InstanceTypes []EC2InstanceTypeInfo `xml:"instanceTypeSet>item,omitempty"`
	NextToken     string                `xml:"nextToken,omitempty"`
}

type EC2InstanceTypeInfo struct {
	InstanceType                  string                       `xml:"instanceType,omitempty"`
	CurrentGeneration             *bool                        `xml:"currentGeneration,omitempty"`
	SupportedUsageClasses         []string                     `xml:"supportedUsageClasses>item,omitempty"`
	SupportedRootDeviceTypes      []string                     `xml:"supportedRootDeviceTypes>item,omitempty"`
	SupportedVirtualizationTypes  []string                     `xml:"supportedVirtualizationTypes>item,omitempty"`
	BareMetal                     *bool                        `xml:"bareMetal,omitempty"`
	Hypervisor                    string                       `xml:"hypervisor,omitempty"`
	NitroEnclavesSupport          string                       `xml:"nitroEnclavesSupport,omitempty"`
	ProcessorInfo                 *EC2ProcessorInfo            `xml:"processorInfo,omitempty"`
	VCpuInfo                      *EC2VCpuInfo                 `xml:"vCpuInfo,omitempty"`
	MemoryInfo                    *EC2MemoryInfo               `xml:"memoryInfo,omitempty"`
	InstanceStorageSupported      *bool                        `xml:"instanceStorageSupported,omitempty"`
	InstanceStorageInfo           *EC2InstanceStorageInfo      `xml:"instanceStorageInfo,omitempty"`
	EbsInfo                       *EC2EbsInfo                  `xml:"ebsInfo,omitempty"`
	NetworkInfo                   *EC2NetworkInfo              `xml:"networkInfo,omitempty"`
	GpuInfo                       *EC2GpuInfo                  `xml:"gpuInfo,omitempty"`
	InferenceAcceleratorInfo      *EC2InferenceAcceleratorInfo `xml:"inferenceAcceleratorInfo,omitempty"`
	BurstablePerformanceSupported *bool                        `xml:"burstablePerformanceSupported,omitempty"`
	SupportedBootModes            []string                     `xml:"supportedBootModes>item,omitempty"`
	NeuronInfo                    *EC2NeuronInfo               `xml:"neuronInfo,omitempty"`
}

type EC2ProcessorInfo struct {
	SupportedArchitectures   []string `xml:"supportedArchitectures>item,omitempty"`
	SustainedClockSpeedInGhz *float64 `xml:"sustainedClockSpeedInGhz,omitempty"`
	SupportedFeatures        []string `xml:"supportedFeatures>item,omitempty"`
	Manufacturer             string   `xml:"manufacturer,omitempty"`
}

type EC2VCpuInfo struct {
	DefaultVCpus          *int64  `xml:"defaultVCpus,omitempty"`
	DefaultCores          *int64  `xml:"defaultCores,omitempty"`
	DefaultThreadsPerCore *int64  `xml:"defaultThreadsPerCore,omitempty"`
	ValidThreadsPerCore   []int64 `xml:"validThreadsPerCore>item,omitempty"`
}

type EC2MemoryInfo struct {
	SizeInMiB *int64 `xml:"sizeInMiB,omitempty"`
}

type EC2InstanceStorageInfo struct {
	TotalSizeInGB     *int64        `xml:"totalSizeInGB,omitempty"`
	Disks             []EC2DiskInfo `xml:"disks>item,omitempty"`
	NvmeSupport       string        `xml:"nvmeSupport,omitempty"`
	EncryptionSupport string        `xml:"encryptionSupport,omitempty"`
}

type EC2DiskInfo struct {
	SizeInGB *int64 `xml:"sizeInGB,omitempty"`
	Count    *int64 `xml:"count,omitempty"`
	Type     string `xml:"type,omitempty"`
}

type EC2EbsInfo struct {
	EbsOptimizedSupport string               `xml:"ebsOptimizedSupport,omitempty"`
	EncryptionSupport   string               `xml:"encryptionSupport,omitempty"`
	EbsOptimizedInfo    *EC2EbsOptimizedInfo `xml:"ebsOptimizedInfo,omitempty"`
	NvmeSupport         string               `xml:"nvmeSupport,omitempty"`
}

type EC2EbsOptimizedInfo struct {
	BaselineBandwidthInMbps  *int64   `xml:"baselineBandwidthInMbps,omitempty"`
	BaselineThroughputInMBps *float64 `xml:"baselineThroughputInMBps,omitempty"`
	BaselineIops             *int64   `xml:"baselineIops,omitempty"`
	MaximumBandwidthInMbps   *int64   `xml:"maximumBandwidthInMbps,omitempty"`
	MaximumThroughputInMBps  *float64 `xml:"maximumThroughputInMBps,omitempty"`
	MaximumIops              *int64   `xml:"maximumIops,omitempty"`
}

type EC2NetworkInfo struct {
	NetworkPerformance           string               `xml:"networkPerformance,omitempty"`
	MaximumNetworkInterfaces     *int64               `xml:"maximumNetworkInterfaces,omitempty"`
	MaximumNetworkCards          *int64               `xml:"maximumNetworkCards,omitempty"`
	DefaultNetworkCardIndex      *int64               `xml:"defaultNetworkCardIndex,omitempty"`
	NetworkCards                 []EC2NetworkCardInfo `xml:"networkCards>item,omitempty"`
	Ipv4AddressesPerInterface    *int64               `xml:"ipv4AddressesPerInterface,omitempty"`
	Ipv6AddressesPerInterface    *int64               `xml:"ipv6AddressesPerInterface,omitempty"`
	Ipv6Supported                *bool                `xml:"ipv6Supported,omitempty"`
	EnaSupport                   string               `xml:"enaSupport,omitempty"`
	EfaSupported                 *bool                `xml:"efaSupported,omitempty"`
	EfaInfo                      *EC2EfaInfo          `xml:"efaInfo,omitempty"`
	EncryptionInTransitSupported *bool                `xml:"encryptionInTransitSupported,omitempty"`
}

type EC2NetworkCardInfo struct {
	NetworkCardIndex         *int64   `xml:"networkCardIndex,omitempty"`
	NetworkPerformance       string   `xml:"networkPerformance,omitempty"`
	MaximumNetworkInterfaces *int64   `xml:"maximumNetworkInterfaces,omitempty"`
	BaselineBandwidthInGbps  *float64 `xml:"baselineBandwidthInGbps,omitempty"`
	PeakBandwidthInGbps      *float64 `xml:"peakBandwidthInGbps,omitempty"`
}

type EC2EfaInfo struct {
	MaximumEfaInterfaces *int64 `xml:"maximumEfaInterfaces,omitempty"`
}

type EC2GpuInfo struct {
	Gpus                []EC2GpuDeviceInfo `xml:"gpus>item,omitempty"`
	TotalGpuMemoryInMiB *int64             `xml:"totalGpuMemoryInMiB,omitempty"`
}

type EC2GpuDeviceInfo struct {
	Name         string                  `xml:"name,omitempty"`
	Manufacturer string                  `xml:"manufacturer,omitempty"`
	Count        *int64                  `xml:"count,omitempty"`
	MemoryInfo   *EC2GpuDeviceMemoryInfo `xml:"memoryInfo,omitempty"`
}

type EC2GpuDeviceMemoryInfo struct {
	SizeInMiB *int64 `xml:"sizeInMiB,omitempty"`
}

type EC2InferenceAcceleratorInfo struct {
	Accelerators              []EC2InferenceDeviceInfo `xml:"accelerators>member,omitempty"`
	TotalInferenceMemoryInMiB *int64                   `xml:"totalInferenceMemoryInMiB,omitempty"`
}

type EC2InferenceDeviceInfo struct {
	Count        *int64                        `xml:"count,omitempty"`
	Name         string                        `xml:"name,omitempty"`
	Manufacturer string                        `xml:"manufacturer,omitempty"`
	MemoryInfo   *EC2InferenceDeviceMemoryInfo `xml:"memoryInfo,omitempty"`
}

type EC2InferenceDeviceMemoryInfo struct {
	SizeInMiB *int64 `xml:"sizeInMiB,omitempty"`
}

type EC2NeuronInfo struct {
	NeuronDevices                []EC2NeuronDeviceInfo `xml:"neuronDevices>item,omitempty"`
	TotalNeuronDeviceMemoryInMiB *int64                `xml:"totalNeuronDeviceMemoryInMiB,omitempty"`
}

type EC2NeuronDeviceInfo struct {
	Count      *int64                     `xml:"count,omitempty"`
	Name       string                     `xml:"name,omitempty"`
	CoreInfo   *EC2NeuronDeviceCoreInfo   `xml:"coreInfo,omitempty"`
	MemoryInfo *EC2NeuronDeviceMemoryInfo `xml:"memoryInfo,omitempty"`
}

type EC2NeuronDeviceCoreInfo struct {
	Count   *int64 `xml:"count,omitempty"`
	Version *int64 `xml:"version,omitempty"`
}

type EC2NeuronDeviceMemoryInfo struct {
	SizeInMiB *int64 `xml:"sizeInMiB,omitempty"`
}

type EC2DescribeInstanceTypeOfferingsRequest struct {
	DryRun       *bool       `in:"DryRun"`
	LocationType string      `in:"LocationType"`
	Filters      []EC2Filter `in:"Filter"`
	MaxResults   *int64      `in:"MaxResults"`
	NextToken    string      `in:"NextToken"`
}

type EC2DescribeInstanceTypeOfferingsResult struct {
	InstanceTypeOfferings []EC2InstanceTypeOffering `xml:"instanceTypeOfferingSet>item,omitempty"`
	NextToken             string                    `xml:"nextToken,omitempty"`
}

type EC2InstanceTypeOffering struct {
	InstanceType string `xml:"instanceType,omitempty"`
	LocationType string `xml:"locationType,omitempty"`
	Location     string `xml:"location,omitempty"`
}

type EC2DescribeSpotPriceHistoryRequest struct {
	Filters             []EC2Filter `in:"Filter"`
	AvailabilityZone    string      `in:"AvailabilityZone"`
	DryRun              *bool       `in:"DryRun"`
	EndTime             *time.Time  `in:"EndTime"`
	InstanceTypes       []string    `in:"InstanceType"`
	MaxResults          *int64      `in:"MaxResults"`
	NextToken           string      `in:"NextToken"`
	ProductDescriptions []string    `in:"ProductDescription"`
	StartTime           *time.Time  `in:"StartTime"`
}

type EC2DescribeSpotPriceHistoryResult struct {
	NextToken        string         `xml:"nextToken,omitempty"`
	SpotPriceHistory []EC2SpotPrice `xml:"spotPriceHistorySet>item,omitempty"`
}

type EC2SpotPrice struct {
	AvailabilityZone   string     `xml:"availabilityZone,omitempty"`
	InstanceType       string     `xml:"instanceType,omitempty"`
	ProductDescription string     `xml:"productDescription,omitempty"`
	SpotPrice          string     `xml:"spotPrice,omitempty"`
	Timestamp          *time.Time `xml:"timestamp,omitempty"`
}

type EC2DescribeCapacityReservationsRequest struct {
	CapacityReservationIds []string    `in:"CapacityReservationId"`
	NextToken              string      `in:"NextToken"`
	MaxResults             *int64      `in:"MaxResults"`
	Filters                []EC2Filter `in:"Filter"`
	DryRun                 *bool       `in:"DryRun"`
}

type EC2DescribeCapacityReservationsResult struct {
	NextToken            string                   `xml:"nextToken,omitempty"`
	CapacityReservations []EC2CapacityReservation `xml:"capacityReservationSet>item,omitempty"`
}

type EC2CapacityReservation struct {
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
	Tags                   []EC2Tag   `xml:"tagSet>item,omitempty"`
	ReservationType        string     `xml:"reservationType,omitempty"`
}

type EC2DescribePlacementGroupsRequest struct {
	Filters    []EC2Filter `in:"Filter"`
	DryRun     *bool       `in:"DryRun"`
	GroupNames []string    `in:"GroupName"`
	GroupIds   []string    `in:"GroupId"`
}

type EC2DescribePlacementGroupsResult struct {
	PlacementGroups []EC2PlacementGroup `xml:"placementGroupSet>item,omitempty"`
}

type EC2PlacementGroup struct {
	GroupName      string   `xml:"groupName,omitempty"`
	State          string   `xml:"state,omitempty"`
	Strategy       string   `xml:"strategy,omitempty"`
	PartitionCount *int64   `xml:"partitionCount,omitempty"`
	GroupId        string   `xml:"groupId,omitempty"`
	Tags           []EC2Tag `xml:"tagSet>item,omitempty"`
	GroupArn       string   `xml:"groupArn,omitempty"`
	SpreadLevel    string   `xml:"spreadLevel,omitempty"`
}

type EC2DescribeAvailabilityZonesRequest struct {
	Filters              []EC2Filter `in:"Filter"`
	ZoneNames            []string    `in:"ZoneName"`
	ZoneIds              []string    `in:"ZoneId"`
	AllAvailabilityZones *bool       `in:"AllAvailabilityZones"`
}

type EC2DescribeAvailabilityZonesResult struct {
	AvailabilityZones []EC2AvailabilityZone `xml:"availabilityZoneInfo>item,omitempty"`
}

type EC2AvailabilityZone struct {
	State              string `xml:"zoneState,omitempty"`
	OptInStatus        string `xml:"optInStatus,omitempty"`
	RegionName         string `xml:"regionName,omitempty"`
	ZoneName           string `xml:"zoneName,omitempty"`
	ZoneId             string `xml:"zoneId,omitempty"`
	GroupName          string `xml:"groupName,omitempty"`
	NetworkBorderGroup string `xml:"networkBorderGroup,omitempty"`
	ZoneType           string `xml:"zoneType,omitempty"`
}

type EC2DescribeVpcsRequest struct {
	Filters    []EC2Filter `in:"Filter"`
	VpcIds     []string    `in:"VpcId"`
	DryRun     *bool       `in:"DryRun"`
	NextToken  string      `in:"NextToken"`
	MaxResults *int64      `in:"MaxResults"`
}

type EC2DescribeVpcsResult struct {
	Vpcs      []EC2Vpc `xml:"vpcSet>item,omitempty"`
	NextToken string   `xml:"nextToken,omitempty"`
}

type EC2Vpc struct {
	CidrBlock               string                       `xml:"cidrBlock,omitempty"`
	State                   string                       `xml:"state,omitempty"`
	VpcId                   string                       `xml:"vpcId,omitempty"`
	OwnerId                 string                       `xml:"ownerId,omitempty"`
	IsDefault               *bool                        `xml:"isDefault,omitempty"`
	Tags                    []EC2Tag                     `xml:"tagSet>item,omitempty"`
	DhcpOptionsId           string                       `xml:"dhcpOptionsId,omitempty"`
	InstanceTenancy         string                       `xml:"instanceTenancy,omitempty"`
	CidrBlockAssociationSet []EC2VpcCidrBlockAssociation `xml:"cidrBlockAssociationSet>item,omitempty"`
}

type EC2VpcCidrBlockAssociation struct {
	AssociationId  string                `xml:"associationId,omitempty"`
	CidrBlock      string                `xml:"cidrBlock,omitempty"`
	CidrBlockState *EC2VpcCidrBlockState `xml:"cidrBlockState,omitempty"`
}

type EC2VpcCidrBlockState struct {
	State string `xml:"state,omitempty"`
}

type EC2GetInstanceTypesFromInstanceRequirementsRequest struct {
	DryRun               *bool                           `in:"DryRun"`
	ArchitectureTypes    []string                        `in:"ArchitectureType"`
	VirtualizationTypes  []string                        `in:"VirtualizationType"`
	InstanceRequirements *EC2InstanceRequirementsRequest `in:"InstanceRequirements"`
	MaxResults           *int64                          `in:"MaxResults"`
	NextToken            string                          `in:"NextToken"`
}

type EC2InstanceRequirementsRequest struct {
	VCpuCount             *EC2VCpuCountRangeRequest `in:"VCpuCount"`
	MemoryMiB             *EC2MemoryMiBRequest      `in:"MemoryMiB"`
	CpuManufacturers      []string                  `in:"CpuManufacturer"`
	ExcludedInstanceTypes []string                  `in:"ExcludedInstanceType"`
	AllowedInstanceTypes  []string                  `in:"AllowedInstanceType"`
	BareMetal             string                    `in:"BareMetal"`
	BurstablePerformance  string                    `in:"BurstablePerformance"`
}

type EC2VCpuCountRangeRequest struct {
	Min *int64 `in:"Min"`
	Max *int64 `in:"Max"`
}

type EC2MemoryMiBRequest struct {
	Min *int64 `in:"Min"`
	Max *int64 `in:"Max"`
}

type EC2GetInstanceTypesFromInstanceRequirementsResult struct {
	InstanceTypes []EC2InstanceTypeInfoFromInstanceRequirements `xml:"instanceTypeSet>item,omitempty"`
	NextToken     string                                        `xml:"nextToken,omitempty"`
}

type EC2InstanceTypeInfoFromInstanceRequirements struct {
	InstanceType string `xml:"instanceType,omitempty"`
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package shapes

import "time"

// The shapes of Auto Scaling, version 2011-01-01: of every call served, the members read and written. A type is named as its shape in the
// service model, a field as its member; test/awsmodels holds names and tags against that model.

type ASGAutoScalingGroupNamesType struct {
	AutoScalingGroupNames []string    `in:"AutoScalingGroupNames.member"`
	NextToken             string      `in:"NextToken"`
	MaxRecords            *int64      `in:"MaxRecords"`
	Filters               []ASGFilter `in:"Filters.member"`
}

type ASGFilter struct {
	Name   string   `in:"Name"`
	Values []string `in:"Values.member"`
}

type ASGAutoScalingGroupsType struct {
	AutoScalingGroups []ASGAutoScalingGroup `xml:"AutoScalingGroups>member,omitempty"`
	NextToken         string                `xml:"NextToken,omitempty"`
}

type ASGAutoScalingGroup struct {
	AutoScalingGroupName             string                          `xml:"AutoScalingGroupName,omitempty"`
	AutoScalingGroupARN              string                          `xml:"AutoScalingGroupARN,omitempty"`
	LaunchConfigurationName          string                          `xml:"LaunchConfigurationName,omitempty"`
	LaunchTemplate                   *ASGLaunchTemplateSpecification `xml:"LaunchTemplate,omitempty"`
	MixedInstancesPolicy             *ASGMixedInstancesPolicy        `xml:"MixedInstancesPolicy,omitempty"`
	MinSize                          *int64                          `xml:"MinSize,omitempty"`
	MaxSize                          *int64                          `xml:"MaxSize,omitempty"`
	DesiredCapacity                  *int64                          `xml:"DesiredCapacity,omitempty"`
	DefaultCooldown                  *int64                          `xml:"DefaultCooldown,omitempty"`
	AvailabilityZones                []string                        `xml:"AvailabilityZones>member,omitempty"`
	HealthCheckType                  string                          `xml:"HealthCheckType,omitempty"`
	HealthCheckGracePeriod           *int64                          `xml:"HealthCheckGracePeriod,omitempty"`
	Instances                        []ASGInstance                   `xml:"Instances>member,omitempty"`
	CreatedTime                      *time.Time                      `xml:"CreatedTime,omitempty"`
	SuspendedProcesses               []ASGSuspendedProcess           `xml:"SuspendedProcesses>member,omitempty"`
	VPCZoneIdentifier                string                          `xml:"VPCZoneIdentifier,omitempty"`
	Status                           string                          `xml:"Status,omitempty"`
	Tags                             []ASGTagDescription             `xml:"Tags>member,omitempty"`
	TerminationPolicies              []string                        `xml:"TerminationPolicies>member,omitempty"`
	NewInstancesProtectedFromScaleIn *bool                           `xml:"NewInstancesProtectedFromScaleIn,omitempty"`
	ServiceLinkedRoleARN             string                          `xml:"ServiceLinkedRoleARN,omitempty"`
	CapacityRebalance                *bool                           `xml:"CapacityRebalance,omitempty"`
}

type ASGLaunchTemplateSpecification struct {
	LaunchTemplateId   string `xml:"LaunchTemplateId,omitempty"`
	LaunchTemplateName string `xml:"LaunchTemplateName,omitempty"`
	Version            string `xml:"Version,omitempty"`
}

type ASGMixedInstancesPolicy struct {
	LaunchTemplate        *ASGLaunchTemplate        `xml:"LaunchTemplate,omitempty"`
	InstancesDistribution *ASGInstancesDistribution `xml:"InstancesDistribution,omitempty"`
}

type ASGLaunchTemplate struct {
	LaunchTemplateSpecification *ASGLaunchTemplateSpecification `xml:"LaunchTemplateSpecification,omitempty"`
	Overrides                   []ASGLaunchTemplateOverrides    `xml:"Overrides>member,omitempty"`
}

type ASGLaunchTemplateOverrides struct {
	InstanceType                string                          `xml:"InstanceType,omitempty"`
	WeightedCapacity            string                          `xml:"WeightedCapacity,omitempty"`
	LaunchTemplateSpecification *ASGLaunchTemplateSpecification `xml:"LaunchTemplateSpecification,omitempty"`
	InstanceRequirements        *ASGInstanceRequirements        `xml:"InstanceRequirements,omitempty"`
}

type ASGInstanceRequirements struct {
	VCpuCount             *ASGVCpuCountRequest `xml:"VCpuCount,omitempty"`
	MemoryMiB             *ASGMemoryMiBRequest `xml:"MemoryMiB,omitempty"`
	CpuManufacturers      []string             `xml:"CpuManufacturers>member,omitempty"`
	ExcludedInstanceTypes []string             `xml:"ExcludedInstanceTypes>member,omitempty"`
	AllowedInstanceTypes  []string             `xml:"AllowedInstanceTypes>member,omitempty"`
	BareMetal             string               `xml:"BareMetal,omitempty"`
	BurstablePerformance  string               `xml:"BurstablePerformance,omitempty"`
}

type ASGVCpuCountRequest struct {
	Min *int64 `xml:"Min,omitempty"`
	Max *int64 `xml:"Max,omitempty"`
}

type ASGMemoryMiBRequest struct {
	Min *int64 `xml:"Min,omitempty"`
	Max *int64 `xml:"Max,omitempty"`
}

type ASGInstancesDistribution struct {
	OnDemandAllocationStrategy          string `xml:"OnDemandAllocationStrategy,omitempty"`
	OnDemandBaseCapacity                *int64 `xml:"OnDemandBaseCapacity,omitempty"`
	OnDemandPercentageAboveBaseCapacity *int64 `xml:"OnDemandPercentageAboveBaseCapacity,omitempty"`
	SpotAllocationStrategy              string `xml:"SpotAllocationStrategy,omitempty"`
	SpotInstancePools                   *int64 `xml:"SpotInstancePools,omitempty"`
	SpotMaxPrice                        string `xml:"SpotMaxPrice,omitempty"`
}

type ASGInstance struct {
	InstanceId              string                          `xml:"InstanceId,omitempty"`
	InstanceType            string                          `xml:"InstanceType,omitempty"`
	AvailabilityZone        string                          `xml:"AvailabilityZone,omitempty"`
	LifecycleState          string                          `xml:"LifecycleState,omitempty"`
	HealthStatus            string                          `xml:"HealthStatus,omitempty"`
	LaunchConfigurationName string                          `xml:"LaunchConfigurationName,omitempty"`
	LaunchTemplate          *ASGLaunchTemplateSpecification `xml:"LaunchTemplate,omitempty"`
	ProtectedFromScaleIn    *bool                           `xml:"ProtectedFromScaleIn,omitempty"`
}

type ASGSuspendedProcess struct {
	ProcessName      string `xml:"ProcessName,omitempty"`
	SuspensionReason string `xml:"SuspensionReason,omitempty"`
}

type ASGTagDescription struct {
	ResourceId        string `xml:"ResourceId,omitempty"`
	ResourceType      string `xml:"ResourceType,omitempty"`
	Key               string `xml:"Key,omitempty"`
	Value             string `xml:"Value,omitempty"`
	PropagateAtLaunch *bool  `xml:"PropagateAtLaunch,omitempty"`
}

type ASGDescribeAutoScalingInstancesType struct {
	InstanceIds []string `in:"InstanceIds.member"`
	MaxRecords  *int64   `in:"MaxRecords"`
	NextToken   string   `in:"NextToken"`
}

type ASGAutoScalingInstancesType struct {
	AutoScalingInstances []ASGAutoScalingInstanceDetails `xml:"AutoScalingInstances>member,omitempty"`
	NextToken            string                          `xml:"NextToken,omitempty"`
}

type ASGAutoScalingInstanceDetails struct {
	InstanceId           string                          `xml:"InstanceId,omitempty"`
	InstanceType         string                          `xml:"InstanceType,omitempty"`
	AutoScalingGroupName string                          `xml:"AutoScalingGroupName,omitempty"`
	AvailabilityZone     string                          `xml:"AvailabilityZone,omitempty"`
	LifecycleState       string                          `xml:"LifecycleState,omitempty"`
	HealthStatus         string                          `xml:"HealthStatus,omitempty"`
	LaunchTemplate       *ASGLaunchTemplateSpecification `xml:"LaunchTemplate,omitempty"`
	ProtectedFromScaleIn *bool                           `xml:"ProtectedFromScaleIn,omitempty"`
}

type ASGSetDesiredCapacityType struct {
	AutoScalingGroupName string `in:"AutoScalingGroupName"`
	DesiredCapacity      *int64 `in:"DesiredCapacity"`
	HonorCooldown        *bool  `in:"HonorCooldown"`
}

type ASGUpdateAutoScalingGroupType struct {
	AutoScalingGroupName             string `in:"AutoScalingGroupName"`
	MinSize                          *int64 `in:"MinSize"`
	MaxSize                          *int64 `in:"MaxSize"`
	DesiredCapacity                  *int64 `in:"DesiredCapacity"`
	NewInstancesProtectedFromScaleIn *bool  `in:"NewInstancesProtectedFromScaleIn"`
}

type ASGTerminateInstanceInAutoScalingGroupType struct {
	InstanceId                     string `in:"InstanceId"`
	ShouldDecrementDesiredCapacity *bool  `in:"ShouldDecrementDesiredCapacity"`
}

type ASGActivityType struct {
	Activity *ASGActivity `xml:"Activity,omitempty"`
}

type ASGActivity struct {
	ActivityId            string     `xml:"ActivityId,omitempty"`
	AutoScalingGroupName  string     `xml:"AutoScalingGroupName,omitempty"`
	Description           string     `xml:"Description,omitempty"`
	Cause                 string     `xml:"Cause,omitempty"`
	StartTime             *time.Time `xml:"StartTime,omitempty"`
	EndTime               *time.Time `xml:"EndTime,omitempty"`
	StatusCode            string     `xml:"StatusCode,omitempty"`
	StatusMessage         string     `xml:"StatusMessage,omitempty"`
	Progress              *int64     `xml:"Progress,omitempty"`
	Details               string     `xml:"Details,omitempty"`
	AutoScalingGroupState string     `xml:"AutoScalingGroupState,omitempty"`
	AutoScalingGroupARN   string     `xml:"AutoScalingGroupARN,omitempty"`
}

type ASGSetInstanceProtectionQuery struct {
	InstanceIds          []string `in:"InstanceIds.member"`
	AutoScalingGroupName string   `in:"AutoScalingGroupName"`
	ProtectedFromScaleIn *bool    `in:"ProtectedFromScaleIn"`
}

type ASGSetInstanceProtectionAnswer struct {
}

type ASGDescribeScalingActivitiesType struct {
	ActivityIds          []string `in:"ActivityIds.member"`
	AutoScalingGroupName string   `in:"AutoScalingGroupName"`
	IncludeDeletedGroups *bool    `in:"IncludeDeletedGroups"`
	MaxRecords           *int64   `in:"MaxRecords"`
	NextToken            string   `in:"NextToken"`
}

type ASGActivitiesType struct {
	Activities []ASGActivity `xml:"Activities>member,omitempty"`
	NextToken  string        `xml:"NextToken,omitempty"`
}

type ASGLaunchConfigurationNamesType struct {
	LaunchConfigurationNames []string `in:"LaunchConfigurationNames.member"`
	NextToken                string   `in:"NextToken"`
	MaxRecords               *int64   `in:"MaxRecords"`
}

type ASGLaunchConfigurationsType struct {
	LaunchConfigurations []ASGLaunchConfiguration `xml:"LaunchConfigurations>member,omitempty"`
	NextToken            string                   `xml:"NextToken,omitempty"`
}

type ASGLaunchConfiguration struct {
	LaunchConfigurationName string     `xml:"LaunchConfigurationName,omitempty"`
	LaunchConfigurationARN  string     `xml:"LaunchConfigurationARN,omitempty"`
	ImageId                 string     `xml:"ImageId,omitempty"`
	SecurityGroups          []string   `xml:"SecurityGroups>member,omitempty"`
	UserData                string     `xml:"UserData,omitempty"`
	InstanceType            string     `xml:"InstanceType,omitempty"`
	SpotPrice               string     `xml:"SpotPrice,omitempty"`
	IamInstanceProfile      string     `xml:"IamInstanceProfile,omitempty"`
	CreatedTime             *time.Time `xml:"CreatedTime,omitempty"`
	EbsOptimized            *bool      `xml:"EbsOptimized,omitempty"`
}

type ASGDescribeInstanceRefreshesType struct {
	AutoScalingGroupName string   `in:"AutoScalingGroupName"`
	InstanceRefreshIds   []string `in:"InstanceRefreshIds.member"`
	NextToken            string   `in:"NextToken"`
	MaxRecords           *int64   `in:"MaxRecords"`
}

type ASGDescribeInstanceRefreshesAnswer struct {
	InstanceRefreshes []ASGInstanceRefresh `xml:"InstanceRefreshes>member,omitempty"`
	NextToken         string               `xml:"NextToken,omitempty"`
}

type ASGInstanceRefresh struct {
	InstanceRefreshId    string     `xml:"InstanceRefreshId,omitempty"`
	AutoScalingGroupName string     `xml:"AutoScalingGroupName,omitempty"`
	Status               string     `xml:"Status,omitempty"`
	StatusReason         string     `xml:"StatusReason,omitempty"`
	StartTime            *time.Time `xml:"StartTime,omitempty"`
	EndTime              *time.Time `xml:"EndTime,omitempty"`
	PercentageComplete   *int64     `xml:"PercentageComplete,omitempty"`
	InstancesToUpdate    *int64     `xml:"InstancesToUpdate,omitempty"`
}

type ASGTag struct {
	ResourceId        string `in:"ResourceId"`
	ResourceType      string `in:"ResourceType"`
	Key               string `in:"Key"`
	Value             string `in:"Value"`
	PropagateAtLaunch *bool  `in:"PropagateAtLaunch"`
}

type ASGCreateOrUpdateTagsType struct {
	Tags []ASGTag `in:"Tags.member"`
}

type ASGDeleteTagsType struct {
	Tags []ASGTag `in:"Tags.member"`
}

type ASGDescribeTagsType struct {
	Filters    []ASGFilter `in:"Filters.member"`
	NextToken  string      `in:"NextToken"`
	MaxRecords *int64      `in:"MaxRecords"`
}

type ASGTagsType struct {
	Tags      []ASGTagDescription `xml:"Tags>member,omitempty"`
	NextToken string              `xml:"NextToken,omitempty"`
}

type ASGDescribeAccountLimitsAnswer struct {
	MaxNumberOfAutoScalingGroups    *int64 `xml:"MaxNumberOfAutoScalingGroups,omitempty"`
	MaxNumberOfLaunchConfigurations *int64 `xml:"MaxNumberOfLaunchConfigurations,omitempty"`
	NumberOfAutoScalingGroups       *int64 `xml:"NumberOfAutoScalingGroups,omitempty"`
	NumberOfLaunchConfigurations    *int64 `xml:"NumberOfLaunchConfigurations,omitempty"`
}

type ASGDescribePoliciesType struct {
	AutoScalingGroupName string   `in:"AutoScalingGroupName"`
	PolicyNames          []string `in:"PolicyNames.member"`
	PolicyTypes          []string `in:"PolicyTypes.member"`
	NextToken            string   `in:"NextToken"`
	MaxRecords           *int64   `in:"MaxRecords"`
}

type ASGPoliciesType struct {
	ScalingPolicies []ASGScalingPolicy `xml:"ScalingPolicies>member,omitempty"`
	NextToken       string             `xml:"NextToken,omitempty"`
}

type ASGScalingPolicy struct {
	AutoScalingGroupName string `xml:"AutoScalingGroupName,omitempty"`
	PolicyName           string `xml:"PolicyName,omitempty"`
	PolicyARN            string `xml:"PolicyARN,omitempty"`
	PolicyType           string `xml:"PolicyType,omitempty"`
}

type ASGDescribeWarmPoolType struct {
	AutoScalingGroupName string `in:"AutoScalingGroupName"`
	MaxRecords           *int64 `in:"MaxRecords"`
	NextToken            string `in:"NextToken"`
}

type ASGDescribeWarmPoolAnswer struct {
	Instances []ASGInstance `xml:"Instances>member,omitempty"`
	NextToken string        `xml:"NextToken,omitempty"`
}

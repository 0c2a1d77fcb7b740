// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import "time"

// The shapes of Auto Scaling, version 2011-01-01: of every call served, the members read and written. A type is named as its shape in the
// service model, a field as its member; test/awsmodels holds names and tags against that model.

type asgAutoScalingGroupNamesType struct {
	AutoScalingGroupNames []string    `in:"AutoScalingGroupNames.member"`
	NextToken             string      `in:"NextToken"`
	MaxRecords            *int64      `in:"MaxRecords"`
	Filters               []asgFilter `in:"Filters.member"`
}

type asgFilter struct {
	Name   string   `in:"Name"`
	Values []string `in:"Values.member"`
}

type asgAutoScalingGroupsType struct {
	AutoScalingGroups []asgAutoScalingGroup `xml:"AutoScalingGroups>member,omitempty"`
	NextToken         string                `xml:"NextToken,omitempty"`
}

type asgAutoScalingGroup struct {
	AutoScalingGroupName             string                          `xml:"AutoScalingGroupName,omitempty"`
	AutoScalingGroupARN              string                          `xml:"AutoScalingGroupARN,omitempty"`
	LaunchConfigurationName          string                          `xml:"LaunchConfigurationName,omitempty"`
	LaunchTemplate                   *asgLaunchTemplateSpecification `xml:"LaunchTemplate,omitempty"`
	MixedInstancesPolicy             *asgMixedInstancesPolicy        `xml:"MixedInstancesPolicy,omitempty"`
	MinSize                          *int64                          `xml:"MinSize,omitempty"`
	MaxSize                          *int64                          `xml:"MaxSize,omitempty"`
	DesiredCapacity                  *int64                          `xml:"DesiredCapacity,omitempty"`
	DefaultCooldown                  *int64                          `xml:"DefaultCooldown,omitempty"`
	AvailabilityZones                []string                        `xml:"AvailabilityZones>member,omitempty"`
	HealthCheckType                  string                          `xml:"HealthCheckType,omitempty"`
	HealthCheckGracePeriod           *int64                          `xml:"HealthCheckGracePeriod,omitempty"`
	Instances                        []asgInstance                   `xml:"Instances>member,omitempty"`
	CreatedTime                      *time.Time                      `xml:"CreatedTime,omitempty"`
	SuspendedProcesses               []asgSuspendedProcess           `xml:"SuspendedProcesses>member,omitempty"`
	VPCZoneIdentifier                string                          `xml:"VPCZoneIdentifier,omitempty"`
	Status                           string                          `xml:"Status,omitempty"`
	Tags                             []asgTagDescription             `xml:"Tags>member,omitempty"`
	TerminationPolicies              []string                        `xml:"TerminationPolicies>member,omitempty"`
	NewInstancesProtectedFromScaleIn *bool                           `xml:"NewInstancesProtectedFromScaleIn,omitempty"`
	ServiceLinkedRoleARN             string                          `xml:"ServiceLinkedRoleARN,omitempty"`
	CapacityRebalance                *bool                           `xml:"CapacityRebalance,omitempty"`
}

type asgLaunchTemplateSpecification struct {
	LaunchTemplateId   string `xml:"LaunchTemplateId,omitempty"`
	LaunchTemplateName string `xml:"LaunchTemplateName,omitempty"`
	Version            string `xml:"Version,omitempty"`
}

type asgMixedInstancesPolicy struct {
	LaunchTemplate        *asgLaunchTemplate        `xml:"LaunchTemplate,omitempty"`
	InstancesDistribution *asgInstancesDistribution `xml:"InstancesDistribution,omitempty"`
}

type asgLaunchTemplate struct {
	LaunchTemplateSpecification *asgLaunchTemplateSpecification `xml:"LaunchTemplateSpecification,omitempty"`
	Overrides                   []asgLaunchTemplateOverrides    `xml:"Overrides>member,omitempty"`
}

type asgLaunchTemplateOverrides struct {
	InstanceType                string                          `xml:"InstanceType,omitempty"`
	WeightedCapacity            string                          `xml:"WeightedCapacity,omitempty"`
	LaunchTemplateSpecification *asgLaunchTemplateSpecification `xml:"LaunchTemplateSpecification,omitempty"`
	InstanceRequirements        *asgInstanceRequirements        `xml:"InstanceRequirements,omitempty"`
}

type asgInstanceRequirements struct {
	VCpuCount             *asgVCpuCountRequest `xml:"VCpuCount,omitempty"`
	MemoryMiB             *asgMemoryMiBRequest `xml:"MemoryMiB,omitempty"`
	CpuManufacturers      []string             `xml:"CpuManufacturers>member,omitempty"`
	ExcludedInstanceTypes []string             `xml:"ExcludedInstanceTypes>member,omitempty"`
	AllowedInstanceTypes  []string             `xml:"AllowedInstanceTypes>member,omitempty"`
	BareMetal             string               `xml:"BareMetal,omitempty"`
	BurstablePerformance  string               `xml:"BurstablePerformance,omitempty"`
}

type asgVCpuCountRequest struct {
	Min *int64 `xml:"Min,omitempty"`
	Max *int64 `xml:"Max,omitempty"`
}

type asgMemoryMiBRequest struct {
	Min *int64 `xml:"Min,omitempty"`
	Max *int64 `xml:"Max,omitempty"`
}

type asgInstancesDistribution struct {
	OnDemandAllocationStrategy          string `xml:"OnDemandAllocationStrategy,omitempty"`
	OnDemandBaseCapacity                *int64 `xml:"OnDemandBaseCapacity,omitempty"`
	OnDemandPercentageAboveBaseCapacity *int64 `xml:"OnDemandPercentageAboveBaseCapacity,omitempty"`
	SpotAllocationStrategy              string `xml:"SpotAllocationStrategy,omitempty"`
	SpotInstancePools                   *int64 `xml:"SpotInstancePools,omitempty"`
	SpotMaxPrice                        string `xml:"SpotMaxPrice,omitempty"`
}

type asgInstance struct {
	InstanceId              string                          `xml:"InstanceId,omitempty"`
	InstanceType            string                          `xml:"InstanceType,omitempty"`
	AvailabilityZone        string                          `xml:"AvailabilityZone,omitempty"`
	LifecycleState          string                          `xml:"LifecycleState,omitempty"`
	HealthStatus            string                          `xml:"HealthStatus,omitempty"`
	LaunchConfigurationName string                          `xml:"LaunchConfigurationName,omitempty"`
	LaunchTemplate          *asgLaunchTemplateSpecification `xml:"LaunchTemplate,omitempty"`
	ProtectedFromScaleIn    *bool                           `xml:"ProtectedFromScaleIn,omitempty"`
}

type asgSuspendedProcess struct {
	ProcessName      string `xml:"ProcessName,omitempty"`
	SuspensionReason string `xml:"SuspensionReason,omitempty"`
}

type asgTagDescription struct {
	ResourceId        string `xml:"ResourceId,omitempty"`
	ResourceType      string `xml:"ResourceType,omitempty"`
	Key               string `xml:"Key,omitempty"`
	Value             string `xml:"Value,omitempty"`
	PropagateAtLaunch *bool  `xml:"PropagateAtLaunch,omitempty"`
}

type asgDescribeAutoScalingInstancesType struct {
	InstanceIds []string `in:"InstanceIds.member"`
	MaxRecords  *int64   `in:"MaxRecords"`
	NextToken   string   `in:"NextToken"`
}

type asgAutoScalingInstancesType struct {
	AutoScalingInstances []asgAutoScalingInstanceDetails `xml:"AutoScalingInstances>member,omitempty"`
	NextToken            string                          `xml:"NextToken,omitempty"`
}

type asgAutoScalingInstanceDetails struct {
	InstanceId           string                          `xml:"InstanceId,omitempty"`
	InstanceType         string                          `xml:"InstanceType,omitempty"`
	AutoScalingGroupName string                          `xml:"AutoScalingGroupName,omitempty"`
	AvailabilityZone     string                          `xml:"AvailabilityZone,omitempty"`
	LifecycleState       string                          `xml:"LifecycleState,omitempty"`
	HealthStatus         string                          `xml:"HealthStatus,omitempty"`
	LaunchTemplate       *asgLaunchTemplateSpecification `xml:"LaunchTemplate,omitempty"`
	ProtectedFromScaleIn *bool                           `xml:"ProtectedFromScaleIn,omitempty"`
}

type asgSetDesiredCapacityType struct {
	AutoScalingGroupName string `in:"AutoScalingGroupName"`
	DesiredCapacity      *int64 `in:"DesiredCapacity"`
	HonorCooldown        *bool  `in:"HonorCooldown"`
}

type asgUpdateAutoScalingGroupType struct {
	AutoScalingGroupName             string `in:"AutoScalingGroupName"`
	MinSize                          *int64 `in:"MinSize"`
	MaxSize                          *int64 `in:"MaxSize"`
	DesiredCapacity                  *int64 `in:"DesiredCapacity"`
	NewInstancesProtectedFromScaleIn *bool  `in:"NewInstancesProtectedFromScaleIn"`
}

type asgTerminateInstanceInAutoScalingGroupType struct {
	InstanceId                     string `in:"InstanceId"`
	ShouldDecrementDesiredCapacity *bool  `in:"ShouldDecrementDesiredCapacity"`
}

type asgActivityType struct {
	Activity *asgActivity `xml:"Activity,omitempty"`
}

type asgActivity struct {
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

type asgSetInstanceProtectionQuery struct {
	InstanceIds          []string `in:"InstanceIds.member"`
	AutoScalingGroupName string   `in:"AutoScalingGroupName"`
	ProtectedFromScaleIn *bool    `in:"ProtectedFromScaleIn"`
}

type asgSetInstanceProtectionAnswer struct {
}

type asgDescribeScalingActivitiesType struct {
	ActivityIds          []string `in:"ActivityIds.member"`
	AutoScalingGroupName string   `in:"AutoScalingGroupName"`
	IncludeDeletedGroups *bool    `in:"IncludeDeletedGroups"`
	MaxRecords           *int64   `in:"MaxRecords"`
	NextToken            string   `in:"NextToken"`
}

type asgActivitiesType struct {
	Activities []asgActivity `xml:"Activities>member,omitempty"`
	NextToken  string        `xml:"NextToken,omitempty"`
}

type asgLaunchConfigurationNamesType struct {
	LaunchConfigurationNames []string `in:"LaunchConfigurationNames.member"`
	NextToken                string   `in:"NextToken"`
	MaxRecords               *int64   `in:"MaxRecords"`
}

type asgLaunchConfigurationsType struct {
	LaunchConfigurations []asgLaunchConfiguration `xml:"LaunchConfigurations>member,omitempty"`
	NextToken            string                   `xml:"NextToken,omitempty"`
}

type asgLaunchConfiguration struct {
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

type asgDescribeInstanceRefreshesType struct {
	AutoScalingGroupName string   `in:"AutoScalingGroupName"`
	InstanceRefreshIds   []string `in:"InstanceRefreshIds.member"`
	NextToken            string   `in:"NextToken"`
	MaxRecords           *int64   `in:"MaxRecords"`
}

type asgDescribeInstanceRefreshesAnswer struct {
	InstanceRefreshes []asgInstanceRefresh `xml:"InstanceRefreshes>member,omitempty"`
	NextToken         string               `xml:"NextToken,omitempty"`
}

type asgInstanceRefresh struct {
	InstanceRefreshId    string     `xml:"InstanceRefreshId,omitempty"`
	AutoScalingGroupName string     `xml:"AutoScalingGroupName,omitempty"`
	Status               string     `xml:"Status,omitempty"`
	StatusReason         string     `xml:"StatusReason,omitempty"`
	StartTime            *time.Time `xml:"StartTime,omitempty"`
	EndTime              *time.Time `xml:"EndTime,omitempty"`
	PercentageComplete   *int64     `xml:"PercentageComplete,omitempty"`
	InstancesToUpdate    *int64     `xml:"InstancesToUpdate,omitempty"`
}

type asgDescribeTagsType struct {
	Filters    []asgFilter `in:"Filters.member"`
	NextToken  string      `in:"NextToken"`
	MaxRecords *int64      `in:"MaxRecords"`
}

type asgTagsType struct {
	Tags      []asgTagDescription `xml:"Tags>member,omitempty"`
	NextToken string              `xml:"NextToken,omitempty"`
}

type asgDescribeAccountLimitsAnswer struct {
	MaxNumberOfAutoScalingGroups    *int64 `xml:"MaxNumberOfAutoScalingGroups,omitempty"`
	MaxNumberOfLaunchConfigurations *int64 `xml:"MaxNumberOfLaunchConfigurations,omitempty"`
	NumberOfAutoScalingGroups       *int64 `xml:"NumberOfAutoScalingGroups,omitempty"`
	NumberOfLaunchConfigurations    *int64 `xml:"NumberOfLaunchConfigurations,omitempty"`
}

type asgDescribePoliciesType struct {
	AutoScalingGroupName string   `in:"AutoScalingGroupName"`
	PolicyNames          []string `in:"PolicyNames.member"`
	PolicyTypes          []string `in:"PolicyTypes.member"`
	NextToken            string   `in:"NextToken"`
	MaxRecords           *int64   `in:"MaxRecords"`
}

type asgPoliciesType struct {
	ScalingPolicies []asgScalingPolicy `xml:"ScalingPolicies>member,omitempty"`
	NextToken       string             `xml:"NextToken,omitempty"`
}

type asgScalingPolicy struct {
	AutoScalingGroupName string `xml:"AutoScalingGroupName,omitempty"`
	PolicyName           string `xml:"PolicyName,omitempty"`
	PolicyARN            string `xml:"PolicyARN,omitempty"`
	PolicyType           string `xml:"PolicyType,omitempty"`
}

type asgDescribeWarmPoolType struct {
	AutoScalingGroupName string `in:"AutoScalingGroupName"`
	MaxRecords           *int64 `in:"MaxRecords"`
	NextToken            string `in:"NextToken"`
}

type asgDescribeWarmPoolAnswer struct {
	Instances []asgInstance `xml:"Instances>member,omitempty"`
	NextToken string        `xml:"NextToken,omitempty"`
}

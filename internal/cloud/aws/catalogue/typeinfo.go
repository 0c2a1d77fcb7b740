// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package catalogue

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Units of memory and storage, in bytes.
const (
	MiB = int64(1) << 20
	GiB = int64(1) << 30
)

// TypeInfo are the properties of an EC2 instance type that are used.
type TypeInfo struct {
	Name              string
	Arch              string // amd64 or arm64
	Labels            model.Labels
	CPUs              int64
	MemoryMiB         int64
	LocalGB           int64 // total size of local NVMe disks
	Disks             int64 // number of local NVMe disks
	Attachments       int64 // EBS volumes that can be attached, including the root volume; 0: not published
	SharedAttachments bool  // network interfaces and local disks count toward Attachments
	ENIs              int64 // network interfaces of the first network card
	Addresses         int64 // addresses per interface
	ExtendedResources map[string]int64
	Enclaves          bool

	NestedVirtualization bool
	PlacementStrategies  []string // placement group strategies that it supports; empty: not published
	CardInterfaces       []int64  // maximum number of network interfaces of each network card, by card index; empty: not published

	Spot     bool
	OnDemand bool
}

// readTypeInfo reads EC2's description of a type; nil for a type that no Linux or Windows node can be of.
func readTypeInfo(in *types.InstanceTypeInfo, region string) *TypeInfo {
	t := &TypeInfo{Name: string(in.InstanceType), ExtendedResources: map[string]int64{}}
	if in.ProcessorInfo == nil || in.VCpuInfo == nil || in.MemoryInfo == nil || strings.HasPrefix(t.Name, "mac") {
		return nil
	}
	for _, a := range in.ProcessorInfo.SupportedArchitectures {
		switch a {
		case types.ArchitectureTypeX8664:
			t.Arch = "amd64"
		case types.ArchitectureTypeArm64:
			t.Arch = "arm64"
		}
	}
	if t.Arch == "" || len(in.SupportedVirtualizationTypes) > 0 && !slices.Contains(in.SupportedVirtualizationTypes, types.VirtualizationTypeHvm) {
		return nil
	}
	t.CPUs, t.MemoryMiB = int64(awsapi.Deref(in.VCpuInfo.DefaultVCpus)), awsapi.Deref(in.MemoryInfo.SizeInMiB)
	t.Enclaves = in.NitroEnclavesSupport == types.NitroEnclavesSupportSupported
	t.NestedVirtualization = slices.Contains(in.ProcessorInfo.SupportedFeatures, types.SupportedAdditionalProcessorFeatureNestedVirtualization)
	if p := in.PlacementGroupInfo; p != nil {
		for _, s := range p.SupportedStrategies {
			t.PlacementStrategies = append(t.PlacementStrategies, string(s))
		}
	}
	for _, u := range in.SupportedUsageClasses {
		t.Spot = t.Spot || u == types.UsageClassTypeSpot
		t.OnDemand = t.OnDemand || u == types.UsageClassTypeOnDemand
	}
	family, size, _ := strings.Cut(t.Name, ".")
	letters := strings.IndexFunc(family, func(r rune) bool { return r < 'a' || r > 'z' })
	category, rest := family, ""
	if letters >= 0 {
		category, rest = family[:letters], family[letters:]
	}
	if i := strings.Index(rest, "tb"); strings.HasPrefix(rest, "-") && i > 0 { // u-6tb1: terabytes, then the generation
		rest = rest[i+2:]
	}
	generation := rest
	if i := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		generation = rest[:i]
	}
	l := model.Labels{
		model.LabelInstanceType: t.Name, model.LabelArch: t.Arch, model.LabelRegion: region,
		awsv1.LabelInstanceCategory: category, awsv1.LabelInstanceFamily: family, awsv1.LabelInstanceSize: size,
		awsv1.LabelInstanceCPU: formatInt(t.CPUs), awsv1.LabelInstanceMemory: formatInt(t.MemoryMiB),
		awsv1.LabelInstanceHypervisor:     string(in.Hypervisor),
		awsv1.LabelInstanceCapabilityFlex: strconv.FormatBool(strings.HasSuffix(family, "-flex")),
	}
	if generation != "" {
		l[awsv1.LabelInstanceGeneration] = generation
	}
	if m := labelValue(in.ProcessorInfo.Manufacturer); m != "" {
		l[awsv1.LabelInstanceCPUManufacturer] = m
	}
	// Of old machines EC2 doesn't say; the label is 0 then, as published.
	l[awsv1.LabelInstanceCPUSustainedClockSpeedMhz] = formatInt(int64(math.Round(awsapi.Deref(in.ProcessorInfo.SustainedClockSpeedInGhz) * 1000)))
	if s := in.InstanceStorageInfo; s != nil && s.NvmeSupport != types.EphemeralNvmeSupportUnsupported && awsapi.Deref(s.TotalSizeInGB) > 0 {
		t.LocalGB = awsapi.Deref(s.TotalSizeInGB)
		l[awsv1.LabelInstanceLocalNVMe] = formatInt(t.LocalGB)
	}
	if in.EbsInfo != nil && in.EbsInfo.EbsOptimizedInfo != nil && in.EbsInfo.EbsOptimizedSupport == types.EbsOptimizedSupportDefault {
		l[awsv1.LabelInstanceEBSBandwidth] = formatInt(int64(awsapi.Deref(in.EbsInfo.EbsOptimizedInfo.MaximumBandwidthInMbps)))
	}
	t.readAttachments(in)
	t.readNetwork(in.NetworkInfo, l)
	t.readAccelerators(in, l)
	t.Labels = l
	return t
}

// readAttachments reads how many EBS volumes a machine takes.
func (t *TypeInfo) readAttachments(in *types.InstanceTypeInfo) {
	if s := in.InstanceStorageInfo; s != nil && s.NvmeSupport != types.EphemeralNvmeSupportUnsupported {
		for _, d := range s.Disks {
			t.Disks += int64(awsapi.Deref(d.Count))
		}
	}
	if e := in.EbsInfo; e != nil && e.MaximumEbsAttachments != nil {
		t.Attachments, t.SharedAttachments = int64(*e.MaximumEbsAttachments), e.AttachmentLimitType == types.AttachmentLimitTypeShared
	}
	if in.Hypervisor == types.InstanceTypeHypervisorXen {
		t.Attachments, t.SharedAttachments = xenAttachments, false
	}
}

// Numbers of EBS volumes per machine for types without published limits; see "Amazon EBS volume limits for Amazon EC2
// instances" in the EC2 User Guide, docs.aws.amazon.com/ebs/latest/userguide/volume_limits.html.
const (
	xenAttachments   = 40 // of the types before Nitro, the root volume included
	nitroAttachments = 28 // of the others, network interfaces and local disks included
)

// EBSVolumes returns the number of pod volumes that fit on a machine in addition to its boot volumes: the value that the
// EBS CSI driver will report. The driver counts the interfaces attached when it starts; the second one usually is by
// then.
func (t *TypeInfo) EBSVolumes(booted int64) int64 {
	n, shared := t.Attachments, t.SharedAttachments
	if n == 0 {
		n, shared = nitroAttachments, true
	}
	n -= booted
	if shared {
		n -= min(2, max(1, t.ENIs)) + t.Disks
	}
	return max(1, n)
}

// readNetwork reads how many interfaces and addresses a type has, and adds the labels of its network to l.
func (t *TypeInfo) readNetwork(in *types.NetworkInfo, l model.Labels) {
	l[awsv1.LabelInstanceEncryptionInTransitSupported] = "false"
	if in == nil {
		return
	}
	l[awsv1.LabelInstanceEncryptionInTransitSupported] = strconv.FormatBool(awsapi.Deref(in.EncryptionInTransitSupported))
	t.ENIs, t.Addresses = int64(awsapi.Deref(in.MaximumNetworkInterfaces)), int64(awsapi.Deref(in.Ipv4AddressesPerInterface))
	baseline := 0.0
	for _, c := range in.NetworkCards {
		if at := int(awsapi.Deref(c.NetworkCardIndex)); c.MaximumNetworkInterfaces != nil && at == len(t.CardInterfaces) { // EC2 lists them by index
			t.CardInterfaces = append(t.CardInterfaces, int64(*c.MaximumNetworkInterfaces))
		}
		baseline += awsapi.Deref(c.BaselineBandwidthInGbps)
		if in.DefaultNetworkCardIndex != nil && awsapi.Deref(c.NetworkCardIndex) == *in.DefaultNetworkCardIndex && c.MaximumNetworkInterfaces != nil {
			t.ENIs = int64(*c.MaximumNetworkInterfaces)
		}
	}
	if baseline > 0 {
		l[awsv1.LabelInstanceNetworkBandwidth] = formatInt(int64(math.Round(baseline * 1000)))
	}
	if in.EfaInfo != nil && awsapi.Deref(in.EfaInfo.MaximumEfaInterfaces) > 0 {
		t.ExtendedResources[ResourceEFA] = int64(*in.EfaInfo.MaximumEfaInterfaces)
	}
}

// Extended resources of EC2 instances.
const (
	ResourceEFA        = "vpc.amazonaws.com/efa"
	resourcePodENI     = "vpc.amazonaws.com/pod-eni"
	ResourceNVIDIA     = "nvidia.com/gpu"
	resourceAMD        = "amd.com/gpu"
	resourceNeuron     = "aws.amazon.com/neuron"
	resourceNeuronCore = "aws.amazon.com/neuroncore"
	resourceGaudi      = "habana.ai/gaudi"

	// ResourcePrivateIPv4Address is requested by pods on Windows nodes: the VPC resource controller assigns each of them
	// an address of the node's only interface.
	ResourcePrivateIPv4Address = "vpc.amazonaws.com/PrivateIPv4Address"
)

// readAccelerators reads a type's GPUs and accelerators into its extended resources, and adds their labels to l.
func (t *TypeInfo) readAccelerators(in *types.InstanceTypeInfo, l model.Labels) {
	if in.GpuInfo != nil && len(in.GpuInfo.Gpus) == 1 {
		g := in.GpuInfo.Gpus[0]
		count := int64(awsapi.Deref(g.Count))
		l[awsv1.LabelInstanceGPUName], l[awsv1.LabelInstanceGPUManufacturer] = labelValue(g.Name), labelValue(g.Manufacturer)
		l[awsv1.LabelInstanceGPUCount] = formatInt(count)
		if g.MemoryInfo != nil {
			l[awsv1.LabelInstanceGPUMemory] = formatInt(int64(awsapi.Deref(g.MemoryInfo.SizeInMiB)))
		}
		switch labelValue(g.Manufacturer) {
		case "nvidia":
			t.ExtendedResources[ResourceNVIDIA] = count
		case "amd":
			t.ExtendedResources[resourceAMD] = count
		case "habana":
			t.ExtendedResources[resourceGaudi] = count
		}
	}
	if in.NeuronInfo != nil && len(in.NeuronInfo.NeuronDevices) == 1 {
		d := in.NeuronInfo.NeuronDevices[0]
		count := int64(awsapi.Deref(d.Count))
		l[awsv1.LabelInstanceAcceleratorName], l[awsv1.LabelInstanceAcceleratorManufacturer] = labelValue(d.Name), "aws"
		l[awsv1.LabelInstanceAcceleratorCount] = formatInt(count)
		t.ExtendedResources[resourceNeuron] = count
		if d.CoreInfo != nil && awsapi.Deref(d.CoreInfo.Count) > 0 {
			t.ExtendedResources[resourceNeuronCore] = count * int64(*d.CoreInfo.Count)
		}
	} else if a := in.InferenceAcceleratorInfo; a != nil && len(a.Accelerators) == 1 {
		d := a.Accelerators[0]
		l[awsv1.LabelInstanceAcceleratorName], l[awsv1.LabelInstanceAcceleratorManufacturer] = labelValue(d.Name), labelValue(d.Manufacturer)
		l[awsv1.LabelInstanceAcceleratorCount] = formatInt(int64(awsapi.Deref(d.Count)))
		if labelValue(d.Manufacturer) == "aws" {
			t.ExtendedResources[resourceNeuron] = int64(awsapi.Deref(d.Count))
		}
	}
}

// labelValue makes a label's value of a name: lower case, dashes for spaces.
func labelValue(s *string) string {
	return strings.ReplaceAll(strings.ToLower(awsapi.Deref(s)), " ", "-")
}

// formatInt writes a number as the value of a label.
func formatInt(n int64) string { return strconv.FormatInt(n, 10) }

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/model"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// typeInfo is what EC2 says of an instance type, as far as we use it.
type typeInfo struct {
	name              string
	arch              string // amd64 or arm64
	labels            model.Labels
	cpus              int64
	memoryMiB         int64
	localGB           int64 // local NVMe disks in sum
	enis              int64 // of the first network card
	addresses         int64 // an interface
	extendedResources map[string]int64
	enclaves          bool
	spot              bool
	onDemand          bool
}

// readTypeInfo reads EC2's description; nil for a machine that no Linux or Windows node can be.
func readTypeInfo(in *types.InstanceTypeInfo, region string) *typeInfo {
	t := &typeInfo{name: string(in.InstanceType), extendedResources: map[string]int64{}}
	if in.ProcessorInfo == nil || in.VCpuInfo == nil || in.MemoryInfo == nil || strings.HasPrefix(t.name, "mac") {
		return nil
	}
	for _, a := range in.ProcessorInfo.SupportedArchitectures {
		switch a {
		case types.ArchitectureTypeX8664:
			t.arch = "amd64"
		case types.ArchitectureTypeArm64:
			t.arch = "arm64"
		}
	}
	if t.arch == "" || len(in.SupportedVirtualizationTypes) > 0 && !slices.Contains(in.SupportedVirtualizationTypes, types.VirtualizationTypeHvm) {
		return nil
	}
	t.cpus, t.memoryMiB = int64(deref(in.VCpuInfo.DefaultVCpus)), deref(in.MemoryInfo.SizeInMiB)
	t.enclaves = in.NitroEnclavesSupport == types.NitroEnclavesSupportSupported
	for _, u := range in.SupportedUsageClasses {
		t.spot = t.spot || u == types.UsageClassTypeSpot
		t.onDemand = t.onDemand || u == types.UsageClassTypeOnDemand
	}
	family, size, _ := strings.Cut(t.name, ".")
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
		model.LabelInstanceType: t.name, model.LabelArch: t.arch, model.LabelRegion: region,
		awsv1.LabelInstanceCategory: category, awsv1.LabelInstanceFamily: family, awsv1.LabelInstanceSize: size,
		awsv1.LabelInstanceCPU: formatInt(t.cpus), awsv1.LabelInstanceMemory: formatInt(t.memoryMiB),
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
	l[awsv1.LabelInstanceCPUSustainedClockSpeedMhz] = formatInt(int64(math.Round(deref(in.ProcessorInfo.SustainedClockSpeedInGhz) * 1000)))
	if s := in.InstanceStorageInfo; s != nil && s.NvmeSupport != types.EphemeralNvmeSupportUnsupported && deref(s.TotalSizeInGB) > 0 {
		t.localGB = deref(s.TotalSizeInGB)
		l[awsv1.LabelInstanceLocalNVMe] = formatInt(t.localGB)
	}
	if in.EbsInfo != nil && in.EbsInfo.EbsOptimizedInfo != nil && in.EbsInfo.EbsOptimizedSupport == types.EbsOptimizedSupportDefault {
		l[awsv1.LabelInstanceEBSBandwidth] = formatInt(int64(deref(in.EbsInfo.EbsOptimizedInfo.MaximumBandwidthInMbps)))
	}
	t.readNetwork(in.NetworkInfo, l)
	t.readAccelerators(in, l)
	t.labels = l
	return t
}

func (t *typeInfo) readNetwork(in *types.NetworkInfo, l model.Labels) {
	l[awsv1.LabelInstanceEncryptionInTransitSupported] = "false"
	if in == nil {
		return
	}
	l[awsv1.LabelInstanceEncryptionInTransitSupported] = strconv.FormatBool(deref(in.EncryptionInTransitSupported))
	t.enis, t.addresses = int64(deref(in.MaximumNetworkInterfaces)), int64(deref(in.Ipv4AddressesPerInterface))
	baseline := 0.0
	for _, c := range in.NetworkCards {
		baseline += deref(c.BaselineBandwidthInGbps)
		if in.DefaultNetworkCardIndex != nil && deref(c.NetworkCardIndex) == *in.DefaultNetworkCardIndex && c.MaximumNetworkInterfaces != nil {
			t.enis = int64(*c.MaximumNetworkInterfaces)
		}
	}
	if baseline > 0 {
		l[awsv1.LabelInstanceNetworkBandwidth] = formatInt(int64(math.Round(baseline * 1000)))
	}
	if in.EfaInfo != nil && deref(in.EfaInfo.MaximumEfaInterfaces) > 0 {
		t.extendedResources[resourceEFA] = int64(*in.EfaInfo.MaximumEfaInterfaces)
	}
}

// Extended resources of EC2's machines.
const (
	resourceEFA        = "vpc.amazonaws.com/efa"
	resourcePodENI     = "vpc.amazonaws.com/pod-eni"
	resourceNVIDIA     = "nvidia.com/gpu"
	resourceAMD        = "amd.com/gpu"
	resourceNeuron     = "aws.amazon.com/neuron"
	resourceNeuronCore = "aws.amazon.com/neuroncore"
	resourceGaudi      = "habana.ai/gaudi"
)

func (t *typeInfo) readAccelerators(in *types.InstanceTypeInfo, l model.Labels) {
	if in.GpuInfo != nil && len(in.GpuInfo.Gpus) == 1 {
		g := in.GpuInfo.Gpus[0]
		count := int64(deref(g.Count))
		l[awsv1.LabelInstanceGPUName], l[awsv1.LabelInstanceGPUManufacturer] = labelValue(g.Name), labelValue(g.Manufacturer)
		l[awsv1.LabelInstanceGPUCount] = formatInt(count)
		if g.MemoryInfo != nil {
			l[awsv1.LabelInstanceGPUMemory] = formatInt(int64(deref(g.MemoryInfo.SizeInMiB)))
		}
		switch labelValue(g.Manufacturer) {
		case "nvidia":
			t.extendedResources[resourceNVIDIA] = count
		case "amd":
			t.extendedResources[resourceAMD] = count
		case "habana":
			t.extendedResources[resourceGaudi] = count
		}
	}
	if in.NeuronInfo != nil && len(in.NeuronInfo.NeuronDevices) == 1 {
		d := in.NeuronInfo.NeuronDevices[0]
		count := int64(deref(d.Count))
		l[awsv1.LabelInstanceAcceleratorName], l[awsv1.LabelInstanceAcceleratorManufacturer] = labelValue(d.Name), "aws"
		l[awsv1.LabelInstanceAcceleratorCount] = formatInt(count)
		t.extendedResources[resourceNeuron] = count
		if d.CoreInfo != nil && deref(d.CoreInfo.Count) > 0 {
			t.extendedResources[resourceNeuronCore] = count * int64(*d.CoreInfo.Count)
		}
	} else if a := in.InferenceAcceleratorInfo; a != nil && len(a.Accelerators) == 1 {
		d := a.Accelerators[0]
		l[awsv1.LabelInstanceAcceleratorName], l[awsv1.LabelInstanceAcceleratorManufacturer] = labelValue(d.Name), labelValue(d.Manufacturer)
		l[awsv1.LabelInstanceAcceleratorCount] = formatInt(int64(deref(d.Count)))
		if labelValue(d.Manufacturer) == "aws" {
			t.extendedResources[resourceNeuron] = int64(deref(d.Count))
		}
	}
}

// labelValue makes a label value of a name: lower case, dashes for spaces.
func labelValue(s *string) string {
	return strings.ReplaceAll(strings.ToLower(deref(s)), " ", "-")
}

func formatInt(n int64) string { return strconv.FormatInt(n, 10) }

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/shapes"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/wire"
	"github.com/dovetail-sh/dovetail/internal/cloud/catalog"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// interfaces are network interfaces and addresses of each by the pods that they allow, n×(addresses−1)+2: the catalog has the
// pods only. Where two pairs allow the same the more frequent one stands here.
var interfaces = map[int64][2]int64{
	4: {2, 2}, 8: {2, 4}, 10: {4, 3}, 11: {3, 4}, 12: {2, 6}, 17: {3, 6}, 18: {4, 5}, 20: {2, 10}, 29: {3, 10}, 35: {3, 12}, 38: {4, 10},
	40: {2, 20}, 44: {3, 15}, 58: {4, 15}, 59: {3, 20}, 78: {4, 20}, 89: {3, 30}, 100: {2, 50}, 118: {4, 30}, 158: {4, 40}, 176: {6, 30},
	198: {4, 50}, 234: {8, 30}, 247: {5, 50}, 254: {4, 64}, 292: {10, 30}, 314: {8, 40}, 321: {11, 30}, 345: {7, 50}, 350: {12, 30},
	392: {10, 40}, 394: {8, 50}, 437: {15, 30}, 492: {10, 50}, 506: {8, 64}, 590: {12, 50}, 632: {10, 64}, 737: {15, 50}, 758: {12, 64},
	786: {16, 50}, 1010: {16, 64}, 1178: {24, 50}, 1514: {24, 64},
}

// interfacesFor are interfaces and addresses of each for so many pods.
func interfacesFor(pods int64) (n, addresses int64) {
	if p, ok := interfaces[pods]; ok {
		return p[0], p[1]
	}
	return 1, max(pods-1, 1) // a catalog of somebody's own
}

// instanceTypes are the catalog's types as DescribeInstanceTypes has them.
func instanceTypes(c *catalog.Catalog) []shapes.EC2InstanceTypeInfo {
	out := make([]shapes.EC2InstanceTypeInfo, len(c.Types))
	for i := range c.Types {
		out[i] = instanceType(&c.Types[i])
	}
	return out
}

func instanceType(t *catalog.Type) shapes.EC2InstanceTypeInfo {
	label := func(key string) string { return t.Labels[catalog.EC2Labels+key] }
	number := func(key string) *int64 {
		n, err := strconv.ParseInt(label(key), 10, 64)
		if err != nil {
			return nil
		}
		return &n
	}
	arch := map[string]string{"amd64": "x86_64", "arm64": "arm64"}[t.Labels[model.LabelArch]]
	cpus := t.Capacity["cpu"] / 1000
	n, addresses := interfacesFor(t.Capacity["pods"])
	threads := int64(2)
	if cpus < 2 || label("instance-cpu-manufacturer") == "aws" {
		threads = 1
	}
	enclaves := "unsupported"
	if label("instance-hypervisor") == "nitro" && cpus/threads >= 2 && label("instance-category") != "t" {
		enclaves = "supported" // they take whole cores of the machine's; some families without them are not told apart here
	}
	info := shapes.EC2InstanceTypeInfo{
		InstanceType: t.Name, CurrentGeneration: new(true), SupportedRootDeviceTypes: []string{"ebs"}, SupportedVirtualizationTypes: []string{"hvm"},
		BareMetal: new(strings.Contains(t.Name, ".metal")), Hypervisor: label("instance-hypervisor"), NitroEnclavesSupport: enclaves,
		ProcessorInfo:            &shapes.EC2ProcessorInfo{SupportedArchitectures: []string{arch}, Manufacturer: manufacturer(label("instance-cpu-manufacturer"))},
		VCpuInfo:                 &shapes.EC2VCpuInfo{DefaultVCpus: new(cpus), DefaultCores: new(max(cpus/threads, 1)), DefaultThreadsPerCore: new(threads), ValidThreadsPerCore: []int64{1, 2}[:threads]},
		MemoryInfo:               &shapes.EC2MemoryInfo{SizeInMiB: new(t.Capacity["memory"] >> 20)},
		InstanceStorageSupported: new(label("instance-local-nvme") != ""),
		EbsInfo:                  &shapes.EC2EbsInfo{EbsOptimizedSupport: "default", EncryptionSupport: "supported", NvmeSupport: "required"},
		NetworkInfo: &shapes.EC2NetworkInfo{
			NetworkPerformance: "Moderate", DefaultNetworkCardIndex: new(int64(0)),
			Ipv4AddressesPerInterface: new(addresses), Ipv6AddressesPerInterface: new(addresses), Ipv6Supported: new(true), EnaSupport: "required",
			EfaSupported: new(false), EncryptionInTransitSupported: new(label("instance-encryption-in-transit-supported") == "true"),
		},
		BurstablePerformanceSupported: new(label("instance-category") == "t"), SupportedBootModes: []string{"legacy-bios", "uefi"},
	}
	if slices.Contains([]string{"c8i", "m8i", "r8i"}, label("instance-family")) {
		info.ProcessorInfo.SupportedFeatures = []string{"nested-virtualization"}
	}
	if arch == "arm64" {
		info.SupportedBootModes = []string{"uefi"}
	}
	for _, u := range []struct{ capacityType, class string }{{model.OnDemand, "on-demand"}, {model.Spot, "spot"}} {
		if slices.ContainsFunc(t.Offerings, func(o model.Offering) bool { return o.CapacityType == u.capacityType }) {
			info.SupportedUsageClasses = append(info.SupportedUsageClasses, u.class)
		}
	}
	if mhz := number("instance-cpu-sustained-clock-speed-mhz"); mhz != nil {
		info.ProcessorInfo.SustainedClockSpeedInGhz = new(float64(*mhz) / 1000)
	}
	if gb := number("instance-local-nvme"); gb != nil {
		disks := localDisks(label("instance-family"), *gb)
		info.InstanceStorageInfo = &shapes.EC2InstanceStorageInfo{TotalSizeInGB: gb, NvmeSupport: "required", EncryptionSupport: "required", Disks: []shapes.EC2DiskInfo{{SizeInGB: new(*gb / disks), Count: &disks, Type: "ssd"}}}
	}
	if mbps := number("instance-ebs-bandwidth"); mbps != nil {
		info.EbsInfo.EbsOptimizedInfo = &shapes.EC2EbsOptimizedInfo{BaselineBandwidthInMbps: mbps, MaximumBandwidthInMbps: mbps}
	}
	efa := t.Capacity["vpc.amazonaws.com/efa"]
	cards := max(1, efa) // each has one interface with EFA
	card := shapes.EC2NetworkCardInfo{MaximumNetworkInterfaces: new(n), NetworkPerformance: info.NetworkInfo.NetworkPerformance}
	if mbps := number("instance-network-bandwidth"); mbps != nil {
		performance := func(mbps float64) string { return strconv.FormatFloat(mbps/1000, 'f', -1, 64) + " Gigabit" }
		gbps := float64(*mbps) / 1000 / float64(cards)
		info.NetworkInfo.NetworkPerformance, card.NetworkPerformance = performance(float64(*mbps)), performance(gbps*1000)
		card.BaselineBandwidthInGbps, card.PeakBandwidthInGbps = &gbps, &gbps
	}
	info.NetworkInfo.MaximumNetworkCards, info.NetworkInfo.MaximumNetworkInterfaces = &cards, new(n*cards)
	for i := range cards {
		card.NetworkCardIndex = new(i)
		info.NetworkInfo.NetworkCards = append(info.NetworkInfo.NetworkCards, card)
	}
	if efa > 0 {
		info.NetworkInfo.EfaSupported, info.NetworkInfo.EfaInfo = new(true), &shapes.EC2EfaInfo{MaximumEfaInterfaces: &efa}
	}
	if count := number("instance-gpu-count"); count != nil {
		gpu := shapes.EC2GpuDeviceInfo{Name: strings.ToUpper(label("instance-gpu-name")), Manufacturer: manufacturer(label("instance-gpu-manufacturer")), Count: count}
		if mib := number("instance-gpu-memory"); mib != nil {
			gpu.MemoryInfo = &shapes.EC2GpuDeviceMemoryInfo{SizeInMiB: mib}
			info.GpuInfo = &shapes.EC2GpuInfo{TotalGpuMemoryInMiB: new(*mib * *count)}
		} else {
			info.GpuInfo = &shapes.EC2GpuInfo{}
		}
		info.GpuInfo.Gpus = []shapes.EC2GpuDeviceInfo{gpu}
	}
	if count := number("instance-accelerator-count"); count != nil {
		name := label("instance-accelerator-name")
		info.InferenceAcceleratorInfo = &shapes.EC2InferenceAcceleratorInfo{Accelerators: []shapes.EC2InferenceDeviceInfo{{Count: count, Name: capital(name), Manufacturer: "AWS"}}}
		cores := t.Capacity["aws.amazon.com/neuroncore"] / max(*count, 1)
		info.NeuronInfo = &shapes.EC2NeuronInfo{NeuronDevices: []shapes.EC2NeuronDeviceInfo{{Count: count, Name: capital(name), CoreInfo: &shapes.EC2NeuronDeviceCoreInfo{Count: &cores, Version: new(int64(2))}}}}
	}
	return info
}

// largestDisks are the largest local disks of families, in GB; of the others see localDisks.
var largestDisks = map[string]int64{"i3": 1900, "i3en": 7500, "im4gn": 7500, "is4gen": 7500, "i4i": 3750, "i4g": 3750, "p4d": 1000, "p4de": 1000, "g5": 3800}

// localDisks is how many equal disks a type of a family has that has so many GB of them in all: one, or an even number. The catalog has
// the sum only.
func localDisks(family string, totalGB int64) int64 {
	largest := largestDisks[family]
	switch {
	case largest > 0:
	case strings.HasPrefix(strings.TrimLeft(family, "abcdefghijklmnopqrstuvwxyz"), "5"):
		largest = 900
	case strings.HasPrefix(family, "i") || strings.HasPrefix(family, "p"):
		largest = 3840
	default:
		largest = 1900
	}
	n := (totalGB + largest - 1) / largest
	if n > 1 {
		n += n % 2
	}
	return max(n, 1)
}

func manufacturer(label string) string {
	switch label {
	case "aws", "amd":
		return strings.ToUpper(label)
	case "nvidia":
		return "NVIDIA"
	}
	return capital(label)
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func (t *tx) describeInstanceTypes(in *shapes.EC2DescribeInstanceTypesRequest) (*shapes.EC2DescribeInstanceTypesResult, error) {
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	for _, name := range in.InstanceTypes {
		if t.catalog.Find(name) == nil {
			return nil, wire.Refuse("InvalidInstanceType", "The following supplied instance types do not exist: [%s]", name)
		}
	}
	var all []shapes.EC2InstanceTypeInfo
	for _, info := range t.types {
		if len(in.InstanceTypes) > 0 && !slices.Contains(in.InstanceTypes, info.InstanceType) {
			continue
		}
		pass, err := filtered(in.Filters, nil, func(name string) ([]string, bool) {
			switch name {
			case "instance-type":
				return []string{info.InstanceType}, true
			case "supported-virtualization-type":
				return info.SupportedVirtualizationTypes, true
			case "processor-info.supported-architecture":
				return info.ProcessorInfo.SupportedArchitectures, true
			case "supported-usage-class":
				return info.SupportedUsageClasses, true
			case "supported-root-device-type":
				return info.SupportedRootDeviceTypes, true
			case "bare-metal":
				return []string{strconv.FormatBool(*info.BareMetal)}, true
			case "current-generation":
				return []string{strconv.FormatBool(*info.CurrentGeneration)}, true
			case "hypervisor":
				return []string{info.Hypervisor}, true
			case "instance-storage-supported":
				return []string{strconv.FormatBool(*info.InstanceStorageSupported)}, true
			case "burstable-performance-supported":
				return []string{strconv.FormatBool(*info.BurstablePerformanceSupported)}, true
			case "memory-info.size-in-mib":
				return []string{strconv.FormatInt(*info.MemoryInfo.SizeInMiB, 10)}, true
			case "vcpu-info.default-vcpus":
				return []string{strconv.FormatInt(*info.VCpuInfo.DefaultVCpus, 10)}, true
			case "vcpu-info.default-cores":
				return []string{strconv.FormatInt(*info.VCpuInfo.DefaultCores, 10)}, true
			case "processor-info.manufacturer":
				return []string{info.ProcessorInfo.Manufacturer}, true
			}
			return nil, false
		})
		if err != nil {
			return nil, err
		}
		if pass {
			all = append(all, info)
		}
	}
	some, next := page(all, func(i shapes.EC2InstanceTypeInfo) string { return i.InstanceType }, in.NextToken, in.MaxResults, 100)
	return &shapes.EC2DescribeInstanceTypesResult{InstanceTypes: some, NextToken: next}, nil
}

func (t *tx) describeInstanceTypeOfferings(in *shapes.EC2DescribeInstanceTypeOfferingsRequest) (*shapes.EC2DescribeInstanceTypeOfferingsResult, error) {
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	kind := in.LocationType
	if kind == "" {
		kind = "region"
	}
	var all []shapes.EC2InstanceTypeOffering
	for i := range t.catalog.Types {
		it := &t.catalog.Types[i]
		var places []string
		for _, o := range it.Offerings {
			place := o.Zone
			switch kind {
			case "region":
				place = t.catalog.Region
			case "availability-zone-id":
				place = zoneID(t.catalog.Region, o.Zone)
			case "availability-zone":
			default:
				return nil, wire.Refuse("InvalidParameterValue", "LocationType %q is invalid", kind)
			}
			if !slices.Contains(places, place) {
				places = append(places, place)
			}
		}
		sort.Strings(places)
		for _, place := range places {
			pass, err := filtered(in.Filters, nil, func(name string) ([]string, bool) {
				switch name {
				case "instance-type":
					return []string{it.Name}, true
				case "location":
					return []string{place}, true
				}
				return nil, false
			})
			if err != nil {
				return nil, err
			}
			if pass {
				all = append(all, shapes.EC2InstanceTypeOffering{InstanceType: it.Name, LocationType: kind, Location: place})
			}
		}
	}
	some, next := page(all, func(o shapes.EC2InstanceTypeOffering) string { return o.InstanceType + " " + o.Location }, in.NextToken, in.MaxResults, 1000)
	return &shapes.EC2DescribeInstanceTypeOfferingsResult{InstanceTypeOfferings: some, NextToken: next}, nil
}

// offering is a type in a zone with a capacity type, nil where AWS does not sell it.
func (c *Cloud) offering(instanceType, zone, capacityType string) *model.Offering {
	t := c.catalog.Find(instanceType)
	if t == nil {
		return nil
	}
	for i, o := range t.Offerings {
		if o.Zone == zone && o.CapacityType == capacityType {
			return &t.Offerings[i]
		}
	}
	return nil
}

// priceOf is what an offering costs now.
func (c *Cloud) priceOf(instanceType string, o *model.Offering) int64 {
	if o.CapacityType == model.Spot {
		if p := c.prices.items[instanceType+"/"+o.Zone]; p != nil {
			return p.Micro
		}
	}
	return o.PriceMicro
}

// usd writes dollars.
func usd(micro int64) string { return fmt.Sprintf("%d.%06d", micro/1_000_000, micro%1_000_000) }

func (t *tx) describeSpotPriceHistory(in *shapes.EC2DescribeSpotPriceHistoryRequest) (*shapes.EC2DescribeSpotPriceHistoryResult, error) {
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	const linux = "Linux/UNIX"
	if len(in.ProductDescriptions) > 0 && !slices.Contains(in.ProductDescriptions, linux) && !slices.Contains(in.ProductDescriptions, linux+" (Amazon VPC)") {
		return &shapes.EC2DescribeSpotPriceHistoryResult{}, nil
	}
	began := time.Date(2026, 7, 20, 0, 0, 0, 0, time.UTC)
	var all []shapes.EC2SpotPrice
	for i := range t.catalog.Types {
		it := &t.catalog.Types[i]
		if len(in.InstanceTypes) > 0 && !slices.Contains(in.InstanceTypes, it.Name) {
			continue
		}
		for j := range it.Offerings {
			o := &it.Offerings[j]
			if o.CapacityType != model.Spot || in.AvailabilityZone != "" && o.Zone != in.AvailabilityZone {
				continue
			}
			pass, err := filtered(in.Filters, nil, func(name string) ([]string, bool) {
				switch name {
				case "instance-type":
					return []string{it.Name}, true
				case "availability-zone":
					return []string{o.Zone}, true
				case "product-description":
					return []string{linux}, true
				}
				return nil, false
			})
			if err != nil {
				return nil, err
			}
			if !pass {
				continue
			}
			at := began
			if p := t.prices.items[it.Name+"/"+o.Zone]; p != nil {
				at = p.At
			}
			all = append(all, shapes.EC2SpotPrice{AvailabilityZone: o.Zone, InstanceType: it.Name, ProductDescription: linux, SpotPrice: usd(t.priceOf(it.Name, o)), Timestamp: &at})
		}
	}
	some, next := page(all, func(p shapes.EC2SpotPrice) string { return p.InstanceType + " " + p.AvailabilityZone }, in.NextToken, in.MaxResults, 1000)
	return &shapes.EC2DescribeSpotPriceHistoryResult{SpotPriceHistory: some, NextToken: next}, nil
}

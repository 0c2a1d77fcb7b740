// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import (
	"path"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/shapes"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/wire"
)

// Attributes are requirements on the instance types that a group may launch; zero: any.
type Attributes struct {
	MinCPUs       int64    `json:"minCPUs,omitempty"`
	MaxCPUs       int64    `json:"maxCPUs,omitempty"`
	MinMemoryMiB  int64    `json:"minMemoryMiB,omitempty"`
	MaxMemoryMiB  int64    `json:"maxMemoryMiB,omitempty"`
	Manufacturers []string `json:"cpuManufacturers,omitempty"` // intel, amd, amazon-web-services
	Allowed       []string `json:"allowedInstanceTypes,omitempty"`
	Excluded      []string `json:"excludedInstanceTypes,omitempty"`
}

// request is the same as EC2 is asked.
func (a *Attributes) request() *shapes.EC2InstanceRequirementsRequest {
	return &shapes.EC2InstanceRequirementsRequest{
		VCpuCount: &shapes.EC2VCpuCountRangeRequest{Min: new(a.MinCPUs), Max: positive(a.MaxCPUs)}, MemoryMiB: &shapes.EC2MemoryMiBRequest{Min: new(a.MinMemoryMiB), Max: positive(a.MaxMemoryMiB)},
		CpuManufacturers: a.Manufacturers, AllowedInstanceTypes: a.Allowed, ExcludedInstanceTypes: a.Excluded,
	}
}

// described is the same as Auto Scaling describes it.
func (a *Attributes) described() *shapes.ASGInstanceRequirements {
	return &shapes.ASGInstanceRequirements{
		VCpuCount: &shapes.ASGVCpuCountRequest{Min: new(a.MinCPUs), Max: positive(a.MaxCPUs)}, MemoryMiB: &shapes.ASGMemoryMiBRequest{Min: new(a.MinMemoryMiB), Max: positive(a.MaxMemoryMiB)},
		CpuManufacturers: a.Manufacturers, AllowedInstanceTypes: a.Allowed, ExcludedInstanceTypes: a.Excluded,
	}
}

func positive(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

// typesWith returns the types with these attributes, by name. As in EC2, burstable and bare metal types are excluded
// unless requested.
func (c *Cloud) typesWith(arch []string, in *shapes.EC2InstanceRequirementsRequest) []string {
	within := func(n int64, least, most *int64) bool {
		return (least == nil || n >= *least) && (most == nil || n <= *most)
	}
	wanted := func(is bool, how string) bool {
		return !is && how != "required" || is && (how == "included" || how == "required")
	}
	like := func(patterns []string, name string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool {
			ok, err := path.Match(p, name)
			return err == nil && ok
		})
	}
	var out []string
	for _, t := range c.types {
		if !slices.ContainsFunc(t.ProcessorInfo.SupportedArchitectures, func(a string) bool { return slices.Contains(arch, a) }) ||
			!within(*t.VCpuInfo.DefaultVCpus, in.VCpuCount.Min, in.VCpuCount.Max) || !within(*t.MemoryInfo.SizeInMiB, in.MemoryMiB.Min, in.MemoryMiB.Max) ||
			len(in.AllowedInstanceTypes) > 0 && !like(in.AllowedInstanceTypes, t.InstanceType) || like(in.ExcludedInstanceTypes, t.InstanceType) ||
			!wanted(*t.BareMetal, in.BareMetal) || !wanted(*t.BurstablePerformanceSupported, in.BurstablePerformance) {
			continue
		}
		maker := map[string]string{"Intel": "intel", "AMD": "amd", "AWS": "amazon-web-services"}[t.ProcessorInfo.Manufacturer]
		if len(in.CpuManufacturers) > 0 && !slices.Contains(in.CpuManufacturers, maker) {
			continue
		}
		out = append(out, t.InstanceType)
	}
	return out
}

func (t *tx) typesFromRequirements(in *shapes.EC2GetInstanceTypesFromInstanceRequirementsRequest) (*shapes.EC2GetInstanceTypesFromInstanceRequirementsResult, error) {
	if len(in.ArchitectureTypes) == 0 || len(in.VirtualizationTypes) == 0 || in.InstanceRequirements == nil ||
		in.InstanceRequirements.VCpuCount == nil || in.InstanceRequirements.VCpuCount.Min == nil || in.InstanceRequirements.MemoryMiB == nil || in.InstanceRequirements.MemoryMiB.Min == nil {
		return nil, wire.Refuse("MissingParameter", "The request must contain ArchitectureTypes, VirtualizationTypes, and of InstanceRequirements VCpuCount and MemoryMiB with a minimum")
	}
	if len(in.InstanceRequirements.AllowedInstanceTypes) > 0 && len(in.InstanceRequirements.ExcludedInstanceTypes) > 0 {
		return nil, wire.Refuse("InvalidParameterCombination", "Give AllowedInstanceTypes or ExcludedInstanceTypes, not both")
	}
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	all := t.typesWith(in.ArchitectureTypes, in.InstanceRequirements)
	some, next := page(all, func(name string) string { return name }, in.NextToken, in.MaxResults, 1000)
	out := &shapes.EC2GetInstanceTypesFromInstanceRequirementsResult{NextToken: next}
	for _, name := range some {
		out.InstanceTypes = append(out.InstanceTypes, shapes.EC2InstanceTypeInfoFromInstanceRequirements{InstanceType: name})
	}
	return out, nil
}

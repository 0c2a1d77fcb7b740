// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodeclass

import (
	"fmt"
	"strings"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// aliasImage is one of the images of an alias: the SSM parameter that holds its id, and which machines it is for.
type aliasImage struct {
	parameter    string
	requirements model.Requirements
}

// labelAbsent requires that a type does not have a label.
func labelAbsent(key string) model.Requirement {
	r, err := model.NewRequirement(key, model.OpDoesNotExist)
	if err != nil {
		panic(err) // without values there is nothing to be wrong
	}
	return r
}

// labelPresent requires that a type has a label, whatever its value.
func labelPresent(key string) model.Requirement {
	r, err := model.NewRequirement(key, model.OpExists)
	if err != nil {
		panic(err)
	}
	return r
}

// aliasImages are the images that Amazon publishes for a family, version and Kubernetes release, the preferred ones
// first.
func aliasImages(family, version, kubernetes string) []aliasImage {
	plain := []model.Requirement{labelAbsent(awsv1.LabelInstanceGPUCount), labelAbsent(awsv1.LabelInstanceAcceleratorCount)}
	nvidia := []model.Requirement{model.OneOf(awsv1.LabelInstanceGPUManufacturer, "nvidia")}
	neuron := []model.Requirement{labelPresent(awsv1.LabelInstanceAcceleratorCount)}
	var out []aliasImage
	add := func(parameter, arch string, wants []model.Requirement) {
		out = append(out, aliasImage{parameter, model.NewRequirements(append([]model.Requirement{model.OneOf(model.LabelArch, arch)}, wants...)...)})
	}
	eks := "/aws/service/eks/optimized-ami/" + kubernetes
	switch {
	case family == FamilyAL2023:
		for _, v := range []struct {
			arch, name, label string
			wants             []model.Requirement
		}{
			{"x86_64", "standard", "amd64", plain}, {"arm64", "standard", "arm64", plain}, {"x86_64", "nvidia", "amd64", nvidia},
			{"arm64", "nvidia", "arm64", nvidia}, {"x86_64", "neuron", "amd64", neuron},
		} {
			release := "recommended"
			if version != "latest" {
				release = fmt.Sprintf("amazon-eks-node-al2023-%s-%s-%s-%s", v.arch, v.name, kubernetes, version)
			}
			add(fmt.Sprintf("%s/amazon-linux-2023/%s/%s/%s/image_id", eks, v.arch, v.name, release), v.label, v.wants)
		}
	case family == FamilyAL2:
		for _, v := range []struct {
			suffix, label string
			wants         []model.Requirement
		}{{"", "amd64", plain}, {"-arm64", "arm64", plain}, {"-gpu", "amd64", nvidia}, {"-gpu", "amd64", neuron}} {
			release := "recommended"
			if version != "latest" {
				release = fmt.Sprintf("amazon-eks%s-node-%s-%s", v.suffix, kubernetes, version)
			}
			add(fmt.Sprintf("%s/amazon-linux-2%s/%s/image_id", eks, v.suffix, release), v.label, v.wants)
		}
	case family == FamilyBottlerocket:
		version = strings.TrimPrefix(version, "v")
		for _, v := range []struct {
			arch, suffix, label string
			wants               []model.Requirement
		}{{"x86_64", "", "amd64", plain}, {"arm64", "", "arm64", plain}, {"x86_64", "", "amd64", neuron}, {"x86_64", "-nvidia", "amd64", nvidia}, {"arm64", "-nvidia", "arm64", nvidia}} {
			add(fmt.Sprintf("/aws/service/bottlerocket/aws-k8s-%s%s/%s/%s/image_id", kubernetes, v.suffix, v.arch, version), v.label, v.wants)
		}
	default: // Windows
		add(fmt.Sprintf("/aws/service/ami-windows-latest/Windows_Server-%s-English-Core-EKS_Optimized-%s/image_id", strings.TrimPrefix(family, "Windows"), kubernetes), "amd64", nil)
	}
	return out
}

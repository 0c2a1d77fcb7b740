// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodeclass

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
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
		}{{"x86_64", "", "amd64", plain}, {"arm64", "", "arm64", plain}, {"x86_64", "-nvidia", "amd64", nvidia}, {"arm64", "-nvidia", "arm64", nvidia}} {
			add(fmt.Sprintf("/aws/service/bottlerocket/aws-k8s-%s%s/%s/%s/image_id", kubernetes, v.suffix, v.arch, version), v.label, v.wants)
		}
	default: // Windows
		add(fmt.Sprintf("/aws/service/ami-windows-latest/Windows_Server-%s-English-Core-EKS_Optimized-%s/image_id", strings.TrimPrefix(family, "Windows"), kubernetes), "amd64", nil)
	}
	return out
}

// findAliasImages are the images of an alias, as far as they are published.
func (cr *Resolver) findAliasImages(ctx context.Context, family, version, kubernetes string) ([]Image, error) {
	var names []string
	list := aliasImages(family, version, kubernetes)
	for _, v := range list {
		if !slices.Contains(names, v.parameter) {
			names = append(names, v.parameter)
		}
	}
	ids, err := cr.getParameters(ctx, names)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	var wanted []string
	for _, n := range names {
		if id := ids[n]; id != "" && !slices.Contains(wanted, id) {
			wanted = append(wanted, id)
		}
	}
	known := map[string]Image{}
	pages := ec2.NewDescribeImagesPaginator(cr.aws.EC2, &ec2.DescribeImagesInput{Filters: []types.Filter{awsapi.NewFilter("image-id", wanted...)}})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for i := range page.Images {
			if im, ok := cr.readImage(&page.Images[i]); ok {
				known[im.ID] = im
			}
		}
	}
	var out []Image
	for _, v := range list {
		if im, ok := known[ids[v.parameter]]; ok {
			im.Requirements = v.requirements
			out = append(out, im)
		}
	}
	return out, nil
}

// getParameters are the values of SSM parameters by name and by ARN, without those that do not exist.
func (cr *Resolver) getParameters(ctx context.Context, names []string) (map[string]string, error) {
	out := map[string]string{}
	for chunk := range slices.Chunk(names, 10) {
		res, err := cr.aws.SSM.GetParameters(ctx, &ssm.GetParametersInput{Names: chunk})
		if err != nil {
			return nil, err
		}
		for _, v := range res.Parameters {
			out[awsapi.Deref(v.Name)] = awsapi.Deref(v.Value)
			if v.ARN != nil {
				out[*v.ARN] = awsapi.Deref(v.Value)
			}
		}
	}
	return out, nil
}

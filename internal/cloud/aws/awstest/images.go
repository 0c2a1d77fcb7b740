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
)

// Image families.
const (
	al2          = "al2"
	al2023       = "al2023"
	bottlerocket = "bottlerocket"
	custom       = "custom"
)

// releases of every image that is there from the start; the day is fixed so that ids are.
var releases = []struct {
	day          time.Time
	bottlerocket string
}{
	{time.Date(2026, 5, 11, 0, 0, 0, 0, time.UTC), "1.50.0-3d6bdf41"},
	{time.Date(2026, 6, 15, 0, 0, 0, 0, time.UTC), "1.51.0-a0b5cd7e"},
	{time.Date(2026, 7, 13, 0, 0, 0, 0, time.UTC), "1.52.1-58e0f2c9"},
}

// release is the images of every family for one Kubernetes version: what Amazon publishes on a day.
func release(kubernetes string, day time.Time, bottlerocketVersion string) []image {
	const amazonEKS, amazonBottlerocket = "602401143452", "092701018921"
	v := "v" + day.Format("20060102")
	var out []image
	add := func(name, arch, family, owner string, parameters ...string) {
		out = append(out, image{
			ID: id("ami", name, arch), Name: name, Arch: arch, Family: family, Owner: owner, Alias: "amazon", Created: day,
			Deprecated: day.AddDate(2, 0, 0), Parameters: parameters,
		})
	}
	minor, _ := strconv.Atoi(strings.TrimPrefix(kubernetes, "1."))
	for _, arch := range []string{"x86_64", "arm64"} {
		variants := []string{"standard", "nvidia"}
		if arch == "x86_64" {
			variants = append(variants, "neuron")
		}
		for _, variant := range variants {
			name := fmt.Sprintf("amazon-eks-node-al2023-%s-%s-%s-%s", arch, variant, kubernetes, v)
			folder := fmt.Sprintf("/aws/service/eks/optimized-ami/%s/amazon-linux-2023/%s/%s/", kubernetes, arch, variant)
			add(name, arch, al2023, amazonEKS, folder+"recommended/image_id", folder+name+"/image_id")
		}
		for _, variant := range []string{"", "-nvidia"} {
			version, _, _ := strings.Cut(bottlerocketVersion, "-")
			name := fmt.Sprintf("bottlerocket-aws-k8s-%s%s-%s-v%s", kubernetes, variant, arch, bottlerocketVersion)
			folder := fmt.Sprintf("/aws/service/bottlerocket/aws-k8s-%s%s/%s/", kubernetes, variant, arch)
			add(name, arch, bottlerocket, amazonBottlerocket, folder+"latest/image_id", folder+version+"/image_id", folder+bottlerocketVersion+"/image_id")
		}
	}
	if minor <= 32 { // Amazon stopped with AL2 there
		for _, variant := range []struct{ suffix, arch string }{{"", "x86_64"}, {"-arm64", "arm64"}, {"-gpu", "x86_64"}} {
			name := fmt.Sprintf("amazon-eks%s-node-%s-%s", variant.suffix, kubernetes, v)
			folder := fmt.Sprintf("/aws/service/eks/optimized-ami/%s/amazon-linux-2%s/", kubernetes, variant.suffix)
			add(name, variant.arch, al2, amazonEKS, folder+"recommended/image_id", folder+name+"/image_id")
		}
	}
	return out
}

// firstImages are there from the start: three releases for the cluster's version and its neighbours, and two of the account's own.
func firstImages(s Settings) []image {
	minor, _ := strconv.Atoi(strings.TrimPrefix(s.KubernetesVersion, "1."))
	var out []image
	for m := minor - 2; m <= minor+1; m++ {
		for _, r := range releases {
			out = append(out, release("1."+strconv.Itoa(m), r.day, r.bottlerocket)...)
		}
	}
	for _, arch := range []string{"x86_64", "arm64"} {
		name := s.Cluster + "-node-" + arch
		out = append(out, image{
			ID: id("ami", s.Account, name), Name: name, Arch: arch, Family: custom, Owner: s.Account, Created: releases[0].day,
			Parameters: []string{"/" + s.Cluster + "/node/" + arch}, Tags: map[string]string{DiscoveryTag: s.Cluster},
		})
	}
	return out
}

// allImages are by id.
func (c *Cloud) allImages() []*image {
	out := c.images.sorted()
	for i := range c.world.images {
		out = append(out, &c.world.images[i])
	}
	sort.Slice(out, func(i, j int) bool { return out[i].ID < out[j].ID })
	return out
}

func (c *Cloud) image(id string) *image {
	if im := c.images.items[id]; im != nil {
		return im
	}
	for i := range c.world.images {
		if c.world.images[i].ID == id {
			return &c.world.images[i]
		}
	}
	return nil
}

// parameter is the newest image that an SSM parameter names.
func (c *Cloud) parameter(name string) *image {
	var newest *image
	for _, im := range c.allImages() {
		if slices.Contains(im.Parameters, name) && (newest == nil || im.Created.After(newest.Created)) {
			newest = im
		}
	}
	return newest
}

func (t *tx) describeImages(in *shapes.EC2DescribeImagesRequest) (*shapes.EC2DescribeImagesResult, error) {
	if err := dryRun(in.DryRun); err != nil {
		return nil, err
	}
	for _, id := range in.ImageIds {
		if t.image(id) == nil {
			return nil, wire.Refuse("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", id)
		}
	}
	var all []*image
	for _, im := range t.allImages() {
		if len(in.ImageIds) > 0 && !slices.Contains(in.ImageIds, im.ID) {
			continue
		}
		owners := []string{im.Owner, im.Alias}
		if im.Owner == t.settings.Account {
			owners = append(owners, "self")
		}
		if len(in.Owners) > 0 && !slices.ContainsFunc(in.Owners, func(o string) bool { return slices.Contains(owners, o) }) {
			continue
		}
		deprecated := !im.Deprecated.IsZero() && t.now.After(im.Deprecated)
		if deprecated && !is(in.IncludeDeprecated) && len(in.ImageIds) == 0 && im.Owner != t.settings.Account {
			continue
		}
		pass, err := filtered(in.Filters, im.Tags, func(name string) ([]string, bool) {
			switch name {
			case "name":
				return []string{im.Name}, true
			case "image-id":
				return []string{im.ID}, true
			case "architecture":
				return []string{im.Arch}, true
			case "owner-id":
				return []string{im.Owner}, true
			case "owner-alias":
				return []string{im.Alias}, true
			case "state":
				return []string{"available"}, true
			case "virtualization-type":
				return []string{"hvm"}, true
			case "root-device-type":
				return []string{"ebs"}, true
			case "image-type":
				return []string{"machine"}, true
			case "is-public":
				return []string{strconv.FormatBool(im.Alias != "")}, true
			}
			return nil, false
		})
		if err != nil {
			return nil, err
		}
		if pass {
			all = append(all, im)
		}
	}
	some, next := page(all, func(im *image) string { return im.ID }, in.NextToken, in.MaxResults, 1000)
	out := &shapes.EC2DescribeImagesResult{NextToken: next}
	for _, im := range some {
		out.Images = append(out.Images, im.described())
	}
	return out, nil
}

func (im *image) described() shapes.EC2Image {
	const instant = "2006-01-02T15:04:05.000Z"
	size := int64(20)
	if im.Family == bottlerocket {
		size = 4
	}
	out := shapes.EC2Image{
		Architecture: im.Arch, CreationDate: im.Created.Format(instant), ImageId: im.ID, ImageLocation: im.Owner + "/" + im.Name, ImageType: "machine",
		Public: new(im.Alias != ""), OwnerId: im.Owner, PlatformDetails: "Linux/UNIX", State: "available", Description: im.Name, EnaSupport: new(true),
		BlockDeviceMappings: []shapes.EC2BlockDeviceMapping{{DeviceName: "/dev/xvda", Ebs: &shapes.EC2EbsBlockDevice{SnapshotId: id("snap", im.ID), VolumeSize: &size, VolumeType: "gp3", DeleteOnTermination: new(true)}}},
		Hypervisor:          "xen", ImageOwnerAlias: im.Alias, Name: im.Name, RootDeviceName: "/dev/xvda", RootDeviceType: "ebs", Tags: tagList(im.Tags),
		VirtualizationType: "hvm", BootMode: "uefi-preferred",
	}
	if !im.Deprecated.IsZero() {
		out.DeprecationTime = im.Deprecated.Format(instant)
	}
	return out
}

func (t *tx) getParameter(in *shapes.SSMGetParameterRequest) (*shapes.SSMGetParameterResult, error) {
	im := t.parameter(in.Name)
	if im == nil {
		return nil, wire.Refuse("ParameterNotFound", "Parameter %s not found.", in.Name)
	}
	return &shapes.SSMGetParameterResult{Parameter: t.ssm(in.Name, im)}, nil
}

func (t *tx) getParameters(in *shapes.SSMGetParametersRequest) (*shapes.SSMGetParametersResult, error) {
	if len(in.Names) < 1 || len(in.Names) > 10 {
		return nil, wire.Refuse("ValidationException", "1 validation error detected: Value at 'names' failed to satisfy constraint: Member must have length between 1 and 10")
	}
	out := &shapes.SSMGetParametersResult{}
	for _, name := range in.Names {
		if im := t.parameter(name); im != nil {
			out.Parameters = append(out.Parameters, *t.ssm(name, im))
		} else {
			out.InvalidParameters = append(out.InvalidParameters, name)
		}
	}
	return out, nil
}

func (c *Cloud) ssm(name string, im *image) *shapes.SSMParameter {
	return &shapes.SSMParameter{Name: name, Type: "String", Value: im.ID, Version: new(im.Created.Unix() / 86400), LastModifiedDate: new(shapes.Epoch(im.Created)), ARN: c.arn("ssm", "parameter"+name), DataType: "text"}
}

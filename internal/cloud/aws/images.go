// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// image is what machines boot from, and which machines.
type image struct {
	id, name     string
	created      string // RFC 3339, as EC2 has it
	deprecated   bool
	requirements model.Requirements // on the labels of a type
}

// fitsType says whether a type can boot from it.
func (im *image) fitsType(t *typeInfo) bool {
	for i := range im.requirements {
		v, ok := t.labels[im.requirements[i].Key]
		if !im.requirements[i].Matches(v, ok) {
			return false
		}
	}
	return true
}

// aliasImage is one image of an alias: where its id stands and which machines it is for.
type aliasImage struct {
	parameter    string
	requirements model.Requirements
}

func labelAbsent(key string) model.Requirement {
	r, err := model.NewRequirement(key, model.OpDoesNotExist)
	if err != nil {
		panic(err) // without values there is nothing to be wrong
	}
	return r
}

func labelPresent(key string) model.Requirement {
	r, err := model.NewRequirement(key, model.OpExists)
	if err != nil {
		panic(err)
	}
	return r
}

// aliasImages are the images that Amazon publishes for a family, version and Kubernetes release.
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
	case family == familyAL2023:
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
	case family == familyAL2:
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
	case family == familyBottlerocket:
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

// findImages are the images that the terms choose: one that is not deprecated before one that is, a newer before an older.
func (p *Provider) findImages(ctx context.Context, c *nodeClass, kubernetes string) ([]image, error) {
	terms := c.spec.AMISelectorTerms
	found := map[string]image{}
	ask := func(in *ec2.DescribeImagesInput, wants map[string]model.Requirements) error {
		// Images of which the account sees none are no answer, not an error.
		pages := ec2.NewDescribeImagesPaginator(p.ec2, in)
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				if strings.HasPrefix(errorCode(err), "InvalidAMIID") {
					return nil
				}
				return err
			}
			for i := range page.Images {
				if im, ok := p.readImage(&page.Images[i]); ok {
					if w, ok := wants[im.id]; ok {
						im.requirements = w
					}
					found[im.id] = im
				}
			}
		}
		return nil
	}
	if family, version := c.spec.Alias(); family != "" {
		out, err := p.findAliasImages(ctx, family, version, kubernetes)
		if err != nil {
			return nil, err
		}
		if len(out) == 0 {
			return nil, newUnresolvedError(awsv1.ReasonAMINotFound, "spec.amiSelectorTerms[0].alias: %s@%s: there is no such image for Kubernetes %s in region %s; choose another version or family",
				strings.ToLower(family), version, kubernetes, p.region)
		}
		return out, nil
	}
	for i, t := range terms {
		in := &ec2.DescribeImagesInput{}
		switch {
		case t.ID != "":
			in.Filters = []types.Filter{newFilter("image-id", t.ID)}
		case t.SSMParameter != "":
			ids, err := p.getParameters(ctx, []string{t.SSMParameter})
			if err != nil {
				return nil, err
			}
			if len(ids) == 0 {
				return nil, newUnresolvedError(awsv1.ReasonAMINotFound, "spec.amiSelectorTerms[%d].ssmParameter: %s: there is no such parameter in region %s", i, t.SSMParameter, p.region)
			}
			in.Filters = []types.Filter{newFilter("image-id", ids[t.SSMParameter])}
		default:
			in.Filters = tagFilters(t.Tags)
			if t.Name != "" {
				in.Filters = append(in.Filters, newFilter("name", t.Name))
			}
			if t.Owner != "" {
				in.Owners = []string{t.Owner}
			} else if t.Name != "" {
				in.Owners = []string{"self", "amazon"}
			}
		}
		if err := ask(in, nil); err != nil {
			return nil, err
		}
	}
	if len(found) == 0 {
		return nil, newUnresolvedError(awsv1.ReasonAMINotFound, "spec.amiSelectorTerms: no image of region %s matches %s; mend the terms or share the image with this account", p.region, selectorKey(terms))
	}
	out := make([]image, 0, len(found))
	for _, im := range found {
		out = append(out, im)
	}
	sortImages(out)
	return out, nil
}

func sortImages(list []image) {
	slices.SortFunc(list, func(a, b image) int {
		if a.deprecated != b.deprecated {
			if a.deprecated {
				return 1
			}
			return -1
		}
		return cmp.Or(strings.Compare(b.created, a.created), strings.Compare(a.id, b.id))
	})
}

// findAliasImages are the images of an alias, as far as they are published.
func (p *Provider) findAliasImages(ctx context.Context, family, version, kubernetes string) ([]image, error) {
	var names []string
	list := aliasImages(family, version, kubernetes)
	for _, v := range list {
		if !slices.Contains(names, v.parameter) {
			names = append(names, v.parameter)
		}
	}
	ids, err := p.getParameters(ctx, names)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	var wanted []string
	for _, n := range names {
		if id := ids[n]; id != "" && !slices.Contains(wanted, id) {
			wanted = append(wanted, id)
		}
	}
	known := map[string]image{}
	pages := ec2.NewDescribeImagesPaginator(p.ec2, &ec2.DescribeImagesInput{Filters: []types.Filter{newFilter("image-id", wanted...)}})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for i := range page.Images {
			if im, ok := p.readImage(&page.Images[i]); ok {
				known[im.id] = im
			}
		}
	}
	var out []image
	for _, v := range list {
		if im, ok := known[ids[v.parameter]]; ok {
			im.requirements = v.requirements
			out = append(out, im)
		}
	}
	return out, nil
}

// getParameters are the values of SSM parameters, without those that are not there.
func (p *Provider) getParameters(ctx context.Context, names []string) (map[string]string, error) {
	out := map[string]string{}
	for chunk := range slices.Chunk(names, 10) {
		res, err := p.ssm.GetParameters(ctx, &ssm.GetParametersInput{Names: chunk})
		if err != nil {
			return nil, err
		}
		for _, v := range res.Parameters {
			out[deref(v.Name)] = deref(v.Value)
			if v.ARN != nil {
				out[*v.ARN] = deref(v.Value)
			}
		}
	}
	return out, nil
}

func (p *Provider) readImage(in *types.Image) (image, bool) {
	im := image{id: deref(in.ImageId), name: deref(in.Name), created: deref(in.CreationDate)}
	if t, err := time.Parse(time.RFC3339, deref(in.DeprecationTime)); err == nil {
		im.deprecated = !p.clock.Now().Before(t)
	}
	arch := map[types.ArchitectureValues]string{types.ArchitectureValuesX8664: "amd64", types.ArchitectureValuesArm64: "arm64"}[in.Architecture]
	if arch == "" || in.State != "" && in.State != types.ImageStateAvailable {
		return im, false
	}
	im.requirements = model.NewRequirements(model.OneOf(model.LabelArch, arch))
	return im, true
}

// imageForType is the image that a type boots from; nil if there is none for it.
func (r *resolvedClass) imageForType(t *typeInfo) *image {
	for i := range r.images {
		if r.images[i].fitsType(t) {
			return &r.images[i]
		}
	}
	return nil
}

// nodeSelectorRequirements writes what an image wants as the class's status has it.
func (im *image) nodeSelectorRequirements() []corev1.NodeSelectorRequirement {
	out := []corev1.NodeSelectorRequirement{}
	for i := range im.requirements {
		q := &im.requirements[i]
		r := corev1.NodeSelectorRequirement{Key: q.Key}
		switch {
		case !q.Complement && len(q.Values) == 0:
			r.Operator = corev1.NodeSelectorOpDoesNotExist
		case !q.Complement:
			r.Operator, r.Values = corev1.NodeSelectorOpIn, q.Values
		default:
			r.Operator = corev1.NodeSelectorOpExists
		}
		out = append(out, r)
	}
	return out
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodeclass

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	corev1 "k8s.io/api/core/v1"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/catalogue"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Image is an AMI, with the machines that can boot from it.
type Image struct {
	ID, name     string
	created      string // RFC 3339, as EC2 has it
	deprecated   bool
	Requirements model.Requirements // on the labels of an instance type
}

// fitsType reports whether machines of a type can boot from an image.
func (im *Image) fitsType(t *catalogue.TypeInfo) bool {
	for i := range im.Requirements {
		v, ok := t.Labels[im.Requirements[i].Key]
		if !im.Requirements[i].Matches(v, ok) {
			return false
		}
	}
	return true
}

// nodeSelectorRequirements are an image's requirements as the status of its class has them.
func (im *Image) nodeSelectorRequirements() []corev1.NodeSelectorRequirement {
	out := []corev1.NodeSelectorRequirement{}
	for i := range im.Requirements {
		q := &im.Requirements[i]
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

// findImages are the images that any of the terms chooses: one that is not deprecated before one that is, a newer one
// before an older. For an alias they are in the order of aliasImages. None is an UnresolvedError.
func (cr *Resolver) findImages(ctx context.Context, c *Class, kubernetes string) ([]Image, error) {
	terms := c.Spec.AMISelectorTerms
	found := map[string]Image{}
	ask := func(in *ec2.DescribeImagesInput, wants map[string]model.Requirements) error {
		// Images of which the account sees none are no answer, not an error.
		pages := ec2.NewDescribeImagesPaginator(cr.aws.EC2, in)
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				if strings.HasPrefix(awsapi.ErrorCode(err), "InvalidAMIID") {
					return nil
				}
				return err
			}
			for i := range page.Images {
				if im, ok := cr.readImage(&page.Images[i]); ok {
					if w, ok := wants[im.ID]; ok {
						im.Requirements = w
					}
					found[im.ID] = im
				}
			}
		}
		return nil
	}
	if family, version := c.Spec.Alias(); family != "" {
		out, err := cr.findAliasImages(ctx, family, version, kubernetes)
		if err != nil {
			return nil, err
		}
		if len(out) == 0 {
			return nil, awsapi.NewUnresolvedError(awsv1.ReasonAMINotFound, "spec.amiSelectorTerms[0].alias: %s@%s: there is no such image for Kubernetes %s in region %s; choose another version or family",
				strings.ToLower(family), version, kubernetes, cr.aws.Region)
		}
		return out, nil
	}
	for i, t := range terms {
		in := &ec2.DescribeImagesInput{IncludeDeprecated: sdk.Bool(true)} // they are launched as ever
		switch {
		case t.ID != "":
			in.Filters = []types.Filter{awsapi.NewFilter("image-id", t.ID)}
		case t.SSMParameter != "":
			ids, err := cr.getParameters(ctx, []string{t.SSMParameter})
			if err != nil {
				return nil, err
			}
			if len(ids) == 0 {
				return nil, awsapi.NewUnresolvedError(awsv1.ReasonAMINotFound, "spec.amiSelectorTerms[%d].ssmParameter: %s: there is no such parameter in region %s", i, t.SSMParameter, cr.aws.Region)
			}
			in.Filters = []types.Filter{awsapi.NewFilter("image-id", ids[t.SSMParameter])}
		default:
			in.Filters = awsapi.TagFilters(t.Tags)
			if t.Name != "" {
				in.Filters = append(in.Filters, awsapi.NewFilter("name", t.Name))
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
		return nil, awsapi.NewUnresolvedError(awsv1.ReasonAMINotFound, "spec.amiSelectorTerms: no AMI in region %s matches %s; correct the terms or share the AMI with this account", cr.aws.Region, awsapi.SelectorKey(terms))
	}
	out := make([]Image, 0, len(found))
	for _, im := range found {
		out = append(out, im)
	}
	sortImages(out)
	return out, nil
}

// sortImages has images that are not deprecated first, then newer ones, then by id.
func sortImages(list []Image) {
	slices.SortFunc(list, func(a, b Image) int {
		if a.deprecated != b.deprecated {
			if a.deprecated {
				return 1
			}
			return -1
		}
		return cmp.Or(strings.Compare(b.created, a.created), strings.Compare(a.ID, b.ID))
	})
}

// readImage reads EC2's description of an image; false for one that no node can boot from now.
func (cr *Resolver) readImage(in *types.Image) (Image, bool) {
	im := Image{ID: awsapi.Deref(in.ImageId), name: awsapi.Deref(in.Name), created: awsapi.Deref(in.CreationDate)}
	if t, err := time.Parse(time.RFC3339, awsapi.Deref(in.DeprecationTime)); err == nil {
		im.deprecated = !cr.aws.Clock.Now().Before(t)
	}
	arch := map[types.ArchitectureValues]string{types.ArchitectureValuesX8664: "amd64", types.ArchitectureValuesArm64: "arm64"}[in.Architecture]
	if arch == "" || in.State != "" && in.State != types.ImageStateAvailable {
		return im, false
	}
	im.Requirements = model.NewRequirements(model.OneOf(model.LabelArch, arch))
	return im, true
}

// findAliasImages returns the published images of an alias.
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
	pages := ec2.NewDescribeImagesPaginator(cr.aws.EC2, &ec2.DescribeImagesInput{IncludeDeprecated: sdk.Bool(true), Filters: []types.Filter{awsapi.NewFilter("image-id", wanted...)}})
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

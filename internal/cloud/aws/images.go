// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
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

// findImages are the images that the terms choose: one that is not deprecated before one that is, a newer before an older.
func (cr *classResolver) findImages(ctx context.Context, c *nodeClass, kubernetes string) ([]image, error) {
	terms := c.spec.AMISelectorTerms
	found := map[string]image{}
	ask := func(in *ec2.DescribeImagesInput, wants map[string]model.Requirements) error {
		// Images of which the account sees none are no answer, not an error.
		pages := ec2.NewDescribeImagesPaginator(cr.aws.EC2, in)
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				if strings.HasPrefix(errorCode(err), "InvalidAMIID") {
					return nil
				}
				return err
			}
			for i := range page.Images {
				if im, ok := cr.readImage(&page.Images[i]); ok {
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
		out, err := cr.findAliasImages(ctx, family, version, kubernetes)
		if err != nil {
			return nil, err
		}
		if len(out) == 0 {
			return nil, newUnresolvedError(awsv1.ReasonAMINotFound, "spec.amiSelectorTerms[0].alias: %s@%s: there is no such image for Kubernetes %s in region %s; choose another version or family",
				strings.ToLower(family), version, kubernetes, cr.aws.Region)
		}
		return out, nil
	}
	for i, t := range terms {
		in := &ec2.DescribeImagesInput{}
		switch {
		case t.ID != "":
			in.Filters = []types.Filter{newFilter("image-id", t.ID)}
		case t.SSMParameter != "":
			ids, err := cr.getParameters(ctx, []string{t.SSMParameter})
			if err != nil {
				return nil, err
			}
			if len(ids) == 0 {
				return nil, newUnresolvedError(awsv1.ReasonAMINotFound, "spec.amiSelectorTerms[%d].ssmParameter: %s: there is no such parameter in region %s", i, t.SSMParameter, cr.aws.Region)
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
		return nil, newUnresolvedError(awsv1.ReasonAMINotFound, "spec.amiSelectorTerms: no image of region %s matches %s; mend the terms or share the image with this account", cr.aws.Region, selectorKey(terms))
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

func (cr *classResolver) readImage(in *types.Image) (image, bool) {
	im := image{id: deref(in.ImageId), name: deref(in.Name), created: deref(in.CreationDate)}
	if t, err := time.Parse(time.RFC3339, deref(in.DeprecationTime)); err == nil {
		im.deprecated = !cr.aws.clock.Now().Before(t)
	}
	arch := map[types.ArchitectureValues]string{types.ArchitectureValuesX8664: "amd64", types.ArchitectureValuesArm64: "arm64"}[in.Architecture]
	if arch == "" || in.State != "" && in.State != types.ImageStateAvailable {
		return im, false
	}
	im.requirements = model.NewRequirements(model.OneOf(model.LabelArch, arch))
	return im, true
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package asg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
)

// addRequirements records the attribute-based instance type requirements of a group. Auto Scaling, launch templates and
// the call that lists matching types have different structs with the same fields: said is one of the first two.
func (g *group) addRequirements(said any) {
	var a types.InstanceRequirementsRequest
	raw, err := json.Marshal(said)
	if err == nil {
		err = json.Unmarshal(raw, &a)
	}
	if err != nil { // of plain fields: it can't fail
		g.problem = fmt.Sprintf("its InstanceRequirements can't be read: %v", err)
		return
	}
	g.instanceRequirements = append(g.instanceRequirements, a)
}

// resolveTypes finds the types that meet a group's instance requirements, for the architecture of its image. What a
// person has to mend is the group's problem; an error is one of a call that may work the next time.
func (r *reader) resolveTypes(ctx context.Context, g *group) error {
	arch, err := r.imageArchitecture(ctx, awsapi.Deref(g.templateData.ImageId))
	if err == nil {
		for _, a := range g.instanceRequirements {
			var list []string
			if list, err = r.typesMeeting(ctx, arch, a); err != nil {
				break
			}
			for _, name := range list {
				if !slices.Contains(g.instanceTypes, name) {
					g.instanceTypes = append(g.instanceTypes, name)
				}
			}
		}
	}
	var u *awsapi.UnresolvedError
	switch code := awsapi.ErrorCode(err); {
	case errors.As(err, &u):
		g.problem = u.Text
	case awsapi.IsDenied(code):
		g.problem = awsapi.ReadableError(err).Error() + "; allow the call in the controller's IAM policy"
	case awsapi.WasRejected(err, code):
		g.problem = "its InstanceRequirements: " + awsapi.ReadableError(err).Error()
	case err != nil:
		return err
	case len(g.instanceTypes) == 0:
		g.problem = "no instance type in region " + r.aws.Region + " matches its InstanceRequirements; relax them"
	}
	return nil
}

// imageArchitecture is the architecture of an image, as EC2 calls it.
func (r *reader) imageArchitecture(ctx context.Context, image string) (types.ArchitectureType, error) {
	return r.architectures.Get(ctx, image, func(ctx context.Context) (types.ArchitectureType, error) {
		if image == "" {
			return "", awsapi.NewUnresolvedError("", "its launch template has no AMI, so its InstanceRequirements can't be resolved; set one")
		}
		res, err := r.aws.EC2.DescribeImages(ctx, &ec2.DescribeImagesInput{ImageIds: []string{image}})
		if strings.HasPrefix(awsapi.ErrorCode(err), "InvalidAMIID") || err == nil && len(res.Images) == 0 {
			return "", awsapi.NewUnresolvedError("", "image %s of its launch template does not exist; name another", image)
		}
		if err != nil {
			return "", err
		}
		return types.ArchitectureType(res.Images[0].Architecture), nil
	})
}

// typesMeeting are the names of the types that meet instance requirements, sorted.
func (r *reader) typesMeeting(ctx context.Context, arch types.ArchitectureType, a types.InstanceRequirementsRequest) ([]string, error) {
	return r.types.Get(ctx, string(arch)+" "+awsapi.SelectorKey(a), func(ctx context.Context) ([]string, error) {
		var out []string
		pages := ec2.NewGetInstanceTypesFromInstanceRequirementsPaginator(r.aws.EC2, &ec2.GetInstanceTypesFromInstanceRequirementsInput{
			ArchitectureTypes: []types.ArchitectureType{arch}, VirtualizationTypes: []types.VirtualizationType{types.VirtualizationTypeHvm}, InstanceRequirements: &a,
		})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, err
			}
			for _, t := range page.InstanceTypes {
				out = append(out, awsapi.Deref(t.InstanceType))
			}
		}
		slices.Sort(out)
		return out, nil
	})
}

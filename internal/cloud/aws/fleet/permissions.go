// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package fleet

import (
	"context"
	"fmt"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/nodeclass"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/offering"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// checkPermissions tries out, without effect, the calls that buying takes. The zero condition: all are allowed, which
// holds for a while. What is not is tried again the next time: it is mended, or IAM has told EC2 by then.
func (p *Provider) checkPermissions(ctx context.Context, r *nodeclass.Resolved) (model.Condition, error) {
	key := r.Hash + " " + r.Profile + " " + awsapi.SelectorKey(r.SecurityGroups) + awsapi.SelectorKey(r.Spec.SubnetSelectorTerms)
	verdict, err := p.permissions.Get(ctx, key, func(ctx context.Context) (model.Condition, error) {
		cat, err := p.catalogue.Load(ctx, false)
		if err != nil {
			return model.Condition{}, err
		}
		var any *offering.Type
		for _, t := range cat.Types {
			if any = p.buildType(r, cat, t, placementRulesOf(nil, r)); any != nil {
				break
			}
		}
		if any == nil {
			return model.Condition{}, nil // there is nothing to buy: Offerings says so
		}
		t, err := buildTemplate(p.aws.Config.ClusterName, r, "", nodeclass.RegistrationOf(cloud.LaunchRequest{}, any.Kubelet, any.MaxPods), templateVariant{imageID: any.ImageID, openReservations: p.aws.Config.NoReservedCapacity})
		if err != nil {
			return model.Condition{}, err
		}
		s := r.BestSubnet(any.InstanceType.Offerings[0].Zone)
		tags := t.tags
		for _, call := range []struct {
			reason, name string
			do           func() error
		}{
			{awsv1.ReasonCreateLaunchTemplateAuthCheckFailed, "ec2:CreateLaunchTemplate", func() error {
				_, err := p.aws.EC2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{DryRun: sdk.Bool(true), LaunchTemplateName: &t.name, LaunchTemplateData: t.data,
					TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeLaunchTemplate, Tags: tags}}})
				return err
			}},
			{awsv1.ReasonRunInstancesAuthCheckFailed, "ec2:RunInstances", func() error {
				_, err := p.aws.EC2.RunInstances(ctx, &ec2.RunInstancesInput{DryRun: sdk.Bool(true), MinCount: sdk.Int32(1), MaxCount: sdk.Int32(1), ImageId: &any.ImageID,
					InstanceType: types.InstanceType(any.Name), SubnetId: &s.ID, IamInstanceProfile: &types.IamInstanceProfileSpecification{Name: &r.Profile},
					TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeInstance, Tags: tags}}})
				return err
			}},
			{awsv1.ReasonCreateFleetAuthCheckFailed, "ec2:CreateFleet", func() error {
				_, err := p.aws.EC2.CreateFleet(ctx, &ec2.CreateFleetInput{DryRun: sdk.Bool(true), Type: types.FleetTypeInstant,
					LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{
						LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: &t.name, Version: sdk.String("$Latest")},
						Overrides:                   []types.FleetLaunchTemplateOverridesRequest{{InstanceType: types.InstanceType(any.Name), SubnetId: &s.ID}},
					}},
					TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{TotalTargetCapacity: sdk.Int32(1), DefaultTargetCapacityType: types.DefaultTargetCapacityTypeOnDemand},
					TagSpecifications:           []types.TagSpecification{{ResourceType: types.ResourceTypeFleet, Tags: tags}},
				})
				return err
			}},
		} {
			err := call.do()
			switch code := awsapi.ErrorCode(err); {
			case code == "UnauthorizedOperation" || code == "AccessDenied":
				return nodeclass.FalseCondition(call.reason, fmt.Sprintf("%s is not allowed: %s; allow it in the controller's IAM policy", call.name, awsapi.ReadableError(err))), nil
			case err == nil, code == awsapi.CodeDryRun, awsapi.IsTemplateNotFound(code), code == awsapi.CodeTemplateExists:
			case strings.HasPrefix(code, "InvalidParameterValue") && strings.Contains(err.Error(), "nstance"), strings.Contains(code, "InvalidIamInstanceProfile"):
				if strings.Contains(strings.ToLower(err.Error()), "profile") {
					if r.Spec.Role != "" { // it has just been made, and EC2 hears of that some seconds later
						return model.Condition{}, awsapi.NotReadyError("class status", r.Name, "EC2 does not find instance profile %s of spec.role %s yet: %s; trying again", r.Profile, r.Spec.Role, awsapi.ReadableError(err))
					}
					return nodeclass.FalseCondition(awsv1.ReasonInstanceProfileNotFound, fmt.Sprintf("spec.instanceProfile: %s: %s; create it or name another", r.Profile, awsapi.ReadableError(err))), nil
				}
			default:
				if awsapi.IsThrottled(code) || code == "" {
					return model.Condition{}, err
				}
			}
		}
		return model.Condition{}, nil
	})
	if verdict.Status != "" {
		p.permissions.Forget(key)
	}
	return verdict, err
}

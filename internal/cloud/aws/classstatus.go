// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// validateClass says what is wrong with a class beyond its selectors, as far as that can be seen without asking.
func (p *Provider) validateClass(r *resolvedClass) model.Condition {
	if r.kubeletErr != nil {
		return falseCondition(awsv1.ReasonInvalidKubeletConfiguration, r.kubeletErr.Error())
	}
	if fields := r.unsupportedKubeletFields(); len(fields) > 0 {
		return falseCondition(awsv1.ReasonUnsupportedKubeletConfiguration, fmt.Sprintf("spec.kubelet: %s can't be set on machines of family %s; take it away or use AL2023", strings.Join(fields, ", "), r.family))
	}
	for _, k := range slices.Sorted(maps.Keys(r.spec.Tags)) {
		if strings.HasPrefix(strings.ToLower(k), "aws:") || k == "kubernetes.io/cluster/"+p.config.ClusterName || k == awsv1.TagClaimUID {
			return falseCondition(awsv1.ReasonTagValidationFailed, "spec.tags: "+k+" is reserved; take it away")
		}
		if len(k) > 128 || len(r.spec.Tags[k]) > 256 {
			return falseCondition(awsv1.ReasonTagValidationFailed, "spec.tags: "+k+": a key has at most 128 characters and a value 256; shorten it")
		}
	}
	if r.family != familyCustom && r.cluster.endpoint == "" {
		return falseCondition(awsv1.ReasonDependenciesNotReady, "cluster: the API server's endpoint is not known; set CLUSTER_ENDPOINT")
	}
	if r.family == familyAL2023 && r.cluster.cidr == "" {
		return falseCondition("ClusterCIDRResolutionFailed", "cluster: the service CIDR, which AL2023 needs, is not known; allow eks:DescribeCluster on cluster "+p.config.ClusterName)
	}
	if _, err := r.writeUserData(p.config.ClusterName, registrationOf(cloud.LaunchRequest{}, 110)); err != nil {
		var u *unresolvedError
		if errors.As(err, &u) {
			return falseCondition(u.reason, u.text)
		}
		return falseCondition(awsv1.ReasonInvalidUserData, err.Error())
	}
	return model.Condition{}
}

// ClassStatus implements cloud.ClassStatuser.
func (p *Provider) ClassStatus(ctx context.Context, nc cloud.NodeClass) (cloud.ClassStatus, error) {
	const op = "class status"
	if isNodeGroupClass(nc) {
		return p.groupClassStatus(ctx, nc)
	}
	c, err := readNodeClass(op, nc)
	if cloud.KindOf(err) == cloud.NotReady {
		bad := falseCondition(awsv1.ReasonDependenciesNotReady, errors.Unwrap(err).Error())
		return cloud.ClassStatus{Conditions: map[string]model.Condition{awsv1.ConditionValidationSucceeded: bad, awsv1.ConditionReady: bad}}, nil
	}
	if err != nil {
		return cloud.ClassStatus{}, err
	}
	r, err := p.resolveClass(ctx, c)
	if err != nil {
		return cloud.ClassStatus{}, classifyError(ctx, op, c.name, err)
	}
	if len(r.problems) == 0 && !p.config.DisableDryRun {
		verdict, err := p.checkPermissions(ctx, r)
		if err != nil {
			return cloud.ClassStatus{}, classifyError(ctx, op, c.name, err)
		}
		if verdict.Status != "" {
			r.problems[awsv1.ConditionValidationSucceeded] = verdict
		}
	}
	return r.classStatus()
}

// classStatus writes what was resolved.
func (r *resolvedClass) classStatus() (cloud.ClassStatus, error) {
	out := cloud.ClassStatus{Conditions: map[string]model.Condition{}}
	var unready []string
	for _, k := range conditionOrder {
		switch p, bad := r.problems[k]; {
		case bad:
			out.Conditions[k] = p
			unready = append(unready, k+": "+p.Message)
		case k == awsv1.ConditionPlacementGroupReady && r.spec.PlacementGroupSelector == nil,
			k == awsv1.ConditionCapacityReservationsReady && len(r.spec.CapacityReservationSelectorTerms) == 0:
		case k == awsv1.ConditionValidationSucceeded && len(r.problems) > 0:
			out.Conditions[k] = model.Condition{Status: "Unknown", Reason: awsv1.ReasonDependenciesNotReady, Message: "waits for the other conditions"}
		default:
			out.Conditions[k] = model.Condition{Status: "True", Reason: k}
		}
	}
	out.Conditions[awsv1.ConditionReady] = model.Condition{Status: "True", Reason: awsv1.ConditionReady}
	if len(unready) > 0 {
		out.Conditions[awsv1.ConditionReady] = falseCondition(awsv1.ReasonUnhealthyDependents, strings.Join(unready, "; "))
	}
	s := awsv1.EC2NodeClassStatus{InstanceProfile: r.profile}
	for _, n := range r.subnets {
		s.Subnets = append(s.Subnets, awsv1.Subnet{ID: n.id, Zone: n.zone, ZoneID: n.zoneID})
	}
	for _, g := range r.securityGroups {
		s.SecurityGroups = append(s.SecurityGroups, awsv1.SecurityGroup{ID: g.id, Name: g.name})
	}
	for i := range r.images {
		im := &r.images[i]
		s.AMIs = append(s.AMIs, awsv1.AMI{ID: im.id, Name: im.name, Deprecated: im.deprecated, Requirements: im.nodeSelectorRequirements()})
	}
	for _, c := range r.reservations {
		s.CapacityReservations = append(s.CapacityReservations, c.CapacityReservation)
	}
	var err error
	out.Status, err = json.Marshal(s)
	return out, err
}

// checkPermissions tries out, without effect, the calls that buying takes. The zero condition: all are allowed, which holds for a while. What is not
// is tried again the next time: it is mended, or IAM has told EC2 by then.
func (p *Provider) checkPermissions(ctx context.Context, r *resolvedClass) (model.Condition, error) {
	key := r.hash + " " + r.profile + " " + selectorKey(r.securityGroups) + selectorKey(r.spec.SubnetSelectorTerms)
	verdict, err := p.permissionCache.get(ctx, key, func(ctx context.Context) (model.Condition, error) {
		g, err := p.loadCatalogue(ctx, false)
		if err != nil {
			return model.Condition{}, err
		}
		var any *offeredType
		for _, t := range g.types {
			if any = p.buildFleetType(r, g, t); any != nil {
				break
			}
		}
		if any == nil {
			return model.Condition{}, nil // there is nothing to buy: Offerings says so
		}
		t, err := p.buildTemplate(r, "", registrationOf(cloud.LaunchRequest{}, any.maxPods), templateVariant{imageID: any.image.id, maxPods: any.maxPods})
		if err != nil {
			return model.Condition{}, err
		}
		s := r.bestSubnet(any.instanceType.Offerings[0].Zone)
		tags := t.tags
		for _, call := range []struct {
			reason, name string
			do           func() error
		}{
			{awsv1.ReasonCreateLaunchTemplateAuthCheckFailed, "ec2:CreateLaunchTemplate", func() error {
				_, err := p.ec2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{DryRun: sdk.Bool(true), LaunchTemplateName: &t.name, LaunchTemplateData: t.data,
					TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeLaunchTemplate, Tags: tags}}})
				return err
			}},
			{awsv1.ReasonRunInstancesAuthCheckFailed, "ec2:RunInstances", func() error {
				_, err := p.ec2.RunInstances(ctx, &ec2.RunInstancesInput{DryRun: sdk.Bool(true), MinCount: sdk.Int32(1), MaxCount: sdk.Int32(1), ImageId: &any.image.id,
					InstanceType: types.InstanceType(any.name), SubnetId: &s.id, IamInstanceProfile: &types.IamInstanceProfileSpecification{Name: &r.profile},
					TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeInstance, Tags: tags}}})
				return err
			}},
			{awsv1.ReasonCreateFleetAuthCheckFailed, "ec2:CreateFleet", func() error {
				_, err := p.ec2.CreateFleet(ctx, &ec2.CreateFleetInput{DryRun: sdk.Bool(true), Type: types.FleetTypeInstant,
					LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{
						LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: &t.name, Version: sdk.String("$Latest")},
						Overrides:                   []types.FleetLaunchTemplateOverridesRequest{{InstanceType: types.InstanceType(any.name), SubnetId: &s.id}},
					}},
					TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{TotalTargetCapacity: sdk.Int32(1), DefaultTargetCapacityType: types.DefaultTargetCapacityTypeOnDemand},
					TagSpecifications:           []types.TagSpecification{{ResourceType: types.ResourceTypeFleet, Tags: tags}},
				})
				return err
			}},
		} {
			err := call.do()
			switch code := errorCode(err); {
			case code == "UnauthorizedOperation" || code == "AccessDenied":
				return falseCondition(call.reason, fmt.Sprintf("%s is not allowed: %s; allow it in the controller's IAM policy", call.name, readableError(err))), nil
			case err == nil, code == codeDryRun, isTemplateNotFound(code), code == codeTemplateExists:
			case strings.HasPrefix(code, "InvalidParameterValue") && strings.Contains(err.Error(), "nstance"), strings.Contains(code, "InvalidIamInstanceProfile"):
				if strings.Contains(strings.ToLower(err.Error()), "profile") {
					if r.spec.Role != "" { // it has just been made, and EC2 hears of that some seconds later
						return model.Condition{}, notReadyError("class status", r.name, "EC2 does not know instance profile %s of spec.role %s yet: %s; it is asked again", r.profile, r.spec.Role, readableError(err))
					}
					return falseCondition(awsv1.ReasonInstanceProfileNotFound, fmt.Sprintf("spec.instanceProfile: %s: %s; create it or name another", r.profile, readableError(err))), nil
				}
			default:
				if isThrottled(code) || code == "" {
					return model.Condition{}, err
				}
			}
		}
		return model.Condition{}, nil
	})
	if verdict.Status != "" {
		p.permissionCache.forget(key)
	}
	return verdict, err
}

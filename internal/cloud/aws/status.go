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

// validate says what is wrong with a class beyond its selectors, as far as that can be seen without asking.
func (p *Provider) validate(r *resolved) model.Condition {
	if r.kubeletErr != nil {
		return problem(awsv1.ReasonInvalidKubeletConfiguration, r.kubeletErr.Error())
	}
	if fields := r.unsupported(); len(fields) > 0 {
		return problem(awsv1.ReasonUnsupportedKubeletConfiguration, fmt.Sprintf("spec.kubelet: %s can't be set on machines of family %s; take it away or use AL2023", strings.Join(fields, ", "), r.family))
	}
	for _, k := range slices.Sorted(maps.Keys(r.spec.Tags)) {
		if strings.HasPrefix(strings.ToLower(k), "aws:") || k == "kubernetes.io/cluster/"+p.config.ClusterName || k == awsv1.TagClaimUID {
			return problem(awsv1.ReasonTagValidationFailed, "spec.tags: "+k+" is reserved; take it away")
		}
		if len(k) > 128 || len(r.spec.Tags[k]) > 256 {
			return problem(awsv1.ReasonTagValidationFailed, "spec.tags: "+k+": a key has at most 128 characters and a value 256; shorten it")
		}
	}
	if r.family != familyCustom && r.cluster.endpoint == "" {
		return problem(awsv1.ReasonDependenciesNotReady, "cluster: the API server's endpoint is not known; set CLUSTER_ENDPOINT")
	}
	if r.family == familyAL2023 && r.cluster.cidr == "" {
		return problem("ClusterCIDRResolutionFailed", "cluster: the service CIDR, which AL2023 needs, is not known; allow eks:DescribeCluster on cluster "+p.config.ClusterName)
	}
	if _, err := r.userData(p.config.ClusterName, join(cloud.LaunchRequest{}, 110)); err != nil {
		var u *unresolvedError
		if errors.As(err, &u) {
			return problem(u.reason, u.text)
		}
		return problem(awsv1.ReasonInvalidUserData, err.Error())
	}
	return model.Condition{}
}

// ClassStatus implements cloud.ClassStatuser.
func (p *Provider) ClassStatus(ctx context.Context, nc cloud.NodeClass) (cloud.ClassStatus, error) {
	const op = "class status"
	if ofGroups(nc) {
		return p.groupStatus(ctx, nc)
	}
	c, err := readClass(op, nc)
	if cloud.KindOf(err) == cloud.NotReady {
		bad := problem(awsv1.ReasonDependenciesNotReady, errors.Unwrap(err).Error())
		return cloud.ClassStatus{Conditions: map[string]model.Condition{awsv1.ConditionValidationSucceeded: bad, awsv1.ConditionReady: bad}}, nil
	}
	if err != nil {
		return cloud.ClassStatus{}, err
	}
	r, err := p.resolve(ctx, c)
	if err != nil {
		return cloud.ClassStatus{}, failed(ctx, op, c.name, err)
	}
	if len(r.problems) == 0 && !p.config.DisableDryRun {
		verdict, err := p.permission(ctx, r)
		if err != nil {
			return cloud.ClassStatus{}, failed(ctx, op, c.name, err)
		}
		if verdict.Status != "" {
			r.problems[awsv1.ConditionValidationSucceeded] = verdict
		}
	}
	return r.status()
}

// status writes what was resolved.
func (r *resolved) status() (cloud.ClassStatus, error) {
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
		out.Conditions[awsv1.ConditionReady] = problem(awsv1.ReasonUnhealthyDependents, strings.Join(unready, "; "))
	}
	s := awsv1.EC2NodeClassStatus{InstanceProfile: r.profile}
	for _, n := range r.subnets {
		s.Subnets = append(s.Subnets, awsv1.Subnet{ID: n.id, Zone: n.zone, ZoneID: n.zoneID})
	}
	for _, g := range r.groups {
		s.SecurityGroups = append(s.SecurityGroups, awsv1.SecurityGroup{ID: g.id, Name: g.name})
	}
	for i := range r.images {
		im := &r.images[i]
		s.AMIs = append(s.AMIs, awsv1.AMI{ID: im.id, Name: im.name, Deprecated: im.deprecated, Requirements: im.requirements()})
	}
	for _, c := range r.reservations {
		s.CapacityReservations = append(s.CapacityReservations, c.CapacityReservation)
	}
	var err error
	out.Status, err = json.Marshal(s)
	return out, err
}

// permission tries out, without effect, the calls that buying takes. The zero condition: all are allowed, which holds for a while. What is not
// is tried again the next time: it is mended, or IAM has told EC2 by then.
func (p *Provider) permission(ctx context.Context, r *resolved) (model.Condition, error) {
	key := r.hash + " " + r.profile + " " + selector(r.groups) + selector(r.spec.SubnetSelectorTerms)
	verdict, err := p.permitted.get(ctx, key, func(ctx context.Context) (model.Condition, error) {
		g, err := p.goods(ctx, false)
		if err != nil {
			return model.Condition{}, err
		}
		var any *offered
		for _, t := range g.types {
			if any = p.offerType(r, g, t); any != nil {
				break
			}
		}
		if any == nil {
			return model.Condition{}, nil // there is nothing to buy: Offerings says so
		}
		t, err := p.template(r, "", join(cloud.LaunchRequest{}, any.pods), variation{image: any.image.id, pods: any.pods})
		if err != nil {
			return model.Condition{}, err
		}
		s := r.best(any.it.Offerings[0].Zone)
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
			switch code := codeOf(err); {
			case code == "UnauthorizedOperation" || code == "AccessDenied":
				return problem(call.reason, fmt.Sprintf("%s is not allowed: %s; allow it in the controller's IAM policy", call.name, brief(err))), nil
			case err == nil, code == codeDryRun, noTemplate(code), code == codeTemplateExists:
			case strings.HasPrefix(code, "InvalidParameterValue") && strings.Contains(err.Error(), "nstance"), strings.Contains(code, "InvalidIamInstanceProfile"):
				if strings.Contains(strings.ToLower(err.Error()), "profile") {
					if r.spec.Role != "" { // it has just been made, and EC2 hears of that some seconds later
						return model.Condition{}, notReady("class status", r.name, "EC2 does not know instance profile %s of spec.role %s yet: %s; it is asked again", r.profile, r.spec.Role, brief(err))
					}
					return problem(awsv1.ReasonInstanceProfileNotFound, fmt.Sprintf("spec.instanceProfile: %s: %s; create it or name another", r.profile, brief(err))), nil
				}
			default:
				if throttled(code) || code == "" {
					return model.Condition{}, err
				}
			}
		}
		return model.Condition{}, nil
	})
	if verdict.Status != "" {
		p.permitted.forget(key)
	}
	return verdict, err
}

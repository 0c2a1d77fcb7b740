// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodeclass

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Validate returns a false condition if a class is invalid in fields other than its selectors, as far as can be checked
// without requests; the zero condition if it is valid.
func (cr *Resolver) Validate(r *Resolved) model.Condition {
	if r.kubeletErr != nil {
		return FalseCondition(awsv1.ReasonInvalidKubeletConfiguration, r.kubeletErr.Error())
	}
	if list := r.KubeletConfig.expressions; len(list) > 0 && !cr.aws.Config.KubeletExpressions {
		return FalseCondition(awsv1.ReasonKubeletExpressionsDisabled, list[0].disabledText())
	}
	if fields := r.unsupportedKubeletFields(); len(fields) > 0 {
		return FalseCondition(awsv1.ReasonUnsupportedKubeletConfiguration, fmt.Sprintf("spec.kubelet: %s is not supported for AMI family %s; remove it or use AL2023", strings.Join(fields, ", "), r.Family))
	}
	for _, k := range slices.Sorted(maps.Keys(r.Spec.Tags)) {
		if strings.HasPrefix(strings.ToLower(k), "aws:") || k == "kubernetes.io/cluster/"+cr.aws.Config.ClusterName || k == awsv1.TagClaimUID {
			return FalseCondition(awsv1.ReasonTagValidationFailed, "spec.tags: "+k+" is reserved; remove it")
		}
		if len(k) > 128 || len(r.Spec.Tags[k]) > 256 {
			return FalseCondition(awsv1.ReasonTagValidationFailed, "spec.tags: "+k+": a key has at most 128 characters and a value 256; shorten it")
		}
	}
	if r.Family != familyCustom && r.Cluster.Endpoint == "" {
		return FalseCondition(awsv1.ReasonDependenciesNotReady, "cluster: the API server's endpoint is not known; set CLUSTER_ENDPOINT")
	}
	if r.Family == FamilyAL2023 && r.Cluster.CIDR == "" {
		return FalseCondition("ClusterCIDRResolutionFailed", "cluster: the service CIDR, which AL2023 needs, is not known; allow eks:DescribeCluster on cluster "+cr.aws.Config.ClusterName)
	}
	if _, err := r.WriteUserData(cr.aws.Config.ClusterName, RegistrationOf(cloud.LaunchRequest{}, r.KubeletConfig.withSamples(), 110)); err != nil {
		var u *awsapi.UnresolvedError
		if errors.As(err, &u) {
			return FalseCondition(u.Reason, u.Text)
		}
		return FalseCondition(awsv1.ReasonInvalidUserData, err.Error())
	}
	return model.Condition{}
}

// Status returns the desired status of the class: a condition for each part, Ready, and the resolved resources.
func (r *Resolved) Status() (cloud.ClassStatus, error) {
	out := cloud.ClassStatus{Conditions: map[string]model.Condition{}}
	var unready []string
	for _, k := range conditionOrder {
		switch p, bad := r.Problems[k]; {
		case bad:
			out.Conditions[k] = p
			unready = append(unready, k+": "+p.Message)
		case k == awsv1.ConditionPlacementGroupReady && r.Spec.PlacementGroupSelector == nil,
			k == awsv1.ConditionCapacityReservationsReady && len(r.Spec.CapacityReservationSelectorTerms) == 0:
		case k == awsv1.ConditionValidationSucceeded && len(r.Problems) > 0:
			out.Conditions[k] = model.Condition{Status: "Unknown", Reason: awsv1.ReasonDependenciesNotReady, Message: "waiting for the other conditions"}
		default:
			out.Conditions[k] = model.Condition{Status: "True", Reason: k}
		}
	}
	out.Conditions[awsv1.ConditionReady] = model.Condition{Status: "True", Reason: awsv1.ConditionReady}
	if len(unready) > 0 {
		out.Conditions[awsv1.ConditionReady] = FalseCondition(awsv1.ReasonUnhealthyDependents, strings.Join(unready, "; "))
	}
	s := awsv1.EC2NodeClassStatus{InstanceProfile: r.Profile}
	for _, n := range r.Subnets {
		s.Subnets = append(s.Subnets, awsv1.Subnet{ID: n.ID, Zone: n.Zone, ZoneID: n.ZoneID})
	}
	for _, g := range r.SecurityGroups {
		s.SecurityGroups = append(s.SecurityGroups, awsv1.SecurityGroup{ID: g.ID, Name: g.Name})
	}
	for i := range r.Images {
		im := &r.Images[i]
		s.AMIs = append(s.AMIs, awsv1.AMI{ID: im.ID, Name: im.name, Deprecated: im.deprecated, Requirements: im.nodeSelectorRequirements()})
	}
	for _, c := range r.Reservations {
		s.CapacityReservations = append(s.CapacityReservations, c.CapacityReservation)
	}
	var err error
	out.Status, err = json.Marshal(s)
	return out, err
}

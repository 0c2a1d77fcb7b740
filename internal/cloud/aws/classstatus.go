// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// validate says what is wrong with a class beyond its selectors, as far as that can be seen without asking.
func (cr *classResolver) validate(r *resolvedClass) model.Condition {
	if r.kubeletErr != nil {
		return falseCondition(awsv1.ReasonInvalidKubeletConfiguration, r.kubeletErr.Error())
	}
	if fields := r.unsupportedKubeletFields(); len(fields) > 0 {
		return falseCondition(awsv1.ReasonUnsupportedKubeletConfiguration, fmt.Sprintf("spec.kubelet: %s can't be set on machines of family %s; take it away or use AL2023", strings.Join(fields, ", "), r.family))
	}
	for _, k := range slices.Sorted(maps.Keys(r.spec.Tags)) {
		if strings.HasPrefix(strings.ToLower(k), "aws:") || k == "kubernetes.io/cluster/"+cr.aws.config.ClusterName || k == awsv1.TagClaimUID {
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
		return falseCondition("ClusterCIDRResolutionFailed", "cluster: the service CIDR, which AL2023 needs, is not known; allow eks:DescribeCluster on cluster "+cr.aws.config.ClusterName)
	}
	if _, err := r.writeUserData(cr.aws.config.ClusterName, registrationOf(cloud.LaunchRequest{}, 110)); err != nil {
		var u *unresolvedError
		if errors.As(err, &u) {
			return falseCondition(u.reason, u.text)
		}
		return falseCondition(awsv1.ReasonInvalidUserData, err.Error())
	}
	return model.Condition{}
}

// status writes what was resolved.
func (r *resolvedClass) status() (cloud.ClassStatus, error) {
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

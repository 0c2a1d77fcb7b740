// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package launch

import (
	"context"
	"fmt"
	"maps"
	"strings"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instances"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/offering"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// NewResult returns the result for a claim for which an option was launched as instance id. hash is the hash of its node
// class.
func NewResult(c offering.Option, id string, req cloud.LaunchRequest, hash string) cloud.LaunchResult {
	out := cloud.LaunchResult{
		ClaimUID: req.ClaimUID, ProviderID: instances.ProviderID(c.Offering.Zone, id), InstanceType: c.Name, Zone: c.Offering.Zone, CapacityType: c.Offering.CapacityType,
		PriceMicro: c.Offering.PriceMicro, Modelled: c.Offering.Modelled, ImageID: c.ImageID, Capacity: c.InstanceType.Capacity, Allocatable: c.InstanceType.Allocatable,
		Labels:      model.Labels{model.LabelZone: c.Offering.Zone, model.LabelCapacityType: c.Offering.CapacityType},
		Annotations: model.Labels{awsv1.AnnotationEC2NodeClassHash: hash, awsv1.AnnotationEC2NodeClassHashVersion: awsv1.EC2NodeClassHashVersion},
	}
	for _, from := range []model.Labels{c.InstanceType.Labels, c.Offering.Labels} {
		maps.Copy(out.Labels, from)
	}
	return out
}

// DescribeRequest returns a description of what a request allows, for messages.
func DescribeRequest(r cloud.LaunchRequest) string {
	var out []string
	if len(r.Types) > 0 {
		out = append(out, fmt.Sprintf("%d types", len(r.Types)))
	}
	if len(r.Zones) > 0 {
		out = append(out, "zones "+strings.Join(r.Zones, ", "))
	}
	if len(r.CapacityTypes) > 0 {
		out = append(out, "capacity types "+strings.Join(r.CapacityTypes, ", "))
	}
	if len(r.Requirements) > 0 {
		s := r.Requirements.String()
		if len(s) > 300 {
			s = s[:300] + "…"
		}
		out = append(out, "requirements "+s)
	}
	if len(out) == 0 {
		return "any requirements"
	}
	return strings.Join(out, ", ")
}

// FormatRequests returns the requested resources of a machine, for messages.
func FormatRequests(r model.Resources) string {
	if r.IsZero() {
		return "a node"
	}
	return r.Format(model.FixedNames())
}

// Confirm returns the result of a claim's launch, or NotFound if the machine has been terminated. l.Result must be set.
func Confirm(ctx context.Context, x *instances.Index, req cloud.LaunchRequest, l *Claim) cloud.LaunchResult {
	runs, err := x.IsRunning(ctx, instances.InstanceID(l.Result.ProviderID), l.LaunchedAt)
	switch {
	case err != nil:
		return cloud.LaunchResult{Err: awsapi.ClassifyError(ctx, "launch", req.ClaimName, err)}
	case !runs:
		return Ended(req, l.Result.ProviderID)
	}
	return *l.Result
}

// Ended returns the result for a claim whose machine has been terminated.
func Ended(req cloud.LaunchRequest, machine string) cloud.LaunchResult {
	return cloud.LaunchResult{Err: &cloud.Error{Kind: cloud.NotFound, Op: "launch", Object: req.ClaimName, Err: fmt.Errorf("its instance %s was terminated", machine)}}
}

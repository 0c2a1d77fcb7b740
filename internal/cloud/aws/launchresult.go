// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"context"
	"fmt"
	"strings"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// launchResult describes a machine that was bought.
func launchResult(c launchOption, id string, req cloud.LaunchRequest, hash string) cloud.LaunchResult {
	out := cloud.LaunchResult{
		ClaimUID: req.ClaimUID, ProviderID: providerID(c.offering.Zone, id), InstanceType: c.name, Zone: c.offering.Zone, CapacityType: c.offering.CapacityType,
		PriceMicro: c.offering.PriceMicro, Modelled: c.offering.Modelled, ImageID: c.imageID, Capacity: c.instanceType.Capacity, Allocatable: c.instanceType.Allocatable,
		Labels:      model.Labels{model.LabelZone: c.offering.Zone, model.LabelCapacityType: c.offering.CapacityType},
		Annotations: model.Labels{awsv1.AnnotationEC2NodeClassHash: hash, awsv1.AnnotationEC2NodeClassHashVersion: awsv1.EC2NodeClassHashVersion},
	}
	for _, from := range []model.Labels{c.instanceType.Labels, c.offering.Labels} {
		for k, v := range from {
			out.Labels[k] = v
		}
	}
	return out
}

func describeRequest(r cloud.LaunchRequest) string {
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

func formatRequests(r model.Resources) string {
	if r.IsZero() {
		return "a node"
	}
	return r.Format(model.FixedNames())
}

// confirmLaunched answers with what a claim's launch has bought, or NotFound when that machine has ended since.
func confirmLaunched(ctx context.Context, x *instanceIndex, req cloud.LaunchRequest, l *claimLaunch) cloud.LaunchResult {
	runs, err := x.isRunning(ctx, instanceID(l.result.ProviderID), l.launchedAt)
	switch {
	case err != nil:
		return cloud.LaunchResult{Err: classifyError(ctx, "launch", req.ClaimName, err)}
	case !runs:
		return endedResult(req, l.result.ProviderID)
	}
	return *l.result
}

// endedResult is the answer for a claim whose machine has ended.
func endedResult(req cloud.LaunchRequest, machine string) cloud.LaunchResult {
	return cloud.LaunchResult{Err: &cloud.Error{Kind: cloud.NotFound, Op: "launch", Object: req.ClaimName, Err: fmt.Errorf("its machine %s has ended", machine)}}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import (
	"maps"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/shapes"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/wire"
)

// Lists for interactive clients. Neither Dovetail nor another autoscaler requests them.

func (t *tx) listQueues(in *shapes.SQSListQueuesRequest) (*shapes.SQSListQueuesResult, error) {
	if !strings.HasPrefix(t.settings.Queue, in.QueueNamePrefix) {
		return &shapes.SQSListQueuesResult{}, nil
	}
	return &shapes.SQSListQueuesResult{QueueUrls: []string{t.queueAddress()}}, nil
}

func (t *tx) getParametersByPath(in *shapes.SSMGetParametersByPathRequest) (*shapes.SSMGetParametersByPathResult, error) {
	if !strings.HasPrefix(in.Path, "/") {
		return nil, wire.Refuse("ValidationException", "The parameter path %q must begin with /.", in.Path)
	}
	prefix := strings.TrimSuffix(in.Path, "/") + "/"
	names := map[string]bool{}
	for _, im := range t.allImages() {
		for _, name := range im.Parameters {
			if rest, ok := strings.CutPrefix(name, prefix); ok && (is(in.Recursive) || !strings.Contains(rest, "/")) {
				names[name] = true
			}
		}
	}
	some, next := page(slices.Sorted(maps.Keys(names)), func(name string) string { return name }, in.NextToken, in.MaxResults, 10)
	out := &shapes.SSMGetParametersByPathResult{Parameters: []shapes.SSMParameter{}, NextToken: next}
	for _, name := range some {
		out.Parameters = append(out.Parameters, *t.ssm(name, t.parameter(name)))
	}
	return out, nil
}

func (t *tx) listClusters(*shapes.EKSListClustersRequest) (*shapes.EKSListClustersResponse, error) {
	return &shapes.EKSListClustersResponse{Clusters: []string{t.settings.Cluster}}, nil
}

func (t *tx) describeServices(in *shapes.PriceDescribeServicesRequest) (*shapes.PriceDescribeServicesResponse, error) {
	const ec2 = "AmazonEC2"
	if in.ServiceCode != "" && in.ServiceCode != ec2 {
		return nil, wire.Refuse("InvalidParameterException", "Service %q is not simulated; use %s", in.ServiceCode, ec2)
	}
	names := map[string]bool{"productFamily": true}
	for i := range t.catalog.Types {
		if p := t.product(&t.catalog.Types[i]); p != nil {
			for name := range p.Product.Attributes {
				names[name] = true
			}
			break // all have the same
		}
	}
	return &shapes.PriceDescribeServicesResponse{FormatVersion: "aws_v1", Services: []shapes.PriceService{{ServiceCode: ec2, AttributeNames: slices.Sorted(maps.Keys(names))}}}, nil
}

// describeAccountLimits has those of a new account.
func (t *tx) describeAccountLimits(*wire.None) (*shapes.ASGDescribeAccountLimitsAnswer, error) {
	return &shapes.ASGDescribeAccountLimitsAnswer{
		MaxNumberOfAutoScalingGroups: new(int64(500)), MaxNumberOfLaunchConfigurations: new(int64(200)), NumberOfAutoScalingGroups: new(int64(len(t.groups.items))), NumberOfLaunchConfigurations: new(int64(0)),
	}, nil
}

// describePolicies: groups have none.
func (t *tx) describePolicies(in *shapes.ASGDescribePoliciesType) (*shapes.ASGPoliciesType, error) {
	if in.AutoScalingGroupName != "" {
		if _, err := t.groupNamed(in.AutoScalingGroupName); err != nil {
			return nil, err
		}
	}
	return &shapes.ASGPoliciesType{}, nil
}

// describeWarmPool: groups have none.
func (t *tx) describeWarmPool(in *shapes.ASGDescribeWarmPoolType) (*shapes.ASGDescribeWarmPoolAnswer, error) {
	if _, err := t.groupNamed(in.AutoScalingGroupName); err != nil {
		return nil, err
	}
	return &shapes.ASGDescribeWarmPoolAnswer{}, nil
}

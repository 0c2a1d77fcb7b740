// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awsapi

import (
	"context"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
)

// Clients are clients for the services of one account and region.
type Clients struct {
	Region      string
	EC2         *ec2.Client
	AutoScaling *autoscaling.Client
	SSM         *ssm.Client
	SQS         *sqs.Client
	Pricing     *pricing.Client // in a region that has the service, see pricingRegion
	IAM         *iam.Client
	EKS         *eks.Client
	ZonalShift  *arczonalshift.Client
}

// Connect determines region and credentials like other AWS tools: environment, shared files, web identity, instance
// metadata. It supports AWS_ENDPOINT_URL and AWS_ENDPOINT_URL_<SERVICE>. It makes no requests.
func Connect(ctx context.Context, options ...func(*config.LoadOptions) error) (*Clients, error) {
	options = append([]func(*config.LoadOptions) error{config.WithEC2IMDSRegion(), config.WithDefaultsMode(sdk.DefaultsModeInRegion)}, options...)
	c, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("connect to AWS: %w", err)
	}
	if c.Region == "" {
		return nil, errors.New("connect to AWS: no region is known: set AWS_REGION")
	}
	return newClients(c), nil
}

// newClients makes the clients of a configuration, without the SDK's retries.
func newClients(c sdk.Config) *Clients {
	c.Retryer = func() sdk.Retryer { return sdk.NopRetryer{} }
	c.HTTPClient = PlainBodies(c.HTTPClient)
	return &Clients{
		Region: c.Region, EC2: ec2.NewFromConfig(c), AutoScaling: autoscaling.NewFromConfig(c), SSM: ssm.NewFromConfig(c), SQS: sqs.NewFromConfig(c),
		Pricing: pricing.NewFromConfig(c, func(o *pricing.Options) { o.Region = pricingRegion(c.Region) }),
		IAM:     iam.NewFromConfig(c), EKS: eks.NewFromConfig(c), ZonalShift: arczonalshift.NewFromConfig(c),
	}
}

// pricingRegion is the nearest region that has the price list service.
func pricingRegion(region string) string {
	switch {
	case strings.HasPrefix(region, "cn-"):
		return "cn-northwest-1"
	case strings.HasPrefix(region, "ap-"):
		return "ap-south-1"
	case strings.HasPrefix(region, "eu-"), strings.HasPrefix(region, "af-"), strings.HasPrefix(region, "me-"), strings.HasPrefix(region, "il-"):
		return "eu-central-1"
	}
	return "us-east-1"
}

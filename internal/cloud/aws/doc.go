// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package aws is the provider for Amazon Web Services. It launches instances with EC2 Fleet for node classes of kind
// EC2NodeClass, and through Auto Scaling groups for node classes of kind NodeGroupClass. It is the only package that
// imports the AWS SDK.
//
// It never calls Kubernetes, and never retries a call, except for pages of instance types and prices: a lost response
// or a throttled call is an error with a kind, and cloud.Retry decides.
//
// Invariants:
//
//   - A launch uses client tokens derived from the NodeClaim's UID, or assigns a group member to the NodeClaim by a
//     tag. A request without a response is repeated unchanged.
//   - Instances are terminated by ID only. Instances without Dovetail's tag are listed, but never garbage-collected.
//   - Responses are cached for the times in awsapi.Config, and concurrent callers share one request.
//
// This package contains the router, Provider. The two providers are fleet and asg. Imports have one direction:
//
//	awsapi < catalogue < nodeclass < offering < launch < fleet, asg
//	awsapi < instances < launch, interruption
//	awsapi < zonalshift
//	fleet, asg, interruption, zonalshift < aws
//
// Start reading at Provider.Launch, then fleet.Provider.Launch or asg.Provider.Launch.
package aws

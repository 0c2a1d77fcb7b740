// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package aws is the provider for Amazon Web Services: it buys instances with EC2 Fleet for node classes of kind
// EC2NodeClass, and has Auto Scaling groups launch them for those of kind NodeGroupClass. It is the only package that
// knows the AWS SDK.
//
// It never talks to Kubernetes, and repeats no call by itself but for the many pages of instance types and prices: a
// lost reply or a throttled call is an error with a kind, and cloud.Retry alone decides.
//
// Invariants. A claim's machine is asked for with tokens made of the claim's uid, or handed to the claim by a tag
// that bears it; a request that got no answer is sent again as it was. A machine is ended by its id only, and one
// without our tag is listed but never ours to collect. What is asked of AWS is remembered for as long as
// awsapi.Config says, one caller asking for all.
//
// This package is the router, Provider. Under it are the two providers, fleet and asg, over what they share. Imports
// run one way:
//
//	awsapi < catalogue < nodeclass < offering < launch < fleet, asg
//	awsapi < instances < launch, interruption
//	awsapi < zonalshift
//	fleet, asg, interruption, zonalshift < aws
//
// Begin at Provider.Launch, then fleet.Provider.Launch or asg.Provider.Launch.
package aws

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package aws buys machines from Amazon Web Services: instances through CreateFleet for node classes of kind EC2NodeClass, members of Auto
// Scaling groups for those of kind NodeGroupClass. It is the only room that knows the AWS SDK.
//
// It never talks to Kubernetes and never repeats a call by itself, but for the many pages of instance types and prices: the SDK's own
// retries are off, so that a lost reply or a throttle is an error with a kind and cloud.Retry alone decides.
//
// Invariants. A claim's machine is asked for with tokens made of the claim's uid and bears that uid as a tag from its first moment;
// a request that got no answer is sent again as it was. A machine is ended by its id only, and one without our tag is listed but
// never ours to collect. Equal classes and claims give equal launch templates, and a template's name is the hash of what is in it.
// What is asked of AWS is remembered for as long as config.go says, one caller asking for all.
//
// A group's desired capacity is never lowered while a member could go for it; a member is given back by its id. What a group should have
// is counted anew from what AWS says, and whose a member is, is written on the member.
//
// Start reading at Provider.Launch; resolve.go says what a node class stands for, offerings.go what it can buy, userdata.go what a
// machine boots with. Of groups: scalinggroup.go what they are, groupreconcile.go how they grow and shrink.
package aws

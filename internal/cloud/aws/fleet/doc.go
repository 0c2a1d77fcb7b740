// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package fleet buys instances with EC2's CreateFleet, for node classes of kind EC2NodeClass: one request for one
// claim and one machine.
//
// It never asks twice for the same: a claim's requests bear tokens made of its uid, one that got no answer is sent
// again as it was, and the machine bears the uid as a tag. Equal classes and claims give equal launch templates, and
// a template's name is the hash of what is in it; templates that nothing has used for a day are deleted. Lost
// capacity and spent quotas of the account are remembered for a while.
//
// Begin at Provider.Launch; request.go says what is asked of EC2, answer.go what its answer means, offerings.go what
// a class can buy, drift.go when a machine is no longer what its class asks for.
package fleet

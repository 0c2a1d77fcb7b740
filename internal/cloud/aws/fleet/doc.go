// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package fleet launches instances with EC2's CreateFleet, for node classes of kind EC2NodeClass. Each request
// launches one instance for one NodeClaim.
//
// Launches are idempotent: client tokens are derived from the NodeClaim's UID, a request without a response is
// repeated unchanged, and a tag of the instance contains the UID. Equal classes and NodeClaims give equal launch
// templates, named after the hash of their content; templates that were unused for a day are deleted. Missing
// capacity and exhausted account quotas are cached for a while.
//
// Start reading at Provider.Launch. request.go builds the request, answer.go interprets the response, offerings.go
// computes the offerings of a class, and drift.go detects instances that no longer match their class.
package fleet

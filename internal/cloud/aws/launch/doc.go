// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package launch contains the code shared by fleet and asg: a record of the launch of each NodeClaim (Registry), which
// prevents a repeated request from launching twice, and the result of a launch (NewResult, Confirm).
//
// It launches nothing itself. The record may be lost at any time, because a tag with the NodeClaim's UID identifies its
// instance from the launch, or from the time it was assigned to the NodeClaim.
package launch

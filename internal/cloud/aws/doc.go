// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package aws buys machines from Amazon Web Services: the only room that knows the AWS SDK.
//
// It never talks to Kubernetes and never repeats a call by itself: the SDK's own retries are off, so that a lost reply or a throttle
// is an error with a kind and cloud.Retry alone decides.
//
// Start reading at Connect.
package aws

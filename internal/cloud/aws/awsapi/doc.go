// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package awsapi is how the rest of cloud/aws calls AWS: the clients of one account and region, the configuration of
// the cluster that they act for, what an error of AWS means to the caller, answers kept for a while (Cache) and calls
// gathered into one (Batcher).
//
// It knows no node class and no machine, and it decides nothing. The SDK's own retries are off: a lost reply or a
// throttled call is an error with a kind, and the caller, in the end cloud.Retry, decides what to do about it.
//
// Begin at Account; ClassifyError says which kind an error gets.
package awsapi

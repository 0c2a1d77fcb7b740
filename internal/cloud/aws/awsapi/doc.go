// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package awsapi contains what all packages below cloud/aws use to call AWS: the clients of one account and region,
// the configuration of the cluster, the classification of errors, a cache for responses (Cache), and batching of
// calls (Batcher).
//
// It does not know node classes or instances. The SDK's retries are disabled: a lost response or a throttled call is
// an error with a kind, and the caller (in the end cloud.Retry) decides whether to retry. Start reading at Account,
// and at ClassifyError for the kinds of errors.
package awsapi

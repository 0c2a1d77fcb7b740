// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package machines defines the protocol of the simulated cloud: requests, responses, faults and journal records,
// exchanged as JSON over HTTP.
//
// It contains types and validation only. cloud/simulated implements the cloud, and is linked by the sandbox and by
// tests only; cloud/kwok is the client that Dovetail uses. Start reading at wire.go.
package machines

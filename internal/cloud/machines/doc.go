// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package machines is the protocol of the simulated cloud: the requests, answers, faults and journal records that it and its clients
// exchange as JSON over HTTP. It holds types and their validation, and no behaviour: the cloud itself is cloud/simulated, which only the
// sandbox's binary and tests link; the client that Dovetail launches with is cloud/kwok.
//
// Start reading at wire.go.
package machines

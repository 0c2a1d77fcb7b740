// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package expanderpb is the server's and the client's side of Cluster Autoscaler's gRPC expander, generated from
// expander.proto by go generate in test/expander.
package expanderpb

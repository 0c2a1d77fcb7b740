// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package protocol contains Cluster Autoscaler's externalgrpc protocol, generated from externalgrpc.proto by go
// generate in test/expander.
package protocol

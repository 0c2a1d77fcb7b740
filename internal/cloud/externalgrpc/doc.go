// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package externalgrpc implements nodegroups.Server with a client for Cluster Autoscaler's externalgrpc protocol.
//
// The protocol has no names for machines that are being created, and no compare-and-set; nodegroups compensates for
// both. Options that a server does not know arrive as zero values, and count as unset. Start reading at New, then the
// methods of server.
package externalgrpc

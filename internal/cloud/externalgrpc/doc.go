// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package externalgrpc is a client of servers of Cluster Autoscaler's externalgrpc protocol, as a nodegroups.Server.
//
// The protocol has no names for machines and no compare-and-set: nodegroups makes up for both. An option that a server does not
// know arrives as zero, and means that nothing is said.
//
// Start reading at New, then the methods of server.
package externalgrpc

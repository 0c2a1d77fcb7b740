// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package nodegroups launches and terminates nodes through a Server that has node groups but cannot name new
// machines, for node classes of kind NodeGroupClass. Each node group has one instance type.
//
// State that must survive a lost response or a restart is stored before each call (record): the NodeClaims that wait
// for each group, the NodeClaim of each machine, and the requested size of each group. A group is scaled up only if
// both this record and its target size, read again, show a missing machine. Machines that a group had when it was
// first read are ignored until a NodeClaim is created for them (Settings.Adopts).
//
// Only one goroutine at a time reads and changes a group. A slow or failing group does not delay others. The Servers
// are externalgrpc and clusterapi. Start reading at Server, then Provider.Launch and Provider.settle.
package nodegroups

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package externalgrpc launches and ends nodes through a server of Cluster Autoscaler's externalgrpc protocol, for node classes
// of kind NodeGroupClass. Each node group of the server is one instance type.
//
// The protocol has no names for machines and no compare-and-set, so what must outlive a lost reply or this process is a
// record that is written first (record): which claims wait for which group, whose each machine is, and how many machines a
// group was asked to have. A group is raised only if its target, read again, and that record both say that a machine is
// lacking. Machines that were there when a group was first looked at are never touched. One caller at a time looks at a group and
// changes it.
//
// Start reading at Provider.Launch, then group.settle.
package externalgrpc

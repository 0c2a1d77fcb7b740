// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package nodegroups launches and ends nodes through a Server that has node groups but no names for machines, for node classes of kind
// NodeGroupClass. Each node group is one instance type.
//
// What must outlive a lost reply or this process is a record that is written first (record): which claims wait for which group,
// whose each machine is, and how many machines a group was asked to have. A group is raised only if its target, read again, and that
// record both say that a machine is lacking. Machines that were there when a group was first looked at are left alone until a claim is made for them (Settings.Adopts). One caller at a
// time looks at a group and changes it. A group whose calls are slow or fail holds up no other.
//
// The package knows no server: externalgrpc and clusterapi are two. Start reading at Server, then Provider.Launch and
// Provider.settle.
package nodegroups

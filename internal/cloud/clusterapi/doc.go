// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package clusterapi implements nodegroups.Server for one Cluster API cluster. Its node groups are the scalable objects
// (MachineDeployment, MachineSet, and MachinePool with Machines) in the API of the management cluster.
//
// A scale-up is one write of spec.replicas. A scale-down removes selected Machines only: each gets the annotation
// cluster.x-k8s.io/delete-machine, then one write lowers spec.replicas and records the removed Machines in the
// annotation dovetail.sh/removed-machines. A crash in between therefore loses nothing, and a repetition lowers
// nothing twice. Each write is conditional on the resource version that was read. Paused objects and objects that are
// rolling out are not changed.
//
// The package makes requests through API only, and never creates or deletes an object. Start reading at server.End.
package clusterapi

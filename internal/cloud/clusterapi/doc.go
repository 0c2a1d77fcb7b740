// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package clusterapi makes the scalable objects (MachineDeployment, MachineSet, MachinePool with Machines) of one Cluster API cluster node groups: a nodegroups.Server over the
// API of the management cluster.
//
// A group grows by one change of spec.replicas. It shrinks only by Machines that were decided: each gets the annotation
// cluster.x-k8s.io/delete-machine, then one write lowers spec.replicas and notes in annotation dovetail.sh/removed-machines which Machines
// that counts. So a crash in between loses nothing, and doing it again lowers nothing twice. Each write holds only for the version of the
// object that was read. Paused objects and those that roll out are left alone.
//
// The package makes no requests itself (API) and never creates or deletes an object. Start reading at server.End.
package clusterapi

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package scheduler compares the solver with the real kube-scheduler, in this process and without an API server.
//
// For each seed, TestDrawn generates a small random cluster from the fields of internal/kube/inventory: NodePools, a catalog of at most twelve
// offerings, existing nodes with pods, volumes, DaemonSets, and pending pods. It is planned as in the product (objects, translation, state,
// decide.WhatIf) and checked by verify. Then:
//
//   - Each machine of the plan becomes a node with a random type, zone and capacity type that its claim allows. kube-scheduler's filters must accept
//     each placed pod, and the DaemonSet pods that the DaemonSet controller's predicate selects must fit the capacity reserved for them.
//   - For each refused class of pods, an empty node of every offering that a NodePool allows within its limits is created, with its DaemonSet pods.
//     The filters must refuse all of these nodes, by the check that Dovetail reports, or by an earlier one.
//   - Karpenter's provisioner is called for each class of pods alone: it must launch a node if and only if Dovetail does, except for the differences
//     in docs/compatibility/pods.md.
//
// With -mutants, faults are injected and must be found.
//
// TestDrawnDevices generates clusters with devices and claims (dynamic resource allocation), plans them, and lets kube-scheduler allocate and bind
// until nothing is planned any more: every planned pod gets its devices, every launched node gets a pod, and no pod is refused that fits an
// empty node. With -mutants, faults are injected and must be found.
//
// TestBindings compares verify.BindingCheck, which precedes each binding by Dovetail, with the filters. It generates clusters in which pods are
// bound one after another.
//
// A case is defined by its seed: -seed N repeats one, -seeds N runs N cases. Start reading at TestDrawn, then drawing; or at TestBindings,
// then bindingCase.
package scheduler

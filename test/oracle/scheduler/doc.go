// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package scheduler holds the solver's answers beside those of the real kube-scheduler, in this process and without an API server.
//
// TestDrawn draws a small cluster for each seed from the fields of internal/kube/inventory: NodePools, a catalog of at most twelve offerings,
// standing nodes with pods on them, volumes, DaemonSets, and pending pods. It is planned on the product's own way (objects, their translation,
// state, decide.WhatIf), the second opinion of verify is asked, and then:
//
//   - Each machine of the plan becomes a node, as one of the types, zones and capacity types that its claim allows, drawn at random. The filters of
//     kube-scheduler must take each placed pod there, and the pods of DaemonSets, which the predicate of the DaemonSet controller names, must find
//     the room that was kept for them.
//   - For each class of pods that was refused there is then an empty node of every offering that a pool allows and can pay out of its limits, with
//     the pods of its DaemonSets, and the filters must refuse them all: for the check that we name, or for one that is made before.
//   - Karpenter's provisioner is asked about each class of pods alone: it must buy a node where Dovetail does, but for the differences of
//     docs/compatibility/pods.md.
//
// With -mutants faults are put back from outside and must be found.
//
// TestDrawnDevices draws clusters with devices and claims to them (dynamic resource allocation), plans them, and lets kube-scheduler allocate and bind
// until nothing is planned any more: every planned pod gets its devices, every node that was bought gets a pod, and no pod is refused that an
// empty node would take. With -mutants faults are put in and must be found.
//
// TestBindings asks the filters about verify.BindingCheck, which stands before every pod that Dovetail binds itself. It draws clusters in which pods
// are bound one after the other.
//
// A seed is all there is to a case; -seed N repeats one, -seeds N runs that many. Start reading at TestDrawn, then drawing; or at TestBindings,
// then bindingCase.
package scheduler

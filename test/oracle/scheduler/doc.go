// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package scheduler holds the solver's answers beside those of the real kube-scheduler.
//
// For each seed a small cluster is drawn: NodePools, a catalogue of at most twelve offerings, standing nodes with pods on them, volumes,
// DaemonSets, and pending pods with every constraint that the solver knows. It is planned on the product's own way (objects, their
// translation, state, decide.WhatIf), the second opinion of verify is asked, and then the plan is made true in the sandbox:
//
//   - Each machine of the plan becomes a node, as one of the types, zones and capacity types that its claim allows, drawn at random. Where
//     the claim is reserved the node bears the reservation's taint and its pods the toleration, until all of them are there.
//   - Each placed pod also asks for a resource that its node alone has, so that what is tested is the plan and not what kube-scheduler
//     would have made of the room: no constraint but that of resources looks at it. The pod must be bound there.
//   - Then the pods of DaemonSets come, and must find the room that was kept for them.
//   - For each class of pods that was refused there is then one empty node of every offering that a pool allows and can pay out of its
//     limits, with the pods of its DaemonSets, and kube-scheduler must refuse them all. Where it says why, it must be for the check that
//     we name, or for one that it makes before.
//
// TestBindings does the same for verify.BindingCheck, which stands before every pod that Dovetail binds itself. It draws clusters in which pods
// are bound one after the other, and asks kube-scheduler's filters about each in this process, without the sandbox: see filters.
//
// TestDrawn draws clusters from the fields of internal/kube/inventory, and has the plan judged in this process: by kube-scheduler's filters, by
// the predicate of the DaemonSet controller and by the API server's defaults. Karpenter's provisioner is asked about each class of pods alone:
// it must buy a node where Dovetail does, but for the differences of docs/compatibility/pods.md. With -mutants faults are put back from outside and must be found.
//
// A seed is all there is to a case; -seed N repeats one, -seeds N runs that many. Start reading at TestScheduler, then scenario; or at
// TestBindings, then bindingCase.
package scheduler

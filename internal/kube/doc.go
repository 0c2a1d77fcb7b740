// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package kube is the only room that knows client-go. It watches the API server and hands every change to state as a Change, and
// it carries out the actions of a plan.
//
//   - Watch feeds a State. It keeps no pods: a pod is translated when it arrives and its API object is dropped.
//   - Actor does what a plan says, one method an action, each idempotent, with errors sorted by what the caller should do next.
//   - Connect and New take an Access. With ReadOnly the one connection that all of a client's requests pass through refuses
//     writes, so nothing that is made of the client can write.
//   - Events, Provisioners and Lead are the rest of the house's dealings with the API server.
//
// It never decides anything: which claim, which pod, whether at all, is in the action. It never imports a provider.
//
// Invariants: changes of one object are handed over in the order in which the API server made them; a method of Actor changes
// only the object named, and only while it still is the object with that uid.
//
// Start reading at Watch, then Actor. What objects mean is in kube/translate.
package kube

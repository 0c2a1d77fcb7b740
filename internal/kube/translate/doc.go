// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package translate converts API objects to values of model, and some of them back.
//
// A Translator is a pure function of an object and a Lookup, so the same code serves live clusters and files. It uses
// no client and watches nothing.
//
//   - Translator.Pod, Node, NodePool, NodeClaim and others convert one object each.
//   - Translator.ClaimObject is the reverse: the NodeClaim of a plan.CreateClaim.
//   - Provisioner, NodeTemplate, NodeGroups and TaggedGroups convert objects and settings of other autoscalers to
//     Karpenter's or Dovetail's.
//
// Invariants: equal objects give equal values; an unreadable value is never guessed, but makes the object refuse
// itself, or is left out with a reason. Start reading at Translator.Pod.
package translate

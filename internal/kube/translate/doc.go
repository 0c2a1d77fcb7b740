// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package translate turns API objects into the nouns of model, and some of them back. A Translator is a pure function of an object
// and a Lookup, so that the same code serves a live cluster and manifests in files. It knows no client and watches nothing.
//
//   - Translator.Pod, Node, NodePool, NodeClaim, … read one object each.
//   - Translator.ClaimObject is the way back: the NodeClaim of a plan.CreateClaim.
//   - Provisioner, NodeTemplate, NodeGroups and TaggedGroups turn objects and settings of other autoscalers into Karpenter's or our own.
//
// Invariants: equal objects, equal values; what can't be read is never a guess, but makes the object refuse itself or is left out
// with a reason.
//
// Start reading at Translator.Pod.
package translate

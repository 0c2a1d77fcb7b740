// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package oracle holds Dovetail's answers beside those of the programs it is compatible with. It is a module of its own, so that
// what it asks (Karpenter, and the API server's own machinery) is never a dependency of what it tests.
//
// Asked here: whether the CustomResourceDefinitions in charts/dovetail/crds and the types in api say the same as Karpenter's. Their
// schemas are compared keyword by keyword; their rules, which may be worded differently, by the verdicts they give on the objects in
// testdata, once by the API server's code in this process and once by a real API server; their types by the JSON they read and
// write; and NodePool.Hash by the hashes of generated pools. Where Dovetail means to differ, the difference is written down with its
// reason, in acceptedDifferences or in a `# differs:` line of a case, and a difference written down that is none fails.
//
// The package holds tests only. Start reading at TestVerdicts and testdata/nodepool.txt.
package oracle

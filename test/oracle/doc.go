// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package oracle compares Dovetail with the programs that it is compatible with. It is a separate module, so that these programs
// (Karpenter and the API server) are not dependencies of Dovetail.
//
// This package compares the CustomResourceDefinitions in charts/dovetail/crds and the types in api with those of Karpenter. Schemas
// are compared keyword by keyword. Rules, which may be written differently, are compared by their results on the objects in testdata,
// with the API server's code in this process and with a real API server. Types are compared by the JSON that they read and write, and
// NodePool.Hash by the hashes of generated NodePools. Intended differences are listed with a reason in acceptedDifferences, or in a
// `# differs:` line of a case. A listed difference that does not exist is an error.
//
// The package contains only tests. Start reading at TestVerdicts and testdata/nodepool.txt.
package oracle

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package manifests reads API objects from files, as people write them or as kubectl prints them, and hands them to a State as a
// cluster would have them: defaulted and admitted as by an API server, with the pods that controllers would make. It is what plan,
// convert and the tests have in place of a cluster, and it knows no client.
//
// Invariants: what is wrong with an input is an Error that names file, line, object, field, what was found and what is accepted;
// what a Feed hands over does not depend on the order of the objects.
//
// Start reading at Set.Feed; Set.Read is how a file becomes objects.
package manifests

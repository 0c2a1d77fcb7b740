// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package manifests reads API objects from files in kubectl's formats, and passes them to a State as a cluster would:
// defaulted and admitted as by an API server, with the pods that controllers would create.
//
// plan, convert and tests use it instead of a cluster. It uses no client.
//
// Invariants: a mistake in an input is an Error with file, line, object, field, the value found and the values
// accepted; the output of a Feed does not depend on the order of the objects. Start reading at Set.Feed, then
// Set.Read, which parses a file.
package manifests

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package record writes and reads recordings of a cluster: an initial snapshot of the objects that an autoscaler
// reads, and every later change. docs/RECORD.md describes the format.
//
// It keeps only the fields listed in fields.txt, so environment variables, arguments, commands and similar user data
// never reach a file. With an Anonymizer, it replaces names with tokens, and preserves references between objects.
//
// Invariants: data written by a Flush can be read after a crash at any later time; a Reader never returns a line
// before it has verified its checksum. The package uses no Kubernetes client: objects are values that encode to JSON.
// Start reading at Writer, then Read.
package record

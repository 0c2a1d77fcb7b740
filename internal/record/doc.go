// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package record writes and reads recordings of a cluster: a first snapshot of the objects that an autoscaler looks at, and every
// change after it. docs/RECORD.md describes the format.
//
// It keeps the fields listed in fields.txt and drops everything else, so that environment variables, arguments, commands and other
// contents of users never reach a file. With an Anonymizer it replaces names by tokens, and keeps the relations between them.
//
// Invariants: what a Flush has written can be read after a crash at any later instant; a Reader never returns a line whose checksum
// it has not verified. The package knows no Kubernetes client: objects arrive as values that encode to JSON.
//
// Start reading at Writer, then Read.
package record

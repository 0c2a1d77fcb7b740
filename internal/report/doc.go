// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package report is the one renderer: it writes a plan and the reasons in it as text for people or as JSON for programs.
//
// It never decides, measures or asks anything; what is not in its input is not in its output. Equal inputs give equal bytes. The
// JSON is a promise (docs/reference/json.md): fields are added to it and never renamed or given another meaning. The text is none.
//
// Start reading at Plan, then Sentence.
package report

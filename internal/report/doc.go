// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package report renders plans and reasons, as text for people and as JSON for programs. It is the only renderer.
//
// It makes no decisions, measurements or queries: its output depends on its input only, and equal inputs give equal
// bytes. The JSON is a stable interface (docs/reference/json.md): fields may be added, but are never renamed or given
// another meaning. The text may change. Start reading at Plan, then Sentence.
package report

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package disruption has the rules about node removal that do not depend on the plan under construction: the back-off of
// NodeClaims after a failed or cancelled disruption command (BackOffs), the pause of launches after a consolidation (Pauses), and
// the notes about what blocks disruption (BlockerNotes).
//
// It starts no command and writes nothing. A BackOffMemory is immutable. Searches and running commands are in decide, because
// they read results of other stages.
//
// Start reading at BackOffs.
package disruption

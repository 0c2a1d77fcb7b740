// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package disruption implements the rules for node removal that do not depend on the plan under construction: the
// back-off of NodeClaims after a failed or canceled disruption command (BackOffs), the pause of launches after a
// consolidation (Pauses), and notes about disruption blockers (BlockerNotes).
//
// It starts no command and writes nothing. A BackOffMemory is immutable. Searches and running commands are in decide,
// because they read results of other stages.
//
// Start reading at BackOffs.
package disruption

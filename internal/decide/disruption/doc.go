// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package disruption holds rules about removing nodes that need nothing of the plan under construction: which claims no
// disruption command takes for a while (BackOffs), and what people are told of what blocks disruption (BlockerNotes).
//
// It decides on no command and writes nothing. A BackOffMemory is replaced and never changed in place. Searches, and commands
// under way, are in decide as long as they read the results of other stages through the plan under construction.
//
// Start reading at BackOffs.
package disruption

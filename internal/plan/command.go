// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plan

import "strings"

// commandPrefix begins the text that names a disruption command. It stands in conditions of NodeClaims, so older versions read it.
const commandPrefix = "move "

// CommandMessage returns the message of the condition on the NodeClaims that a disruption command deletes. CommandID reads it.
func CommandMessage(id string) string { return commandPrefix + id }

// CommandID returns the id of the disruption command that a text made by CommandMessage names; false: it names none.
func CommandID(message string) (string, bool) { return strings.CutPrefix(message, commandPrefix) }

// OfCommand reports whether the reason is that of a disruption command's action.
func (r Reason) OfCommand() bool { return r.Command != "" }

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plan

import "strings"

// commandPrefix begins the text that names a disruption command. It stands in conditions of NodeClaims, so older versions read it.
const commandPrefix = "move "

// CommandKey is the Key of the Reason of every action that a disruption command takes, and the message of the condition on
// the NodeClaims that it deletes. CommandID reads it.
func CommandKey(id string) string { return commandPrefix + id }

// CommandID returns the id of the disruption command that a text made by CommandKey names; false: it names none.
func CommandID(key string) (string, bool) { return strings.CutPrefix(key, commandPrefix) }

// OfCommand says whether the reason is that of a disruption command's action.
func (r Reason) OfCommand() bool {
	_, ok := CommandID(r.Key)
	return ok
}

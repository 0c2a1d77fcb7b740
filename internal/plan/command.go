// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plan

import "strings"

// CommandID names a disruption command. decide makes it when the command begins; what a NodeClaim says of its command is
// written by Message and read by ReadCommand alone.
type CommandID string

// Ids of what is no command of decide's and takes a node away all the same.
const (
	ByInterruption CommandID = "interrupted" // the cloud
	ByDeletion     CommandID = "deleted"     // whoever deleted its NodeClaim
	ByReboot       CommandID = "rebooting"   // it is rebooted, and comes back
	ByThisStep     CommandID = "begun"       // a command that begins in this step and has no id yet
)

// commandPrefix begins the text that names a disruption command. It stands in conditions of NodeClaims, so older versions read it.
const commandPrefix = "move "

// Message returns the message of the condition on the NodeClaims that a disruption command deletes.
func (id CommandID) Message() string { return commandPrefix + string(id) }

// ReadCommand returns the id of the disruption command that a text made by Message names; false: it names none.
func ReadCommand(message string) (CommandID, bool) {
	id, ok := strings.CutPrefix(message, commandPrefix)
	return CommandID(id), ok
}

// OfCommand reports whether the reason is that of a disruption command's action.
func (r Reason) OfCommand() bool { return r.Command != "" }

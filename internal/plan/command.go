// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plan

import "strings"

// CommandID identifies a disruption command. decide creates it when the command starts. Message encodes it in the condition
// of a NodeClaim, and only ReadCommand decodes it.
type CommandID string

// Ids of what is no command of decide's and takes a node away all the same.
const (
	ByInterruption CommandID = "interrupted" // the cloud
	ByDeletion     CommandID = "deleted"     // its NodeClaim was deleted
	ByReboot       CommandID = "rebooting"   // it is rebooted
	ByThisStep     CommandID = "begun"       // a command that starts in this step and has no ID yet
)

// commandPrefix begins the text that names a disruption command. It stands in conditions of NodeClaims, so older versions read it.
const commandPrefix = "move "

// Message returns the condition message for NodeClaims that a disruption command removes.
func (id CommandID) Message() string { return commandPrefix + string(id) }

// ReadCommand returns the ID in a text returned by Message; false if there is none.
func ReadCommand(message string) (CommandID, bool) {
	id, ok := strings.CutPrefix(message, commandPrefix)
	return CommandID(id), ok
}

// OfCommand reports whether the reason belongs to an action of a disruption command.
func (r Reason) OfCommand() bool { return r.Command != "" }

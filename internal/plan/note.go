// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package plan

// Note is something to tell the people who watch an object, though nothing is done about it. It is told again only after a while.
type Note struct {
	Event           string // the event's reason
	Kind, Name, UID string // of the object; Namespace where it has one
	Namespace       string
	Warn            bool
	Why             Reason
}

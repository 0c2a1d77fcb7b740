// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package machines

import (
	"encoding/json"
	"time"
)

// Kinds of Record.
const (
	RecordLaunched    = "launched"     // a machine was launched: complete Instance
	RecordNodeCreated = "node-created" // its Node was created
	RecordTerminating = "terminating"  // its termination was requested
	RecordTerminated  = "terminated"   // its Node was deleted
	RecordInterrupted = "interrupted"  // an interruption was announced for Until
	RecordNoticed     = "noticed"      // the interruption notice was acknowledged
	RecordRebooted    = "rebooted"     // its restart was requested
	RecordNote        = "note"         // note of a guest of the simulated cloud: Data
	RecordCompacted   = "compacted"    // replaces all records before it; the first of its journal
)

// Record is an event: a line of the journal.
type Record struct {
	Seq       int64      `json:"seq"` // starts at 1, without gaps
	At        time.Time  `json:"at"`
	Kind      string     `json:"kind"`
	ID        string     `json:"id,omitempty"`
	ClaimUID  string     `json:"claimUID,omitempty"`
	Until     time.Time  `json:"until,omitzero"`
	Instance  *Instance  `json:"instance,omitempty"`
	Compacted *Compacted `json:"compacted,omitempty"`

	Data json.RawMessage `json:"data,omitempty"`
	More bool            `json:"more,omitempty"` // atomic with the next record
}

// Compacted is the complete state.
type Compacted struct {
	Instances []Instance `json:"instances"` // by ID, including the most recently terminated ones
	Ended     []string   `json:"ended"`     // IDs of machines of claims terminated before those, sorted
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package machines

import (
	"encoding/json"
	"time"
)

// Kinds of Record.
const (
	RecordLaunched    = "launched"     // a machine was bought: Instance, whole
	RecordNodeCreated = "node-created" // its Node was made
	RecordTerminating = "terminating"  // its termination was asked for
	RecordTerminated  = "terminated"   // its Node is gone
	RecordInterrupted = "interrupted"  // it was announced that it will be taken away; Until says when
	RecordNoticed     = "noticed"      // the interruption was acknowledged
	RecordRebooted    = "rebooted"     // its restart was asked for
	RecordNote        = "note"         // something of a guest of the simulated cloud: Data
	RecordCompacted   = "compacted"    // stands for all records before it; it is the first of its journal
)

// Record is one thing that happened: a line of the journal.
type Record struct {
	Seq       int64      `json:"seq"` // from 1, without gaps
	At        time.Time  `json:"at"`
	Kind      string     `json:"kind"`
	ID        string     `json:"id,omitempty"`
	ClaimUID  string     `json:"claimUID,omitempty"`
	Until     time.Time  `json:"until,omitzero"`
	Instance  *Instance  `json:"instance,omitempty"`
	Compacted *Compacted `json:"compacted,omitempty"`

	Data json.RawMessage `json:"data,omitempty"`
	More bool            `json:"more,omitempty"` // the next record happened with this one: both or none
}

// Compacted is how things stand.
type Compacted struct {
	Instances []Instance `json:"instances"` // by id; those that have ended last are there too
	Ended     []string   `json:"ended"`     // ids of machines of claims that ended before those, sorted
}

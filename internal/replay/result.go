// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package replay

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Variant is what a Trace is played under.
type Variant struct {
	Pools     []PoolChange // in order of time, the first at From
	Limits    []*model.CapacityLimit
	Types     []*model.InstanceType // that the cloud has: they price nodes without a NodePool
	Resources []string              // names of resources by dimension
	Policy    decide.Policy

	// Boot is how long each machine takes from its launch until its node is Ready. Negative: as recorded.
	Boot time.Duration

	// Pace is how far apart decisions and searches for consolidation are while nothing comes or goes but pods on nodes that stay. 0: as far as the
	// controller's.
	Pace time.Duration

	// Progress is called now and then with the instant that the replay has come to. The replay ends when it returns false. nil: nobody looks.
	Progress func(time.Time) bool
}

// PoolChange is a NodePool from an instant on, with its instance types.
type PoolChange struct {
	At   time.Time
	Pool *model.NodePool
	Gone string // name of a NodePool that is deleted
}

// Result is what a replay came to.
type Result struct {
	Figures
	// Decisions are what was done about nodes, in order of time.
	Decisions []Decision
	// Partial reports whether the replay was ended before the end of the recording. Figures.To is where it ended.
	Partial bool
	// Steps is how often it was decided.
	Steps int
	// MissedInterruptions are recorded interruptions that hit no machine of the same offering in the replay.
	MissedInterruptions int
	// Restless is how often an instant was left before nothing more happened at it.
	Restless int
	// Faults are what verify refused or deciding failed on, at most maxFaults.
	Faults []string
}

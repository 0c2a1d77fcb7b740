// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package replay

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Variant is the configuration under which a Trace is replayed.
type Variant struct {
	Pools     []PoolChange // in order of time, the first at From
	Limits    []*model.CapacityLimit
	Types     []*model.InstanceType // instance types of the cloud: the prices of nodes without a NodePool
	Resources []string              // resource names by dimension
	Policy    decide.Policy

	// Boot is the time from the launch of each machine until its node is Ready. Negative: as recorded.
	Boot time.Duration

	// Pace is the interval between decisions, and between searches for consolidation, while nothing changes except pods on existing
	// nodes. 0: the intervals of the controller.
	Pace time.Duration

	// Progress is called regularly with the current time of the replay. The replay ends if it returns false. Nil: not called.
	Progress func(time.Time) bool
}

// PoolChange is the state of a NodePool from an instant on, with its instance types.
type PoolChange struct {
	At   time.Time
	Pool *model.NodePool
	Gone string // name of a deleted NodePool
}

// Result is the result of a replay.
type Result struct {
	Figures
	// Decisions are the actions on nodes, in order of time.
	Decisions []Decision
	// Partial reports whether the replay ended before the end of the recording. Figures.To is its end.
	Partial bool
	// Steps is the number of decisions.
	Steps int
	// MissedInterruptions is the number of recorded interruptions for which the replay had no machine of the same offering.
	MissedInterruptions int
	// Restless is the number of instants that the replay left before they were settled.
	Restless int
	// Faults are the plans that verify refused and the errors of decisions, at most maxFaults.
	Faults []string
}

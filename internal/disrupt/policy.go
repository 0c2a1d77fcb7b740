// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"fmt"
	"time"
)

// Policy configures consolidation: money, durations in cost formulas, and work. It contains no timeouts.
type Policy struct {
	Horizon          time.Duration // how long a saving is assumed to last, unless a forecast ends it sooner
	DefaultStartTime time.Duration // startup time of a pod without a measured one of its class
	DefaultBootTime  time.Duration // boot time of a node without a measured one; during it, both old and new nodes are paid for
	LaunchMicro      int64         // additional cost of a launch in micro-dollars
	RestartMicro     int64         // cost of restarting a pod of priority 0 in micro-dollars

	// WaitMicroPerMinute is the cost of a new pod that waits for a node, in micro-dollars per minute.
	WaitMicroPerMinute int64
	MinSavingPPM       int64 // minimum saving of a command, in parts per million of its candidates' price
	NoSpotToSpot       bool  // spot nodes may be removed, but are never replaced by cheaper spot nodes

	SolveWork               int64 // maximum number of steps of one solve
	MaxCandidatesWide       int   // maximum number of single candidates in a wide search
	MaxCandidatesNarrow     int   // maximum number of single candidates in a narrow search
	MaxSolvesNew            int   // maximum number of solves per search for single candidates without a verdict
	MaxSolvesAgain          int   // maximum number of solves per search for single candidates with a verdict
	StopAfterFound          int   // a search evaluates no more single candidates after this number of commands
	MaxCandidatesPerCommand int
}

// DefaultPolicy returns the policy of the controller.
func DefaultPolicy() Policy {
	return Policy{Horizon: time.Hour, DefaultStartTime: 10 * time.Second, DefaultBootTime: 40 * time.Second,
		LaunchMicro: 500, RestartMicro: 2000, WaitMicroPerMinute: 3000, MinSavingPPM: 50_000,
		SolveWork: 400_000, MaxCandidatesWide: 20_000, MaxCandidatesNarrow: 32, MaxSolvesNew: 8, MaxSolvesAgain: 1,
		StopAfterFound: 16, MaxCandidatesPerCommand: 1000}
}

// Validate returns an error that names a field out of range.
func (p Policy) Validate() error {
	switch {
	case p.Horizon <= 0:
		return fmt.Errorf("disruption policy horizon is %s, must be positive", p.Horizon)
	case p.MinSavingPPM < 0 || p.MinSavingPPM > 1_000_000:
		return fmt.Errorf("disruption policy minSavingPPM is %d, must be between 0 and 1000000", p.MinSavingPPM)
	case p.DefaultStartTime < 0 || p.DefaultBootTime < 0 || p.LaunchMicro < 0 || p.RestartMicro < 0 || p.WaitMicroPerMinute < 0 || p.SolveWork < 0:
		return fmt.Errorf("disruption policy defaultStartTime %s, defaultBootTime %s, launchMicro %d, restartMicro %d, waitMicroPerMinute %d and solveWork %d must not be negative",
			p.DefaultStartTime, p.DefaultBootTime, p.LaunchMicro, p.RestartMicro, p.WaitMicroPerMinute, p.SolveWork)
	case p.MaxCandidatesWide < 1 || p.MaxCandidatesNarrow < 1 || p.MaxSolvesNew < 0 || p.MaxCandidatesPerCommand < 1 || p.StopAfterFound < 1:
		return fmt.Errorf("disruption policy maxCandidatesWide %d, maxCandidatesNarrow %d, stopAfterFound %d and maxCandidatesPerCommand %d must be at least 1, maxSolvesNew %d not negative",
			p.MaxCandidatesWide, p.MaxCandidatesNarrow, p.StopAfterFound, p.MaxCandidatesPerCommand, p.MaxSolvesNew)
	}
	return nil
}

const trueValue = "true"

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"fmt"
	"time"
)

// Policy are the knobs of consolidation: money, time as an argument of prices, and work. None of them is a clock.
type Policy struct {
	Horizon          time.Duration // for how long a saving is taken to last, unless a forecast ends it sooner
	DefaultStartTime time.Duration // of a pod where none of its class has been measured
	DefaultBootTime  time.Duration // of a node where none has been measured; old and new nodes are both paid for so long
	LaunchMicro      int64         // what a launch costs besides, in micro-dollars
	RestartMicro     int64         // what people would pay, in micro-dollars, not to have a pod of priority 0 restarted

	// WaitMicroPerMinute is what people would pay, in micro-dollars a minute, not to have a new pod wait for a node.
	WaitMicroPerMinute int64
	MinSavingPPM       int64 // a command saves at least so much of its candidates' price, in parts per million
	NoSpotToSpot       bool  // spot nodes are removed where they are not needed, and never replaced by cheaper spot nodes

	SolveWork               int64 // steps of one solve at most
	MaxCandidatesWide       int   // looked at one by one in a wide search
	MaxCandidatesNarrow     int   // and in a narrow one
	MaxSolvesNew            int   // solves in one search for single candidates that were not looked at before
	MaxSolvesAgain          int   // and for those that were
	StopAfterFound          int   // a search stops looking at single candidates once it has found so many commands
	MaxCandidatesPerCommand int
}

// DefaultPolicy is what the controller runs with.
func DefaultPolicy() Policy {
	return Policy{Horizon: time.Hour, DefaultStartTime: 10 * time.Second, DefaultBootTime: 40 * time.Second,
		LaunchMicro: 500, RestartMicro: 2000, WaitMicroPerMinute: 3000, MinSavingPPM: 50_000,
		SolveWork: 400_000, MaxCandidatesWide: 20_000, MaxCandidatesNarrow: 32, MaxSolvesNew: 8, MaxSolvesAgain: 1,
		StopAfterFound: 16, MaxCandidatesPerCommand: 1000}
}

// Validate says which knob is out of range.
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

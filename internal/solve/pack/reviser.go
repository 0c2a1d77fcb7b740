// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pack

import "github.com/dovetail-sh/dovetail/internal/solve/topology"

// Reviser examines a completed attempt for refuted assumptions.
type Reviser struct {
	topology.Compiled
	plan     *Planner
	unbought []*Demand // demands that found no machine
	attempts int       // made before this one
}

// NewReviser returns a Reviser for an attempt that left some demands without a machine. attempts is the number of
// attempts before it.
func NewReviser(s *Planner, unbought []*Demand, attempts int) *Reviser {
	return &Reviser{Compiled: s.Compiled, plan: s, unbought: unbought, attempts: attempts}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve/pack"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
	"github.com/dovetail-sh/dovetail/internal/solve/topology"
)

// Explainer determines why a plan left pods out.
type Explainer struct {
	topology.Compiled
	plan      *pack.Planner
	poolTypes map[*problem.Pool]*poolTypes
}

// New returns an Explainer for a completed plan.
func New(p *pack.Planner) *Explainer {
	return &Explainer{Compiled: p.Compiled, plan: p, poolTypes: map[*problem.Pool]*poolTypes{}}
}

// poolTypes are the types that meet a pool's requirements by what is the type's alone: where and how it can be had is
// looked at later.
type poolTypes struct {
	types []*model.InstanceType
	none  *plan.Reason // what the last of them does not meet, nil if some meet all
}

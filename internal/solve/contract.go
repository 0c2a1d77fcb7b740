// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// What is asked and answered; package problem describes each.
type (
	// Problem is the complete input of the solver.
	Problem = problem.Problem
	// ExistingNode is an existing or in-flight node. Its capacity costs nothing.
	ExistingNode = problem.ExistingNode
	// Pool is a NodePool with the remainder of its limits.
	Pool = problem.Pool
	// Bar excludes launches for pods of a class, because earlier launches for them were unused.
	Bar = problem.Bar
	// Policy configures a solve: effort and quality, never time.
	Policy = problem.Policy
	// Result is a plan for the demand.
	Result = problem.Result
	// Assignment is the pods placed on one existing or in-flight node.
	Assignment = problem.Assignment
	// NewNode is one node to launch.
	NewNode = problem.NewNode
	// Refusal is a pod that cannot be placed.
	Refusal = problem.Refusal
)

// DefaultPolicy returns the policy of `dovetail plan`: at most a second of refinement, and flexible NodeClaims. A
// controller, for which pods wait, uses less work.
func DefaultPolicy() Policy { return problem.DefaultPolicy() }

// MostExtendedResources is the maximum number of extended resources that the pods of one problem may request, counting
// only resources that some node or instance type has: see SuppliedResources. Pods that request another one are refused.
const MostExtendedResources = problem.MaxDims - int(model.FirstExtended)

// SuppliedResources reports for each of the first n resources whether a node has some of it free, or an instance type of
// a pool has or promises it. It ignores fixed resources.
func SuppliedResources(nodes []ExistingNode, pools []Pool, n int) []bool {
	return problem.SuppliedResources(nodes, pools, n)
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Input is all that a search for disruption commands may look at. It is never written to.
type Input struct {
	ResourceNames []string
	Candidates    []*Candidate         // those with pods that Eligibility lets go, by node name
	Nodes         []solve.ExistingNode // every node, existing or in flight, as for a solve
	Pools         []solve.Pool
	Limits        []model.LimitUse // that pools share
	Daemons       []*model.Daemon
	Namespaces    map[string]model.Labels
	BudgetLeft    map[string]int64 // by pool: how many more nodes its budgets let go
	Minimum       *ClusterMinimum  // what the whole cluster keeps; nil: nothing in particular
	GroupLeft     map[string]int64 // by node group: how many more nodes its minimum lets go; absent: any number

	// UnboundInTransit are evicted pods whose successors no node is reserved for. Free capacity is theirs first.
	UnboundInTransit []*model.Pod

	StartTimes StartTimes           // measured, by class of pod
	BootTime   time.Duration        // measured, from launch to a ready node; 0: not known
	PoolTotals map[string]PoolTotal // by pool, for those of policy Balanced

	// ScaleUps are the pods expected to come back, or to be added, within the horizon, soonest first.
	ScaleUps []ScaleUp
	// ScaleDowns is how the workload of a pod is expected to shrink within the horizon, soonest first: the same slice
	// for all pods of one workload, empty where it is not expected to. nil: no workload is.
	ScaleDowns func(*model.Pod) []ScaleDown
	// ForecastKey is equal for equal ScaleUps and ScaleDowns; times that differ by less than half count as equal. A
	// change of it is a cause to search again.
	ForecastKey string

	Scope Scope

	// PausedUntil is until when no replacement is launched, by pool; absent: one may be launched now.
	PausedUntil map[string]time.Time

	// Binds reports whether the successors of pods that a command evicts together are bound to the nodes that it gives them, existing nodes
	// included (contract 9). Otherwise kube-scheduler places them, and free capacity is counted on only where there is plenty.
	Binds func([]*model.Pod) bool
	// WhyUnreservable is why a replacement cannot be reserved for its pods (contract 9); an empty code: it can be.
	// nil: all can be.
	WhyUnreservable func(*solve.NewNode) plan.Reason
}

// Scope is how far a search looks.
type Scope int

const (
	// Narrow looks at candidates that changed, and at a few for which capacity has come free elsewhere.
	Narrow Scope = iota
	// Wide looks at every candidate by itself and at sets of them. Its answer depends on the input alone, not on the
	// memory. Where nothing has changed since a wide search that found nothing, a search is narrow, and looks at
	// nothing.
	Wide
	// Afresh is Wide whether or not anything has changed.
	Afresh
)

// PoolTotal sums up a pool: the price of all its nodes in micro-dollars an hour, and their DisruptionWeight.
type PoolTotal struct{ PriceMicro, DisruptionWeight int64 }

// ScaleUp is so many pods of a workload that are expected after a while, because they came back before or because the
// workload changes often.
type ScaleUp struct {
	Workload string // as it is shown: kind, namespace and name, with slashes
	After    time.Duration
	Pods     int
	Requests model.Resources // of each

	// Irregular: the workload changes often, but nothing tells which way it changes next. Where several do, some rise
	// while others fall: together they are taken to add the root of the sum of the squares of what each would add.
	Irregular bool
}

// ScaleDown is how a workload is expected to shrink after a while, because it did before or because it changes often.
type ScaleDown struct {
	Workload string // as in ScaleUp
	After    time.Duration
	Share    float64 // of its pods, from 0 to 1; earlier scale-downs of the workload included
}

// StartTimes are measured times from a pod's binding to its readiness, by class.
type StartTimes map[*model.Class]time.Duration

// MeasurePods adds the pods of a node. Of each class the shortest time seen is kept: a longer one may be that of a pod
// which became unready and ready again.
func (s StartTimes) MeasurePods(n *model.Node) {
	for _, p := range n.Pods {
		if p.ReadySince.IsZero() || p.Bound.IsZero() || p.ReadySince.Before(p.Bound) {
			continue
		}
		d := max(p.ReadySince.Sub(p.Bound), time.Second) // the API server writes whole seconds
		if have, ok := s[p.Class]; !ok || d < have {
			s[p.Class] = d
		}
	}
}

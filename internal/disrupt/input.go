// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Input is the complete input of a search for disruption commands. It is not modified.
type Input struct {
	ResourceNames []string
	Candidates    []*Candidate         // candidates with pods and without blockers, by node name
	Nodes         []solve.ExistingNode // every node, existing or in flight, as for a solve
	Pools         []solve.Pool
	Limits        []model.LimitUse // that pools share
	Daemons       []*model.Daemon
	Namespaces    map[string]model.Labels
	BudgetLeft    map[string]int64 // by pool: number of further disruptions that its budgets allow
	Minimum       *ClusterMinimum  // minimum capacity of the cluster; nil: none
	GroupLeft     map[string]int64 // by node group: number of further removals that its minimum allows; absent: any

	// UnboundInTransit are evicted pods without a reservation for their replacements. They use free capacity first.
	UnboundInTransit []*model.Pod

	StartTimes StartTimes           // measured, by class of pod
	BootTime   time.Duration        // measured, from launch to Ready; 0: unknown
	PoolTotals map[string]PoolTotal // by pool, for policy Balanced

	// ScaleUps are pods that are expected to be added within the horizon, soonest first.
	ScaleUps []ScaleUp
	// ScaleDowns returns the expected scale-downs of a pod's workload within the horizon, soonest first: the same slice for
	// all pods of a workload, empty if none is expected. nil: none for any workload.
	ScaleDowns func(*model.Pod) []ScaleDown
	// ForecastKey is equal for equal ScaleUps and ScaleDowns; times that differ by less than half count as equal. A
	// change of it is a cause to search again.
	ForecastKey string

	Scope Scope

	// PausedUntil is the time by pool until which no replacement is launched; absent: none.
	PausedUntil map[string]time.Time

	// Binds reports whether the successors of pods that a command evicts together are bound to the nodes that it gives them, existing nodes
	// included (contract 9). Otherwise kube-scheduler places them, and free capacity is counted on only where there is plenty.
	Binds func([]*model.Pod) bool
	// WhyUnreservable returns why a replacement cannot be reserved for its pods (contract 9); an empty code: it can. nil: all
	// can.
	WhyUnreservable func(*solve.NewNode) plan.Reason
}

// Scope is the scope of a search.
type Scope int

const (
	// Narrow evaluates candidates that changed, and a few for which capacity became free elsewhere.
	Narrow Scope = iota
	// Wide looks at every candidate by itself and at sets of them. Its answer depends on the input alone, not on the
	// memory. Where nothing has changed since a wide search that found nothing, a search is narrow, and looks at
	// nothing.
	Wide
	// Afresh is Wide even if nothing has changed.
	Afresh
)

// PoolTotal contains totals of a pool: the price of all its nodes in micro-dollars per hour, and their DisruptionWeight.
type PoolTotal struct{ PriceMicro, DisruptionWeight int64 }

// ScaleUp is a number of pods that a workload is expected to add, based on earlier scale-ups or because it changes often.
type ScaleUp struct {
	Workload string // display name: kind, namespace and name, separated by slashes
	After    time.Duration
	Pods     int
	Requests model.Resources // of each

	// Irregular: the workload changes often, but nothing tells which way it changes next. Where several do, some rise
	// while others fall: together they are taken to add the root of the sum of the squares of what each would add.
	Irregular bool
}

// ScaleDown is an expected scale-down of a workload, based on earlier scale-downs or because it changes often.
type ScaleDown struct {
	Workload string // as in ScaleUp
	After    time.Duration
	Share    float64 // share of its pods, from 0 to 1, including earlier scale-downs
}

// StartTimes are measured times from the binding of a pod to Ready, by class.
type StartTimes map[*model.Class]time.Duration

// MeasurePods adds the pods of a node. The minimum per class is kept, because a longer time may include a later interval of
// not being Ready.
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

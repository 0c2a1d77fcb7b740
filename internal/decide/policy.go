// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide/claims"
	"github.com/dovetail-sh/dovetail/internal/decide/disruption"
	"github.com/dovetail-sh/dovetail/internal/decide/landing"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Policy configures decisions. A duration of 0 means at once.
type Policy struct {
	Lifecycle lifecycle.Policy
	Solve     solve.Policy
	Disrupt   disrupt.Policy

	NodeClasses []string // node classes that the provider serves, as group/kind; other NodeClaims are ignored. Empty: all

	// Landing defines how pods are placed on the nodes launched for them (contract 9).
	Landing        landing.Policy
	LandingGrace   time.Duration // how long kube-scheduler may take to bind the pods of a usable node without a reservation
	EmptySlotGrace time.Duration // how long a slot without a pod on a usable node is kept for a replacement pod

	// SlowSchedulerTimeout is how long after its initialization a node may stay reserved for pods that kube-scheduler must
	// bind, while kube-scheduler still binds such pods to other nodes.
	SlowSchedulerTimeout time.Duration

	// Demand.
	RelaxMinValues    bool          // launch nodes with the available values if minValues cannot be met
	BufferRetry       time.Duration // interval between attempts to place virtual pods that did not fit
	SchedulerWait     time.Duration // how long to wait for kube-scheduler's result for a new pod
	RefusedPlanRetry  time.Duration // first retry interval of pods whose plan verify rejected; doubles each time
	StepWork          int64         // maximum work for the demand of one step, as estimated by solve.Estimate; see workShares
	SmallNodeDelay    time.Duration // maximum time that a pod waits for others to share a node with, while more of them are created
	AnticipateFor     time.Duration // how long after a ReplicaSet's last pod nodes are launched for those that it has not created yet; 0: never
	DisagreementAfter time.Duration // time after which a pending pod that fits an existing node counts as a scheduler disagreement
	DisagreementRetry time.Duration // time after which the node is tried again for that pod

	// Disruption.
	SearchInterval     time.Duration // minimum interval of consolidation searches
	FullSearchInterval time.Duration // minimum interval of full searches, if these take long
	QuietWait          time.Duration // consolidation waits for nodes whose consolidateAfter, or whose pods' deletion, ends within this time: see waitsForQuiet
	LaunchPause        disruption.PauseLimits
	InTransitWait      time.Duration // how long a search waits for pods that are moving to existing nodes
	CommandTimeout     time.Duration // a command whose replacements are not ready by then is cancelled
	TaintSettleDelay   time.Duration // a tainted node is evaluated again after this time, when pods that were just being bound are visible
	BackOff            time.Duration // first back-off of a node whose command failed; doubles each time
	InterruptionNotice time.Duration // assumed time from an interruption notice to the termination, if the notice has no time

	InterruptionBatchIdle time.Duration         // nodes that are interrupted within this time of each other are replaced together
	Repair                []claims.RepairPolicy // the provider's policies for broken nodes
	NoRepair              bool                  // repair only nodes of node groups, by their options
	LegacyRepair          bool                  // a broken node is replaced first, within budgets, only for RepairGrace; then it is deleted forcefully
	RepairGrace           time.Duration

	// A node that must be removed for drift or repair is terminated before its replacement is launched if there is no other
	// capacity; see terminateFirst.
	TerminateFirstDrift, TerminateFirstRepair bool

	// Pacing.
	EvictionConcurrency int // maximum number of evicted pods that are not bound again
	EvictionRetries     int // maximum number of evictions per step that are retried

	OrphanGrace        time.Duration // minimum age of an instance without a NodeClaim before it is terminated
	AdoptionGrace      time.Duration // how long an instance that started for a deleted NodeClaim waits for a NodePool that adopts it
	PoolStatusInterval time.Duration // minimum interval between writes of a NodePool's status
}

// DefaultPolicy returns the policy of the controller.
func DefaultPolicy() Policy {
	l := lifecycle.DefaultPolicy()
	l.ExpireGrace = 10 * time.Minute
	return Policy{
		Lifecycle: l, Solve: solve.DefaultPolicy(), Disrupt: disrupt.DefaultPolicy(),

		Landing:      landing.Policy{Mode: landing.Bind, Schedulers: []string{model.DefaultScheduler}},
		LandingGrace: 5 * time.Second, EmptySlotGrace: 3 * time.Second, SlowSchedulerTimeout: 5 * time.Minute,

		BufferRetry: 30 * time.Second, RefusedPlanRetry: 30 * time.Second, StepWork: 400_000, SchedulerWait: 250 * time.Millisecond, SmallNodeDelay: 2 * time.Second, AnticipateFor: model.ExpectFor,
		DisagreementAfter: 20 * time.Second, DisagreementRetry: 10 * time.Minute,

		SearchInterval: time.Second, FullSearchInterval: 5 * time.Minute, QuietWait: 30 * time.Second, InTransitWait: time.Minute, LaunchPause: disruption.PauseLimits{Length: time.Minute, Most: 5 * time.Minute},
		CommandTimeout: 10 * time.Minute, TaintSettleDelay: 500 * time.Millisecond, BackOff: 5 * time.Minute,
		InterruptionNotice: 2 * time.Minute, InterruptionBatchIdle: 100 * time.Millisecond, RepairGrace: 10 * time.Minute,

		EvictionConcurrency: 50, EvictionRetries: 500,
		OrphanGrace: 30 * time.Second, AdoptionGrace: 5 * time.Minute, PoolStatusInterval: time.Second,
	}
}

// IsForeign reports whether a NodeClaim belongs to another provider. Its instance is unknown here, so it is ignored.
func (p *Policy) IsForeign(c *model.Claim) bool {
	return len(p.NodeClasses) > 0 && c.ClassKind != "" && !slices.Contains(p.NodeClasses, c.ClassGroup+"/"+c.ClassKind)
}

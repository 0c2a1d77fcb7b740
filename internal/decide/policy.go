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

// Policy is how a step decides. A delay of 0 means at once.
type Policy struct {
	Lifecycle lifecycle.Policy
	Solve     solve.Policy
	Disrupt   disrupt.Policy

	NodeClasses []string // node classes that the provider serves, group/kind; claims of others are left alone. Empty: all

	// Landing is how pods come onto the nodes that were bought for them (contract 9).
	Landing        landing.Policy
	LandingGrace   time.Duration // how long kube-scheduler has for the pods of an unreserved node once it is usable
	EmptySlotGrace time.Duration // a slot on a usable node for which no pod is left is kept this long for a successor

	// SlowSchedulerTimeout is how long after its initialization a node may be kept for pods that kube-scheduler binds
	// while it still binds such pods to other nodes.
	SlowSchedulerTimeout time.Duration

	// Demand.
	RelaxMinValues    bool          // where a NodePool's minValues can't be kept, a node is launched with the values that there are
	BufferRetry       time.Duration // a place for virtual pods that found none is sought again after this long
	SchedulerWait     time.Duration // how long kube-scheduler has to look at a new pod before the solver does
	RefusedPlanRetry  time.Duration // pods whose plan verify refused are planned for again after this long, twice as long each time
	StepWork          int64         // how much work the demand of one step may be, as solve.Estimate counts it; see workShares
	SmallNodeDelay    time.Duration // how long a pod may wait for others to share a machine with, while more of them come
	AnticipateFor     time.Duration // how long after a ReplicaSet's last pod those still to be made are bought for; 0: never before they exist
	DisagreementAfter time.Duration // a pod that fits a standing node and is still pending after this long is a scheduler disagreement
	DisagreementRetry time.Duration // the node is tried for that pod again after this long

	// Disruption.
	SearchInterval     time.Duration // how often machines are searched for consolidation at most
	FullSearchInterval time.Duration // how often all of them together at most, where the search is long
	QuietWait          time.Duration // machines that become quiet within this, or whose pods end within it, are waited for: see waitsForQuiet
	LaunchPause        disruption.PauseLimits
	InTransitWait      time.Duration // how long pods on their way to standing nodes are waited for before a search
	CommandTimeout     time.Duration // a command whose replacements are not ready by then is taken back
	TaintSettleDelay   time.Duration // a tainted node is looked at again after this long: what was just being bound shows by then
	BackOff            time.Duration // a machine whose command failed is left alone for this long, twice as long each time
	InterruptionNotice time.Duration // how long a machine stays after its cloud's notice, where that does not say when it goes

	InterruptionBatchIdle time.Duration         // machines interrupted this soon after each other are replaced together
	Repair                []claims.RepairPolicy // which nodes are broken; the provider's
	NoRepair              bool                  // no node is repaired but those of node groups, whose options say when
	LegacyRepair          bool                  // a broken node is replaced first and within budgets for RepairGrace alone; then it is deleted by force
	RepairGrace           time.Duration

	// A node that must go for drift, or for repair, is terminated before its replacement is launched where nothing else leaves capacity for that; see terminateFirst.
	TerminateFirstDrift, TerminateFirstRepair bool

	// Pacing.
	EvictionConcurrency int // pods that may be evicted and not bound again at a time
	EvictionRetries     int // pods that did not go when evicted before, and are evicted again in one step

	OrphanGrace        time.Duration // a machine without a claim is left alone this long after its launch
	AdoptionGrace      time.Duration // a machine that came for a claim that was given up may wait this long for a pool that adopts it
	PoolStatusInterval time.Duration // how often a pool's status is written at most
}

// DefaultPolicy is what the controller runs with.
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

// IsForeign reports whether a claim is another provider's: of its machine nothing is known here, not even that there is none, so it
// is left to whoever serves its class.
func (p *Policy) IsForeign(c *model.Claim) bool {
	return len(p.NodeClasses) > 0 && c.ClassKind != "" && !slices.Contains(p.NodeClasses, c.ClassGroup+"/"+c.ClassKind)
}

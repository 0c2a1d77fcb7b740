// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Policy are the knobs of a step.
type Policy struct {
	Lifecycle          lifecycle.Policy
	Solve              solve.Policy
	Disrupt            disrupt.Policy
	SearchInterval     time.Duration // machines are looked at for consolidation at most this often
	FullSearchInterval time.Duration // where little has changed, all of them together are looked at after this long
	QuietWait          time.Duration // machines that will be at rest this soon are waited for, and not longer than this in all
	InTransitWait      time.Duration // pods on their way to standing room are waited for this long before more are sent
	CommandTimeout     time.Duration // a move whose replacements are not ready by then is taken back
	TaintSettleDelay   time.Duration // a node tainted for a move is looked at again after this long: what was just being bound shows by then
	BackOff            time.Duration // a machine whose move failed is not moved again for this long
	Landing            Landing       // contract 9
	// LandingSchedulers are the schedulers, by spec.schedulerName, whose pods we may bind.
	LandingSchedulers   []string
	NodeClasses         []string      // node classes that the provider serves, group/kind; claims of others are left alone. Empty: all
	OrphanGrace         time.Duration // a machine without a claim is left alone this long after its launch
	PoolStatusInterval  time.Duration // a pool's status is written at most this often
	LandingGrace        time.Duration // how long kube-scheduler has for pods of an unreserved machine once it is usable
	DisagreementAfter   time.Duration // a pod that was to fit a standing node and is still pending after this long is bought for
	DisagreementRetry   time.Duration // and what kube-scheduler would not use for it is tried again after this long
	SchedulerWait       time.Duration // how long kube-scheduler is waited for to look at a new pod; then whether it fits is found here
	AnticipateFor       time.Duration // pods that a ReplicaSet is to have are bought for this long after it has made the last; 0: not before they are there
	SmallNodeDelay      time.Duration // how long a pod may wait for others to share a machine with, while more of them come
	EmptySlotGrace      time.Duration // a slot on a usable node for which no pod is left is kept this long for a successor
	EvictionConcurrency int           // pods on their way at a time: asked to go, and not yet bound again
	EvictionRetries     int           // of those that were asked before and did not go, how many are asked again in one step

	InterruptionNotice    time.Duration  // a machine of which its cloud has not said when it takes it away is gone this long after it said so
	InterruptionBatchIdle time.Duration  // machines interrupted this soon after each other are replaced together
	Repair                []RepairPolicy // which nodes are broken; the provider's
	RepairGrace           time.Duration  // a broken node is replaced first and within budgets for this long; then it is ended by force
}

// DefaultPolicy is what the controller runs with.
func DefaultPolicy() Policy {
	l := lifecycle.DefaultPolicy()
	l.ExpireGrace = 10 * time.Minute
	return Policy{
		Lifecycle: l, Solve: solve.DefaultPolicy(), Landing: LandBind, LandingSchedulers: []string{defaultScheduler},
		Disrupt: disrupt.DefaultPolicy(), SearchInterval: time.Second, FullSearchInterval: 5 * time.Minute, QuietWait: 30 * time.Second, InTransitWait: time.Minute, CommandTimeout: 10 * time.Minute, TaintSettleDelay: 500 * time.Millisecond, BackOff: 5 * time.Minute,
		InterruptionNotice: 2 * time.Minute, InterruptionBatchIdle: 100 * time.Millisecond, RepairGrace: 10 * time.Minute,
		OrphanGrace: 30 * time.Second, PoolStatusInterval: time.Second, LandingGrace: 5 * time.Second, DisagreementAfter: 20 * time.Second, DisagreementRetry: 10 * time.Minute, EmptySlotGrace: 3 * time.Second, SchedulerWait: 250 * time.Millisecond, SmallNodeDelay: 2 * time.Second, AnticipateFor: model.ExpectFor, EvictionConcurrency: 50, EvictionRetries: 500,
	}
}

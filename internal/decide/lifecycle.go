// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"time"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// claimLifecycle asks lifecycle for every claim's next step.
type claimLifecycle struct {
	*draft
	mem           *lifecycleMemory
	commands      *commandTable
	memo          *unchangedMachines
	preemption    *preemption
	registrations *registrations
	reservations  *reservations
	rollouts      *rollouts
}

// lifecycleMemory is what claimLifecycle remembers from step to step.
type lifecycleMemory struct {
	nodelessSince map[string]time.Time // by claim uid: since when it is registered and has no node

	daemonLandedAt time.Time // when a pod of a DaemonSet last came to a node that is reserved
}

// advance asks lifecycle for every claim's next step.
func (lc *claimLifecycle) advance() {
	nodeless, landing := map[string]time.Time{}, map[string]time.Time{}
	for _, c := range lc.DirtyClaims {
		if lc.isForeign(c) {
			continue
		}
		in, landedAt, until := lc.inputOf(c)
		lc.wakeAt(until)
		lc.mem.daemonLandedAt = landedAt
		if !in.NodelessSince.IsZero() {
			nodeless[c.UID] = in.NodelessSince
		}
		if !in.Landed.IsZero() {
			landing[c.Name] = in.Landed
		}
		out := lifecycle.Next(in)
		for _, a := range out.Actions {
			lc.addAction(a)
		}
		if c.Pool != "" && !c.Is(lifecycle.Registered) {
			lc.registrations.record(c, out.Actions)
		}
		if len(out.Actions) == 0 {
			lc.memo.idleClaims = append(lc.memo.idleClaims, idleClaim{lc.PositionOf(c), out.Next})
		}
		lc.wakeAt(out.Next)
	}
	lc.mem.nodelessSince, lc.reservations.mem.landedAt = nodeless, landing
}

// inputOf returns what a claim's next step depends on and until when, and when a pod of a DaemonSet last came to a node that is
// reserved.
func (lc *claimLifecycle) inputOf(c *model.Claim) (in lifecycle.Input, daemonLandedAt, until time.Time) {
	daemonLandedAt = lc.mem.daemonLandedAt
	at := lc.PositionOf(c)
	in = lifecycle.Input{
		Claim: c, Pool: lc.Pool(c.Pool), Instances: lc.InstancesAt(at), InstancesAt: lc.Snapshot.InstancesAt,
		Awaited: lc.reservations.byClaim[c.Name].AwaitedPods(), Now: lc.Now, Policy: lc.pol.Lifecycle,
	}
	if c.ProviderID != "" {
		in.Nodes = lc.NodesAt(at)
	}
	if len(in.Nodes) == 1 {
		in.Daemons, daemonLandedAt = lc.awaitedDaemons(c, in.Nodes[0])
	}
	if len(in.Nodes) == 0 && c.Is(lifecycle.Registered) {
		since, ok := lc.mem.nodelessSince[c.UID]
		if !ok {
			since = lc.Now
		}
		in.NodelessSince = since
	}
	if in.Pool != nil && len(in.Nodes) == 1 && (!c.Is(lifecycle.Consistent) || !in.Nodes[0].Capacity.Equal(c.Capacity)) {
		in.Type = disrupt.FindInstanceType(in.Pool, c.Labels[model.LabelInstanceType])
	}
	if f, ok := lc.Snapshot.Failures[c.UID]; ok {
		in.Failure = &f
	}
	if h := lc.reservations.byClaim[c.Name]; h != nil && c.Reserved {
		in.Coming, in.Landed, until = lc.reservations.landingStatus(h)
		if h.Node != nil && h.Node.DaemonsOnly {
			in.Landed = lc.Now // pods that kube-scheduler binds can't come yet
		}
	}
	if held, due := lc.preemption.protects(lc.reservations.byClaim[c.Name]); held {
		until = model.EarlierOf(until, due)
		in.Awaited, in.Coming = max(in.Awaited, 1), true
	}
	if lc.commands.isRevocable(c) { // its command, which has evicted nobody yet, sees to it
		in.Awaited, in.Coming = max(in.Awaited, 1), true
	}
	if !c.Deleting.IsZero() {
		in.Rollouts = lc.rollouts.rolloutsOfClaim(c, in.Nodes)
	}
	return in, daemonLandedAt, until
}

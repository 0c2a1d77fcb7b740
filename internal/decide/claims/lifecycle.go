// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package claims

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// LifecyclePolicy configures the lifecycle of NodeClaims.
type LifecyclePolicy struct {
	lifecycle.Policy
	// SlowSchedulerTimeout is how long after its initialization a node may stay reserved for pods that kube-scheduler binds, while
	// it is still binding such pods to other nodes.
	SlowSchedulerTimeout time.Duration
}

// LifecycleMemory is the state that Lifecycle keeps between steps. The zero value is valid.
type LifecycleMemory struct {
	nodelessSince  map[string]time.Time // by claim uid: since when it is launched and has no node
	daemonLandedAt time.Time            // when a pod of a DaemonSet last came to a node that is reserved
}

// Holding is the capacity that a NodeClaim's machine holds for pods.
type Holding struct {
	Binding bool      // pods are being bound to its node
	Awaited int       // number of pods with slots that are not on the node yet
	Coming  bool      // these pods are certain to arrive
	Landed  time.Time // when Coming was last true, or when one of them last arrived; zero: nothing is held

	Rollouts map[string]lifecycle.Rollout // for a NodeClaim that is being deleted, by pod UID: pods whose Deployment is restarted
}

// Lifecycle advances NodeClaims one after another.
type Lifecycle struct {
	view      *cluster.View
	policy    LifecyclePolicy
	mem, next LifecycleMemory
	shortages shortages
	barred    func(*model.Claim) lifecycle.BarredLaunch
}

// NewLifecycle returns a Lifecycle that has not advanced any NodeClaim. The function barred returns why a NodeClaim created by
// others is not launched.
func NewLifecycle(v *cluster.View, policy LifecyclePolicy, mem LifecycleMemory, barred func(*model.Claim) lifecycle.BarredLaunch) *Lifecycle {
	return &Lifecycle{v, policy, mem, LifecycleMemory{map[string]time.Time{}, mem.daemonLandedAt}, shortages{view: v}, barred}
}

// Memory returns the state to keep for the next step.
func (lc *Lifecycle) Memory() LifecycleMemory { return lc.next }

// Advance returns the next step of a NodeClaim. The time at which a DaemonSet pod last arrived on a reserved node applies from then
// on to the NodeClaims after it, too.
func (lc *Lifecycle) Advance(c *model.Claim, h Holding) lifecycle.Output {
	in, landedAt := lc.inputOf(c, h)
	lc.next.daemonLandedAt = landedAt
	if !in.NodelessSince.IsZero() {
		lc.next.nodelessSince[c.UID] = in.NodelessSince
	}
	out := lifecycle.Next(in)
	if slices.ContainsFunc(out.Actions, func(a plan.Action) bool { _, launches := a.(plan.LaunchClaim); return launches }) {
		lc.shortages.begun = append(lc.shortages.begun, c)
	}
	return out
}

// Input returns the input of a NodeClaim's next step.
func (lc *Lifecycle) Input(c *model.Claim, h Holding) lifecycle.Input {
	in, _ := lc.inputOf(c, h)
	return in
}

// inputOf returns what a claim's next step depends on, and when a pod of a DaemonSet last came to a node that is reserved.
func (lc *Lifecycle) inputOf(c *model.Claim, h Holding) (in lifecycle.Input, daemonLandedAt time.Time) {
	v := lc.view
	daemonLandedAt = lc.next.daemonLandedAt
	at := v.PositionOf(c)
	in = lifecycle.Input{
		Claim: c, Pool: v.Pool(c.Pool), Instances: v.InstancesAt(at), InstancesAt: v.Snapshot.InstancesAt, Outages: v.Snapshot.Outages,
		Binding: h.Binding, Promised: v.IsPromised(c), Awaited: h.Awaited, Coming: h.Coming, Landed: h.Landed, Rollouts: h.Rollouts, ResourceNames: v.Snapshot.ResourceNames, Now: v.Now,
		Shift: v.Snapshot.ShiftFrom(c.Labels[model.LabelZone]), ShiftsUnread: v.Snapshot.ShiftsUnread,
		Awaits: lc.shortages.awaited(c), Barred: lc.barred(c), Policy: lc.policy.Policy,
	}
	if c.ProviderID != "" {
		in.Nodes = v.NodesAt(at)
	}
	if len(in.Nodes) == 1 {
		in.Daemons, daemonLandedAt = lc.awaitedDaemons(c, in.Nodes[0])
	}
	if len(in.Nodes) == 0 && c.Is(lifecycle.Launched) {
		since, ok := lc.mem.nodelessSince[c.UID]
		if !ok {
			since = v.Now
		}
		in.NodelessSince = since
	}
	if in.Pool != nil && len(in.Nodes) == 1 && (!c.Is(lifecycle.Consistent) || !in.Nodes[0].Capacity.Equal(c.Capacity)) {
		in.Type = disrupt.FindInstanceType(in.Pool, c.Labels[model.LabelInstanceType])
	}
	if f, ok := v.Snapshot.Failures[c.UID]; ok {
		in.Failure = &f
	}
	return in, daemonLandedAt
}

// awaitedDaemons returns how many pods of DaemonSets a new node still waits for and since when none has come, and when a pod of a
// DaemonSet last came to a node that is reserved, this one included.
func (lc *Lifecycle) awaitedDaemons(c *model.Claim, n *model.Node) (out lifecycle.DaemonWait, landedAt time.Time) {
	v := lc.view
	landedAt = lc.next.daemonLandedAt
	if !cluster.WaitsForDaemons(c, n) {
		return out, landedAt
	}
	for _, p := range n.Pods {
		if p.Bound.After(landedAt) && slices.ContainsFunc(v.Snapshot.Daemons, func(d *model.Daemon) bool { return d.Runs(p) }) {
			landedAt = p.Bound
		}
	}
	reserved := model.Taint{Key: model.TaintReserved, Value: c.Name, Effect: model.NoSchedule}
	for _, d := range v.DaemonsToCome(c, n) {
		out.Pods++
		out.KeptOff = out.KeptOff || !model.Tolerated(reserved, d.Class.Tolerations)
	}
	out.Since = landedAt
	if last := c.Conditions[lifecycle.Initialized].Since.Add(lc.policy.SlowSchedulerTimeout); out.Since.After(last) {
		out.Since = last
	}
	return out, landedAt
}

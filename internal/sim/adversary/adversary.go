// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package adversary makes launched nodes unusable in a simulated cluster (internal/sim), and counts the results. Only
// tests import it.
package adversary

import (
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/sim"
)

// Adversary keeps the pods of some owners off every node that is launched only for them, and counts the results. It
// implements sim.Adversary.
type Adversary struct {
	Victims map[string]Adversity // by UID of the owner
	Pool    string               // NodePool whose NodeClaims are all rejected; empty: none
	Pause   time.Duration        // the adversary is inactive in the first half of each period of this length; 0: never
	// UsedAfter is the lifetime after which a node that was launched for no pod counts as used.
	UsedAfter time.Duration

	Bought  map[string]*Purchase       // by UID of the NodeClaim
	Refused map[string][]time.Time     // by owner: times of rejected NodeClaims
	MadeFor map[string][]string        // by UID of the NodeClaim: owners for which it was launched; pods of other owners may also use it
	Ran     map[string]map[string]bool // by owner: UIDs of its pods that have run

	Interrupted int // number of interrupted machines of the offering that InterruptsOffering targets

	target     sim.Offered // offering that InterruptsOffering targets; zero: none yet
	began, now time.Time
}

// Adversity is a kind of action of an Adversary.
type Adversity int

// Kinds of Adversity.
const (
	TaintsNodes Adversity = iota
	RefusesClaims
	KeepsNodesFromJoining
	DeletesClaims
	DeletesNodes
	EndsMachines
	RefusesPods // rejects pods on nodes, like kube-scheduler and admission do
	ExpiresClaims
	KeepsDriversOut    // CSI drivers never run on the nodes
	RemovesLabels      // removes Dovetail's labels from nodes in use. It does not affect launches
	RemovesAnnotations // removes all annotations of NodeClaims and Nodes at once, including the reservations of NodeClaims, like an annotation policy
	InterruptsMachines // interrupts machines before their nodes are usable, like the cloud does for maintenance
	InterruptsOffering // interrupts machines of one offering, like the cloud does to reclaim capacity
	EditsLabels        // sets an unrelated label on nodes. It does not affect launches
	Adversities
)

// HeldForBuffers is the owner of launches for CapacityBuffers.
const HeldForBuffers = "capacitybuffers"

// agentTaint is the key of the taint that an adversary adds to nodes.
const agentTaint = "agent"

// Purchase is a launched node and its result.
type Purchase struct {
	Claim  *model.Claim
	At     time.Time
	Micro  int64     // price, in micro-dollars per hour
	Until  time.Time // when its machine was terminated; zero: it is running
	Served bool
}

// New returns an adversary without victims.
func New(now time.Time) *Adversary {
	return &Adversary{Victims: map[string]Adversity{}, Bought: map[string]*Purchase{}, Refused: map[string][]time.Time{}, MadeFor: map[string][]string{},
		Ran: map[string]map[string]bool{}, began: now, now: now}
}

// OwnersOf returns the owners for which a NodeClaim is launched.
func OwnersOf(x *model.Claim) []string { return ownersOf(x.Slots, x.Pool, x.NoReserve) }

func ownersOf(slots []model.Slot, pool, notReserved string) (out []string) {
	for _, s := range slots {
		if !slices.Contains(out, s.Owner) {
			out = append(out, s.Owner)
		}
	}
	switch {
	case len(out) > 0:
	case notReserved == string(plan.Static):
		out = []string{"uid-" + pool}
	case notReserved == string(plan.HeldForBuffer):
		out = []string{HeldForBuffers}
	}
	return out
}

// kind returns the adversity for a launch for these owners, or false if there is none.
func (a *Adversary) kind(owners []string) (Adversity, bool) {
	if len(owners) == 0 || a.rests() {
		return 0, false
	}
	for _, o := range owners {
		if _, ok := a.Victims[o]; !ok {
			return 0, false
		}
	}
	return a.Victims[owners[0]], true
}

// rests reports whether the adversary is inactive now.
func (a *Adversary) rests() bool {
	return a.Pause > 0 && a.now.Sub(a.began)%a.Pause < a.Pause/2
}

// RefusesClaim implements sim.Adversary. It reports whether a NodeClaim is rejected, and counts the rejection.
func (a *Adversary) RefusesClaim(x plan.CreateClaim) bool {
	owners := ownersOf(x.Slots, x.Pool.Name, string(x.NoReserve.Code))
	k, ok := a.kind(owners)
	if !(ok && k == RefusesClaims) && (x.Pool.Name != a.Pool || a.rests()) {
		return false
	}
	for _, o := range owners {
		a.Refused[o] = append(a.Refused[o], a.now)
	}
	return true
}

// KeepsFromJoining implements sim.Adversary.
func (a *Adversary) KeepsFromJoining(x *model.Claim) bool {
	k, ok := a.kind(OwnersOf(x))
	return ok && k == KeepsNodesFromJoining
}

// KeepsDriverOut implements sim.Adversary.
func (a *Adversary) KeepsDriverOut(m *sim.Machine) bool {
	k, ok := a.kind(a.MadeFor[m.ClaimUID])
	return ok && k == KeepsDriversOut
}

// ClaimMade implements sim.Adversary.
func (a *Adversary) ClaimMade(c *sim.Cluster, made plan.CreateClaim) {
	owners := ownersOf(made.Slots, made.Pool.Name, string(made.NoReserve.Code))
	a.MadeFor[c.Claims[made.Name].UID] = owners
	if k, ok := a.kind(owners); ok && k == ExpiresClaims {
		x := *c.Claims[made.Name]
		x.ExpireAfter = 2 * time.Second
		c.SetClaim(&x)
	}
}

// RefusesPod reports whether kube-scheduler and admission keep a pod off every node.
func (a *Adversary) RefusesPod(p *model.Pod) bool {
	if a.rests() {
		return false
	}
	k, ok := a.Victims[p.Owner.UID]
	return ok && k == RefusesPods
}

// Act implements sim.Adversary. It changes objects as the adversary does.
func (a *Adversary) Act(c *sim.Cluster) {
	a.now = c.Now
	for _, name := range slices.Sorted(maps.Keys(c.Claims)) {
		if m := c.Machines[c.Claims[name].UID]; m != nil {
			a.actOn(c, c.Claims[name], m)
		}
	}
	for _, p := range c.Pods {
		if p.Node != "" && !p.Starting {
			if a.Ran[p.Owner.UID] == nil {
				a.Ran[p.Owner.UID] = map[string]bool{}
			}
			a.Ran[p.Owner.UID][p.UID] = true
		}
	}
	a.count(c)
}

func (a *Adversary) actOn(c *sim.Cluster, x *model.Claim, m *sim.Machine) {
	k, ok := a.kind(OwnersOf(x))
	if was, isVictim := a.kind(a.MadeFor[x.UID]); isVictim && was == RemovesAnnotations { // without annotations, the NodeClaim seems to be launched for no owner
		k, ok = was, true
	}
	n := c.Nodes[m.Node]
	edit := func(change func(*model.Node)) {
		e := *n
		change(&e)
		c.SetNode(&e)
	}
	switch {
	case !ok || !x.Deleting.IsZero():
	case k == DeletesClaims && !x.Is(lifecycle.Initialized):
		c.Tell(sim.Event{Kind: sim.Mishap, Object: x.Name, Text: "the adversary deletes a claim"})
		c.DeleteClaim(x)
	case k == EndsMachines && !x.Is(lifecycle.Initialized):
		c.End(m)
	case k == InterruptsMachines && canInterrupt(x, m):
		c.Tell(sim.Event{Kind: sim.Mishap, Object: x.Name, Text: "the adversary interrupts a machine"})
		c.Interrupt(x, m, "ScheduledChange", true)
	case k == InterruptsOffering && canInterrupt(x, m) && a.isTarget(m):
		c.Tell(sim.Event{Kind: sim.Mishap, Object: x.Name, Text: "the adversary interrupts a machine of its offering"})
		c.Interrupt(x, m, "SpotInterruption", true)
		a.Interrupted++
	case k == DeletesNodes && n != nil && n.Deleting.IsZero() && !c.RunsPods(n.Name):
		c.Tell(sim.Event{Kind: sim.Mishap, Object: n.Name, Text: "the adversary deletes a node"})
		c.DeleteNode(n)
	case k == TaintsNodes && n != nil && !n.HasTaint(agentTaint):
		edit(func(e *model.Node) {
			e.Taints = append(slices.Clone(n.Taints), model.Taint{Key: agentTaint, Value: "no", Effect: model.NoSchedule})
		})
	case k == RemovesAnnotations:
		if len(x.Slots) > 0 || x.Reserved || x.NoReserve != "" || len(x.Annotations) > 0 {
			e := *x
			e.Slots, e.Reserved, e.NoReserve, e.Annotations = nil, false, "", nil
			c.SetClaim(&e)
		}
		if n != nil && len(n.Annotations) > 0 {
			edit(func(e *model.Node) { e.Annotations = nil })
		}
	case k == RemovesLabels && n != nil && x.Is(lifecycle.Initialized) && (n.Labels[model.LabelRegistered] != "" || n.Labels[model.LabelInitialized] != ""):
		edit(func(e *model.Node) {
			e.Labels = sim.Edited(n.Labels, map[string]string{model.LabelRegistered: plan.Unset, model.LabelInitialized: plan.Unset})
		})
	case k == EditsLabels && n != nil && n.Labels[agentTaint] == "":
		edit(func(e *model.Node) { e.Labels = sim.Edited(n.Labels, map[string]string{agentTaint: "moved"}) })
	}
	if !ok && a.rests() && n != nil && n.HasTaint(agentTaint) { // the agent is repaired
		edit(func(e *model.Node) {
			e.Taints = slices.DeleteFunc(slices.Clone(n.Taints), func(t model.Taint) bool { return t.Key == agentTaint })
		})
	}
}

// canInterrupt reports whether a machine is booting and has not received an interruption notice.
func canInterrupt(x *model.Claim, m *sim.Machine) bool {
	return x.ProviderID != "" && m.Doomed.IsZero() && !m.Gone && !x.Is(lifecycle.Initialized)
}

// isTarget reports whether the offering of a machine is the target. The first machine that it is called for determines
// the target.
func (a *Adversary) isTarget(m *sim.Machine) bool {
	of := sim.Offered{Type: m.Type.Name, Zone: m.Offering.Zone, CapacityType: m.Offering.CapacityType}
	if a.target == (sim.Offered{}) {
		a.target = of
	}
	return a.target == of
}

// count updates the results of all machines.
func (a *Adversary) count(c *sim.Cluster) {
	for uid, m := range c.Machines {
		x := a.Bought[uid]
		if x == nil {
			x = &Purchase{At: m.Launched, Micro: m.MicroPerHour(), Claim: c.Claims[m.ClaimName]}
			a.Bought[uid] = x
		}
		claim := c.ClaimOf(m)
		if claim != nil {
			x.Claim = claim
		}
		if m.Gone && x.Until.IsZero() {
			x.Until = c.Now
		}
		x.Served = x.Served || m.Node != "" && c.RunsPods(m.Node)
		if claim == nil || len(claim.Slots) > 0 || !x.Until.IsZero() {
			continue
		}
		init, n := claim.Conditions[lifecycle.Initialized], c.Nodes[m.Node]
		usable := init.True() && n != nil && (claim.NoReserve != string(plan.HeldForBuffer) || !n.HasTaint(agentTaint))
		x.Served = x.Served || usable && !c.Now.Before(init.Since.Add(a.UsedAfter))
	}
}

// Unused returns the launches on which no pod ran, by the owner for which they were made and in order of time, and
// their cost so far. cost returns the cost of a price per hour between two times.
func (a *Adversary) Unused(cost func(micro int64, from, to time.Time) int64) (byOwner map[string][]*Purchase, micro int64) {
	byOwner = map[string][]*Purchase{}
	for _, x := range a.Bought {
		if x.Served || x.Claim == nil {
			continue
		}
		end := x.Until
		if end.IsZero() {
			end = a.now
		}
		micro += cost(x.Micro, x.At, end)
		for _, o := range a.MadeFor[x.Claim.UID] {
			byOwner[o] = append(byOwner[o], x)
		}
	}
	for _, list := range byOwner {
		slices.SortFunc(list, func(x, y *Purchase) int { return x.At.Compare(y.At) })
	}
	return byOwner, micro
}

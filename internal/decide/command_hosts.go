// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/decide/claims"
	"github.com/dovetail-sh/dovetail/internal/decide/landing"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// A disruption command may count on free capacity of standing nodes. Such a node hosts the command: when the
// candidates' nodes are tainted, its capacity is reserved for their pods as on a node that was bought for them, by
// slots on its claim and by the taint. So no other pod takes it, and the successors are bound to it. The reservation
// ends like any other: when the last of them is bound, or none has come for a while.
//
// Which nodes host a command is in the memory until then. A process that starts in between knows of no host, finds the
// pods without a place, and takes the command back.

// commandHosts are the standing nodes whose free capacity disruption commands count on.
type commandHosts struct {
	*commandTable
	health     *claims.Health
	placements *placements
}

// binds reports whether the successors of pods that a command evicts together are bound to the standing nodes that it gives them. They are not
// if the successor of one would preempt others instead of waiting to be bound, nor if landing.SpreadRefusal names one of them, even one that goes
// to a new node: the taint of another's host could take the domain that it needs there.
func (ch *commandHosts) binds(pods []*model.Pod) bool {
	return ch.pol.Landing.Mode == landing.Bind && !ch.preemption.WhenMoved(pods) && landing.SpreadRefusal("", pods).Code == ""
}

// hostsFor returns the real pods of candidates that a command gives to standing nodes, by claim; nil if it binds none.
func (ch *commandHosts) hostsFor(candidates []*disrupt.Candidate, on []solve.Assignment) podsByHost {
	if len(on) == 0 || !ch.binds(disrupt.PodsOf(candidates)) {
		return nil
	}
	out := podsByHost{}
	for _, a := range on {
		if i := ch.FindNode(a.Node); i >= 0 && ch.ClaimOf(i) >= 0 && len(model.RealPods(a.Pods)) > 0 {
			out[ch.Snapshot.Claims[ch.ClaimOf(i)].Name] = model.RealPods(a.Pods)
		}
	}
	return out
}

// reserveHosts writes the reservations of a command on the nodes that host it, and reports whether all are there. A host
// that is gone, or is being deleted itself, makes the command impossible: then lost is its name.
func (ch *commandHosts) reserveHosts(m *cluster.Command) (done bool, lost string) {
	g := ch.mem.hosts[m.ID]
	done = true
	for _, name := range slices.Sorted(maps.Keys(g)) {
		c := ch.Claim(name)
		if c == nil || !c.Deleting.IsZero() || ch.Interruptions[name] != nil || ch.NodeFor(c) == nil || ch.commands.Of(c) != "" {
			return false, name
		}
		n := ch.NodeFor(c)
		if r, ok := cluster.ReadHostRecord(c); !ok || r.ID != m.ID {
			done = false
			record := cluster.HostRecord{CommandRecord: m.CommandRecord, Since: ch.Now.UTC().Truncate(time.Second)}
			record.Hosts, record.Claims = len(g), nil // of many hosts and many claims that would be much; the claims say it too
			text, err := json.Marshal(record)
			if err != nil {
				return false, name // a struct of strings and numbers can be written
			}
			ch.addAction(plan.UpdateClaim{Claim: c.Name, UID: c.UID, SetSlots: true, Slots: ch.slotsBesidePods(n, g[name]),
				Annotations: map[string]string{cluster.AnnotationHost: string(text), model.AnnotationReserved: "true"},
				Why:         plan.Reason{Code: m.Cause, Pool: c.Pool, Subject: plan.ObjectOf("node", n.Name), Command: m.ID}})
			if !c.Reserved {
				continue // that first: a taint of a claim without reservation is taken off
			}
		}
		if !cluster.HasReservedTaint(n, c) {
			done = false
			ch.addAction(plan.UpdateNode{Node: n.Name, UID: n.UID, AddTaints: []model.Taint{{Key: model.TaintReserved, Value: c.Name, Effect: model.NoSchedule}},
				Why: plan.Reason{Code: m.Cause, Pool: c.Pool, Subject: plan.ObjectOf("node", n.Name), Command: m.ID}})
		}
	}
	return done, ""
}

// awaitNominated reports whether pods are nominated to a node that a command closes to them: a candidate, or a host, that is not
// tainted yet. They would preempt others elsewhere; in a moment they are bound, and what is free then is known.
func (ch *commandHosts) awaitNominated(m *cluster.Command) bool {
	if len(ch.NominatedPods()) == 0 {
		return false
	}
	opens := func(c *model.Claim) bool {
		n := ch.NodeFor(c)
		return n != nil && len(ch.NominatedPods()[n.Name]) > 0 && !n.HasTaint(disrupt.DisruptedTaint.Key) && !n.HasTaint(model.TaintReserved)
	}
	for name := range ch.mem.hosts[m.ID] {
		if c := ch.Claim(name); c != nil && opens(c) {
			return true
		}
	}
	return slices.ContainsFunc(m.Candidates, opens)
}

// slotsBesidePods are slots for pods that are to come to a node beside those like them that are there.
func (ch *commandHosts) slotsBesidePods(n *model.Node, coming []*model.Pod) []model.Slot {
	slots := cluster.SlotsForPods(coming)
	for i := range slots {
		for _, p := range n.Pods {
			if k := ch.SlotKeyOf(p); k.Class == slots[i].Class && k.Owner == slots[i].Owner {
				slots[i].Count++
			}
		}
	}
	return slots
}

// widenSlots returns the slots of a claim with more pods given to it. On the host of a command that can still be taken
// back they may have been given what the command's own pods need: then these lose their slots there. The command does
// not begin to delete in this step: the next one sees what is left for it.
func (ch *commandHosts) widenSlots(t solverTarget, pods []*model.Pod) []model.Slot {
	if !t.claim.Reserved {
		return cluster.MergeSlots(t.reservation.Expected(), pods)
	}
	slots := cluster.MergeSlots(t.claim.Slots, pods)
	if t.node == nil || !ch.isRevocable(t.claim) {
		return slots
	}
	if ch.hostsTaken == nil {
		ch.hostsTaken = map[string]bool{}
	}
	ch.hostsTaken[t.claim.Name] = true
	if ch.hasCapacityFor(slots, t.node) {
		return slots
	}
	coming := map[cluster.SlotKey]int{}
	for _, p := range ch.commands.PodsBeforeCandidates(ch.View, t.reservation) {
		coming[ch.SlotKeyOf(p)]++
	}
	var left []model.Slot
	for _, s := range t.reservation.Slots {
		if s.Count = min(s.Count, s.Bound+coming[cluster.KeyOf(s.Slot)]); s.Count > 0 {
			left = append(left, s.Slot)
		}
	}
	return cluster.MergeSlots(left, pods)
}

// lacksHost reports whether a command whose hosts the memory does not know is without one that it needs.
func (ch *commandHosts) lacksHost(m *cluster.Command) bool {
	if ch.mem.hosts[m.ID] != nil {
		return false
	}
	return len(m.HostedOn) < m.Hosts || slices.ContainsFunc(m.HostedOn, func(c *model.Claim) bool {
		n := ch.NodeFor(c)
		return n == nil || !cluster.HasReservedTaint(n, c)
	})
}

// releaseHost takes slots and annotation of a host off a claim. With them its reservation has ended, and the claim's lifecycle takes the taint
// off its node as soon as kube-scheduler knows of the pods that have been bound there.
func (ch *commandHosts) releaseHost(c *model.Claim, why plan.Reason) {
	ch.addAction(plan.UpdateClaim{Claim: c.Name, UID: c.UID, SetSlots: true, Annotations: map[string]string{cluster.AnnotationHost: plan.Unset}, Why: why})
}

// releaseLandedHosts releases the hosts of a command whose reservation has ended.
func (ch *commandHosts) releaseLandedHosts(m *cluster.Command) {
	for _, c := range m.HostedOn {
		if n := ch.NodeFor(c); n == nil || !cluster.HasReservedTaint(n, c) {
			ch.releaseHost(c, plan.Reason{Code: plan.Landed, Pool: c.Pool, Subject: plan.ObjectOf("nodeclaim", c.Name)})
		}
	}
}

// lacksCapacityForSlots reports whether a node that hosts a command has less free capacity than the pods that it awaits
// ask for: others came before it was reserved, or pending pods were placed there.
func (ch *commandHosts) lacksCapacityForSlots(c *model.Claim, n *model.Node) bool {
	return !ch.hasCapacityFor(c.Slots, n)
}

// hasCapacityFor reports whether a node's free capacity holds the pods of slots that are not on it yet.
func (ch *commandHosts) hasCapacityFor(slots []model.Slot, n *model.Node) bool {
	free := n.Allocatable.Sub(n.Used)
	there := map[cluster.SlotKey]int{}
	for _, p := range n.Pods {
		there[ch.SlotKeyOf(p)]++
	}
	var need model.Resources
	for _, s := range slots {
		need = need.AddInto(s.Requests, int64(max(0, s.Count-there[cluster.KeyOf(s)])))
	}
	return need.Fits(free)
}

// canHost reports whether capacity of the node at a position can be reserved for a command's pods: it has a claim of ours,
// is usable, and nothing else is going on with it. A reservation would close it to pods that are nominated to it or wait for pods to end there: these
// would preempt others elsewhere. A broken or drifted node will be replaced too and its pods would move twice: a broken one
// never can, a drifted one only where drifted nodes are allowed (allowDrifted).
func (ch *commandHosts) canHost(p int32, allowDrifted bool) bool {
	at := ch.ClaimOf(p)
	if at < 0 {
		return false
	}
	c := ch.Snapshot.Claims[at]
	if ch.health.IsBroken(c, ch.Now) || c.Is(lifecycle.Drifted) && !allowDrifted || !c.Deleting.IsZero() || c.UID == "" || ch.commands.Of(c) != "" || ch.Interruptions[c.Name] != nil || ch.reservations.ByClaim[c.Name] != nil || c.Annotations[cluster.AnnotationHost] != "" || c.Annotations[model.AnnotationBooked] != "" {
		return false
	}
	if ch.mem.isBecomingHost(c.Name) {
		return false
	}
	n := ch.Snapshot.Nodes[p]
	return n.Ready && n.Labels[model.LabelInitialized] == "true" && !n.HasTaint(model.TaintReserved) && len(ch.NominatedPods()[n.Name]) == 0 && !ch.placements.awaitsEnds[n.Name] && len(ch.placements.booked[n.Name]) == 0
}

// closedToDisruption returns the nodes whose free capacity no command may count on: those given, and where pods are
// bound by us all that can't be reserved (see canHost).
func (ch *commandHosts) closedToDisruption(going map[string]bool, allowDrifted bool) map[string]bool {
	if ch.pol.Landing.Mode == landing.Bind {
		for p, n := range ch.Snapshot.Nodes {
			if !going[n.Name] && !ch.canHost(int32(p), allowDrifted) {
				going[n.Name] = true
			}
		}
	}
	return going
}

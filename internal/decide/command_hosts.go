// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
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

// AnnotationHost on a NodeClaim names the disruption command whose pods its standing node is to take.
const AnnotationHost = "dovetail.sh/host"

// annotationReserved and annotationNotReserved on a NodeClaim say whether its slots are reserved. See internal/kube.
const (
	annotationReserved    = "dovetail.sh/reserved"
	annotationNotReserved = "dovetail.sh/not-reserved"
)

// hostRecord is the value of AnnotationHost: the command, and since when.
type hostRecord struct {
	commandRecord
	Since time.Time `json:"since"`
}

// readHostRecord reads a claim's AnnotationHost.
func readHostRecord(c *model.Claim) (r hostRecord, ok bool) {
	text := c.Annotations[AnnotationHost]
	if text == "" {
		return r, false
	}
	return r, json.Unmarshal([]byte(text), &r) == nil && r.ID != ""
}

// podsByHost are the pods that a command gives to each node that hosts it, by the claim's name.
type podsByHost map[string][]*model.Pod

// hostsFor returns the pods that a command gives to standing nodes, by claim; nil where pods are not bound by us, for
// then nothing is reserved.
func (dc *disruptionCommands) hostsFor(on []solve.Assignment) podsByHost {
	if dc.pol.Landing != LandBind || len(on) == 0 {
		return nil
	}
	out := podsByHost{}
	for _, a := range on {
		if i := findNode(dc.s, a.Node); i >= 0 && dc.claims.claimOf[i] >= 0 {
			out[dc.s.Claims[dc.claims.claimOf[i]].Name] = a.Pods
		}
	}
	return out
}

// setHosts sets the hosts of a command in the memory, or forgets them where there are none.
func (dc *disruptionCommands) setHosts(id string, g podsByHost) {
	next := maps.Clone(dc.mem.hosts)
	if delete(next, id); len(g) > 0 {
		if next == nil {
			next = map[string]podsByHost{}
		}
		next[id] = g
	}
	dc.mem.hosts = next
}

// forgetFinishedHosts forgets the hosts of commands that are over, or that have begun to delete: those are in the API
// server.
func (dc *disruptionCommands) forgetFinishedHosts() {
	for _, id := range sortedKeys(dc.mem.hosts) {
		if m := dc.byID[id]; m == nil || m.deleting > 0 {
			dc.setHosts(id, nil)
		}
	}
}

// reserveHosts writes the reservations of a command on the nodes that host it, and says whether all are there. A host
// that is gone, or is being deleted itself, makes the command impossible: then lost is its name.
func (dc *disruptionCommands) reserveHosts(m *command) (done bool, lost string) {
	g := dc.mem.hosts[m.ID]
	done = true
	for _, name := range sortedKeys(g) {
		c := dc.claimNamed(name)
		if c == nil || !c.Deleting.IsZero() || dc.interruptions.byClaim[name] != nil || dc.nodeOf(c) == nil || dc.ofClaim[name] != "" {
			return false, name
		}
		n := dc.nodeOf(c)
		if r, ok := readHostRecord(c); !ok || r.ID != m.ID {
			done = false
			record := hostRecord{m.commandRecord, dc.now.UTC().Truncate(time.Second)}
			record.Hosts, record.Claims = len(g), nil // of many hosts and many claims that would be much; the claims say it too
			text, err := json.Marshal(record)
			if err != nil {
				return false, name // a struct of strings and numbers can be written
			}
			dc.addAction(plan.UpdateClaim{Claim: c.Name, UID: c.UID, SetSlots: true, Slots: dc.slotsBesidePods(n, g[name]),
				Annotations: map[string]string{AnnotationHost: string(text), annotationReserved: "true", annotationNotReserved: plan.Unset},
				Why:         plan.Reason{Code: m.Cause, Pool: c.Pool, Subject: "node/" + n.Name, Key: plan.CommandKey(m.ID)}})
			if !c.Reserved {
				continue // that first: a taint of a claim without reservation is taken off
			}
		}
		if !hasReservedTaint(n, c) {
			done = false
			dc.addAction(plan.UpdateNode{Node: n.Name, UID: n.UID, AddTaints: []model.Taint{{Key: model.TaintReserved, Value: c.Name, Effect: model.NoSchedule}},
				Why: plan.Reason{Code: m.Cause, Pool: c.Pool, Subject: "node/" + n.Name, Key: m.ID}})
		}
	}
	return done, ""
}

// slotsBesidePods are slots for pods that are to come to a node beside those like them that are there.
func (dc *disruptionCommands) slotsBesidePods(n *model.Node, coming []*model.Pod) []model.Slot {
	slots := slotsForPods(coming)
	for i := range slots {
		for _, p := range n.Pods {
			if k := dc.slotKeyOf(p); k.class == slots[i].Class && k.owner == slots[i].Owner {
				slots[i].Count++
			}
		}
	}
	return slots
}

// lacksHost says whether a command whose hosts the memory does not know is without one that it needs.
func (dc *disruptionCommands) lacksHost(m *command) bool {
	if dc.mem.hosts[m.ID] != nil {
		return false
	}
	return len(m.hosts) < m.Hosts || slices.ContainsFunc(m.hosts, func(c *model.Claim) bool {
		n := dc.nodeOf(c)
		return n == nil || !hasReservedTaint(n, c)
	})
}

// releaseHost takes slots, annotation and taint of a host off a claim and its node.
func (dc *disruptionCommands) releaseHost(c *model.Claim, why plan.Reason) {
	if n := dc.nodeOf(c); n != nil && hasReservedTaint(n, c) {
		dc.addAction(plan.UpdateNode{Node: n.Name, UID: n.UID, RemoveTaints: []model.Taint{{Key: model.TaintReserved, Value: c.Name, Effect: model.NoSchedule}}, Why: why})
	}
	dc.addAction(plan.UpdateClaim{Claim: c.Name, UID: c.UID, SetSlots: true, Annotations: map[string]string{AnnotationHost: plan.Unset}, Why: why})
}

// releaseLandedHosts releases the hosts of a command whose reservation has ended.
func (dc *disruptionCommands) releaseLandedHosts(m *command) {
	for _, c := range m.hosts {
		if n := dc.nodeOf(c); n == nil || !hasReservedTaint(n, c) {
			dc.releaseHost(c, plan.Reason{Code: plan.Landed, Pool: c.Pool, Subject: "nodeclaim/" + c.Name})
		}
	}
}

// isRevocable says whether a claim holds slots for a command that can still be taken back: pods that are pending come
// before its pods.
func (dc *disruptionCommands) isRevocable(c *model.Claim) bool {
	r, ok := readHostRecord(c)
	if !ok {
		return false
	}
	m := dc.byID[r.ID]
	return m != nil && m.deleting == 0 && len(m.candidates) > 0 && !slices.ContainsFunc(m.candidates, dc.isAboutToBeDeleted)
}

// lacksCapacityForSlots says whether a node that hosts a command has less free capacity than the pods that it awaits
// ask for: others came before it was reserved, or pending pods were placed there.
func (dc *disruptionCommands) lacksCapacityForSlots(c *model.Claim, n *model.Node) bool {
	free := n.Allocatable.Sub(n.Used)
	there := map[slotKey]int{}
	for _, p := range n.Pods {
		there[dc.slotKeyOf(p)]++
	}
	var need model.Resources
	for _, s := range c.Slots {
		need = need.AddInto(s.Requests, int64(max(0, s.Count-there[slotKey{s.Class, s.Owner}])))
	}
	return !need.Fits(free)
}

// canHost says whether capacity of the node at a position can be reserved for a command's pods: it has a claim of ours,
// is usable, and nothing else is going on with it. A drifted node will be replaced too and its pods would move twice,
// so it can only where drifted nodes are allowed (allowDrifted).
func (dc *disruptionCommands) canHost(p int32, allowDrifted bool) bool {
	at := dc.claims.claimOf[p]
	if at < 0 {
		return false
	}
	c := dc.s.Claims[at]
	if c.Is(conditionDrifted) && !allowDrifted || !c.Deleting.IsZero() || c.UID == "" || dc.ofClaim[c.Name] != "" || dc.interruptions.byClaim[c.Name] != nil || dc.reservations.byClaim[c.Name] != nil || c.Annotations[AnnotationHost] != "" {
		return false
	}
	for _, g := range dc.mem.hosts {
		if _, ok := g[c.Name]; ok {
			return false
		}
	}
	n := dc.s.Nodes[p]
	return n.Ready && n.Labels[model.LabelInitialized] == "true" && !slices.ContainsFunc(n.Taints, func(t model.Taint) bool { return t.Key == model.TaintReserved })
}

// closedToDisruption returns the nodes whose free capacity no command may count on: those given, and where pods are
// bound by us all that can't be reserved (see canHost).
func (dc *disruptionCommands) closedToDisruption(going map[string]bool, allowDrifted bool) map[string]bool {
	if dc.pol.Landing == LandBind {
		for p, n := range dc.s.Nodes {
			if !going[n.Name] && !dc.canHost(int32(p), allowDrifted) {
				going[n.Name] = true
			}
		}
	}
	return going
}

// findUnplaceable are the free nodes as Homes needs them, for pods that no slot is kept for.
func (dc *disruptionCommands) findUnplaceable(m *command, closed []string, pods []*model.Pod) *model.Pod {
	rooms, _ := dc.nodes.list()
	adrift := dc.pods.unboundInTransit()
	p := disrupt.FindUnplaceable(rooms, len(dc.s.ResourceNames), closed, pods, adrift)
	if p == nil || m.Cause == plan.Underutilized || m.Cause == plan.Empty {
		return p
	}
	// A required command goes on when there is one way in which all pods find a place, though kube-scheduler may take
	// another.
	going := make(map[string]bool, len(closed))
	for _, n := range closed {
		going[n] = true
	}
	res, _ := solve.Solve(&solve.Problem{ResourceNames: dc.s.ResourceNames, Demand: slices.Concat(adrift, pods), Nodes: closeNodes(rooms, going), Daemons: dc.s.Daemons, Namespaces: dc.s.Namespaces},
		solve.Memory{}, dc.pol.Solve)
	for _, r := range res.Refused {
		if slices.Contains(pods, r.Pod) {
			return r.Pod
		}
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// solverView is the cluster's nodes and claims in flight as the solver takes them.
type solverView struct {
	*draft
	memo      *unchangedMachines
	purchases *purchases
}

// solverTarget is what a solve.ExistingNode stands for.
type solverTarget struct {
	node        *model.Node
	claim       *model.Claim
	reservation *cluster.Reservation
}

// closeNodes returns nodes with those of the given names closed to pods. The list given stays as it is, for the memory
// may hold it.
func closeNodes(rooms []solve.ExistingNode, closed map[string]bool) []solve.ExistingNode {
	own := false
	for i := range rooms {
		if len(closed) == 0 || !closed[rooms[i].Name] {
			continue
		}
		if !own {
			rooms, own = slices.Clone(rooms), true
		}
		rooms[i].Closed = true
	}
	return rooms
}

// inFlightNodes are claims in flight, by the name under which the solver knows them.
type inFlightNodes map[string]solverTarget

// list returns all standing nodes and all claims in flight, these by name too, and until when they are so. They may be
// those of the last step, and are not to be written to.
func (sv *solverView) list() (rooms []solve.ExistingNode, on inFlightNodes, until time.Time) {
	rooms = sv.memo.unchanged.solverNodes
	if len(sv.DirtyNodes) > 0 {
		rooms = slices.Clone(rooms)
		for _, p := range sv.DirtyNodes {
			n := sv.Snapshot.Nodes[p]
			c, h := sv.reservations.OfNode(p)
			var due time.Time
			rooms[p], due = sv.standingNode(n, c, h)
			until = model.EarlierOf(until, due)
		}
	}
	rooms = sv.subtractNominated(rooms)
	var more []solve.ExistingNode
	for _, c := range sv.DirtyClaims {
		if !c.Deleting.IsZero() || sv.Interruptions[c.Name] != nil || sv.NodeFor(c) != nil || c.Is(lifecycle.Registered) {
			continue
		}
		if c.Annotations[model.AnnotationAdopt] != "" {
			continue // its machine is not coming: it stands, and is counted as a node
		}
		r, ok := sv.inFlightNode(c)
		if !ok {
			continue
		}
		if sv.FindNode(r.Name) >= 0 {
			r.Name += "#claim"
		}
		if on == nil {
			on = inFlightNodes{}
		}
		on[r.Name] = solverTarget{claim: c, reservation: sv.reservations.ByClaim[c.Name]}
		more = append(more, r)
	}
	if len(more) > 0 {
		rooms = append(rooms[:len(rooms):len(rooms)], more...)
	}
	return closeNodes(rooms, sv.inShiftedZones(rooms)), on, until
}

// inShiftedZones returns the names of nodes in zones that the cluster is shifted away from. No pod is planned onto them, whether whoever
// started the shift has cordoned them yet or not.
func (sv *solverView) inShiftedZones(rooms []solve.ExistingNode) map[string]bool {
	if len(sv.Snapshot.Shifts) == 0 {
		return nil
	}
	out := map[string]bool{}
	for i := range rooms {
		if sv.Snapshot.ShiftFrom(rooms[i].Labels[model.LabelZone]) != nil {
			out[rooms[i].Name] = true
		}
	}
	return out
}

// targetNamed returns the node or claim that the solver knows by a name.
func (sv *solverView) targetNamed(name string, on inFlightNodes) solverTarget {
	if r, ok := on[name]; ok {
		return r
	}
	p := sv.FindNode(name)
	r := solverTarget{node: sv.Snapshot.Nodes[p]}
	if r.claim, r.reservation = sv.reservations.OfNode(p); r.reservation != nil && r.claim.Reserved && cluster.HasReservedTaint(r.node, r.claim) && r.reservation.AwaitedPods() == 0 {
		if held, _ := sv.preemption.Protects(r.reservation); !held {
			r.reservation = nil // its reservation goes: no more slots can be kept there
		}
	}
	return r
}

// unownedNodeGrace is how long a node that is no claim's may yet turn out to be one's.
const unownedNodeGrace = 2 * time.Minute

// standingNode returns a node as the solver takes it, with its claim and what that holds for pods (nil: it has none), and
// until when.
func (sv *solverView) standingNode(n *model.Node, c *model.Claim, h *cluster.Reservation) (solve.ExistingNode, time.Time) {
	r := solve.ExistingNode{Name: n.Name, Labels: n.Labels, Taints: n.Taints, Allocatable: n.Allocatable, Pods: n.Pods, NoAnti: n.NoAnti, CSILimits: n.CSILimits, CSIDrivers: n.CSIDrivers, Migrated: n.Migrated, Attached: n.Attached,
		Free: n.Allocatable.Sub(n.Used)}
	leaving := !n.Deleting.IsZero() || c != nil && (!c.Deleting.IsZero() || sv.Interruptions[c.Name] != nil)
	if leaving {
		// The pods of a claim's node are planned for elsewhere. Those of other nodes stay for as long as whoever removes
		// the node lets them, and count for kube-scheduler until then.
		r.Closed, r.Drained = true, c != nil
		return r, time.Time{}
	}
	if c != nil && lifecycle.IsRebooting(c) {
		r.Closed = true
		if !lifecycle.IsDrainedForReboot(c) {
			return r, time.Time{}
		}
		// Pods that will be evicted are planned for elsewhere.
		var until time.Time
		r.Pods = slices.DeleteFunc(slices.Clone(n.Pods), func(p *model.Pod) bool {
			stays, due := lifecycle.StaysThroughReboot(c, p, sv.pol.Lifecycle.MinDrain, sv.Now)
			until = model.EarlierOf(until, due)
			return p.IsWorkload() && !stays
		})
		return r, until
	}
	// An unregistered node that no claim names is one whose launch has not been answered yet: its capacity is its
	// claim's, and counted there.
	r.Closed = c != nil && sv.commands.Of(c) != "" || c == nil && n.HasTaint(model.TaintUnregistered)
	fresh, until := c == nil && sv.mayBeOwned(n), time.Time{}
	if c != nil && n.Labels[model.LabelInitialized] != "true" {
		var stuck bool
		stuck, until = sv.isStuck(c)
		fresh = !stuck
	}
	r.Fresh, r.Taints = fresh, sv.lastingTaints(n.Taints, c, fresh, h)
	if fresh && c != nil {
		r.Labels = model.MergeLabels(r.Labels, model.RegisteredLabels())
	}
	if h != nil {
		r.InFlight = true
		if sv.isRevocable(c) {
			subtractPods(&r, sv.commands.PodsBeforeCandidates(sv.View, h))
		} else {
			sv.subtractReservation(&r, h)
		}
		if n.Labels[model.LabelRegistered] != "true" {
			r.Labels = model.MergeLabels(r.Labels, c.Labels)
			r.Taints = append(r.Taints[:len(r.Taints):len(r.Taints)], c.Taints...)
		}
	}
	return r, until
}

// mayBeOwned reports whether a node without a claim may still turn out to be one's, and is taken for such a node.
func (sv *solverView) mayBeOwned(n *model.Node) bool {
	return sv.Now.Sub(n.Created) < unownedNodeGrace
}

// subtractReservation takes the slots of a claim that are not filled yet off a node's free capacity.
func (sv *solverView) subtractReservation(r *solve.ExistingNode, h *cluster.Reservation) {
	r.Free = r.Free.Clone()
	for i := range h.Slots {
		r.Free = r.Free.AddInto(h.Slots[i].Requests, -int64(h.Awaited(&h.Slots[i])))
	}
	if len(h.Pods) > 0 {
		r.Pods, r.NoAnti = append(r.Pods[:len(r.Pods):len(r.Pods)], h.Pods...), false
	}
}

// subtractNominated returns nodes without the capacity that nominated pods take. The list given stays as it is.
func (sv *solverView) subtractNominated(nodes []solve.ExistingNode) []solve.ExistingNode {
	nominated := sv.NominatedPods()
	if len(nominated) == 0 {
		return nodes
	}
	nodes = slices.Clone(nodes)
	for name, pods := range nominated {
		if p := sv.FindNode(name); p >= 0 {
			subtractPods(&nodes[p], pods)
		}
	}
	return nodes
}

// subtractPods takes pods that are to come to a node off its free capacity.
func subtractPods(r *solve.ExistingNode, pods []*model.Pod) {
	if len(pods) == 0 {
		return
	}
	r.Free = r.Free.Clone()
	for _, p := range pods {
		r.Free = r.Free.AddInto(p.Class.Requests, -1)
	}
	r.Pods, r.NoAnti = append(r.Pods[:len(r.Pods):len(r.Pods)], pods...), false
}

// lastingTaints returns the taints that will still be there when pods come.
func (sv *solverView) lastingTaints(taints []model.Taint, c *model.Claim, fresh bool, h *cluster.Reservation) []model.Taint {
	var out []model.Taint
	for _, t := range taints {
		if t.Key == model.TaintReserved && (h != nil || c != nil && t.Value == c.Name) {
			continue // pods that are put here are let in; where nothing is held any more, it is being taken off
		}
		if fresh && lifecycle.IsEphemeral(t) {
			continue
		}
		if fresh && c != nil && c.IsStartupTaint(t) {
			continue
		}
		out = append(out, t)
	}
	return out
}

// inFlightNode returns a claim whose machine is coming as a node, with what is certain about it: the least of each
// resource where several instance types are possible. False: no instance type is.
func (sv *solverView) inFlightNode(c *model.Claim) (solve.ExistingNode, bool) {
	r := solve.ExistingNode{Name: c.Name, InFlight: true, Taints: c.Taints, Allocatable: c.Allocatable}
	labels := model.MergeLabels(model.MergeLabels(c.Labels, model.RegisteredLabels()), model.Labels{model.LabelHostname: c.Name})
	for _, q := range c.Requirements {
		if _, ok := labels[q.Key]; ok {
			continue
		}
		if !q.Complement && len(q.Values) == 1 {
			labels[q.Key] = q.Values[0]
		} else {
			r.Open = append(r.Open, q)
		}
	}
	r.Labels = labels
	if !c.Is(lifecycle.Launched) {
		least, _, n := sv.purchases.sizeRange(c)
		if n == 0 {
			return r, false
		}
		r.Allocatable = least
	}
	r.Free = r.Allocatable
	if h := sv.reservations.ByClaim[c.Name]; h != nil {
		sv.subtractReservation(&r, h)
	} else {
		r.Free = r.Allocatable.Sub(c.Requests)
	}
	// The solver charges DaemonSets that are certain to have a pod there: those that the open labels decide about may have one, too.
	for _, d := range sv.Snapshot.Daemons {
		if cluster.MayStandOn(d.Class, r.Labels, r.Open, r.Taints) && d.Pod().Requests.Fits(r.Free) {
			r.Free = r.Free.Sub(d.Pod().Requests)
		}
	}
	return r, true
}

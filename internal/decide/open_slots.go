// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Slots on nodes that are not reserved are a plan and no promise: kube-scheduler places the pods as it likes. If it has placed some elsewhere, the
// pods that remain may fit the capacity that remains, though not all of them where their slots are.

// packing is demand, the nodes that it is packed on, and how.
type packing struct {
	pods    []*model.Pod
	nodes   []solve.ExistingNode
	problem *solve.Problem
	result  *solve.Result
}

// packOpenSlots solves again with the pods that have slots on nodes that are not reserved, as if they had none, if new nodes are launched
// otherwise. If that launches less and places each of them, these slots are released, and it returns the packing; otherwise it returns pk.
func (dm *demandStage) packOpenSlots(pk packing, on inFlightNodes) packing {
	if !slices.ContainsFunc(pk.result.New, func(n solve.NewNode) bool { return len(model.RealPods(n.Pods)) > 0 }) {
		return pk
	}
	open := map[*cluster.Reservation][]*model.Pod{}
	all := packing{pods: slices.Clip(pk.pods)}
	for _, h := range dm.reservations.All {
		if !h.Claim.Reserved && h.Claim.UID != "" && dm.commands.ServedBy(h.Claim) == nil {
			open[h] = dm.slots.Movable(h)
			all.pods = append(all.pods, open[h]...)
		}
	}
	if len(all.pods) == len(pk.pods) {
		return pk
	}
	all.nodes = slices.Clone(pk.nodes)
	for i := range all.nodes {
		if n := &all.nodes[i]; n.InFlight {
			addPods(n, open[dm.nodes.targetNamed(n.Name, on).reservation])
		}
	}
	all.problem, all.result = dm.packPods(all.pods, all.nodes)
	had := map[*model.Pod]bool{}
	for _, r := range pk.result.Refused {
		had[r.Pod] = true
	}
	if all.result.Cost.NewMicroPerHour >= pk.result.Cost.NewMicroPerHour || slices.ContainsFunc(all.result.Refused, func(r solve.Refusal) bool { return !had[r.Pod] }) {
		return pk
	}
	for h, pods := range open {
		dm.slots.Release(h, pods)
	}
	return all
}

// addPods gives a node back the capacity that pods which are to come to it take.
func addPods(r *solve.ExistingNode, pods []*model.Pod) {
	if len(pods) == 0 {
		return
	}
	r.Free = r.Free.Clone()
	for _, p := range pods {
		r.Free = r.Free.AddInto(p.Class.Requests, 1)
	}
	r.Pods = slices.DeleteFunc(slices.Clone(r.Pods), func(p *model.Pod) bool { return slices.Contains(pods, p) })
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/decide/demand"
	"github.com/dovetail-sh/dovetail/internal/decide/landing"
	"github.com/dovetail-sh/dovetail/internal/decide/requests"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Here is what decide/requests is given, and what is kept in Dovetail's own decisions for ProvisioningRequests on standing nodes that have no
// slots for them: see bookings.go.

// followRequests finds how ProvisioningRequests stand.
func (st *step) followRequests() {
	var next time.Time
	keeps := landing.NewHolds(st.View, st.landingInput())
	checks := map[string]bool{} // by uid: requests that only free capacity is looked for
	for _, r := range st.Snapshot.Requests {
		checks[r.UID] = r.CheckOnly
	}
	st.out.Requests, next, st.mem.requests = requests.Follow(st.View, requests.In{
		Reservations: st.reservations.All,
		Holds: func(h *cluster.Reservation) bool {
			return !st.holds() || landing.SpreadRefusal("", h.Pods).Code != "" || st.heed(keeps(h))
		},
		Reserves: func(p *model.Pod, n int32) bool {
			others := st.placements.booked[st.Snapshot.Nodes[n].Name]
			return st.holds() && landing.SpreadRefusal("", append([]*model.Pod{p}, others...)).Code == "" && (!checks[p.Consumes.UID] || st.canHold(st.ClaimOn(n)))
		},
		Expected: st.placements.nodeOf, Decisions: st.out.Pods, Solved: st.out.Solved, Retry: st.pol.BufferRetry}, st.mem.requests)
	st.wakeAt(next)
}

// splitBooked splits off the placeholders of provisioned requests that still have their place on a standing node, and returns the others, what is
// booked on each node, and until when that is so. Nobody else is placed there.
func (dm *demandStage) splitBooked(left []*model.Pod) (rest []*model.Pod, booked map[string][]*model.Pod, until time.Time) {
	provisioned := map[string]bool{}
	for _, r := range dm.Snapshot.Requests {
		provisioned[r.UID] = r.IsProvisioned()
	}
	if dm.booked = nil; len(provisioned) == 0 {
		return left, nil, until
	}
	dm.booked, booked = map[string]demand.Placement{}, map[string][]*model.Pod{}
	free := map[string]*solve.ExistingNode{}
	for _, p := range left {
		was, placed := dm.placements.mem.byPod[p.UID]
		if !placed || !p.Placeholder || !provisioned[p.Consumes.UID] {
			rest = append(rest, p)
			continue
		}
		n, known := free[was.Node]
		if !known {
			x, due, ok := dm.nodes.atTarget(target(nodePrefix + was.Node))
			if until = model.EarlierOf(until, due); ok && !x.Closed {
				n = &x
			}
			free[was.Node] = n
		}
		if n == nil || !p.Class.Requests.Fits(n.Free) {
			rest = append(rest, p)
			continue
		}
		n.Free = n.Free.Sub(p.Class.Requests)
		dm.booked[p.UID], booked[was.Node] = was, append(booked[was.Node], p)
	}
	return rest, booked, until
}

// subtractBooked returns nodes without what is booked on them. The list given stays as it is.
func subtractBooked(nodes []solve.ExistingNode, booked map[string][]*model.Pod) []solve.ExistingNode {
	if len(booked) == 0 {
		return nodes
	}
	nodes = slices.Clone(nodes)
	for i := range nodes {
		subtractPods(&nodes[i], booked[nodes[i].Name])
	}
	return nodes
}

// barLaunches returns pools from which no node is launched for pods of some classes.
func barLaunches(pools []solve.Pool, bars []requests.Barred) []solve.Pool {
	if len(bars) == 0 {
		return pools
	}
	pools = slices.Clone(pools)
	for i := range pools {
		for _, b := range bars {
			pools[i].Barred = append(slices.Clip(pools[i].Barred), solve.Bar{Class: b.Class, Why: b.Why})
		}
	}
	return pools
}

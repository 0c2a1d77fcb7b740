// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// searchInput gives package disrupt the cluster.
type searchInput struct {
	*draft
	mem        *searchMemory
	buffers    *buffers
	candidates *candidates
	hosts      *commandHosts
	nodes      *solverView
	purchases  *purchases
	placements *placements
}

// measurement is how long pods take to start and machines to come.
type measurement struct {
	startTimes disrupt.StartTimes
	bootTime   time.Duration // that machines take to come; 0: none has been seen to
	at         time.Time
}

// replacement returns the disruption command that replaces a machine, whatever it costs; nil and the reason where some pod would find no node. Only where
// no other node has capacity for its pods may drifted nodes host them.
func (se *searchInput) replacement(u *disrupt.Candidate, cause plan.Code) (m *disrupt.Command, why plan.Reason) {
	for _, allowDrifted := range []bool{false, true} {
		in, until := se.input(allowDrifted)
		se.wakeAt(until)
		if m, why = disrupt.Replace(in, []*disrupt.Candidate{u}, cause, se.pol.Disrupt, se.pol.Solve); m != nil {
			break
		}
	}
	return m, why
}

// input returns the cluster as package disrupt searches it, and until when. With allowDrifted, drifted nodes may host a
// command's pods.
func (se *searchInput) input(allowDrifted bool) (*disrupt.Input, time.Time) {
	nodes, _, until := se.nodes.list()
	going := map[string]bool{} // also what was decided in this very step, which no object shows yet
	for _, u := range se.candidates.all {
		if u.CommandID != "" || se.candidates.groups.IsRefreshing(u.NodeGroup()) {
			going[u.Node.Name] = true
		}
	}
	nodes = closeNodes(nodes, se.hosts.closedToDisruption(going, allowDrifted))
	nodes = se.buffers.subtract(nodes)
	measured := se.startTimes()
	in := &disrupt.Input{ResourceNames: se.Snapshot.ResourceNames, Nodes: nodes, Pools: se.candidates.groups.WithoutRefreshingGroups(se.purchases.pools()), GroupLeft: se.candidates.groups.RemovableByGroup(), Daemons: se.Snapshot.Daemons, Namespaces: se.Snapshot.Namespaces,
		Minimum: se.candidates.guard.Minimum, Limits: se.purchases.limitUses(), BudgetLeft: map[string]int64{}, StartTimes: measured.startTimes, BootTime: measured.bootTime, Binds: se.hosts.binds, PoolTotals: map[string]disrupt.PoolTotal{},
		WhyUnreservable: func(n *solve.NewNode) plan.Reason {
			real := model.RealPods(n.Pods)
			if len(real) == 0 {
				return plan.Reason{} // it is for nobody in particular
			}
			if why := se.pol.Landing.ReservationRefusal(se.Pool(n.Pool), n.Requests, real, se.Snapshot.ResourceNames); why.Code != "" {
				return why
			}
			return se.preemption.ReservationRefusal(n.Pool, real)
		}}
	for _, p := range se.Snapshot.Pools {
		if paused := se.hosts.mem.pauses.Until(p.Name); se.Now.Before(paused) {
			if in.PausedUntil == nil {
				in.PausedUntil = map[string]time.Time{}
			}
			in.PausedUntil[p.Name], until = paused, model.EarlierOf(until, paused)
		}
	}
	until = model.EarlierOf(until, se.mem.forecast.AddTo(in, se.Now, se.pol.Disrupt.Horizon))
	in.UnboundInTransit = se.transit(se.placements).Unbound()
	for _, p := range se.pods.ToReschedule() {
		if !se.slots.Covered[p.UID] && !slices.Contains(in.UnboundInTransit, p) {
			in.UnboundInTransit = append(in.UnboundInTransit, p)
		}
	}
	for _, u := range se.candidates.all {
		if u.Pool.ConsolidationPolicy != disrupt.Balanced {
			continue
		}
		w := in.PoolTotals[u.Pool.Name]
		w.PriceMicro += max(u.PriceMicro, 0)
		w.DisruptionWeight += u.DisruptionWeight()
		in.PoolTotals[u.Pool.Name] = w
	}
	return in, until
}

// placesAsked returns a function that reports whether the pods of candidates, virtual ones aside, fit on other nodes, or on such as could be launched,
// when these candidates go together.
func (se *searchInput) placesAsked() func([]*disrupt.Candidate) bool {
	var in *disrupt.Input // made when it is first asked
	return func(set []*disrupt.Candidate) bool {
		if in == nil {
			in, _ = se.input(true)
		}
		real := make([]*disrupt.Candidate, len(set))
		for i, u := range set {
			v := *u
			v.Pods = model.RealPods(u.Pods)
			real[i] = &v
		}
		return disrupt.Evaluate(in, real, se.pol.Disrupt, se.pol.Solve).Command != nil
	}
}

// startTimes returns how long pods take to start and machines to come. To measure that, every pod and claim is looked at, so what
// was measured a while ago still holds.
func (se *searchInput) startTimes() measurement {
	every := se.pol.FullSearchInterval / 10
	if m := se.mem.measured; m.startTimes != nil && se.Now.Before(m.at.Truncate(every).Add(every)) {
		return m
	}
	m := measurement{startTimes: disrupt.StartTimes{}, at: se.Now}
	for _, n := range se.Snapshot.Nodes {
		m.startTimes.MeasurePods(n)
	}
	m.bootTime = se.View.BootTime()
	return m
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"slices"
	"sort"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/decide/demand"
	"github.com/dovetail-sh/dovetail/internal/decide/limits"
	"github.com/dovetail-sh/dovetail/internal/decide/nodegroups"
	"github.com/dovetail-sh/dovetail/internal/decide/unused"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// purchases knows what may still be bought, and makes the claims for what is.
type purchases struct {
	*draft
	mem    *purchaseMemory
	memo   *unchangedMachines
	unused *unused.Launches

	withholding *demand.Withholding
	limitUse    []model.LimitUse // what the snapshot's limits are used for; nil: not counted yet

	typesByName map[*model.NodePool]map[string][]*model.InstanceType // of pools whose claims were asked for theirs in this step
}

// purchaseMemory is what purchases remembers from step to step.
type purchaseMemory struct {
	claimSizes map[string]model.Resources // by claim whose machine has not come: the most capacity that it may have
	claimMicro map[string]int64           // and the most that it may cost, where a limit is on that, micro-dollars an hour

	parts limits.Parts // of the pools that were last asked for
}

// sizeRange is the least allocatable and the most capacity over the types a claim may become, and how many those are.
func (pu *purchases) sizeRange(c *model.Claim) (least, most model.Resources, n int) {
	pool := pu.Pool(c.Pool)
	q := c.Requirements.Get(model.LabelInstanceType)
	if pool == nil || q == nil {
		return nil, nil, 0
	}
	for _, t := range pu.typesNamed(pool, q) {
		if n == 0 {
			least, most = t.Allocatable, t.Capacity
		} else {
			least, most = least.Min(t.Allocatable), most.Max(t.Capacity)
		}
		n++
	}
	return least, most, n
}

// typesNamed returns the types of a pool whose names meet a requirement. It names a few of them as a rule, and hundreds of
// claims on their way ask each step.
func (pu *purchases) typesNamed(pool *model.NodePool, q *model.Requirement) (out []*model.InstanceType) {
	if q.Complement {
		for _, t := range pool.Types {
			if q.Matches(t.Name, true) {
				out = append(out, t)
			}
		}
		return out
	}
	byName := pu.typesByName[pool]
	if byName == nil {
		byName = make(map[string][]*model.InstanceType, len(pool.Types))
		for _, t := range pool.Types {
			byName[t.Name] = append(byName[t.Name], t)
		}
		if pu.typesByName == nil {
			pu.typesByName = map[*model.NodePool]map[string][]*model.InstanceType{}
		}
		pu.typesByName[pool] = byName
	}
	for _, name := range q.Values {
		if q.Matches(name, true) {
			out = append(out, byName[name]...)
		}
	}
	return out
}

// pools returns the pools that may buy, with what is left of their limits and of their node groups' maximums.
func (pu *purchases) pools() []solve.Pool {
	used := map[string]model.Resources{}
	count := map[string]int64{}
	for name, x := range pu.Unchanged {
		used[name], count[name] = x.Capacity.Clone(), x.Count
	}
	for _, c := range pu.DirtyClaims {
		if c.Pool == "" || pu.GotNoInstance(c) {
			continue
		}
		count[c.Pool]++
		size := c.Capacity
		if !isSizeKnown(c) {
			size = pu.largestSize(c)
		}
		used[c.Pool] = used[c.Pool].AddInto(size, 1)
	}
	var out []solve.Pool
	for _, p := range pu.Snapshot.Pools {
		if p.Deleting || p.Replicas >= 0 {
			continue
		}
		sp := solve.Pool{NodePool: pu.withholding.Close(p), RelaxMinValues: pu.pol.RelaxMinValues, NodesLeft: -1, Left: p.Limits.Sub(used[p.Name].Trim())}
		if p.NodeLimit >= 0 {
			sp.NodesLeft = max(0, p.NodeLimit-count[p.Name])
		}
		out = append(out, sp)
	}
	out, pu.mem.parts = limits.Share(nodegroups.WithinMaximums(out, pu.groupSizes), pu.limitUses(), pu.mem.parts)
	return pu.unused.Bars.Pools(limits.RefuseUncounted(pu.View, out))
}

// staticPools returns the names of the NodePools that keep a number of nodes, sorted.
func (pu *purchases) staticPools() (names []string) {
	for _, p := range pu.Snapshot.Pools {
		if p.Replicas >= 0 && !p.Deleting {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names
}

// groupSizes is nodegroups.Sizes without the claims that this step deletes.
func (pu *purchases) groupSizes() map[string]int64 {
	return nodegroups.Sizes(pu.Snapshot, func(c *model.Claim) bool { return pu.Decided[plan.DeleteClaim{UID: c.UID}.Key()] })
}

// limitUses returns the limits of the snapshot with what counts against them, claims decided on in this step included.
func (pu *purchases) limitUses() []model.LimitUse {
	if len(pu.Snapshot.Limits) == 0 {
		return nil
	}
	if pu.limitUse == nil {
		pu.limitUse = limits.CountUse(pu.View, func(c *model.Claim) model.Resources {
			if isSizeKnown(c) {
				return c.Capacity.Max(pu.mem.claimSizes[c.Name]).Max(c.Requests)
			}
			return pu.largestSize(c)
		}, func(c *model.Claim) int64 { return pu.mem.claimMicro[c.Name] })
	}
	return limits.WithCreated(pu.View, pu.limitUse, pu.out.Actions)
}

// largestSize returns the most capacity that a claim's machine may have whose size is not known. It may come as any of the types that
// it was decided on with, though some, or all, are not offered any more.
func (pu *purchases) largestSize(c *model.Claim) model.Resources {
	_, most, _ := pu.sizeRange(c)
	return most.Max(pu.mem.claimSizes[c.Name]).Max(c.Requests)
}

// isSizeKnown reports whether it is known how large a claim's machine is.
func isSizeKnown(c *model.Claim) bool { return !c.Capacity.IsZero() }

// rememberClaimSizes remembers how large the machines may become that have not come yet.
func (pu *purchases) rememberClaimSizes() {
	next := map[string]model.Resources{}
	for name, size := range pu.mem.claimSizes {
		if c := pu.Claim(name); c != nil && c.Capacity.IsZero() {
			next[name] = size
		}
	}
	for _, a := range pu.out.Actions {
		if a, ok := a.(plan.CreateClaim); ok {
			var most model.Resources
			for _, t := range a.Types {
				most = most.Max(t.Capacity)
			}
			next[a.Name] = most
		}
	}
	pu.mem.claimSizes = next
	pu.rememberClaimPrices()
}

// rememberClaimPrices remembers how dear the machines may become that have not come yet, where a limit is on that.
func (pu *purchases) rememberClaimPrices() {
	if !slices.ContainsFunc(pu.Snapshot.Limits, func(l *model.CapacityLimit) bool { return l.MicroPerHour >= 0 }) {
		pu.mem.claimMicro = nil
		return
	}
	next := map[string]int64{}
	for name, micro := range pu.mem.claimMicro {
		if _, coming := pu.mem.claimSizes[name]; coming {
			next[name] = micro
		}
	}
	for _, a := range pu.out.Actions {
		if a, ok := a.(plan.CreateClaim); ok {
			_, next[a.Name] = limits.LargestNode(a.Pool, a.Requirements, a.Types)
		}
	}
	pu.mem.claimMicro = next
}

// createClaims creates a NodeClaim for each new node. Virtual pods get no slots, and a node that is launched only for virtual
// pods is not reserved. replaced are the uids of the NodeClaims that the new nodes replace.
func (pu *purchases) createClaims(nodes []solve.NewNode, replaced ...string) {
	for i := range nodes {
		n := &nodes[i]
		pool := pu.Pool(n.Pool)
		real := model.RealPods(n.Pods)
		because := plan.Reason{Code: plan.Demand, Pool: n.Pool}
		var why plan.Reason
		if len(real) > 0 {
			why = pu.pol.Landing.ReservationRefusal(pool, n.Requests, real, pu.Snapshot.ResourceNames)
			if why.Code == "" && len(replaced) > 0 {
				why = pu.preemption.ReservationRefusal(n.Pool, real)
			}
		} else {
			why = plan.Reason{Code: plan.HeldForBuffer, Pool: n.Pool, Subject: plan.ObjectOf("capacitybuffer", n.Pods[0].Buffer)}
			because = why
		}
		a := plan.CreateClaim{
			Name: pu.newClaimName(n.Pool, n.Pods, replaced), Pool: pool, Requirements: n.Requirements, Requests: n.Requests,
			Slots: cluster.SlotsForPods(real), Reserved: why.Code == "", NoReserve: why, Pods: n.Pods,
			Type: n.Type.Name, Types: n.Choices, Zone: n.Offering.Zone, CapacityType: n.Offering.CapacityType, PriceMicro: n.PriceMicro,
			Why: because, MinValuesRelaxed: n.MinValuesRelaxed,
		}
		pu.addAction(a)
		for _, p := range n.Pods {
			pu.out.Pods = append(pu.out.Pods, plan.PodDecision{Pod: p, Outcome: plan.OnNew, Target: a.Name})
		}
	}
}

// newClaimName derives the name of a NodeClaim from its pool, its pods and the uids of the NodeClaims that it replaces. Without
// these uids, the replacement of a replacement would have the name of the first NodeClaim. The order of the uids matters, the
// order of the pods does not. If a NodeClaim that is being deleted has the name, its uid is added as a salt.
func (pu *purchases) newClaimName(pool string, pods []*model.Pod, replaced []string) string {
	uids := make([]string, len(pods))
	for i, p := range pods {
		uids[i] = p.UID
	}
	sort.Strings(uids)
	parts := append(append([]string{pool}, uids...), replaced...)
	prefix := pool
	if len(prefix) > 52 {
		prefix = strings.TrimRight(prefix[:52], "-.")
	}
	for {
		name := prefix + "-" + cluster.HashName(10, parts...)
		c := pu.Claim(name)
		if c == nil || c.Provisional {
			return name
		}
		parts = append(parts, c.UID)
	}
}

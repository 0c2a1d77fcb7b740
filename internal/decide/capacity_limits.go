// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Limits over several NodePools and node groups: those of the whole cluster, and CapacityQuotas. All nodes that match
// count, whoever launched them, and all that are being launched, each as the largest and the dearest that it may become.

// limitUses returns the limits of the snapshot with what counts against them, claims decided on in this step included.
func (pu *purchases) limitUses() []model.LimitUse {
	if len(pu.s.Limits) == 0 {
		return nil
	}
	if pu.limitUse == nil {
		pu.limitUse = pu.countLimitUse()
	}
	out := make([]model.LimitUse, len(pu.limitUse))
	for i, u := range pu.limitUse {
		out[i] = u
		out[i].Used = u.Used.Clone()
	}
	for _, a := range pu.out.Actions {
		if a, ok := a.(plan.CreateClaim); ok && pu.Claim(a.Name) == nil {
			coming := comingNode{pool: a.Pool, requirements: a.Requirements, types: a.Types}
			coming.addTo(out, coming.size(), coming.dearest())
		}
	}
	return out
}

// uncountedLimits returns the limits, by their index in the snapshot, against which NodeClaims of some pool can't be
// counted, and the name of that pool: its provider has not been asked yet what their nodes have and cost, as after a
// start. Until it has been, nothing is bought that counts against these limits.
func (pu *purchases) uncountedLimits() map[int]string {
	if len(pu.s.Limits) == 0 {
		return nil
	}
	unknown := map[string]bool{}
	for _, p := range pu.s.Pools {
		if p.Types == nil && !p.Ready && (p.NotReady.Reason == "" || p.NotReady.Reason == model.OfferingsNotAsked) {
			unknown[p.Name] = true
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	out := map[int]string{}
	for _, c := range pu.s.Claims {
		if !unknown[c.Pool] {
			continue
		}
		standing := comingNode{requirements: c.Requirements, labels: c.Labels}
		for i, l := range pu.s.Limits {
			if _, ok := out[i]; !ok && !l.IsUnlimited() && standing.mayMatch(l.Selector) {
				out[i] = c.Pool
			}
		}
	}
	return out
}

// refuseUncounted has the pools buy nothing that count against a limit whose use is not known.
func (pu *purchases) refuseUncounted(pools []solve.Pool) []solve.Pool {
	uncounted := pu.uncountedLimits()
	for i := range pools {
		at := slices.IndexFunc(pools[i].Shared, func(l int) bool { _, ok := uncounted[l]; return ok })
		if at < 0 {
			continue
		}
		p, name := *pools[i].NodePool, uncounted[pools[i].Shared[at]]
		p.Ready, p.NotReady = false, model.Condition{Status: "False", Reason: "LimitsNotCounted",
			Message: "what the nodes of NodePool " + name + " have and cost counts against a limit, and is not known yet"}
		pools[i].NodePool = &p
	}
	return pools
}

// countLimitUse counts what the nodes, claims and group members of the snapshot take of its limits.
func (pu *purchases) countLimitUse() []model.LimitUse {
	uses := make([]model.LimitUse, len(pu.s.Limits))
	for i, l := range pu.s.Limits {
		uses[i].CapacityLimit = l
	}
	hasNode := map[string]bool{} // by provider id
	launchPrice := func(c *model.Claim) int64 {
		micro, _ := model.ParseDollars(c.Annotations[model.AnnotationLaunchPrice])
		return micro
	}
	prices := nodePrices{pools: pu.s.Pools, known: map[nodePriceKey]int64{}}
	for at, n := range pu.s.Nodes {
		labels, capacity, launched := n.Labels, n.Capacity, int64(0)
		if i := pu.ClaimOf(int32(at)); i != cluster.None {
			c := pu.s.Claims[i]
			if labels[model.LabelNodePool] == "" { // not registered yet
				labels = mergeLabels(c.Labels, labels)
			}
			capacity, launched = capacity.Max(c.Capacity), launchPrice(c)
		}
		hasNode[n.ProviderID] = n.ProviderID != ""
		for j := range uses {
			if uses[j].Matches(labels) {
				addUse(&uses[j], capacity, cmp.Or(prices.of(labels), launched))
			}
		}
	}
	claimed := map[string]bool{}
	for i, c := range pu.s.Claims {
		claimed[c.ProviderID], claimed[c.Annotations[model.AnnotationAdopt]] = true, true
		if pu.NodeOf(int32(i)) != cluster.None {
			continue
		}
		_, most, _ := pu.sizeRange(c)
		if isSizeKnown(c) {
			most = c.Capacity
		}
		coming := comingNode{pool: pu.Pool(c.Pool), requirements: c.Requirements, labels: c.Labels}
		if coming.pool != nil {
			coming.types = coming.pool.Types
		}
		coming.addTo(uses, most.Max(pu.mem.claimSizes[c.Name]).Max(c.Requests), cmp.Or(max(coming.dearest(), pu.mem.claimMicro[c.Name]), launchPrice(c)))
	}
	for _, i := range pu.s.Instances {
		if i.Gone || i.ClaimUID != "" || i.Class == "" || claimed[i.ProviderID] || hasNode[i.ProviderID] {
			continue
		}
		for j := range uses {
			if uses[j].Matches(i.Labels) {
				addUse(&uses[j], prices.capacityOf(i.Labels), prices.of(i.Labels))
			}
		}
	}
	return uses
}

// addUse counts one node against a limit.
func addUse(u *model.LimitUse, capacity model.Resources, micro int64) {
	u.Used = u.Used.AddInto(capacity, 1)
	u.UsedNodes++
	u.UsedMicro += micro
}

// nodePrices knows what nodes cost by their labels.
type nodePrices struct {
	pools []*model.NodePool
	known map[nodePriceKey]int64
}

type nodePriceKey struct{ pool, instanceType, zone, capacityType string }

// of returns what a node costs, micro-dollars an hour: in its own NodePool, or else in the first that is offered its
// instance type; 0 where nobody knows.
func (x *nodePrices) of(l model.Labels) int64 {
	key := nodePriceKey{l[model.LabelNodePool], l[model.LabelInstanceType], l[model.LabelZone], l[model.LabelCapacityType]}
	if micro, ok := x.known[key]; ok {
		return micro
	}
	micro := int64(0)
	for _, own := range []bool{true, false} {
		for _, p := range x.pools {
			if o := disrupt.NodeOffering(p, l); o != nil && micro == 0 && (p.Name == key.pool) == own {
				micro = o.PriceMicro
			}
		}
	}
	x.known[key] = micro
	return micro
}

// capacityOf returns what a node of the labels' instance type has; nil where no pool is offered it.
func (x *nodePrices) capacityOf(l model.Labels) model.Resources {
	for _, p := range x.pools {
		if t := disrupt.FindInstanceType(p, l[model.LabelInstanceType]); t != nil {
			return t.Capacity
		}
	}
	return nil
}

// comingNode is a node that may still become any of several.
type comingNode struct {
	pool         *model.NodePool // nil: not known
	requirements model.Requirements
	labels       model.Labels
	types        []*model.InstanceType
}

// eachOffering calls f with every offering that the node may become, those without capacity now included.
func (x *comingNode) eachOffering(f func(*model.InstanceType, *model.Offering)) {
	for _, t := range x.types {
		if q := x.requirements.Get(model.LabelInstanceType); q != nil && !q.Matches(t.Name, true) {
			continue
		}
		for i := range t.Offerings {
			o := &t.Offerings[i]
			allowed := true
			for _, key := range []string{model.LabelZone, model.LabelCapacityType, model.LabelNodeGroup} {
				q := x.requirements.Get(key)
				v, ok := t.Label(key, o)
				allowed = allowed && (q == nil || !ok || q.Matches(v, true))
			}
			if allowed {
				f(t, o)
			}
		}
	}
}

// size is the most capacity that the node may have.
func (x *comingNode) size() (most model.Resources) {
	for _, t := range x.types {
		most = most.Max(t.Capacity)
	}
	return most
}

// dearest is the most that the node may cost, micro-dollars an hour.
func (x *comingNode) dearest() (most int64) {
	x.eachOffering(func(_ *model.InstanceType, o *model.Offering) { most = max(most, o.PriceMicro) })
	return most
}

// addTo counts the node against each limit that it may come to match.
func (x *comingNode) addTo(uses []model.LimitUse, capacity model.Resources, micro int64) {
	for i := range uses {
		if x.mayMatch(uses[i].Selector) {
			addUse(&uses[i], capacity, micro)
		}
	}
}

// mayMatch reports whether the node may have labels that a selector matches.
func (x *comingNode) mayMatch(selector model.Requirements) bool {
	if len(selector) == 0 {
		return true
	}
	some, known := false, false
	x.eachOffering(func(t *model.InstanceType, o *model.Offering) {
		known = true
		some = some || mayMatch(selector, x.requirements, x.labels, t, o)
	})
	return some || !known && mayMatch(selector, x.requirements, x.labels, nil, nil)
}

// mayMatch reports whether a node may have labels that a selector matches: those of an offering, where it is known, those
// given, and else any that the node's own requirements allow.
func mayMatch(selector, own model.Requirements, labels model.Labels, t *model.InstanceType, o *model.Offering) bool {
	for i := range selector {
		q := &selector[i]
		v, ok := "", false
		if t != nil {
			v, ok = t.Label(q.Key, o)
		}
		if !ok {
			v, ok = labels[q.Key]
		}
		if r := own.Get(q.Key); !ok && r != nil {
			if both := r.Intersect(*q); both.Empty() {
				return false
			}
			continue
		}
		if !q.Matches(v, ok) {
			return false
		}
	}
	return true
}

// poolPart is those of a NodePool's offerings that count against the same limits.
type poolPart struct {
	types  []*model.InstanceType // with these offerings alone; the pool's own where it is whole
	shared []int                 // the limits that count, by index
	name   string                // empty: the whole pool
}

// partsKey is all that the parts of a pool follow from: its instance types, as which slice they are, and what else is
// asked of their nodes.
type partsKey struct {
	types **model.InstanceType
	count int
	rules string // the pool's requirements and labels, and the selectors of the limits in order
}

// newPartsKey returns what the parts of a pool follow from.
func newPartsKey(p *model.NodePool, selectors string) partsKey {
	var rules strings.Builder
	rules.WriteString(p.Requirements.Key())
	for _, k := range sortedKeys(p.Labels) {
		rules.WriteString(strconv.Quote(k) + "=" + strconv.Quote(p.Labels[k]))
	}
	key := partsKey{count: len(p.Types), rules: rules.String() + selectors}
	if key.count > 0 {
		key.types = &p.Types[0]
	}
	return key
}

// selectorsText writes the selectors of limits, in order.
func selectorsText(limits []model.LimitUse) string {
	var out strings.Builder
	for i := range limits {
		out.WriteString("|" + limits[i].Selector.Key())
	}
	return out.String()
}

// shareLimits says of each pool which limits its nodes count against. A NodePool of whose offerings some count and
// others do not becomes several pools, each with the offerings that are alike in that; their instance types
// are the same from step to step while the pool's are and the limits select the same, so that what is remembered of them holds.
// One whose minValues must be kept stays whole, and counts where any of its offerings does.
func (pu *purchases) shareLimits(pools []solve.Pool, limits []model.LimitUse) []solve.Pool {
	if len(limits) == 0 {
		pu.mem.parts = nil
		return pools
	}
	selectors := selectorsText(limits)
	known := make(map[partsKey][]poolPart, len(pools))
	out := make([]solve.Pool, 0, len(pools))
	for _, p := range pools {
		key := newPartsKey(p.NodePool, selectors)
		parts, ok := pu.mem.parts[key]
		if !ok {
			parts = partPool(p.NodePool, limits)
		}
		known[key] = parts
		for _, part := range parts {
			x := p
			if x.Shared, x.Part = part.shared, part.name; part.name != "" {
				pool := *p.NodePool
				pool.Types = part.types
				x.NodePool = &pool
			}
			out = append(out, x)
		}
	}
	pu.mem.parts = known
	return out
}

// partPool parts a NodePool by which limits its offerings count against.
func partPool(p *model.NodePool, limits []model.LimitUse) []poolPart {
	selects := make([]func(*model.InstanceType, *model.Offering) bool, len(limits))
	split := false
	for i := range limits {
		var apart bool
		selects[i], apart = limitSelector(p, limits[i].Selector)
		split = split || apart
	}
	if split {
		return splitPool(p, selects)
	}
	whole := poolPart{types: p.Types}
	for i, f := range selects {
		if f(nil, nil) {
			whole.shared = append(whole.shared, i)
		}
	}
	return []poolPart{whole}
}

// limitSelector returns which offerings of a pool count against a limit with a selector, and whether that depends on
// the offering. A claim names instance types and zones apart from each other: where a selector asks for both, all zones
// of a type count alike.
func limitSelector(p *model.NodePool, selector model.Requirements) (f func(*model.InstanceType, *model.Offering) bool, apart bool) {
	zone, typed := false, false
	for i := range selector {
		switch key := selector[i].Key; {
		case key == model.LabelZone:
			zone = true
		case key == model.LabelCapacityType:
			apart = true
		case key == model.LabelInstanceType || slices.ContainsFunc(p.Types, func(t *model.InstanceType) bool { _, ok := t.Labels[key]; return ok }):
			typed = true
		case slices.ContainsFunc(p.Types, func(t *model.InstanceType) bool {
			return slices.ContainsFunc(t.Offerings, func(o model.Offering) bool { _, ok := o.Labels[key]; return ok })
		}):
			apart = true
		}
	}
	apart = apart || zone || typed
	if !apart {
		counts := mayMatch(selector, p.Requirements, p.Labels, nil, nil)
		return func(*model.InstanceType, *model.Offering) bool { return counts }, false
	}
	whole := slices.ContainsFunc(p.Requirements, hasMinValues)
	return func(t *model.InstanceType, o *model.Offering) bool {
		switch {
		case whole:
			x := comingNode{pool: p, requirements: p.Requirements, labels: p.Labels, types: p.Types}
			return x.mayMatch(selector)
		case zone && typed:
			return slices.ContainsFunc(t.Offerings, func(x model.Offering) bool {
				return x.CapacityType == o.CapacityType && mayMatch(selector, p.Requirements, p.Labels, t, &x)
			})
		}
		return mayMatch(selector, p.Requirements, p.Labels, t, o)
	}, !whole
}

// splitPool parts a pool of whose offerings some count against a limit and others do not.
func splitPool(p *model.NodePool, selects []func(*model.InstanceType, *model.Offering) bool) []poolPart {
	type part struct {
		shared []int
		types  []*model.InstanceType
	}
	parts := map[string]*part{}
	for _, t := range p.Types {
		lists := map[string][]model.Offering{}
		for i := range t.Offerings {
			var key strings.Builder
			var shared []int
			for j, f := range selects {
				if f(t, &t.Offerings[i]) {
					shared = append(shared, j)
					key.WriteString("1")
				} else {
					key.WriteString("0")
				}
			}
			if parts[key.String()] == nil {
				parts[key.String()] = &part{shared: shared}
			}
			lists[key.String()] = append(lists[key.String()], t.Offerings[i])
		}
		for _, key := range sortedKeys(lists) {
			x := *t
			x.Offerings = lists[key]
			parts[key].types = append(parts[key].types, &x)
		}
	}
	keys := sortedKeys(parts)
	switch len(keys) {
	case 0: // nothing is offered: it may still be said why
		return []poolPart{{types: p.Types}}
	case 1:
		return []poolPart{{types: p.Types, shared: parts[keys[0]].shared}}
	}
	out := make([]poolPart, 0, len(keys))
	for _, key := range keys {
		out = append(out, poolPart{types: parts[key].types, shared: parts[key].shared, name: key})
	}
	return out
}

// limitReached returns the first limit that leaves no room for one more claim, and false where all do.
func (pu *purchases) limitReached(a *plan.CreateClaim) (plan.Reason, bool) {
	uncounted := pu.uncountedLimits()
	coming := comingNode{pool: a.Pool, requirements: a.Requirements, types: a.Types}
	for i, u := range pu.limitUses() {
		if !coming.mayMatch(u.Selector) {
			continue
		}
		if name, ok := uncounted[i]; ok {
			return plan.Reason{Code: plan.PoolNotReady, Pool: a.Pool.Name, Detail: plan.OfPoolNotReady{NodePool: name}}, true
		}
		if x, short := u.Shortage(pu.s.ResourceNames, coming.size(), coming.dearest()); short {
			r := plan.ShortOfLimit(u.Name, x)
			r.Pool = a.Pool.Name
			return r, true
		}
	}
	return plan.Reason{}, false
}

// isSplit reports whether a pool of a problem is one of several parts of its NodePool.
func isSplit(in *solve.Problem, pool string) bool {
	return slices.ContainsFunc(in.Pools, func(p solve.Pool) bool { return p.Name == pool && p.Part != "" })
}

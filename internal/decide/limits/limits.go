// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package limits computes the use of limits that apply to several NodePools and node groups (CapacityQuotas, limits of the
// cluster), and which of them apply to each pool. Limits of a single NodePool are computed in package decide (purchases).
//
// It launches nothing. A node whose instance type is still open counts with its largest and its most expensive type.
//
// Start reading at CountUse and Share.
package limits

import (
	"cmp"
	"maps"
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

// WithCreated returns the use of limits including the NodeClaims that a plan creates.
func WithCreated(v *cluster.View, uses []model.LimitUse, actions []plan.Action) []model.LimitUse {
	out := make([]model.LimitUse, len(uses))
	for i, u := range uses {
		out[i] = u
		out[i].Used = u.Used.Clone()
	}
	for _, a := range actions {
		if a, ok := a.(plan.CreateClaim); ok && v.Claim(a.Name) == nil {
			coming := comingNode{pool: a.Pool, requirements: a.Requirements, types: a.Types}
			coming.addTo(out, coming.size(), coming.dearest())
		}
	}
	return out
}

// uncountedLimits returns the limits, by their index in the snapshot, against which NodeClaims of some pool can't be
// counted, and the name of that pool: its provider has not been asked yet what their nodes have and cost, as after a
// start. Until it has been, nothing is bought that counts against these limits.
func uncountedLimits(v *cluster.View) map[int]string {
	if len(v.Snapshot.Limits) == 0 {
		return nil
	}
	unknown := map[string]bool{}
	for _, p := range v.Snapshot.Pools {
		if p.IsUnread() {
			unknown[p.Name] = true
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	out := map[int]string{}
	for _, c := range v.Snapshot.Claims {
		if !unknown[c.Pool] {
			continue
		}
		standing := comingNode{requirements: c.Requirements, labels: c.Labels}
		for i, l := range v.Snapshot.Limits {
			if _, ok := out[i]; !ok && !l.IsUnlimited() && standing.mayMatch(l.Selector) {
				out[i] = c.Pool
			}
		}
	}
	return out
}

// RefuseUncounted prevents launches in pools that count against a limit with unknown use.
func RefuseUncounted(v *cluster.View, pools []solve.Pool) []solve.Pool {
	uncounted := uncountedLimits(v)
	for i := range pools {
		at := slices.IndexFunc(pools[i].Shared, func(l int) bool { _, ok := uncounted[l]; return ok })
		if at < 0 {
			continue
		}
		p, name := *pools[i].NodePool, uncounted[pools[i].Shared[at]]
		p.Ready, p.NotReady = false, model.Condition{Status: "False", Reason: "LimitsNotCounted",
			Message: "capacity and cost of the nodes of NodePool " + name + " count against a limit, but are not known yet"}
		pools[i].NodePool = &p
	}
	return pools
}

// CountUse counts the nodes, NodeClaims and group members of the Snapshot against its limits. sizeOf returns the maximum capacity
// of a NodeClaim without a node, priceOf its maximum price, if known.
func CountUse(v *cluster.View, sizeOf func(*model.Claim) model.Resources, priceOf func(*model.Claim) int64) []model.LimitUse {
	uses := make([]model.LimitUse, len(v.Snapshot.Limits))
	for i, l := range v.Snapshot.Limits {
		uses[i].CapacityLimit = l
	}
	hasNode := map[string]bool{} // by provider id
	launchPrice := func(c *model.Claim) int64 {
		micro, _ := model.ParseDollars(c.Annotations[model.AnnotationLaunchPrice])
		return micro
	}
	prices := nodePrices{pools: v.Snapshot.Pools, known: map[nodePriceKey]int64{}}
	for at, n := range v.Snapshot.Nodes {
		labels, capacity, launched := n.Labels, n.Capacity, int64(0)
		if i := v.ClaimOf(int32(at)); i != cluster.None {
			c := v.Snapshot.Claims[i]
			if labels[model.LabelNodePool] == "" { // not registered yet
				labels = model.MergeLabels(c.Labels, labels)
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
	for i, c := range v.Snapshot.Claims {
		claimed[c.ProviderID], claimed[c.Annotations[model.AnnotationAdopt]] = true, true
		if v.NodeOf(int32(i)) != cluster.None || v.GotNoInstance(c) {
			continue
		}
		coming := comingNode{pool: v.Pool(c.Pool), requirements: c.Requirements, labels: c.Labels}
		if coming.pool != nil {
			coming.types = coming.pool.Types
		}
		coming.addTo(uses, sizeOf(c), cmp.Or(max(coming.dearest(), priceOf(c)), launchPrice(c)))
	}
	for _, i := range v.Snapshot.Instances {
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

// NodePrice returns the price of a node with these labels, in micro-dollars per hour, from the catalog of the pools; 0: unknown.
func NodePrice(pools []*model.NodePool, l model.Labels) int64 {
	prices := nodePrices{pools: pools, known: map[nodePriceKey]int64{}}
	return prices.of(l)
}

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

// LargestNode returns the maximum capacity and the maximum price, in micro-dollars per hour, of a node of a pool that meets the
// requirements and has one of the types.
func LargestNode(p *model.NodePool, requirements model.Requirements, types []*model.InstanceType) (model.Resources, int64) {
	x := comingNode{pool: p, requirements: requirements, types: types}
	return x.size(), x.dearest()
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

// Parts are the parts of pools, by the inputs that they depend on. They are replaced, never modified.
type Parts map[partsKey][]poolPart

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
	for _, k := range slices.Sorted(maps.Keys(p.Labels)) {
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

// Share returns, for each pool, the limits that apply to its nodes. If only some offerings of a NodePool count against
// a limit, Share splits it into one pool per set of offerings with equal limits. A NodePool with strict minValues is
// not split, and counts if any of its offerings does. before is the result of the previous step. It is reused for
// unchanged pools and limits, so their instance types, and state about them, remain valid.
func Share(pools []solve.Pool, limits []model.LimitUse, before Parts) ([]solve.Pool, Parts) {
	if len(limits) == 0 {
		return pools, nil
	}
	selectors := selectorsText(limits)
	known := make(Parts, len(pools))
	out := make([]solve.Pool, 0, len(pools))
	for _, p := range pools {
		key := newPartsKey(p.NodePool, selectors)
		parts, ok := before[key]
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
	return out, known
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
	whole := slices.ContainsFunc(p.Requirements, model.HasMinValues)
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
		for _, key := range slices.Sorted(maps.Keys(lists)) {
			x := *t
			x.Offerings = lists[key]
			parts[key].types = append(parts[key].types, &x)
		}
	}
	keys := slices.Sorted(maps.Keys(parts))
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

// Reached reports whether a limit prevents one more NodeClaim, and returns the reason for the first such limit.
func Reached(v *cluster.View, a *plan.CreateClaim, uses []model.LimitUse) (plan.Reason, bool) {
	uncounted := uncountedLimits(v)
	coming := comingNode{pool: a.Pool, requirements: a.Requirements, types: a.Types}
	for i, u := range uses {
		if !coming.mayMatch(u.Selector) {
			continue
		}
		if name, ok := uncounted[i]; ok {
			return plan.Reason{Code: plan.PoolNotReady, Pool: a.Pool.Name, Detail: plan.OfPoolNotReady{NodePool: name}}, true
		}
		if x, short := u.Shortage(v.Snapshot.ResourceNames, coming.size(), coming.dearest()); short {
			r := plan.ShortOfLimit(u.Name, x)
			r.Pool = a.Pool.Name
			return r, true
		}
	}
	return plan.Reason{}, false
}

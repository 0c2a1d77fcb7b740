// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package pools

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/decide/limits"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// StaticIn is the input of ScaleStatic.
type StaticIn struct {
	MaxTypes    int                                         // maximum number of instance types of a NodeClaim
	Uses        []model.LimitUse                            // limits across NodePools, including the decisions of this step
	Decided     map[model.ActionKey]bool                    // actions decided in this step
	IsStaying   func(*model.Claim) bool                     // reports whether a NodeClaim is not being removed
	Allowed     map[string]int                              // by NodePool that lacks nodes (LackingNodes): how many may be launched now; negative: any number
	CandidateOf func(c *model.Claim) (u *disrupt.Candidate) // nil: the NodeClaim is no candidate
	HasDrifted  func(c *model.Claim) bool                   // reports whether a NodeClaim has drifted
	HavePlaces  func(set []*disrupt.Candidate) bool         // reports whether the pods of candidates that are removed together fit on other nodes, including nodes that could be launched
}

// StaticOut is the result of ScaleStatic.
type StaticOut struct {
	plan.Part
	Launches   bool     // a NodeClaim is created
	ScaledDown []string // UIDs of deleted NodeClaims, in the order of selection
}

// LackingNodes returns the static NodePools that must launch nodes, in the order of the Snapshot.
func LackingNodes(v *cluster.View, isStaying func(*model.Claim) bool) (out []*model.NodePool) {
	for _, p := range v.Snapshot.Pools {
		if p.Replicas < 0 || !p.Ready {
			continue
		}
		if live, _, want := countStatic(v, p, isStaying); int64(len(live)) < want {
			out = append(out, p)
		}
	}
	return out
}

// countStatic returns the claims of a static NodePool that stay, how many it has in all, and how many it is to have.
func countStatic(v *cluster.View, p *model.NodePool, isStaying func(*model.Claim) bool) (live []*model.Claim, all, want int64) {
	for _, c := range v.Snapshot.Claims {
		if c.Pool != p.Name {
			continue
		}
		all++
		if isStaying(c) {
			live = append(live, c)
		}
	}
	want = p.Replicas
	if p.Deleting {
		want = min(want, int64(len(live)))
	}
	return live, all, want
}

// ScaleStatic scales NodePools with spec.replicas to that number of nodes.
func ScaleStatic(v *cluster.View, in StaticIn) (out StaticOut) {
	names := map[model.ActionKey]bool{}
	maps.Copy(names, in.Decided)
	for _, p := range v.Snapshot.Pools {
		if p.Replicas < 0 {
			continue
		}
		live, all, want := countStatic(v, p, in.IsStaying)
		allowed := in.Allowed[p.Name]
		for n := int64(len(live)); n < want && p.Ready && allowed != 0; n++ {
			allowed--
			if p.NodeLimit >= 0 && all >= p.NodeLimit {
				break
			}
			a, ok := StaticClaim(v, p, in.MaxTypes, names, plan.Reason{Code: plan.Replicas, Pool: p.Name, Detail: plan.OfReplicas{Want: want, Have: n}})
			if !ok {
				break
			}
			if _, reached := limits.Reached(v, &a, limits.WithCreated(v, in.Uses, out.Actions)); reached {
				break
			}
			if _, inFlight := v.Snapshot.InFlight[a.Key()]; inFlight {
				break // under way, or refused: the other pools go on
			}
			out.Add(a)
			names[a.Key()] = true
			all++
			out.Launches = true
		}
		for _, c := range Surplus(v, in, p) {
			if c.UID == "" {
				continue
			}
			out.ScaledDown = append(out.ScaledDown, c.UID)
			out.Add(plan.DeleteClaim{Claim: c.Name, UID: c.UID, Why: plan.Reason{Code: plan.ScaledDown, Pool: p.Name, Subject: plan.ObjectOf("nodeclaim", c.Name),
				Detail: plan.OfReplicas{Want: p.Replicas, Have: int64(len(live))}}})
		}
	}
	return out
}

// Surplus returns the NodeClaims of a static NodePool in excess of spec.replicas, least disruptive first: not launched, then drifted,
// because drifted nodes that stay must be replaced, then empty, then by weight; after these, nodes whose pods fit nowhere else; finally
// nodes that must not be disrupted. If equal, cordoned nodes come first. It uses only IsStaying, CandidateOf, HasDrifted and HavePlaces of in.
func Surplus(v *cluster.View, in StaticIn, p *model.NodePool) []*model.Claim {
	live, _, want := countStatic(v, p, in.IsStaying)
	n := len(live) - int(want)
	if n <= 0 {
		return nil
	}
	stage := func(c *model.Claim) int {
		switch {
		case in.CandidateOf(c) == nil:
			return 0
		case in.HasDrifted(c):
			return 1
		}
		return 2
	}
	weight := func(c *model.Claim) int64 {
		if u := in.CandidateOf(c); u != nil && len(u.Pods) > 0 {
			return u.DisruptionWeight()
		}
		return 0
	}
	held := func(c *model.Claim) bool {
		u := in.CandidateOf(c)
		return disrupt.ForbidsDisruption(c.Annotations) || u != nil && (disrupt.ForbidsDisruption(u.Node.Annotations) || slices.ContainsFunc(u.Node.Pods, func(p *model.Pod) bool {
			held, _ := p.Held(v.Now)
			return held
		}))
	}
	cordoned := func(c *model.Claim) bool {
		u := in.CandidateOf(c)
		return u != nil && u.Node.HasTaint("node.kubernetes.io/unschedulable")
	}
	rank := func(later bool) int {
		if later {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(live, func(a, b *model.Claim) int {
		return cmp.Or(rank(held(a))-rank(held(b)), stage(a)-stage(b), cmp.Compare(weight(a), weight(b)), rank(cordoned(b))-rank(cordoned(a)), strings.Compare(a.Name, b.Name))
	})
	return in.preferWithPlaces(live, n, held)
}

// mostPlaced is for how many nodes of a static NodePool a step asks whether their pods have a place elsewhere.
const mostPlaced = 16

// preferWithPlaces returns n of some claims, the first ones, but those whose pods have no place elsewhere after those whose pods have; what is held
// comes last in any case.
func (in *StaticIn) preferWithPlaces(live []*model.Claim, n int, held func(*model.Claim) bool) (out []*model.Claim) {
	var homeless, last []*model.Claim
	var going []*disrupt.Candidate // those of out that have nodes
	asked := 0
	for _, c := range live {
		if len(out) == n {
			return out
		}
		u := in.CandidateOf(c)
		switch {
		case held(c):
			last = append(last, c)
			continue
		case u != nil && len(u.Pods) > 0 && asked < mostPlaced:
			if asked++; !in.HavePlaces(append(slices.Clip(going), u)) {
				homeless = append(homeless, c)
				continue
			}
		}
		if out = append(out, c); u != nil {
			going = append(going, u)
		}
	}
	return slices.Concat(out, homeless, last)[:n]
}

// StaticClaim returns a NodeClaim of a NodePool without particular pods: all that the NodePool allows, cheapest instance type
// first, at most maxTypes. Its name differs from the names of all existing and decided NodeClaims, by Action.Key. It returns false
// if nothing can be launched from the NodePool.
func StaticClaim(v *cluster.View, p *model.NodePool, maxTypes int, decided map[model.ActionKey]bool, why plan.Reason) (plan.CreateClaim, bool) {
	types, zones, capacity, price := disrupt.BuyableTypes(p, maxTypes)
	if len(types) == 0 {
		return plan.CreateClaim{}, false
	}
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = t.Name
	}
	prefix := p.Name
	if len(prefix) > 52 {
		prefix = strings.TrimRight(prefix[:52], "-.")
	}
	name := ""
	for i := 0; name == "" || v.Claim(name) != nil || decided[plan.CreateClaim{Name: name}.Key()]; i++ {
		name = prefix + "-" + cluster.HashName(10, p.UID, "static", strconv.Itoa(i))
	}
	return plan.CreateClaim{
		Name: name, Pool: p, Type: types[0].Name, Types: types, PriceMicro: price, Zone: zones[0], CapacityType: capacity[0], Why: why,
		NoReserve: plan.Reason{Code: plan.Static, Pool: p.Name},
		Requirements: p.Requirements.With(model.OneOf(model.LabelInstanceType, names...), model.OneOf(model.LabelZone, zones...),
			model.OneOf(model.LabelCapacityType, capacity...)),
	}, true
}

// StaticRefusal returns why a static NodePool cannot launch one more node; an empty code: it can. The arguments are those of
// StaticClaim, and the limits across NodePools including the decisions of this step.
func StaticRefusal(v *cluster.View, p *model.NodePool, maxTypes int, decided map[model.ActionKey]bool, uses []model.LimitUse) plan.Reason {
	all := int64(0)
	for _, c := range v.Snapshot.Claims {
		if c.Pool == p.Name {
			all++
		}
	}
	switch {
	case p.NodeLimit >= 0 && all >= p.NodeLimit:
		return plan.Reason{Code: plan.Limit, Pool: p.Name, Detail: plan.OfLimit{Replacing: p.Name, Resource: "nodes", Need: plan.Amount(all + 1), Left: plan.Amount(p.NodeLimit)}}
	case p.Deleting:
		return plan.Reason{Code: plan.PoolNotReady, Pool: p.Name, Detail: plan.OfPoolNotReady{NodePool: p.Name, Said: "it is being deleted"}}
	case !p.Ready:
		return plan.Reason{Code: plan.PoolNotReady, Pool: p.Name, Detail: plan.OfPoolNotReady{NodePool: p.Name, Condition: "Ready", Status: "True",
			Said: plan.Words(strings.Trim(p.NotReady.Reason+": "+p.NotReady.Message, ": "))}}
	}
	a, ok := StaticClaim(v, p, maxTypes, decided, plan.Reason{})
	if !ok {
		return whyNoneBuyable(p)
	}
	why, _ := limits.Reached(v, &a, uses)
	return why
}

// whyNoneBuyable returns why a NodePool of which no offering can be had has none: its requirements exclude all, or those that they allow are out of
// capacity.
func whyNoneBuyable(p *model.NodePool) plan.Reason {
	n := 0
	for _, t := range p.Types {
		for i := range t.Offerings {
			if o := &t.Offerings[i]; !o.Available && p.MayBuyType(t) && p.MayBuyOffering(o) {
				n++
			}
		}
	}
	if n == 0 {
		return plan.Reason{Code: plan.NoInstanceType, Pool: p.Name}
	}
	return plan.Reason{Code: plan.OutOfCapacity, Pool: p.Name, Detail: plan.OfOutOfCapacity{SetAside: n}}
}

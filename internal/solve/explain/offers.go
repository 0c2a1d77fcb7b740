// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// explainOffers checks the class against the pool's offers: size, place, availability. It returns nil if one passes.
func (s *Explainer) explainOffers(c *problem.Class, pi int) *plan.Reason {
	t := offerTally{s: s, class: c, pool: pi}
	lo, hi := s.Catalog.PoolOfferRange(pi)
	s.Work.Steps += int64(hi - lo)
	for i := lo; i < hi; i++ {
		if o := &s.Catalog.Offers[i]; typeOnly(c, o, s) {
			t.labels++
			if len(c.Missing) > 0 || !problem.IsWithin(&c.Req, o.Allocatable, s.In.NumDims) {
				t.addTooSmall(o)
			} else if t.fit++; t.passesPlace(o) && t.passesBars(o) {
				t.addAllowed(o)
			}
		}
	}
	return t.reason()
}

// offerTally is how far the offers of a pool get in the checks for a class, and the nearest of those that fail each.
type offerTally struct {
	s     *Explainer
	class *problem.Class
	pool  int

	labels, fit, have, allowed int // offers that pass so far

	nearest, promised    *problem.Offer // too small: the nearest, and the nearest of those of which the catalog promised enough
	short, promisedShort int64
	topo, volume         bool         // the class's labels or volumes keep it off an offer that is large enough
	elsewhere            bool         // one is available, and only a volume keeps the class off it
	beside               *plan.Reason // pods of DaemonSets keep the class off an offer that else passes
	barred               *plan.Reason // of the cheapest that passes and is not bought for the class
	barredPrice          int64
	quota                *problem.Offer // the cheapest that a quota of the cloud account refuses
	shift                *problem.Offer // the cheapest in a zone that is shifted away from
	full                 *problem.Offer // the cheapest that passes, of a node group that may not grow
	other                bool           // one passes that is not of such a group
	scarce               int            // offers that pass, are in no such zone and have no capacity
}

// addTooSmall notes an offer that is too small for the class.
func (t *offerTally) addTooSmall(o *problem.Offer) {
	if t.fit > 0 {
		return
	}
	by := t.s.shortfall(t.class, o)
	if t.nearest == nil || by < t.short {
		t.nearest, t.short = o, by
	}
	if o.InstanceType.Promised != nil && (t.promised == nil || by < t.promisedShort) && t.s.fitsPromised(t.class, o) {
		t.promised, t.promisedShort = o, by
	}
}

// passesPlace reports whether labels, volumes and DaemonSets let the class on an offer, and notes which does not.
func (t *offerTally) passesPlace(o *problem.Offer) bool {
	f := t.class.Filter
	if len(f.Terms) > 0 && !problem.AnyTermMatches(f.Terms, &t.s.In.Keys, o.Labels, nil, "") {
		t.topo = true
		return false
	}
	if !f.Passes(&t.s.In.Keys, o.Labels, nil, "") {
		t.volume, t.elsewhere = true, t.elsewhere || o.Available
		return false
	}
	if r := t.s.Inst.DaemonRefusal(t.class, o); r != nil {
		t.beside = r
		return false
	}
	t.have++
	return true
}

// passesBars reports whether an offer is not excluded for the class.
func (t *offerTally) passesBars(o *problem.Offer) bool {
	why, ok := t.class.Filter.BarOn(&t.s.In.Given.Pools[t.pool], o)
	if !ok || !o.Available {
		return true
	}
	if t.barred == nil || o.Price < t.barredPrice {
		t.barred, t.barredPrice = &why, o.Price
	}
	return false
}

// addAllowed notes an offer that the class may be on.
func (t *offerTally) addAllowed(o *problem.Offer) {
	switch shifted := o.Offering.Shift != nil; {
	case o.Available:
		t.allowed++
	case shifted && (t.shift == nil || o.Price < t.shift.Price):
		t.shift = o
	case !shifted:
		t.scarce++
		if o.Offering.Quota != "" && (t.quota == nil || o.Price < t.quota.Price) {
			t.quota = o
		}
	}
	if o.Offering.Labels[model.LabelNodeGroup] == "" || o.Offering.Remaining != 0 || o.Offering.Most == 0 {
		t.other = true
	} else if t.full == nil || o.Price < t.full.Price {
		t.full = o
	}
}

// reason returns why none of the offers can be launched, nil if one can.
func (t *offerTally) reason() *plan.Reason {
	switch {
	case t.labels == 0:
		return t.s.explainApart(t.class, t.pool)
	case t.fit == 0 && t.promised != nil:
		r := t.s.explainSize(t.class, t.promised)
		r.Code = plan.CameShort
		return r
	case t.fit == 0:
		return t.s.explainSize(t.class, t.nearest)
	case t.have == 0 && t.beside != nil:
		return t.beside
	case t.have == 0 && t.topo && !t.volume: // an offer that the pod's labels let it on and its volume does not is the nearer miss
		return t.s.explainPlace(t.class, t.pool)
	case t.have == 0 && t.volume:
		return t.s.explainVolumePlace(t.class, t.pool)
	case t.allowed == 0 && t.barred != nil:
		return t.barred
	case t.allowed == 0 && t.elsewhere && keptVolume(t.class) != nil:
		return keptVolume(t.class)
	case t.allowed == 0 && t.shift != nil && t.scarce == 0:
		return &plan.Reason{Code: plan.ZonalShift, Detail: plan.ShiftOf(t.shift.Offering.Shift)}
	case t.allowed == 0 && !t.other:
		return groupFull(t.full.Offering)
	case t.allowed == 0:
		full := plan.OfOutOfCapacity{SetAside: t.scarce}
		if t.quota != nil {
			full.Quota = plan.Words(t.quota.Offering.Quota)
		}
		return &plan.Reason{Code: plan.OutOfCapacity, Detail: full}
	}
	return nil
}

// explainApart says why no offer of the pool has a type that the class's labels allow, although the pool and the class each
// allow some: the requirement of the pool that none of their offerings meets, if there is one.
func (s *Explainer) explainApart(c *problem.Class, pi int) *plan.Reason {
	p := &s.In.Given.Pools[pi]
	known := s.Catalog.ProviderKeysOf(p.Types)
	types := s.typesOf(p, known).types
	for i := range c.Spec.Terms {
		if left, _ := typesWithin(c.Spec.Terms[i].Requirements, types, known); len(left) > 0 {
			types = left
			break
		}
	}
	if q := s.excludesAll(p.Requirements, types, nil); q != nil {
		return &plan.Reason{Code: plan.Offering, Detail: plan.OfOffering{Label: q.Key, Want: plan.RuleOf(q), OfPool: true, Have: plan.ListOf(offeredValues(q.Key, types))}}
	}
	return &plan.Reason{Code: plan.Offering, Detail: plan.OfOffering{Apart: true}}
}

// excludesAll returns the first of some requirements that none of the types' offerings at some places meets; nil: each is
// met by one, or there are no such offerings.
func (s *Explainer) excludesAll(rs model.Requirements, types []*model.InstanceType, places []model.Requirements) *model.Requirement {
	for i := range rs {
		any, met := false, false
		for _, t := range types {
			s.Work.Steps += int64(len(t.Offerings))
			for j := range t.Offerings {
				if o := &t.Offerings[j]; isAt(places, t, o) {
					v, ok := t.Label(rs[i].Key, o)
					any, met = true, met || rs[i].Matches(v, ok)
				}
			}
		}
		if any && !met && (rs[i].Key == model.LabelZone || rs[i].Key == model.LabelCapacityType) {
			return &rs[i]
		}
	}
	return nil
}

// isAt reports whether an offering of a type meets one of some places; none: all do.
func isAt(places []model.Requirements, t *model.InstanceType, o *model.Offering) bool {
	return len(places) == 0 || slices.ContainsFunc(places, func(rs model.Requirements) bool {
		return !slices.ContainsFunc(rs, func(q model.Requirement) bool {
			v, ok := t.Label(q.Key, o)
			return !q.Matches(v, ok)
		})
	})
}

// offeredValues lists the values of a label that the offerings of types have, sorted.
func offeredValues(key string, types []*model.InstanceType) (out []string) {
	for _, t := range types {
		for i := range t.Offerings {
			if v, ok := t.Label(key, &t.Offerings[i]); ok && !slices.Contains(out, v) {
				out = append(out, v)
			}
		}
	}
	slices.Sort(out)
	return out
}

// explainVolumePlace names the volume that can't be used on any offer that the class may be on, and what keeps the class
// from the offers where it can: the first volume that no offer is near enough to that is large enough, else the first whose
// place the class's own labels exclude, else the first two that can't be used on the same offer.
func (s *Explainer) explainVolumePlace(c *problem.Class, pi int) *plan.Reason {
	var placed []*model.Volume
	for i := range c.Spec.Volumes {
		if v := &c.Spec.Volumes[i]; len(v.Topology) > 0 {
			placed = append(placed, v)
		}
	}
	lo, hi := s.Catalog.PoolOfferRange(pi)
	near := make([][]*problem.Offer, len(placed)) // the offers near each, of those that are large enough
	first := placed[0]
	for i, v := range placed {
		s.Work.Steps += int64(hi - lo)
		for j := lo; j < hi; j++ {
			if o := &s.Catalog.Offers[j]; typeOnly(c, o, s) && problem.IsWithin(&c.Req, o.Allocatable, s.In.NumDims) && s.Inst.IsNear(v, o) {
				near[i] = append(near[i], o)
			}
		}
		if len(near[i]) == 0 {
			first = v
			break
		}
	}
	if first.Reported != "" {
		return &plan.Reason{Code: plan.VolumeStorage, Detail: plan.OfVolumeStorage{StorageClass: first.Reported, Claim: first.Claim}}
	}
	if r := keptVolume(c); r != nil {
		return r
	}
	return &plan.Reason{Code: plan.VolumeTopology, Detail: s.volumeConflict(c, pi, placed, near)}
}

// volumeConflict is the Detail of explainVolumePlace: placed are the volumes that have a place, near the offers near each.
func (s *Explainer) volumeConflict(c *problem.Class, pi int, placed []*model.Volume, near [][]*problem.Offer) plan.OfVolumeTopology {
	of := func(v *model.Volume) plan.OfVolumeTopology {
		return plan.OfVolumeTopology{Name: v.Claim, Want: plan.RulesOf(placeOf(v))}
	}
	for i, v := range placed {
		if len(near[i]) > 0 {
			continue
		}
		d, p := of(v), &s.In.Given.Pools[pi]
		types := s.typesOf(p, s.Catalog.ProviderKeysOf(p.Types)).types
		q := s.excludesAll(p.Requirements, types, v.Topology)
		switch {
		case q != nil:
			d.Pool = plan.RuleOf(q)
		case slices.ContainsFunc(p.Types, func(t *model.InstanceType) bool {
			return slices.ContainsFunc(t.Offerings, func(o model.Offering) bool { return isAt(v.Topology, t, &o) })
		}):
			d.Unfit = true
		default:
			d.Nowhere = true
		}
		return d
	}
	for i, v := range placed {
		if slices.ContainsFunc(near[i], func(o *problem.Offer) bool {
			return problem.AnyTermMatches(c.Filter.Terms, &s.In.Keys, o.Labels, nil, "")
		}) || len(c.Filter.Terms) == 0 {
			continue
		}
		d := of(v)
		for j := range c.Filter.Terms {
			for k := range c.Filter.Terms[j].Requirements {
				q := &c.Filter.Terms[j].Requirements[k]
				if d.Pod == "" && !slices.ContainsFunc(near[i], func(o *problem.Offer) bool { return q.Matches(&s.In.Keys, o.Labels[q.Key]) }) {
					d.Pod = plan.RuleOf(q.Spec)
				}
			}
		}
		d.Together = d.Pod == ""
		return d
	}
	for i, v := range placed {
		for j := range i {
			if !slices.ContainsFunc(near[i], func(o *problem.Offer) bool { return s.Inst.IsNear(placed[j], o) }) {
				d := of(placed[j])
				d.Other, d.OtherWant = v.Claim, plan.RulesOf(placeOf(v))
				return d
			}
		}
	}
	d := of(placed[0])
	d.Together = true
	return d
}

// placeOf returns what a node must meet in any case to use a volume: of its alternatives, the labels that all require, with the values that one of
// them allows. Without such a label the first alternative stands for all.
func placeOf(v *model.Volume) model.Requirements {
	var out model.Requirements
	for _, q := range v.Topology[0] {
		for _, at := range v.Topology[1:] {
			other := at.Get(q.Key)
			if other == nil || other.Complement || q.Complement {
				q.Key = ""
				break
			}
			q = model.OneOf(q.Key, slices.Concat(q.Values, other.Values)...)
		}
		if q.Key != "" {
			out = append(out, q)
		}
	}
	if len(out) == 0 {
		return v.Topology[0]
	}
	return out
}

// keptVolume says that a volume which the class could use elsewhere may be bound to another claim first; nil if none may.
func keptVolume(c *problem.Class) *plan.Reason {
	for i := range c.Spec.Volumes {
		if v := &c.Spec.Volumes[i]; v.Kept != "" {
			return &plan.Reason{Code: plan.VolumeClaim, Detail: plan.OfVolumeClaim{
				Object: plan.ObjectOf("persistentvolume", v.Kept), Claim: v.Claim, Problem: model.VolumeKept}}
		}
	}
	return nil
}

// groupFull says that the node group of an offering has as many machines as it may.
func groupFull(o *model.Offering) *plan.Reason {
	return &plan.Reason{Code: plan.GroupMaximum, Detail: plan.OfGroupMaximum{Group: plan.ObjectOf("nodegroup", o.Labels[model.LabelNodeGroup]), Most: o.Most}}
}

// typeOnly reports whether an offer would pass the class's labels if zone and capacity type did not matter.
func typeOnly(c *problem.Class, o *problem.Offer, s *Explainer) bool {
	if len(c.Filter.Terms) == 0 {
		return true
	}
	for i := range c.Filter.Terms {
		t := &c.Filter.Terms[i]
		ok := !t.MatchesNothing && (t.Names == nil || t.Names.Matches("", false))
		for j := range t.Requirements {
			q := &t.Requirements[j]
			if k := s.In.Keys.Keys[q.Key]; k != model.LabelZone && k != model.LabelCapacityType {
				ok = ok && q.Matches(&s.In.Keys, o.Labels[q.Key])
			}
		}
		if ok {
			return true
		}
	}
	return false
}

// shortfall is by how much an offer is too small for the class, in millionths of the request, of the worst resource.
func (s *Explainer) shortfall(c *problem.Class, o *problem.Offer) (worst int64) {
	if len(c.Missing) > 0 {
		return 1_000_000 // of what no type has each lacks all
	}
	for k := range s.In.NumDims {
		worst = max(worst, s.lackOf(c, o, k))
	}
	return worst
}

// needOf returns the total request of the class and the DaemonSets on an offer of the resource at k.
func (s *Explainer) needOf(c *problem.Class, o *problem.Offer, k int) int64 {
	if o.Allocatable[k] == 0 { // or less, where DaemonSets go without
		return c.Req[k] + s.Inst.DaemonRequests(o, k)
	}
	return c.Req[k] + o.InstanceType.Allocatable.At(s.In.Dims[k]) - o.Allocatable[k]
}

// lackOf returns the shortfall of an offer for the class and the DaemonSets in the resource at k, in millionths of their
// request.
func (s *Explainer) lackOf(c *problem.Class, o *problem.Offer, k int) int64 {
	if c.Req[k] <= o.Allocatable[k] {
		return 0
	}
	alloc := o.InstanceType.Allocatable.At(s.In.Dims[k])
	if alloc <= 0 {
		return 1_000_000
	}
	need := s.needOf(c, o, k)
	return problem.MulDiv(need-alloc, 1_000_000, need)
}

// fitsPromised reports whether the class would fit if the machines of the type had the resources promised by the
// catalog.
func (s *Explainer) fitsPromised(c *problem.Class, o *problem.Offer) bool {
	if len(c.Missing) > 0 {
		return false
	}
	for k, d := range s.In.Dims {
		if c.Req[k] > o.Allocatable[k] && s.needOf(c, o, k) > o.InstanceType.Promised.At(d) {
			return false
		}
	}
	return true
}

// explainSize returns the reason for the resource with the largest shortfall in the nearest type, or for a requested
// resource that no type has.
func (s *Explainer) explainSize(c *problem.Class, o *problem.Offer) *plan.Reason {
	if len(c.Missing) > 0 {
		d := c.Missing[0]
		return &plan.Reason{Code: plan.Resource, Detail: plan.OfSize{InstanceType: o.InstanceType.Name, Resource: plan.ResourceName(s.In.ResourceName(d)),
			Need: plan.Amount(c.Spec.Requests[d])}}
	}
	worst, at := int64(-1), 0
	for k := range s.In.NumDims {
		if v := s.lackOf(c, o, k); v > worst {
			worst, at = v, k
		}
	}
	d := s.In.Dims[at]
	alloc := o.InstanceType.Allocatable.At(d)
	need := s.needOf(c, o, at)
	var most plan.Object
	if alloc > 0 && o.Allocatable[at] <= 0 {
		if x, request := s.Inst.LargestDaemon(o, at); x != nil && request > need/2 {
			most = plan.ObjectOf("daemonset", x.Namespace+"/"+x.Name)
		}
	}
	return &plan.Reason{Code: plan.Resource, Detail: plan.OfSize{InstanceType: o.InstanceType.Name, Resource: plan.ResourceName(s.In.ResourceName(d)),
		Need: plan.Amount(need), DaemonSet: most, Have: plan.Amount(alloc)}}
}

// explainPlace names the label of the offering that keeps the types that fit away.
func (s *Explainer) explainPlace(c *problem.Class, pi int) *plan.Reason {
	for _, key := range []string{model.LabelZone, model.LabelCapacityType} {
		k, ok := s.In.Keys.Ids[key]
		if !ok {
			continue
		}
		for i := range c.Filter.Terms {
			for j := range c.Filter.Terms[i].Requirements {
				q := &c.Filter.Terms[i].Requirements[j]
				if q.Key != k {
					continue
				}
				met, seen := false, map[string]bool{}
				var have []string
				lo, hi := s.Catalog.PoolOfferRange(pi)
				for x := lo; x < hi; x++ {
					o := &s.Catalog.Offers[x]
					if typeOnly(c, o, s) && problem.IsWithin(&c.Req, o.Allocatable, s.In.NumDims) {
						met = met || q.Matches(&s.In.Keys, o.Labels[k])
						if v := s.In.Keys.ValueNames[k][o.Labels[k]]; !seen[v] {
							seen[v] = true
							have = append(have, v)
						}
					}
				}
				if !met {
					slices.Sort(have)
					return &plan.Reason{Code: plan.Offering, Detail: plan.OfOffering{Label: key, Want: plan.RuleOf(q.Spec), Have: plan.ListOf(have)}}
				}
			}
		}
	}
	return &plan.Reason{Code: plan.Offering, Detail: plan.OfOffering{Together: true}}
}

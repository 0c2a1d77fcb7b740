// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// explainOffers holds the class against the pool's offers: size, place, availability. It returns nil where one passes.
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

// passesBars reports whether an offer may be bought for the class.
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

// reason returns why none of the offers can be bought, nil if one can.
func (t *offerTally) reason() *plan.Reason {
	switch {
	case t.labels == 0:
		return &plan.Reason{Code: plan.Offering, Detail: plan.OfOffering{Label: model.LabelZone, Apart: true}}
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

// explainVolumePlace names the volume that can be used where no offer that fits is: the first that no offer of its own
// is near enough to.
func (s *Explainer) explainVolumePlace(c *problem.Class, pi int) *plan.Reason {
	var first *model.Volume
	lo, hi := s.Catalog.PoolOfferRange(pi)
	for i := range c.Spec.Volumes {
		v := &c.Spec.Volumes[i]
		if len(v.Topology) == 0 {
			continue
		}
		if first == nil {
			first = v
		}
		s.Work.Steps += int64(hi - lo)
		near := false
		for j := lo; j < hi && !near; j++ {
			o := &s.Catalog.Offers[j]
			near = typeOnly(c, o, s) && problem.IsWithin(&c.Req, o.Allocatable, s.In.NumDims) && s.Inst.IsNear(v, o)
		}
		if !near {
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
	return &plan.Reason{Code: plan.VolumeTopology, Detail: plan.OfVolumeTopology{Name: first.Claim, Want: plan.RulesOf(first.Topology[0])}}
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

// lackOf is how much an offer lacks of what the class and the DaemonSets request of the resource at k, in millionths of that.
func (s *Explainer) lackOf(c *problem.Class, o *problem.Offer, k int) int64 {
	if c.Req[k] <= o.Allocatable[k] {
		return 0
	}
	lack := c.Req[k] - o.Allocatable[k]
	return problem.MulDiv(lack, 1_000_000, lack+max(0, o.InstanceType.Allocatable.At(s.In.Dims[k])))
}

// fitsPromised reports whether the class would fit if the type's machines had what the catalog promised of them.
func (s *Explainer) fitsPromised(c *problem.Class, o *problem.Offer) bool {
	if len(c.Missing) > 0 {
		return false
	}
	for k, d := range s.In.Dims {
		if c.Req[k] > o.Allocatable[k]+o.InstanceType.Promised.At(d)-o.InstanceType.Allocatable.At(d) {
			return false
		}
	}
	return true
}

// explainSize names the resource that the nearest type lacks most of: one that no type has, if the class asks for such.
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
	return &plan.Reason{Code: plan.Resource, Detail: plan.OfSize{InstanceType: o.InstanceType.Name, Resource: plan.ResourceName(s.In.ResourceName(d)),
		Need: plan.Amount(c.Req[at] + alloc - o.Allocatable[at]), Have: plan.Amount(alloc)}}
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

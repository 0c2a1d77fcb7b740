// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodeoverlay

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Verdict is what became of an overlay.
type Verdict struct {
	Invalid  string // why it can't be applied as it is written; empty: it can
	Conflict string // which overlay changes what it wants to change, in which pool; empty: none does
	Matches  int    // how many offerings it matches, over all pools
}

// NotApplied says why the overlay has no effect; empty: it has.
func (v Verdict) NotApplied() string {
	switch {
	case v.Invalid != "":
		return v.Invalid
	case v.Conflict != "":
		return v.Conflict
	case v.Matches == 0:
		return "no instance type that a NodePool is offered matches spec.requirements"
	}
	return ""
}

// Apply lays overlays over the types of pools. It returns the types of each pool, in the order of pools, and what became
// of each overlay, by name.
//
// Overlays are taken by weight, the greatest first, and of one weight by name, the last in the alphabet first. The first
// that matches an offering and says something of its price sets it; so does, for each resource, the first that matches
// any offering of a type. One that comes later with a smaller weight changes what is left. One that comes later with
// the same weight conflicts, and is applied nowhere.
func Apply(pools []Pool, overlays []*Overlay) ([][]*model.InstanceType, map[string]Verdict) {
	return new(Applier).Apply(pools, overlays)
}

// Applier applies overlays again and again. Its results are those of Apply, but it only evaluates the pools that have
// changed since its last call, unless overlays have changed or another set of them is applied now. A pool has changed if
// its list of types is another one (the same list must keep its content) or its labels differ. A pool that is not
// evaluated again gets the same list as before. The zero value is ready to use.
type Applier struct {
	overlays []*Overlay             // of the last call: the valid ones by precedence
	applied  []bool                 // by overlay: whether it was applied
	byPool   map[string]*evaluation // of the last call, each complete
}

// evaluation is what overlays change in one pool. It depends on which of them are applied, and on no other pool.
type evaluation struct {
	pool     Pool
	open     bool // it takes in overlays; otherwise types are known
	outcomes []outcome
	changes  poolChanges
	matches  []match // of the last overlay
	types    []*model.InstanceType
}

// outcome is what one overlay does in a pool.
type outcome struct {
	matches  int    // offerings
	conflict string // empty: it conflicts with none that comes before
}

// Apply is like the function of this name.
func (a *Applier) Apply(pools []Pool, overlays []*Overlay) ([][]*model.InstanceType, map[string]Verdict) {
	verdicts := make(map[string]Verdict, len(overlays))
	var valid []*Overlay
	for _, o := range byPrecedence(overlays) {
		verdicts[o.Name] = Verdict{Invalid: o.Invalid}
		if o.Invalid == "" {
			valid = append(valid, o)
		}
	}
	if !slices.EqualFunc(valid, a.overlays, func(x, y *Overlay) bool { return x == y || x.Equal(y) }) {
		a.byPool = nil
	}
	current := make([]*evaluation, len(pools))
	for i := range pools {
		if current[i] = a.byPool[pools[i].Name]; current[i] == nil || !current[i].pool.equal(&pools[i]) {
			current[i] = &evaluation{pool: pools[i], open: true}
		}
	}
	applied := make([]bool, len(valid))
	for k, o := range valid {
		var v Verdict
		for _, e := range current {
			x := e.outcome(k, o)
			v.Matches += x.matches
			v.Conflict = cmp.Or(v.Conflict, x.conflict)
		}
		verdicts[o.Name], applied[k] = v, v.Conflict == ""
		for i, e := range current {
			if !e.open && a.applied[k] != applied[k] { // from here on, other changes are those that come before
				current[i] = e.again(valid[:k+1], applied)
			} else if e.open && applied[k] {
				e.changes.add(o, e.matches)
			}
		}
	}
	a.overlays, a.applied, a.byPool = valid, applied, make(map[string]*evaluation, len(pools))
	out := make([][]*model.InstanceType, len(pools))
	for i, e := range current {
		out[i] = e.close()
		a.byPool[e.pool.Name] = e
	}
	return out, verdicts
}

// outcome returns what the overlay of index k does in the pool.
func (e *evaluation) outcome(k int, o *Overlay) outcome {
	if e.open {
		e.matches = o.matchesOf(&e.pool)
		x := outcome{conflict: e.changes.conflict(&e.pool, o, e.matches)}
		for _, m := range e.matches {
			x.matches += len(m.offerings)
		}
		e.outcomes = append(e.outcomes, x)
	}
	return e.outcomes[k]
}

// again returns an open evaluation of the pool that has taken in the first overlays, those of them that are applied.
func (e *evaluation) again(overlays []*Overlay, applied []bool) *evaluation {
	out := &evaluation{pool: e.pool, open: true}
	for k, o := range overlays {
		out.outcome(k, o)
		if applied[k] {
			out.changes.add(o, out.matches)
		}
	}
	return out
}

// close returns the types with all changes made.
func (e *evaluation) close() []*model.InstanceType {
	if e.open {
		e.types = e.changes.apply(e.pool.Types)
		e.open, e.changes, e.matches = false, poolChanges{}, nil
	}
	return e.types
}

// equal reports whether two pools have the same name, labels and list of types.
func (p *Pool) equal(q *Pool) bool {
	sameList := len(p.Types) == len(q.Types) && (len(p.Types) == 0 || &p.Types[0] == &q.Types[0])
	return sameList && p.Name == q.Name && maps.Equal(p.Labels, q.Labels)
}

// match is a type of which an overlay matches these offerings, by their index.
type match struct {
	at        int // of the type
	offerings []int
}

// matchesOf returns the types of a pool of which the overlay matches an offering at least.
func (o *Overlay) matchesOf(p *Pool) []match {
	if r := o.Requirements.Get(model.LabelNodePool); r != nil && !r.Matches(p.Name, true) {
		return nil
	}
	byType := o.Requirements.Get(model.LabelInstanceType)
	var out []match
	for i, t := range p.Types {
		if v, ok := t.Labels[model.LabelInstanceType]; ok && byType != nil && !byType.Matches(v, true) {
			continue // most often: spares looking at every offering
		}
		m := match{at: i}
		for j := range t.Offerings {
			if o.matchesOffering(p, t, &t.Offerings[j]) {
				m.offerings = append(m.offerings, j)
			}
		}
		if m.offerings != nil {
			out = append(out, m)
		}
	}
	return out
}

// poolChanges are what overlays change of a pool's types.
type poolChanges struct {
	prices   map[offeringAt]change
	capacity map[resourceAt]change
	devices  map[int]change // by type
}

// change is the overlay that sets something, and the last one that would: of those that match it has the least weight.
type change struct{ by, last *Overlay }

// with adds an overlay that comes later.
func (c change) with(o *Overlay) change {
	if c.by == nil {
		c.by = o
	}
	c.last = o
	return c
}

// conflicts reports whether an overlay that comes later would change the same with the same weight.
func (c change) conflicts(o *Overlay) bool { return c.last != nil && c.last.Weight == o.Weight }

type offeringAt struct{ at, offering int }

type resourceAt struct {
	at  int
	dim model.Dim
}

// conflict says which overlay of the same weight changes the same of the pool; empty: none does.
func (c *poolChanges) conflict(p *Pool, o *Overlay, matches []match) string {
	for _, m := range matches {
		t := p.Types[m.at]
		if o.Price.IsSet() {
			for _, j := range m.offerings {
				if x := c.prices[offeringAt{m.at, j}]; x.conflicts(o) {
					f := &t.Offerings[j]
					return fmt.Sprintf("NodeOverlay %s has the same weight (%d) and also sets the price of %s in %s (%s) in NodePool %s; give one of them another weight",
						x.last.Name, o.Weight, t.Name, f.Zone, f.CapacityType, p.Name)
				}
			}
		}
		for _, r := range o.Capacity {
			if x := c.capacity[resourceAt{m.at, r.Dim}]; x.conflicts(o) {
				return fmt.Sprintf("NodeOverlay %s has the same weight (%d) and also sets %s of %s in NodePool %s; give one of them another weight",
					x.last.Name, o.Weight, r.Name, t.Name, p.Name)
			}
		}
		if x := c.devices[m.at]; o.Devices != "" && x.conflicts(o) {
			return fmt.Sprintf("NodeOverlay %s has the same weight (%d) and also sets the devices of %s in NodePool %s; give one of them another weight",
				x.last.Name, o.Weight, t.Name, p.Name)
		}
	}
	return ""
}

// add takes in an overlay that conflicts with none. What an earlier one has set stays.
func (c *poolChanges) add(o *Overlay, matches []match) {
	if c.prices == nil {
		c.prices, c.capacity, c.devices = map[offeringAt]change{}, map[resourceAt]change{}, map[int]change{}
	}
	for _, m := range matches {
		if o.Price.IsSet() {
			for _, j := range m.offerings {
				k := offeringAt{m.at, j}
				c.prices[k] = c.prices[k].with(o)
			}
		}
		for _, r := range o.Capacity {
			k := resourceAt{m.at, r.Dim}
			c.capacity[k] = c.capacity[k].with(o)
		}
		if o.Devices != "" {
			c.devices[m.at] = c.devices[m.at].with(o)
		}
	}
}

// apply returns the types with all changes made; types itself where there is none.
func (c *poolChanges) apply(types []*model.InstanceType) []*model.InstanceType {
	if len(c.prices)+len(c.capacity)+len(c.devices) == 0 {
		return types
	}
	out := slices.Clone(types)
	changed := func(at int) *model.InstanceType {
		if out[at] == types[at] {
			t := *types[at]
			out[at] = &t
		}
		return out[at]
	}
	for at, x := range c.devices {
		changed(at).DeviceOverlay = x.by.Name
	}
	huge := map[int]int64{} // by type: bytes of huge pages more than before
	for k, x := range c.capacity {
		t, o := changed(k.at), x.by
		r := o.Capacity[slices.IndexFunc(o.Capacity, func(r Resource) bool { return r.Dim == k.dim })]
		t.Capacity = t.Capacity.With(r.Dim, r.Amount)
		if model.IsHugePages(r.Name) { // the kubelet takes them out of the node's allocatable memory
			huge[k.at] += r.Amount - t.Allocatable.At(r.Dim)
		}
		t.Allocatable = t.Allocatable.With(r.Dim, r.Amount)
		t.CapacityOverlays = append(t.CapacityOverlays, o.Name)
	}
	for at, more := range huge {
		out[at].Allocatable = out[at].Allocatable.With(model.Memory, max(0, out[at].Allocatable.At(model.Memory)-more))
	}
	for _, t := range out {
		if len(t.CapacityOverlays) > 1 {
			slices.SortFunc(t.CapacityOverlays, strings.Compare)
			t.CapacityOverlays = slices.Compact(t.CapacityOverlays)
		}
	}
	cloned := map[int]bool{}
	for k, x := range c.prices {
		t, o := changed(k.at), x.by
		if !cloned[k.at] {
			cloned[k.at] = true
			t.Offerings = slices.Clone(t.Offerings)
		}
		f := &t.Offerings[k.offering]
		f.PriceOverlay, f.ListPriceMicro = o.Name, f.PriceMicro
		f.PriceMicro = o.Price.Apply(f.PriceMicro)
		f.Modelled = f.Modelled && o.Price.kind != priceFixed
	}
	return out
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package problem

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// nodeFilter is what a class asks of a node's labels, taints and name. Classes that ask the same share one.
type nodeFilter struct {
	id           int
	Tolerations  []model.Toleration
	Terms        []term   // empty: any node
	volumes      [][]term // of each volume one must match, on nodes that are to come
	standing     []standingVolume
	looksAtNames bool         // some term looks at the node's name
	daemons      *daemonRules // nil: none
	Offers       *OfferSet    // offers that pass
	NodeVerdicts []int8       // by label shape of nodes: 0 not known, 1 passes, 2 does not

	bars map[barredSite]plan.Reason // what is not bought for the class; nil: nothing
}

// standingVolume says of which terms a node that is there must match one to use a volume; of none: any node will do.
type standingVolume struct {
	inTree   string // plugin of the volume, empty if none
	places   []term
	migrated []term // where the node's kubelet leaves the plugin's volumes to a CSI driver
}

// barredSite is a pool, or a node group of it, by name.
type barredSite struct{ pool, group string }

// BarOn returns why an offer is not bought for the class; false: it may be.
func (f *nodeFilter) BarOn(p *Pool, o *Offer) (plan.Reason, bool) {
	if f.bars == nil {
		return plan.Reason{}, false
	}
	if why, ok := f.bars[barredSite{p.Name, ""}]; ok {
		return why, true
	}
	group := o.Offering.Labels[model.LabelNodeGroup]
	if group == "" {
		return plan.Reason{}, false
	}
	why, ok := f.bars[barredSite{p.Name, group}]
	return why, ok
}

// barsOf returns what the pools bar for a class.
func (s *problemCompiler) barsOf(c *model.Class) (out map[barredSite]plan.Reason) {
	for i := range s.in.Given.Pools {
		for _, b := range s.in.Given.Pools[i].Barred {
			if b.Class.Key != c.Key {
				continue
			}
			if out == nil {
				out = map[barredSite]plan.Reason{}
			}
			out[barredSite{s.in.Given.Pools[i].Name, b.Group}] = b.Why
		}
	}
	return out
}

// term is one alternative of a node affinity: all of its requirements must match.
type term struct {
	Requirements   []requirement
	Names          *model.Requirement
	MatchesNothing bool // the empty term, which matches nothing
}

// requirement is one requirement of a term, with its verdict on every value seen so far.
type requirement struct {
	Key      int
	Spec     *model.Requirement
	verdicts []int8 // by value: 0 not known, 1 matches, 2 does not
}

// Matches reports whether the requirement allows a value; one that is not certain yet it does not.
func (q *requirement) Matches(t *labelTable, v int32) bool {
	if v == OpenValue {
		return false // not certain
	}
	for int(v) >= len(q.verdicts) {
		q.verdicts = append(q.verdicts, 0)
	}
	if q.verdicts[v] == 0 {
		q.verdicts[v] = 2
		if q.Spec.Matches(t.ValueNames[q.Key][v], v != 0) {
			q.verdicts[v] = 1
		}
	}
	return q.verdicts[v] == 1
}

// filterFor returns the filter of a class, the same for classes that ask the same. rules are those between it and DaemonSets.
func (s *problemCompiler) filterFor(c *model.Class, rules *daemonRules) *nodeFilter {
	var b strings.Builder
	for i := range c.Terms {
		b.WriteString(c.Terms[i].Requirements.Key())
		if n := c.Terms[i].Names; n != nil {
			b.WriteString("@" + model.Requirements{*n}.Key())
		}
		b.WriteByte('|')
	}
	for _, v := range c.Volumes {
		b.WriteString("\x03" + v.InTree)
		for _, list := range [][]model.Requirements{v.Topology, v.Standing, v.Migrated} {
			b.WriteByte('&')
			for _, t := range list {
				b.WriteString(t.Key())
				b.WriteByte('|')
			}
		}
	}
	for _, t := range c.Tolerations {
		b.WriteString("\x00" + t.Key + "\x01" + t.Value + "\x01" + t.Effect + "\x01" + t.Operator)
		if t.Exists {
			b.WriteByte('*')
		}
	}
	bars := s.barsOf(c)
	if len(bars) > 0 {
		fmt.Fprintf(&b, "\x02%v", bars) // maps are printed in the order of their keys
	}
	if rules != nil {
		b.WriteString("\x00beside " + c.Key) // what keeps a class apart, and what it wants to be near, is its own
	}
	key := b.String()
	f := s.filters[key]
	if f != nil {
		return f
	}
	f = &nodeFilter{id: len(s.filters), Tolerations: c.Tolerations, bars: bars, daemons: rules}
	for i := range c.Terms {
		t := s.in.compileTerm(c.Terms[i].Requirements)
		t.Names = c.Terms[i].Names
		t.MatchesNothing = len(t.Requirements) == 0 && t.Names == nil
		f.looksAtNames = f.looksAtNames || t.Names != nil
		f.Terms = append(f.Terms, t)
	}
	for _, v := range c.Volumes {
		if len(v.Topology) > 0 {
			f.volumes = append(f.volumes, s.in.compileTerms(v.Topology))
		}
		if at := (standingVolume{v.InTree, s.in.compileTerms(v.OnStanding(false)), s.in.compileTerms(v.OnStanding(true))}); len(at.places)+len(at.migrated) > 0 {
			f.standing = append(f.standing, at)
		}
	}
	s.filters[key] = f
	return f
}

// compileTerms makes a term of each alternative.
func (s *Input) compileTerms(list []model.Requirements) (out []term) {
	for _, rs := range list {
		out = append(out, s.compileTerm(rs))
	}
	return out
}

// compileTerm makes a term of requirements.
func (s *Input) compileTerm(rs model.Requirements) (t term) {
	for i := range rs {
		t.Requirements = append(t.Requirements, requirement{Key: s.Keys.Ids[rs[i].Key], Spec: &rs[i]})
	}
	return t
}

// passesAffinity reports whether node affinity lets the class on a node with these label values and this name.
func (f *nodeFilter) passesAffinity(t *labelTable, vals []int32, open model.Requirements, name string) bool {
	return len(f.Terms) == 0 || AnyTermMatches(f.Terms, t, vals, open, name)
}

// Passes reports whether node affinity and volumes let the class on a node to come with these label values and this name;
// taints aside.
func (f *nodeFilter) Passes(t *labelTable, vals []int32, open model.Requirements, name string) bool {
	return f.passesAffinity(t, vals, open, name) && !slices.ContainsFunc(f.volumes, func(alt []term) bool { return !AnyTermMatches(alt, t, vals, open, name) })
}

// passesStanding is Passes for a node that is there, whose kubelet leaves the volumes of some in-tree plugins to CSI drivers.
func (f *nodeFilter) passesStanding(t *labelTable, vals []int32, open model.Requirements, name string, migrated []string) bool {
	return f.passesAffinity(t, vals, open, name) && !slices.ContainsFunc(f.standing, func(v standingVolume) bool {
		places := v.places
		if v.inTree != "" && slices.Contains(migrated, v.inTree) {
			places = v.migrated
		}
		return len(places) > 0 && !AnyTermMatches(places, t, vals, open, name)
	})
}

// IsNear reports whether a volume can be used on machines of an offer.
func (s *Instance) IsNear(v *model.Volume, o *Offer) bool {
	return len(v.Topology) == 0 || AnyTermMatches(s.in.compileTerms(v.Topology), &s.in.Keys, o.Labels, nil, "")
}

// AnyTermMatches reports whether one of the terms matches.
func AnyTermMatches(terms []term, t *labelTable, vals []int32, open model.Requirements, name string) bool {
	for i := range terms {
		if terms[i].matches(t, vals, open, name) {
			return true
		}
	}
	return false
}

// matches reports whether all requirements allow the label values; open are labels whose value is still to be decided,
// within these.
func (m *term) matches(t *labelTable, vals []int32, open model.Requirements, name string) bool {
	if m.MatchesNothing || m.Names != nil && !m.Names.Matches(name, name != "") {
		return false
	}
	for i := range m.Requirements {
		q := &m.Requirements[i]
		if open != nil {
			if o := open.Get(t.Keys[q.Key]); o != nil {
				if !isSubset(o, q.Spec) {
					return false
				}
				continue
			}
		}
		if !q.Matches(t, vals[q.Key]) {
			return false
		}
	}
	return true
}

// isSubset reports whether every value that o still allows satisfies r. When in doubt it says no.
func isSubset(o, r *model.Requirement) bool {
	if o.AllowAbsent && !r.AllowAbsent {
		return false
	}
	if !o.Complement {
		for _, v := range o.Values {
			if !r.Matches(v, true) {
				return false
			}
		}
		return len(o.Values) > 0 || o.AllowAbsent
	}
	if !r.Complement || o.Min < r.Min || o.Max > r.Max {
		return false
	}
	for _, v := range r.Values {
		if _, ok := slices.BinarySearch(o.Values, v); !ok {
			return false
		}
	}
	return true
}

// mayReach reports whether a class with this filter might be on a machine of the pool, as far as the pool's taints and
// its own labels say.
func (f *nodeFilter) mayReach(keys []string, p *Pool, known map[string]bool) bool {
	if model.Untolerated(p.Taints, f.Tolerations) != nil {
		return false
	}
	if len(f.Terms) == 0 {
		return true
	}
	return slices.ContainsFunc(f.Terms, func(t term) bool {
		return !slices.ContainsFunc(t.Requirements, func(q requirement) bool {
			key := keys[q.Key]
			if known[key] {
				return false
			}
			v, ok := PoolLabel(p, key)
			return ok && !q.Spec.Matches(v, true)
		})
	})
}

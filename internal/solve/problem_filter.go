// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// nodeFilter is what a class asks of a node's labels, taints and name. Classes that ask the same share one.
type nodeFilter struct {
	id           int
	tolerations  []model.Toleration
	terms        []term    // empty: any node
	volumes      [][]term  // of each volume one must match
	looksAtNames bool      // some term looks at the node's name
	offers       *offerSet // offers that pass
	nodeVerdicts []int8    // by label shape of nodes: 0 not known, 1 passes, 2 does not
}

// term is one alternative of a node affinity: all of its requirements must match.
type term struct {
	requirements   []requirement
	names          *model.Requirement
	matchesNothing bool // the empty term, which matches nothing
}

// requirement is one requirement of a term, with its verdict on every value seen so far.
type requirement struct {
	key      int
	spec     *model.Requirement
	verdicts []int8 // by value: 0 not known, 1 matches, 2 does not
}

// matches says whether the requirement allows a value; one that is not certain yet it does not.
func (q *requirement) matches(t *labelTable, v int32) bool {
	if v == openValue {
		return false // not certain
	}
	for int(v) >= len(q.verdicts) {
		q.verdicts = append(q.verdicts, 0)
	}
	if q.verdicts[v] == 0 {
		q.verdicts[v] = 2
		if q.spec.Matches(t.valueNames[q.key][v], v != 0) {
			q.verdicts[v] = 1
		}
	}
	return q.verdicts[v] == 1
}

// filterFor returns the filter of a class, the same for classes that ask the same.
func (s *problemCompiler) filterFor(c *model.Class) *nodeFilter {
	var b strings.Builder
	for i := range c.Terms {
		b.WriteString(c.Terms[i].Requirements.Key())
		if n := c.Terms[i].Names; n != nil {
			b.WriteString("@" + model.Requirements{*n}.Key())
		}
		b.WriteByte('|')
	}
	for _, v := range c.Volumes {
		if len(v.Topology) == 0 {
			continue
		}
		b.WriteByte('&')
		for _, t := range v.Topology {
			b.WriteString(t.Key())
			b.WriteByte('|')
		}
	}
	for _, t := range c.Tolerations {
		b.WriteString("\x00" + t.Key + "\x01" + t.Value + "\x01" + t.Effect + "\x01" + t.Operator)
		if t.Exists {
			b.WriteByte('*')
		}
	}
	key := b.String()
	f := s.filters[key]
	if f != nil {
		return f
	}
	f = &nodeFilter{id: len(s.filters), tolerations: c.Tolerations}
	for i := range c.Terms {
		t := s.compileTerm(c.Terms[i].Requirements)
		t.names = c.Terms[i].Names
		t.matchesNothing = len(t.requirements) == 0 && t.names == nil
		f.looksAtNames = f.looksAtNames || t.names != nil
		f.terms = append(f.terms, t)
	}
	for _, v := range c.Volumes {
		var alt []term
		for _, t := range v.Topology {
			alt = append(alt, s.compileTerm(t))
		}
		if len(alt) > 0 {
			f.volumes = append(f.volumes, alt)
		}
	}
	s.filters[key] = f
	return f
}

// compileTerm makes a term of requirements.
func (s *problemInput) compileTerm(rs model.Requirements) (t term) {
	for i := range rs {
		t.requirements = append(t.requirements, requirement{key: s.keys.ids[rs[i].Key], spec: &rs[i]})
	}
	return t
}

// passesAffinity says whether node affinity lets the class on a node with these label values and this name.
func (f *nodeFilter) passesAffinity(t *labelTable, vals []int32, open model.Requirements, name string) bool {
	return len(f.terms) == 0 || anyTermMatches(f.terms, t, vals, open, name)
}

// passes says whether node affinity and volumes let the class on a node with these label values and this name; taints
// aside.
func (f *nodeFilter) passes(t *labelTable, vals []int32, open model.Requirements, name string) bool {
	if !f.passesAffinity(t, vals, open, name) {
		return false
	}
	for _, alt := range f.volumes {
		if !anyTermMatches(alt, t, vals, open, name) {
			return false
		}
	}
	return true
}

// anyTermMatches says whether one of the terms matches.
func anyTermMatches(terms []term, t *labelTable, vals []int32, open model.Requirements, name string) bool {
	for i := range terms {
		if terms[i].matches(t, vals, open, name) {
			return true
		}
	}
	return false
}

// matches says whether all requirements allow the label values; open are labels whose value is still to be decided,
// within these.
func (m *term) matches(t *labelTable, vals []int32, open model.Requirements, name string) bool {
	if m.matchesNothing || m.names != nil && !m.names.Matches(name, name != "") {
		return false
	}
	for i := range m.requirements {
		q := &m.requirements[i]
		if open != nil {
			if o := open.Get(t.keys[q.key]); o != nil {
				if !isSubset(o, q.spec) {
					return false
				}
				continue
			}
		}
		if !q.matches(t, vals[q.key]) {
			return false
		}
	}
	return true
}

// isSubset says whether every value that o still allows satisfies r. When in doubt it says no.
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

// mayReach says whether a class with this filter might be on a machine of the pool, as far as the pool's taints and
// its own labels say.
func (f *nodeFilter) mayReach(s *problemCompiler, p *Pool, known map[string]bool) bool {
	if model.Untolerated(p.Taints, f.tolerations) != nil {
		return false
	}
	if len(f.terms) == 0 {
		return true
	}
	return slices.ContainsFunc(f.terms, func(t term) bool {
		return !slices.ContainsFunc(t.requirements, func(q requirement) bool {
			key := s.keys.keys[q.key]
			if known[key] {
				return false
			}
			v, ok := poolLabel(p, key)
			return ok && !q.spec.Matches(v, true)
		})
	})
}

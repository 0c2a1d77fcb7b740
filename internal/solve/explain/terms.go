// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package explain

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// explainLabels holds the class's terms against the pool's requirements, then against its types. Of several terms the
// one that gets furthest speaks.
func (s *Explainer) explainLabels(c *problem.Class, p *problem.Pool) *plan.Reason {
	known := s.Catalog.ProviderKeysOf(p.Types)
	s.Work.Steps += int64(len(p.Types) * max(1, min(len(c.Spec.Terms), mostExplainedTerms)))
	terms := slices.Clone(c.Spec.Terms[:min(len(c.Spec.Terms), mostExplainedTerms)])
	if len(terms) == 0 {
		return s.explainTerm(&model.NodeTerm{}, p, known)
	}
	var best *plan.Reason
	for i := range terms {
		r := &plan.Reason{Code: plan.Requirement, Detail: plan.OfRequirement{Empty: true}}
		if len(terms[i].Requirements) > 0 || terms[i].Names != nil {
			r = s.explainTerm(&terms[i], p, known)
		}
		if r == nil {
			return nil
		}
		if best == nil || plan.CheckRank(r.Code) > plan.CheckRank(best.Code) {
			best = r
		}
	}
	return nearestOf(best, len(c.Spec.Terms))
}

// nearestOf notes in the reason of the term that comes nearest of how many it is, if it is not the only one.
func nearestOf(r *plan.Reason, terms int) *plan.Reason {
	if terms < 2 {
		return r
	}
	out := *r
	switch d := r.Detail.(type) {
	case plan.OfRequirement:
		d.Terms = terms
		out.Detail = d
	case plan.OfNoInstanceType:
		if d.OfPool {
			return r // whatever the pod requires
		}
		d.Terms = terms
		out.Detail = d
	}
	return &out
}

// mostExplainedTerms is the maximum number of terms examined for a reason, from the first.
const mostExplainedTerms = 8

// explainTerm returns the reason why nodes of a pool cannot match one node affinity term, nil if they can.
func (s *Explainer) explainTerm(t *model.NodeTerm, p *problem.Pool, known map[string]bool) *plan.Reason {
	for i := range t.Requirements {
		want := &t.Requirements[i]
		lacks := plan.OfRequirement{Label: want.Key}
		refusal := func() *plan.Reason {
			lacks.Want = plan.RuleOf(want)
			return &plan.Reason{Code: plan.Requirement, Detail: lacks}
		}
		if v, ok := problem.PoolLabel(p, want.Key); ok {
			if !want.Matches(v, true) {
				lacks.Have = plan.Rule(v)
				return refusal()
			}
			continue
		}
		if have := p.Requirements.Get(want.Key); have != nil {
			if both := have.Intersect(*want); both.Empty() {
				lacks.Have = plan.RuleOf(have)
				return refusal()
			}
			continue
		}
		if !known[want.Key] && !want.AllowAbsent {
			lacks.Undefined = true
			return refusal()
		}
	}
	if !p.Ready && len(p.Types) == 0 {
		return nil // nobody was asked for types yet
	}
	own := s.typesOf(p, known)
	if own.none != nil {
		return own.none
	}
	left, none := typesWithin(t.Requirements, own.types, known)
	if none != nil {
		return excludedBy(none, t, p, known)
	}
	if len(left) == 0 {
		return &plan.Reason{Code: plan.NoInstanceType, Detail: plan.OfNoInstanceType{None: true}}
	}
	if t.Names != nil && !t.Names.Matches("", false) {
		return &plan.Reason{Code: plan.NodeName, Detail: plan.OfNodeName{Label: "metadata.name", Want: plan.RuleOf(t.Names), Said: "a new node"}}
	}
	return nil
}

// typesOf returns the types of a pool, found once for all classes.
func (s *Explainer) typesOf(p *problem.Pool, known map[string]bool) *poolTypes {
	own := s.poolTypes[p]
	if own == nil {
		own = &poolTypes{}
		own.types, own.none = typesWithin(p.Requirements, p.Types, known)
		if own.none != nil {
			d := plan.DetailOf[plan.OfNoInstanceType](*own.none)
			d.OfPool = true
			own.none.Detail = d
		}
		s.poolTypes[p] = own
	}
	return own
}

// typesWithin returns those of some types that meet requirements by what is the type's alone; if none does, the first requirement
// that none of them meets, else that which none of them meets together with others.
func typesWithin(rs model.Requirements, all []*model.InstanceType, known map[string]bool) ([]*model.InstanceType, *plan.Reason) {
	left := all
	var met model.Requirements // those that exclude a type
	var together *plan.Reason
	for i := range rs {
		q := &rs[i]
		if q.Key == model.LabelZone || q.Key == model.LabelCapacityType || !known[q.Key] || q.Key == model.LabelHostname {
			continue
		}
		own := typesMeeting(q, all)
		if len(own) == 0 {
			have := distinctValues(q, all)
			named := min(len(have), mostNamedValues)
			return nil, &plan.Reason{Code: plan.NoInstanceType, Detail: plan.OfNoInstanceType{Label: q.Key, Want: plan.RuleOf(q),
				Have: plan.ListOf(have[:named]), More: len(have) - named}}
		}
		if together != nil {
			continue
		}
		if left = typesMeeting(q, left); len(left) > 0 {
			if len(own) < len(all) {
				met = append(met, *q)
			}
			continue
		}
		with := met
		for j := range met { // one that is enough
			if len(typesMeeting(&met[j], own)) == 0 {
				with = met[j : j+1]
				break
			}
		}
		together = &plan.Reason{Code: plan.NoInstanceType, Detail: plan.OfNoInstanceType{Label: q.Key, Want: plan.RuleOf(q), With: plan.RulesOf(with)}}
	}
	return left, together
}

// typesMeeting returns those of some types that meet a requirement.
func typesMeeting(q *model.Requirement, types []*model.InstanceType) (out []*model.InstanceType) {
	for _, x := range types {
		if typeMatches(q, x) {
			out = append(out, x)
		}
	}
	return out
}

// excludedBy names the requirement of the pool that excludes all types that meet the requirement that none of the pool's types meets. Without
// one the reason stays as it is.
func excludedBy(none *plan.Reason, t *model.NodeTerm, p *problem.Pool, known map[string]bool) *plan.Reason {
	d := plan.DetailOf[plan.OfNoInstanceType](*none)
	for i := range t.Requirements {
		if t.Requirements[i].Key != d.Label {
			continue
		}
		meeting, _ := typesWithin(t.Requirements[i:i+1], p.Types, known)
		if len(meeting) == 0 || d.With != "" {
			break
		}
		if _, by := typesWithin(p.Requirements, meeting, known); by != nil {
			excludes := plan.DetailOf[plan.OfNoInstanceType](*by)
			d.ExcludedBy, d.With, d.Have, d.More = excludes.Want, excludes.With, "", 0
			return &plan.Reason{Code: plan.NoInstanceType, Detail: d}
		}
	}
	return none
}

// distinctValues lists the values that the cloud sets of a requirement's label on nodes of types, sorted, those first that begin like the value
// that is wanted, which may be misspelt.
func distinctValues(q *model.Requirement, types []*model.InstanceType) []string {
	var out []string
	for _, t := range types {
		if q.Key == model.LabelInstanceType {
			out = append(out, t.Name)
		} else if v, ok := t.Labels[q.Key]; ok {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	if q.Complement || len(q.Values) == 0 {
		return out
	}
	alike := func(v string) (n int) {
		for n < len(v) && n < len(q.Values[0]) && v[n] == q.Values[0][n] {
			n++
		}
		return n
	}
	slices.SortStableFunc(out, func(a, b string) int { return cmp.Compare(alike(b), alike(a)) })
	return out
}

// mostNamedValues is how many values of a label a reason names.
const mostNamedValues = 8

// typeMatches reports whether the type, or some offering of it, meets a requirement.
func typeMatches(q *model.Requirement, t *model.InstanceType) bool {
	for i := range t.Offerings {
		if v, ok := t.Label(q.Key, &t.Offerings[i]); q.Matches(v, ok) {
			return true
		}
	}
	if len(t.Offerings) > 0 {
		return false
	}
	v, ok := t.Labels[q.Key]
	return q.Matches(v, ok)
}

// wouldServe reports whether a pool that only a taint keeps a class off has an offering that is available, large enough and where the class may be. No
// offers are compiled for such a pool. One whose types all have a device that the class does not request would not: the taint is meant for the class.
func (s *Explainer) wouldServe(c *problem.Class, p *problem.Pool) bool {
	known := s.Catalog.ProviderKeysOf(p.Types)
	types := s.typesOf(p, known).types
	s.Work.Steps += int64(len(types))
	if model.HaveUnusedDevice(types, c.Spec.Requests, s.In.Given.ResourceNames) {
		return false
	}
	return slices.ContainsFunc(types, func(t *model.InstanceType) bool {
		return c.Spec.Requests.Fits(t.Allocatable) && slices.ContainsFunc(t.Offerings, func(o model.Offering) bool {
			meets := func(rs model.Requirements) bool {
				return !slices.ContainsFunc(rs, func(q model.Requirement) bool {
					v, ok := t.Label(q.Key, &o)
					return (ok || known[q.Key]) && !q.Matches(v, ok)
				})
			}
			return o.Available && meets(p.Requirements) &&
				(len(c.Spec.Terms) == 0 || slices.ContainsFunc(c.Spec.Terms, func(term model.NodeTerm) bool { return meets(term.Requirements) }))
		})
	})
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package topology

import (
	"math"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve/problem"
)

// Thousands of pods with a term such as "away from all whose label id is NotIn [7]", each with its own value, have one
// selector each, and each selects nearly all pods. Counting them one by one would be quadratic. They are represented as
// one rule with exemptions: pods that match the rest of the selector are counted once for all of these terms, and so are
// their owners; the counts of the exempted values are subtracted.

// antiTerm is a required anti-affinity term as it is counted.
type antiTerm struct {
	topologyKey string
	selector    model.Selector // of the pods to be away from, those exempt included
	exemptKey   string         // the label whose values exempt; empty: nothing does
	exempt      []string       // the values, sorted
}

// antiTermsOf returns the anti-affinity terms of a class as they are counted. Terms that differ only in the values
// exempt are one, which exempts what all of them exempt.
func antiTermsOf(c *model.Class) []antiTerm {
	out := make([]antiTerm, 0, len(c.AntiAffinity))
	for i := range c.AntiAffinity {
		x := splitTerm(&c.AntiAffinity[i], c.Labels)
		at := -1
		if x.exemptKey != "" {
			at = slices.IndexFunc(out, func(o antiTerm) bool {
				return o.topologyKey == x.topologyKey && o.exemptKey == x.exemptKey && equalSelectors(&o.selector, &x.selector)
			})
		}
		if at < 0 {
			out = append(out, x)
			continue
		}
		both := slices.DeleteFunc(slices.Clone(out[at].exempt), func(v string) bool { return !slices.Contains(x.exempt, v) })
		out[at].exempt = both
	}
	for i := range out {
		if len(out[i].exempt) == 0 {
			out[i].exemptKey = ""
		}
	}
	return out
}

// splitTerm splits a term into its selector without one NotIn, and the values which that exempts: the NotIn that
// exempts the pod itself if there is one, else the first.
func splitTerm(x *model.PodTerm, own model.Labels) antiTerm {
	out := antiTerm{topologyKey: x.TopologyKey, selector: x.Selector}
	if x.Selector.Pods == nil {
		return out
	}
	at := -1
	for i := range *x.Selector.Pods {
		r := &(*x.Selector.Pods)[i]
		if !r.Complement || !r.AllowAbsent || len(r.Values) == 0 || r.Min != math.MinInt64 || r.Max != math.MaxInt64 {
			continue
		}
		_, exemptsItself := slices.BinarySearch(r.Values, own[r.Key])
		if exemptsItself {
			at = i
			break
		}
		if at < 0 {
			at = i
		}
	}
	if at < 0 {
		return out
	}
	r := (*x.Selector.Pods)[at]
	rest := slices.Delete(slices.Clone(*x.Selector.Pods), at, at+1)
	out.selector.Pods, out.exemptKey, out.exempt = &rest, r.Key, r.Values
	return out
}

// equalSelectors reports whether two selectors are written alike.
func equalSelectors(a, b *model.Selector) bool {
	text := func(rs *model.Requirements) string {
		if rs == nil {
			return "none"
		}
		return "{" + rs.Key()
	}
	return slices.Equal(a.Namespaces, b.Namespaces) && text(a.NamespaceL) == text(b.NamespaceL) && text(a.Pods) == text(b.Pods)
}

// exemptSelector selects the pods that the term exempts.
func (x *antiTerm) exemptSelector() model.Selector {
	out := x.selector
	rs := x.selector.Pods.With(model.OneOf(x.exemptKey, x.exempt...))
	out.Pods = &rs
	return out
}

// ownerCounters returns the counters of those that own a term: of all that own one which differs from it only in what
// is exempt, and of those among them that exempt the same; -1 where nothing is exempt.
func (t *topologyCompiler) ownerCounters(x *antiTerm) (all, exempting int) {
	if x.exemptKey == "" {
		return t.counterFor(x.topologyKey, true, false, x.selector), -1
	}
	// Named in the selectors and not in what they select: the counter of a plain term with the same selector is another.
	mark := model.Selector{Namespaces: []string{"exempt by " + x.exemptKey}}
	all = t.counterFor(x.topologyKey, true, false, x.selector, mark)
	exempting = t.counterFor(x.topologyKey, true, false, x.exemptSelector(), mark)
	for _, id := range []int{all, exempting} {
		t.topo.Counters[id].selectors = t.topo.Counters[id].selectors[:1]
	}
	if exempting != all {
		t.exemptions[exempting] = all
	}
	return all, exempting
}

// compileAntiAffinity makes the rules of a class's own anti-affinity terms.
func (t *topologyCompiler) compileAntiAffinity(c *problem.Class, add func(problem.Rule)) {
	for _, x := range antiTermsOf(c.Spec) {
		self := t.in.SelectorMatches(&x.selector, c.Spec)
		r := problem.Rule{Kind: problem.RuleAnti, Counter: t.counterFor(x.topologyKey, false, false, x.selector), TopologyKey: x.topologyKey, OfDevices: x.selector.IsOfDevices(), Hard: true, SelectsOwnPods: self}
		if x.exemptKey != "" {
			sel := x.exemptSelector()
			r.SelectsOwnPods = self && !t.in.SelectorMatches(&sel, c.Spec)
			r.Minus = []int{t.counterFor(x.topologyKey, false, false, sel)}
		}
		add(r)
		t.ownerCounters(&x)
	}
}

// exempt takes the owners counted by a counter off what the rule that counts all of them counts.
func exempt(rules []problem.Rule, all, exempting int) {
	for i := range rules {
		if rules[i].Kind == problem.RuleAntiOfOthers && rules[i].Counter == all {
			rules[i].Minus = append(rules[i].Minus, exempting)
			return
		}
	}
}

// AntiAffinitySelectors returns the selectors that count the anti-affinity terms of a class. Terms of several classes
// that differ only in the values of their NotIn share them.
func AntiAffinitySelectors(c *model.Class) []model.Selector {
	terms := antiTermsOf(c)
	out := make([]model.Selector, len(terms))
	for i := range terms {
		out[i] = terms[i].selector
	}
	return out
}

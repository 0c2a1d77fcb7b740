// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve/topology"
)

// Weights of the items.
const (
	classWork          = 5
	keyWork            = 45 // a label key that no class before looked at: every offer and node is asked for it
	termWork           = 6
	preferredWork      = 18
	portWork           = 3
	resourceWork       = 10 // a resource that not every node has
	spreadWork         = 80
	domainKeyWork      = 1500 // a topology key that no spread before had, hosts and zones aside
	antiWork           = 30
	domainAntiWork     = 300 // a term over more than hosts
	affinityWork       = 300
	volumeWork         = 5
	widePairWork       = 20 // a wide selector held against a class
	standingRuleWork   = 8  // a selector of pods on nodes held against a class
	rulesPairedAUnit   = 10
	standingRulesAUnit = 15 // of the rules on labels of such selectors
	cheapPartsAUnit    = 4  // values, tolerations, labels
)

// StandingRules counts the required anti-affinity terms of pods on nodes that must be compared with each pending class
// of a namespace one by one: those whose selectors require no label value by which classes could be indexed. There may
// be one per pod. The zero value counts none.
type StandingRules struct {
	byNamespace map[string]ruleCount
	everywhere  ruleCount // of selectors of namespaces by their labels
}

// ruleCount is how many selectors there are, and how many rules on labels they have together.
type ruleCount struct{ selectors, rules int64 }

// mostCompared is how many rules a selector may have that is compared with others. Longer ones count each.
const mostCompared = 16

// CountStandingRules counts the rules of pods on nodes about pods in some namespaces. Equal selectors of several classes
// count once.
func CountStandingRules(nodes []*model.Node, namespaces map[string]bool) StandingRules {
	classes, selectors := map[*model.Class]bool{}, map[string]bool{}
	s := StandingRules{byNamespace: map[string]ruleCount{}}
	for _, n := range nodes {
		if n.NoAnti {
			continue
		}
		for _, p := range n.Pods {
			if len(p.Class.AntiAffinity) > 0 && !classes[p.Class] {
				classes[p.Class] = true
				s.add(p.Class, namespaces, selectors)
			}
		}
	}
	return s
}

// add adds the rules of a class whose selectors are not among those known.
func (s *StandingRules) add(c *model.Class, namespaces, known map[string]bool) {
	for _, x := range topology.AntiAffinitySelectors(c) {
		if x.Pods == nil || findsByLabel(*x.Pods) {
			continue
		}
		counted := func(scope string, have ruleCount) ruleCount {
			if len(*x.Pods) <= mostCompared {
				key := scope + " " + x.Pods.Key()
				if known[key] {
					return have
				}
				known[key] = true
			}
			return ruleCount{have.selectors + 1, have.rules + int64(len(*x.Pods))}
		}
		if x.NamespaceL != nil {
			s.everywhere = counted("in "+x.NamespaceL.Key(), s.everywhere)
			continue
		}
		for _, name := range x.Namespaces {
			if namespaces[name] {
				s.byNamespace[name] = counted(name, s.byNamespace[name])
			}
		}
	}
}

// work returns the cost of comparing one class of a namespace with the rules, in units of Estimate.
func (s *StandingRules) work(namespace string) int64 {
	n := s.byNamespace[namespace]
	return (n.selectors+s.everywhere.selectors)*standingRuleWork + (n.rules+s.everywhere.rules)/standingRulesAUnit
}

// findsByLabel reports whether a selector requires a label to have one of some values, so that classes can be indexed by
// it.
func findsByLabel(rs model.Requirements) bool {
	for i := range rs {
		if rs[i].ListsValues() {
			return true
		}
	}
	return false
}

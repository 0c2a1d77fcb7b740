// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package problem

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// maxExclusivities bounds the mutual anti-affinity groups that become a resource: the largest do. Each is one
// resource more to look at wherever resources are.
const maxExclusivities = 4

// compileExclusivities adds a resource for each large mutual anti-affinity group: pods no two of which may share a host,
// because each has anti-affinity to all of them. Each pod requests one unit, and a machine has one. So packing, prices
// and proofs by resources take into account that these pods need as many machines; topology enforces the rule itself.
// These resources follow the real ones in a Vec.
func (s *problemCompiler) compileExclusivities() {
	type group struct {
		key     string
		pods    int
		classes []*Class
	}
	var all []*group
	groupByKey := map[string]*group{}
	for _, c := range s.inst.Classes {
		for i := range c.Spec.AntiAffinity {
			x := &c.Spec.AntiAffinity[i]
			if x.TopologyKey != model.LabelHostname || !s.in.SelectorMatches(&x.Selector, c.Spec) {
				continue
			}
			key := selectorKey(x.Selector)
			q := groupByKey[key]
			if q == nil {
				q = &group{key: key}
				groupByKey[key] = q
				all = append(all, q)
			}
			if !slices.Contains(q.classes[max(0, len(q.classes)-1):], c) {
				q.pods, q.classes = q.pods+len(c.Pods), append(q.classes, c)
			}
		}
	}
	slices.SortFunc(all, func(a, b *group) int { return cmp.Or(cmp.Compare(b.pods, a.pods), cmp.Compare(a.key, b.key)) })
	for _, q := range all[:min(len(all), maxExclusivities, MaxDims-s.in.NumDims)] {
		for _, c := range q.classes {
			c.Req[s.in.NumDims] = 1
		}
		s.in.NumDims++
	}
}

// selectorKey is a text that tells selectors apart.
func selectorKey(sels ...model.Selector) string {
	var out []byte
	for i := range sels {
		x := &sels[i]
		for _, n := range x.Namespaces {
			out = strconv.AppendQuote(out, n)
		}
		if x.NamespaceL != nil {
			out = append(append(append(out, '('), x.NamespaceL.Key()...), ')')
		}
		if x.Pods != nil {
			out = append(append(append(out, '{'), x.Pods.Key()...), '}')
		}
		out = append(out, ' ')
	}
	return string(out)
}

// addExclusivityUnits gives a machine one unit for each mutual anti-affinity group.
func (s *Input) addExclusivityUnits(room []int64) {
	for k := len(s.Dims); k < s.NumDims; k++ {
		room[k] = 1
	}
}

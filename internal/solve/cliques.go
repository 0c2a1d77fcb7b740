// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package solve

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// maxCliques bounds the cliques that are priced: the largest. Each is one resource more to look at wherever resources are.
const maxCliques = 4

// compileCliques makes resources of cliques, which lie behind the others. A clique is pods no two of which may share a host, since each has
// anti-affinity against all of them. They ask for one each of a resource of which a machine has one. So whatever packs, prices or proves by
// resources knows that so many pods need as many machines; the rule itself is kept by whoever keeps the others.
func (s *solver) compileCliques() {
	type clique struct {
		key     string
		pods    int
		classes []*class
	}
	var all []*clique
	byKey := map[string]*clique{}
	for _, c := range s.classes {
		for i := range c.c.AntiAffinity {
			x := &c.c.AntiAffinity[i]
			if x.TopologyKey != model.LabelHostname || !s.selects(&x.Selector, c.c) {
				continue
			}
			key := selectorKey(x.Selector)
			q := byKey[key]
			if q == nil {
				q = &clique{key: key}
				byKey[key] = q
				all = append(all, q)
			}
			if !slices.Contains(q.classes[max(0, len(q.classes)-1):], c) {
				q.pods, q.classes = q.pods+len(c.pods), append(q.classes, c)
			}
		}
	}
	slices.SortFunc(all, func(a, b *clique) int { return cmp.Or(cmp.Compare(b.pods, a.pods), cmp.Compare(a.key, b.key)) })
	for _, q := range all[:min(len(all), maxCliques, maxDims-s.nd)] {
		for _, c := range q.classes {
			c.req[s.nd] = 1
		}
		s.nd++
	}
}

// addCliques gives a machine one of each.
func (s *solver) addCliques(room []int64) {
	for k := len(s.dims); k < s.nd; k++ {
		room[k] = 1
	}
}

// priceCliques raises what a place for one of a clique is worth where there are fewer of them than pods, to the price of the cheapest machine
// that holds one: a pod that is left over needs that machine to itself. Resource prices alone think that such a machine can be as
// small as the pod, and would have large machines filled with what the others need beside their one pod.
func (p *packing) priceCliques(left []int64) {
	for k := len(p.s.dims); k < p.s.nd; k++ {
		if p.weight[k] == 0 {
			continue
		}
		least := int64(-1)
		for d, n := range left {
			req := &p.demands[d].c.req
			if n == 0 || req[k] == 0 {
				continue
			}
			for _, m := range p.machines {
				if m.stock < 0 && (least < 0 || m.price < least) && p.admits(m, d) && fitsIn(req, &m.avail, p.s.nd) {
					least = m.price
				}
			}
		}
		p.weight[k] += max(0, min(least, 1<<60>>weightShift)) << weightShift
	}
}

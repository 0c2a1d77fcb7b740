// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package top

import (
	"cmp"
	"encoding/json"
	"io"
	"slices"
)

// Usage is the pods of one workload on one node, and their requests.
type Usage struct {
	Node, Namespace, Owner string
	Pods                   int
	Requests               Amounts
}

// Usages returns the bound pods, summed by node and workload, sorted by node, namespace and owner.
func (b *Board) Usages() []Usage {
	type key struct{ node, namespace, owner string }
	sums := map[key]*Usage{}
	for _, p := range b.pods {
		if p.Node == "" {
			continue
		}
		k := key{p.Node, p.Namespace, p.Owner}
		if sums[k] == nil {
			sums[k] = &Usage{Node: p.Node, Namespace: p.Namespace, Owner: p.Owner}
		}
		sums[k].Pods++
		sums[k].Requests.add(p.Requests)
	}
	out := make([]Usage, 0, len(sums))
	for _, u := range sums {
		out = append(out, *u)
	}
	slices.SortFunc(out, func(a, b Usage) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Owner, b.Owner))
	})
	return out
}

// UsageJSON writes usages as one JSON array, for the page.
func UsageJSON(w io.Writer, usages []Usage) error {
	type wireUsage struct {
		Node      string      `json:"node"`
		Namespace string      `json:"namespace"`
		Owner     string      `json:"owner,omitempty"`
		Pods      int         `json:"pods"`
		Requests  wireAmounts `json:"requests"`
	}
	out := make([]wireUsage, 0, len(usages))
	for _, u := range usages {
		out = append(out, wireUsage{u.Node, u.Namespace, u.Owner, u.Pods, wire(u.Requests)})
	}
	return json.NewEncoder(w).Encode(out)
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package verify

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Leaving is a node that a disruption command removes.
type Leaving struct {
	Pool  *model.NodePool
	Claim *model.Claim
}

// Budgets returns the disruption budgets that a single command exceeds: it removes more nodes of a NodePool than a budget allows
// even if no other node is being disrupted. Budgets with a schedule are ignored, because they depend on the time.
func Budgets(claims []*model.Claim, leaving []Leaving, cause string) (found []Violation) {
	going := map[string]int64{}
	var pools []*model.NodePool
	for _, x := range leaving {
		if x.Pool == nil || x.Pool.Scaling != nil { // node groups have rules of their own
			continue
		}
		if going[x.Pool.Name] == 0 {
			pools = append(pools, x.Pool)
		}
		going[x.Pool.Name]++
	}
	for _, p := range pools {
		total := int64(0)
		for _, c := range claims {
			if c.Pool == p.Name {
				total++
			}
		}
		for _, b := range p.Budgets {
			if b.Schedule != "" || len(b.Reasons) > 0 && !slices.Contains(b.Reasons, cause) {
				continue
			}
			allowed := b.Nodes
			if b.Percent {
				allowed = (total*b.Nodes + 99) / 100
			}
			if n := going[p.Name]; n > allowed {
				found = append(found, Violation{Rule: Limits, Site: Site{Pool: p.Name}, Detail: "the command removes more nodes than a disruption budget allows"})
				break
			}
		}
	}
	return found
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"github.com/dovetail-sh/dovetail/internal/decide/demand"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// placements are the standing nodes on which pods without a slot are expected.
type placements struct {
	mem *placementMemory

	awaitsPods map[string]bool // by name: nodes and claims that pods are expected on, with a slot or without
	awaitsEnds map[string]bool // by name: nodes that pods are expected on when other pods have ended there

	booked map[string][]*model.Pod // by name: nodes on which pods of ProvisioningRequests that do not exist yet are expected without a slot
}

// isExpected reports whether a pod is expected on a standing node.
func (pl *placements) isExpected(p *model.Pod) bool {
	_, ok := pl.mem.byPod[p.UID]
	return ok
}

// nodeOf returns the standing node on which a pod is expected; empty: none.
func (pl *placements) nodeOf(p *model.Pod) string { return pl.mem.byPod[p.UID].Node }

// placementMemory is what placements remembers from step to step.
type placementMemory struct {
	byPod map[string]demand.Placement // by pod uid
}

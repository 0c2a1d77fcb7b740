// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import "time"

// placements are the standing nodes on which pods without a slot are expected.
type placements struct {
	mem *placementMemory

	awaitsPods map[string]bool // by name: nodes and claims that pods are expected on, with a slot or without
}

// placementMemory is what placements remembers from step to step.
type placementMemory struct {
	byPod map[string]placement // by pod uid
}

// placement is the standing node on which a pod is expected, and since when it is.
type placement struct {
	node  string
	since time.Time
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package report

import "github.com/dovetail-sh/dovetail/internal/plan"

// causeText is how a cause of disruption is named in each place. Empty: there is no text of its own.
type causeText struct {
	clause     string // of a node: "it has drifted"
	evaluated  string // outcome of an evaluation that kept the node
	kept       string // heading of the blockers of a node
	keptInPool string // heading of the blockers of a NodePool's nodes
	replaced   string // adjective of the nodes that a replacement is for, with a trailing space
}

// causes are the texts of each cause of disruption. The sentence of a Reason with its details is in reason_node.go.
var causes = map[plan.Code]causeText{
	plan.Empty: {clause: "it is empty", evaluated: "evaluated because it is empty",
		kept: "Why it is kept although it is empty", keptInPool: "What keeps its empty nodes"},
	plan.Underutilized: {clause: "its pods can run on other nodes at lower cost", evaluated: "evaluated for consolidation",
		kept: "Why it is not consolidated", keptInPool: "What keeps its nodes from being consolidated"},
	plan.Drifted: {clause: "it has drifted", evaluated: "evaluated because it has drifted",
		kept: "Why it is not replaced although it has drifted", keptInPool: "What keeps drifted nodes from being replaced", replaced: "drifted "},
	plan.Expired: {clause: "it has expired", evaluated: "evaluated because it has expired",
		kept: "Why it is not replaced although it has expired", replaced: "expired "},
	plan.Unhealthy: {clause: "it is unhealthy", evaluated: "evaluated because it is unhealthy",
		kept: "Why it is not replaced although it is unhealthy"},
}

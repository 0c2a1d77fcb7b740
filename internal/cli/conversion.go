// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package cli

import "github.com/dovetail-sh/dovetail/internal/kube/translate"

// fromClusterAutoscaler is the only thing to convert from.
const fromClusterAutoscaler = "cluster-autoscaler"

type convertFlags struct {
	from, args, groups, output string
	files                      []string
	kubeconfig                 string
	live, apply, yes           bool
}

// conversion is what is known on the way from flags to objects.
type conversion struct {
	settings   translate.GroupSettings
	given      map[string]bool
	controller []string
	named      []translate.NodeGroup
	discovery  []map[string]string
	described  []translate.NodeGroup // nil: nobody has described the groups
	maxNodes   int64

	isClusterAPI bool
	cluster      string // NAMESPACE/NAME of Cluster API's Cluster; empty: not said

	groups []translate.GroupObjects
	rows   []flagRow
	notes  []string
}

// fate is what became of a flag: an outcome, a sentence, and how that compares with Cluster Autoscaler.
type fate struct{ outcome, what, pace string }

// flagRow says what became of a flag.
type flagRow struct {
	Flag    string `json:"flag"`
	Value   string `json:"value"`
	Given   bool   `json:"given"`
	Outcome string `json:"outcome"`
	What    string `json:"what"`
	Pace    string `json:"pace,omitempty"` // paceMore or paceLess
}

// Outcomes of a flag.
const (
	inObjects    = "objects"        // it is in the objects
	toController = "controller"     // it is a flag of dovetail controller
	sameHere     = "same"           // Dovetail does so anyway
	noEffect     = "no effect"      // it did nothing in Cluster Autoscaler on AWS either
	noMatch      = "no counterpart" // and why
)

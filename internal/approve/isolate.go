// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package approve

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/decide/demand"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// maxTrials is how often deciding is tried with parts left out after a panic.
const maxTrials = 40

// isolate finds the NodePools, or else the classes of pods, without which deciding does not panic; nil if there are none.
// fails reports whether deciding panics though parts are withheld.
func isolate(snap *model.Snapshot, fault any, fails func([]demand.Withheld) bool) []Refused {
	why := plan.Reason{Code: plan.PlanRefused, Detail: plan.OfPlanRefused{Rule: plan.Panic, Said: plan.Words(fmt.Sprint(fault))}}
	var pools []Refused
	for _, p := range snap.Pools {
		own := why
		own.Pool = p.Name
		pools = append(pools, Refused{demand.Withheld{Pool: p.Name, Why: own}, "nodepool"})
	}
	slices.SortFunc(pools, func(a, b Refused) int { return strings.Compare(a.Pool, b.Pool) })
	byClass := map[*model.Class]int{}
	var classes []Refused
	for _, p := range snap.Pending {
		i, ok := byClass[p.Class]
		if !ok {
			i = len(classes)
			byClass[p.Class] = i
			classes = append(classes, Refused{demand.Withheld{Why: why}, "pod"})
		}
		classes[i].Pods = append(classes[i].Pods, p)
	}
	for _, parts := range [][]Refused{pools, classes} {
		if len(parts) > 0 && !fails(withheldOf(parts)) {
			return narrow(parts, fails)
		}
	}
	return nil
}

// narrow returns as few of the parts as it finds with maxTrials trials, without which deciding does not panic. It gives
// back halves of them as long as that does not bring the panic back.
func narrow(parts []Refused, fails func([]demand.Withheld) bool) []Refused {
	kept := parts // withheld; deciding does not panic without them
	trials := 0
	var giveBack func(lo, hi int)
	out := make([]bool, len(parts)) // given back
	giveBack = func(lo, hi int) {
		if trials == maxTrials {
			return
		}
		trials++
		var rest []Refused
		for i := range parts {
			if !out[i] && (i < lo || i >= hi) {
				rest = append(rest, parts[i])
			}
		}
		if !fails(withheldOf(rest)) {
			for i := lo; i < hi; i++ {
				out[i] = true
			}
			kept = rest
			return
		}
		if hi-lo > 1 {
			giveBack(lo, (lo+hi)/2)
			giveBack((lo+hi)/2, hi)
		}
	}
	if len(parts) > 1 {
		giveBack(0, len(parts)/2)
		giveBack(len(parts)/2, len(parts))
	}
	return kept
}

// withheldOf are parts as decide is told of them.
func withheldOf(parts []Refused) (out []demand.Withheld) {
	for _, x := range parts {
		out = append(out, x.Withheld)
	}
	return out
}

// Refused is a dropped part of a plan, and why it was dropped.
type Refused struct {
	demand.Withheld
	Unit string // kind of part: pod, nodeclaim, node, class or nodepool; cost: only the figures; plan: the whole plan for pods
}

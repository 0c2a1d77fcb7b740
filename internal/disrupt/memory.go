// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Memory contains verdicts on evaluated candidates. The zero value is valid; any memory is valid for any input. It is not
// modified: a search returns a new one.
type Memory struct {
	verdicts []verdict  // of all candidates of the last input, by node name
	duals    dualPrices // of the last wide search; nil: none
	// freedValue is what has come free since the dual prices were made, at these prices: it only rises until the next
	// wide search.
	freedValue int64
	// changed: the input differs from that of the last wide search, or a command was found since: another may be.
	changed bool

	nodes nodeMemory

	// What the last input said, to be compared with the next.
	types       []*model.InstanceType // of all pools
	poolRules   string
	budgetLeft  map[string]int64
	forecastKey string
	inTransit   int    // pods
	paused      string // the pools that launch no replacement

	Judged       []string // nodes with a verdict of the last search
	Work         int64    // steps of the last search, for measurements
	LastWideWork int64    // steps of the last wide search
	Unfinished   bool     // the last search did not evaluate all candidates
	WasWide      bool     // the last search was wide
}

// nodeMemory is what the open nodes of the last input were like.
type nodeMemory struct {
	tree  capacityTree // and beside it, by index of node:
	names []string
	pods  [][]*model.Pod
	// taints is how many taints each node had; repelling the classes of its pods whose anti-affinity keeps others away.
	taints    []int
	repelling [][]*model.Class
}

// verdict is why a candidate was kept when it was looked at last.
type verdict struct {
	candidate   *Candidate
	node        *model.Node
	why         *plan.Reason // nil: it was not looked at
	neededValue int64        // so much capacity must come free, at dual prices, before it can be worth disrupting
	freedBefore int64        // Memory.freedValue at the time
}

// HasUnsearched reports whether a wide search might find more than the searches since the last one.
func (m *Memory) HasUnsearched() bool { return m.changed || m.Unfinished }

// WhyKept returns why a node was kept when it was last evaluated; an empty code: it was not evaluated.
func (m *Memory) WhyKept(node string) plan.Reason {
	i, ok := slices.BinarySearchFunc(m.verdicts, node, func(v verdict, n string) int { return strings.Compare(v.node.Name, n) })
	if !ok || m.verdicts[i].why == nil {
		return plan.Reason{}
	}
	return *m.verdicts[i].why
}

// wantsLook reports whether a candidate has no verdict, or enough capacity has come free since.
func (m *Memory) wantsLook(v *verdict) bool {
	return v.why == nil || m.freedValue-v.freedBefore >= v.neededValue
}

// forgetVerdicts begins anew, for a wide search.
func (m *Memory) forgetVerdicts() {
	for i := range m.verdicts {
		m.verdicts[i].why = nil
	}
	m.duals, m.freedValue, m.changed, m.Unfinished = nil, 0, false, false
}

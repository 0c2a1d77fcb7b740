// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Scope is how far a search looks.
type Scope int

// A narrow search looks at the machines that changed, and at a few of those that room come free elsewhere may have made worth another
// look. A wide one begins anew: at every machine by itself, and at sets of them; what it answers depends on the input alone, and not on
// the memory. Where nothing has changed since a wide one that found nothing, neither looks at anything.
const (
	Narrow Scope = iota
	Wide         // where anything has changed; else narrow
)

// Memory carries what was examined and found not worth moving. The zero value is valid; any memory is valid for any input. It is never
// written to: a search returns a new one.
type Memory struct {
	seen     []seen // by node name
	ground   ground // what stands, and beside it by machine:
	names    []string
	pods     [][]*model.Pod
	taints   []int
	anti     [][]*model.Class      // of the pods there, those whose anti-affinity keeps others away
	types    []*model.InstanceType // of all pools
	rules    string                // of the pools
	left     map[string]int64
	expected string // Input.Expected
	prices   prices

	grown   int64 // worth of the room that has come free since the prices were made; only ever rises
	dirty   bool  // something is different since then, or it found a move: another might find one
	awaited int   // pods on their way

	Judged       []string // nodes that the last search gave a verdict on
	Work         int64    // steps of the last search, for whoever measures
	LastWideWork int64    // of the last wide one
	Unfinished   bool     // the last search left machines for another
	WasWide      bool     // it was a wide one
}

// seen is a machine as it was when it was looked at last.
type seen struct {
	unit  *Candidate
	node  *model.Node
	why   *plan.Reason // why it was left; nil: it was not examined
	short int64        // so much room must come free, at prices, before it can be worth moving
	at    int64        // grown then
}

// HasUnsearched says whether a wide search might find what the searches since the last one have not.
func (m *Memory) HasUnsearched() bool { return m.dirty || m.Unfinished }

// WhyKept is why a machine was left alone when it was last examined; an empty code: it was not.
func (m *Memory) WhyKept(node string) plan.Reason {
	i, ok := slices.BinarySearchFunc(m.seen, node, func(s seen, n string) int { return strings.Compare(s.node.Name, n) })
	if !ok || m.seen[i].why == nil {
		return plan.Reason{}
	}
	return *m.seen[i].why
}

// forget begins anew.
func (m *Memory) forget() {
	for i := range m.seen {
		m.seen[i].why = nil
	}
	m.prices, m.grown, m.dirty, m.Unfinished = nil, 0, false, false
}

// compare notes what is different from the last search in a new memory, and gives the floor as it is now.
func compare(in *Input, old Memory) (Memory, *floor) {
	m := old
	m.Work, m.WasWide, m.Judged = 0, false, nil
	var rules strings.Builder
	var types []*model.InstanceType
	for _, p := range in.Pools {
		rules.WriteString(p.Name + "|" + p.Requirements.Key() + "|" + p.ConsolidationPolicy + "|" + strconv.FormatBool(p.Ready) + "|" + p.Limits.Key() + "|" + strconv.FormatInt(p.NodeLimit, 10) + "\n")
		types = append(types, p.Types...)
	}
	anew := old.prices == nil
	if rules.String() != m.rules || !slices.Equal(types, m.types) { // all that was reckoned with prices is void
		anew, m.prices = true, nil
		m.rules, m.types = rules.String(), types
	}
	for p, n := range in.BudgetLeft {
		if more := n - m.left[p]; more != 0 { // they may go in larger sets, or in others of those that are left
			m.dirty = true
		}
	}
	m.left = in.BudgetLeft
	m.dirty = m.dirty || len(in.UnboundInTransit) != m.awaited || in.ForecastKey != m.expected
	m.expected = in.ForecastKey
	m.awaited = len(in.UnboundInTransit)
	f := m.stand(in, &old)
	m.units(in, old.seen, anew)
	if anew {
		m.dirty = true
	}
	return m, f
}

// stand is the floor as it is now; with it goes what of it has come free since.
func (m *Memory) stand(in *Input, old *Memory) *floor {
	f := &floor{rooms: make([]*solve.Room, 0, len(old.names)+8)}
	f.begin()
	dims := len(in.ResourceNames)
	same := old.ground.at != nil && old.ground.nd == dims
	others := map[*model.Class]bool{}
	for i := range in.Nodes {
		r := &in.Nodes[i]
		if stands(r) {
			k := len(f.rooms)
			f.rooms = append(f.rooms, r)
			same = same && k < len(old.names) && old.names[k] == r.Name
		} else if !r.Drained {
			f.anti = repelling(r.Pods, f.anti, others)
		}
	}
	same = same && len(f.rooms) == len(old.names)
	n := len(f.rooms)
	m.pods, m.taints, m.anti = make([][]*model.Pod, n), make([]int, n), make([][]*model.Class, n)
	if same {
		f.ground = old.ground.clone()
		m.names = old.names
	} else {
		f.ground = newGround(f.rooms, dims)
		m.names = make([]string, n)
		m.dirty = true
	}
	for i, r := range f.rooms {
		j, known := i, same
		if !same {
			m.names[i] = r.Name
			j, known = old.ground.at[r.Name]
		}
		m.pods[i], m.taints[i] = r.Pods, len(r.Taints)
		if known && len(old.pods[j]) == len(r.Pods) && (len(r.Pods) == 0 || &old.pods[j][0] == &r.Pods[0]) {
			m.anti[i] = old.anti[j]
		} else {
			m.anti[i] = repelling(r.Pods, nil, map[*model.Class]bool{})
		}
		for _, c := range m.anti[i] {
			if !others[c] {
				others[c] = true
				f.anti = append(f.anti, c)
			}
		}
		switch {
		case !known || old.taints[j] > len(r.Taints):
			m.grown += m.prices.of(r.Free) + 1
			m.dirty = true
		case !old.ground.is(j, r):
			m.dirty = true
			for d, was := range old.ground.free[j*old.ground.nd : (j+1)*old.ground.nd] {
				if d < len(m.prices) {
					m.grown += int64(m.prices[d] * float64(max(0, r.Free.At(model.Dim(d))-was)))
				}
			}
			if same {
				f.ground.write(i, r)
				f.ground.set(i)
			}
		}
	}
	return f
}

// units keeps what is known of the machines that may go and have not changed.
func (m *Memory) units(in *Input, old []seen, anew bool) {
	m.seen = make([]seen, len(in.Candidates))
	j, same := 0, 0
	for i, u := range in.Candidates {
		s := &m.seen[i]
		if j >= len(old) || old[j].unit != u { // the same but for a few
			for j < len(old) && old[j].node != u.Node && old[j].node.Name < u.Node.Name {
				j++
			}
		}
		if j < len(old) && (old[j].unit == u || old[j].node == u.Node) {
			same++
			if *s = old[j]; anew {
				s.why = nil
			}
		}
		s.unit = u
		if s.node != u.Node {
			s.node = u.Node
		}
		if j < len(old) && (old[j].unit == u || old[j].node.Name == u.Node.Name) {
			j++
		}
	}
	m.dirty = m.dirty || same != len(in.Candidates) || same != len(old)
}

// stale says whether a machine wants another look.
func (m *Memory) stale(s *seen) bool { return s.why == nil || m.grown-s.at >= s.short }

// widen says whether a search of this scope is a wide one.
func (m *Memory) widen(scope Scope) bool { return scope == Wide && m.dirty }

// pricesOf are the prices of resources for all that stands on what may go.
func pricesOf(in *Input) prices {
	var demand model.Resources
	for _, u := range in.Candidates {
		for _, p := range u.Pods {
			demand = demand.AddInto(p.Class.Requests, 1)
		}
	}
	return newPrices(in.Pools, demand, len(in.ResourceNames))
}

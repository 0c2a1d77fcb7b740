// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package asg

import (
	"slices"
	"sync"
)

// Registry is what this process knows of groups beside what AWS says: by group its state and the class that chose it,
// by claim which group was asked and what came of it.
type Registry struct {
	mu             sync.Mutex
	states         map[string]*groupState
	groupByClaim   map[string]string       // the group of an open claim, by the claim's uid
	unreadOutcomes map[string]claimOutcome // by claim uid: what it has not heard yet
	maxSizes       map[string]int64        // by group: how many its class allows
	classes        map[string]string       // by group: the class that chose it
	denials        map[string]error        // by group: why it could not be changed when that was last tried
}

// NewRegistry makes a Registry that knows of no group.
func NewRegistry() *Registry {
	return &Registry{states: map[string]*groupState{}, groupByClaim: map[string]string{}, unreadOutcomes: map[string]claimOutcome{}, maxSizes: map[string]int64{}, classes: map[string]string{}, denials: map[string]error{}}
}

// noteSelected notes that a class has chosen a group.
func (g *Registry) noteSelected(a *group, class string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.maxSizes[a.name], g.classes[a.name] = a.max, class
}

// GroupNames are the names of the groups that some class has chosen, sorted.
func (g *Registry) GroupNames() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []string
	for name := range g.states {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// noteOpen notes which group an open claim has asked.
func (g *Registry) noteOpen(uid, name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.groupByClaim[uid] = name
}

// groupOfClaim is the group that an open claim has asked; empty: none.
func (g *Registry) groupOfClaim(uid string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.groupByClaim[uid]
}

// noteClosed notes that a claim waits for no group any more.
func (g *Registry) noteClosed(uid string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.groupByClaim, uid)
}

// maxSizeOf is how many machines a group may have: as many as was described, or fewer where its class says so.
func (g *Registry) maxSizeOf(name string, described int64) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n, ok := g.maxSizes[name]; ok {
		return min(n, described)
	}
	return described
}

// noteChangeResult notes whether the last change of a group was permitted; nil: it was.
func (g *Registry) noteChangeResult(name string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil {
		delete(g.denials, name)
	} else {
		g.denials[name] = err
	}
}

// denialOf is why a group could not be changed when that was last tried; nil: it could.
func (g *Registry) denialOf(name string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.denials[name]
}

// keepOutcome keeps the outcome for a claim whose own call may be over, until its next call takes it.
func (g *Registry) keepOutcome(uid string, a claimOutcome) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unreadOutcomes[uid] = a
}

// takeOutcome takes the outcome that was kept for a claim; false: there is none.
func (g *Registry) takeOutcome(uid string) (claimOutcome, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	a, ok := g.unreadOutcomes[uid]
	delete(g.unreadOutcomes, uid)
	return a, ok
}

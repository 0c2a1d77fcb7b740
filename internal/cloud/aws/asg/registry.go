// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package asg

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
)

// Registry stores what this process knows about groups in addition to AWS: state and selecting class by group, requested
// group and result by claim.
type Registry struct {
	mu             sync.Mutex
	states         map[string]*groupState
	groupByClaim   map[string]string            // the group of an open claim, by the claim's uid
	unreadOutcomes map[string]claimOutcome      // by claim uid: what it has not heard yet
	maxSizes       map[string]int64             // by group: how many its class allows
	classes        map[string]string            // by group: the class that chose it
	tags           map[string]map[string]string // by group: as it was described last
	denials        map[string]map[string]error  // by group and call: why the call was not permitted when it was last tried

	choices map[string]map[string]choice // by group and uid of a class: classes that choose the group
}

// choice is that a class chooses a group.
type choice struct {
	class   string
	created time.Time // the class
	at      time.Time // when the class was last seen to choose it
}

// choiceLasts is how long a class counts as selecting a group after its last use. Offerings are requested more often,
// and the deletion of a class is not reported.
const choiceLasts = 3 * time.Minute

// NewRegistry returns an empty Registry.
func NewRegistry() *Registry {
	return &Registry{states: map[string]*groupState{}, groupByClaim: map[string]string{}, unreadOutcomes: map[string]claimOutcome{}, maxSizes: map[string]int64{}, classes: map[string]string{}, tags: map[string]map[string]string{}, denials: map[string]map[string]error{}, choices: map[string]map[string]choice{}}
}

// noteSelected notes that a class has chosen a group.
func (g *Registry) noteSelected(a *group, class string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.maxSizes[a.name], g.classes[a.name], g.tags[a.name] = a.max, class, a.tags
}

// tagsOf returns the tags of a group that a class has selected, as last read. Read-only.
func (g *Registry) tagsOf(name string) map[string]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.tags[name]
}

// noteChoices notes which groups a class chooses now, and returns the other class for those of them that are not its
// own: of several classes the oldest keeps a group, of equally old ones the first by name.
func (g *Registry) noteChoices(c *nodeClass, groups map[string]bool, now time.Time) (keptBy map[string]string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	keptBy = map[string]string{}
	for group, by := range g.choices {
		if !groups[group] {
			delete(by, c.uid)
		}
	}
	for group := range groups {
		by := g.choices[group]
		if by == nil {
			by = map[string]choice{}
			g.choices[group] = by
		}
		mine := choice{c.name, c.created, now}
		by[c.uid] = mine
		first := mine
		for uid, x := range by {
			if now.Sub(x.at) > choiceLasts {
				delete(by, uid)
			} else if cmp.Or(x.created.Compare(first.created), strings.Compare(x.class, first.class)) < 0 {
				first = x
			}
		}
		if first.class != c.name {
			keptBy[group] = first.class
		}
	}
	return keptBy
}

// GroupNames returns the sorted names of the groups selected by a class.
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

// maxSizeOf returns the maximum size of a group: the described one, or a lower one set by its class.
func (g *Registry) maxSizeOf(name string, described int64) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n, ok := g.maxSizes[name]; ok {
		return min(n, described)
	}
	return described
}

// noteCall notes whether a call about a group, such as SetDesiredCapacity, was permitted. Errors other than a denial say
// nothing of that.
func (g *Registry) noteCall(name, call string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case err == nil:
		delete(g.denials[name], call)
	case awsapi.IsDenied(awsapi.ErrorCode(err)):
		if g.denials[name] == nil {
			g.denials[name] = map[string]error{}
		}
		g.denials[name][call] = awsapi.ReadableError(err)
	}
}

// denialsOf returns the denied calls about a group, each as a sentence with the missing permission, in the order of the
// calls.
func (g *Registry) denialsOf(name string) (out []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, call := range slices.Sorted(maps.Keys(g.denials[name])) {
		out = append(out, g.denials[name][call].Error()+"; allow "+call+" in the controller's IAM policy")
	}
	return out
}

// keepOutcome keeps the outcome for a claim whose own call may be over, until its next call takes it.
func (g *Registry) keepOutcome(uid string, a claimOutcome) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unreadOutcomes[uid] = a
}

// outcomeOf is the outcome that is kept for a claim; false: there is none.
func (g *Registry) outcomeOf(uid string) (claimOutcome, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	a, ok := g.unreadOutcomes[uid]
	return a, ok
}

// takeOutcome takes the outcome that was kept for a claim; false: there is none.
func (g *Registry) takeOutcome(uid string) (claimOutcome, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	a, ok := g.unreadOutcomes[uid]
	delete(g.unreadOutcomes, uid)
	return a, ok
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package shares

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// resourceShares shares the resources that one solve has room for (solve.MostExtendedResources) among namespaces, so
// that whoever asks for many of those that nodes have keeps no pod of another namespace from its node.
//
// Classes are admitted one by one. First comes the one that was looked at longest ago, so that each has its turn however
// many resources it asks for; then always the class with which its namespace has the fewest resources, then the one that
// was looked at longest ago. Those of virtual pods come after all others. A class that brings more resources than
// are left is set aside with a Reason and looked at again soon, later each time while that goes on.
// Pods that ask for none but the resources of every node are never set aside here, nor are any while the demand of all
// namespaces has room.
type resourceShares struct {
	now    time.Time
	before ResourceMemory
}

// SetAside are the classes that are set aside in a step, and why.
type SetAside map[*model.Class]plan.Reason

// ResourceMemory is the state that Resources keeps between steps. It is empty unless pods were set aside.
type ResourceMemory struct {
	looked map[string]time.Time // when classes that ask for extended resources were last admitted, by key
	Retry  retryTurn
}

// resourceDemand is the classes of one namespace that ask for extended resources which there are.
type resourceDemand struct {
	namespace string
	classes   []*resourceClass // those not yet looked at, in the order in which they are
	has       map[model.Dim]bool
}

// resourceClass is such a class.
type resourceClass struct {
	class   *model.Class
	virtual bool
	oldest  time.Time
	dims    []model.Dim
}

// Resources returns the classes that are set aside in this step, and the state to keep. The state of classes of undecided pods is
// kept.
func Resources(now time.Time, before ResourceMemory, undecided, demand []*model.Pod, nodes []solve.ExistingNode, pools []solve.Pool) (SetAside, ResourceMemory) {
	rs := &resourceShares{now, before}
	all, distinct := rs.byNamespace(demand, nodes, pools)
	if distinct <= solve.MostExtendedResources {
		return nil, before.Forget(undecided)
	}
	over, looked := rs.admit(all)
	keepLooked(looked, before.looked, undecided)
	return over, ResourceMemory{looked: looked, Retry: before.Retry.after(now)}
}

// Forget returns the state to keep if nothing is set aside: the classes of undecided pods.
func (m ResourceMemory) Forget(undecided []*model.Pod) (next ResourceMemory) {
	if len(undecided) > 0 {
		next = ResourceMemory{looked: map[string]time.Time{}, Retry: m.Retry}
		keepLooked(next.looked, m.looked, undecided)
	}
	return next
}

// Split returns the pods that are considered in this step, and decisions for the rest.
func (over SetAside) Split(pods []*model.Pod) (kept []*model.Pod, aside []plan.PodDecision) {
	if len(over) == 0 {
		return pods, nil
	}
	for _, p := range pods {
		if why, ok := over[p.Class]; ok {
			aside = append(aside, plan.PodDecision{Pod: p, Outcome: plan.Refused, Reasons: []plan.Reason{why}})
			continue
		}
		kept = append(kept, p)
	}
	return kept, aside
}

// byNamespace lists the classes that ask for extended resources which there are, and says how many of these.
func (rs *resourceShares) byNamespace(demand []*model.Pod, nodes []solve.ExistingNode, pools []solve.Pool) (all []*resourceDemand, distinct int) {
	byClass := map[*model.Class]*resourceClass{}
	asked := map[model.Dim]bool{}
	most := 0
	for _, p := range demand {
		if len(p.Class.Requests) <= int(model.FirstExtended) {
			continue
		}
		c := byClass[p.Class]
		if c == nil {
			c = &resourceClass{class: p.Class, virtual: true, oldest: p.Created}
			byClass[p.Class] = c
			most = max(most, len(p.Class.Requests))
			for d := model.FirstExtended; int(d) < len(p.Class.Requests); d++ {
				if p.Class.Requests[d] > 0 {
					c.dims = append(c.dims, d)
					asked[d] = true
				}
			}
		}
		if p.Created.Before(c.oldest) {
			c.oldest = p.Created
		}
		c.virtual = c.virtual && p.IsVirtual()
	}
	if len(asked) <= solve.MostExtendedResources {
		return nil, len(asked)
	}
	supplied := solve.SuppliedResources(nodes, pools, most)
	for d := range asked {
		if supplied[d] {
			distinct++
		}
	}
	byName := map[string]*resourceDemand{}
	for _, c := range byClass {
		c.dims = slices.DeleteFunc(c.dims, func(d model.Dim) bool { return !supplied[d] })
		if len(c.dims) == 0 {
			continue
		}
		d := byName[c.class.Namespace]
		if d == nil {
			d = &resourceDemand{namespace: c.class.Namespace, has: map[model.Dim]bool{}}
			byName[d.namespace], all = d, append(all, d)
		}
		d.classes = append(d.classes, c)
	}
	return all, distinct
}

// admit chooses the classes that are looked at in this step. It returns why the others are not, and when each was looked
// at last.
func (rs *resourceShares) admit(all []*resourceDemand) (over map[*model.Class]plan.Reason, looked map[string]time.Time) {
	for _, d := range all {
		slices.SortFunc(d.classes, func(a, b *resourceClass) int {
			return cmp.Or(model.CompareBools(a.virtual, b.virtual), rs.lookedAt(a).Compare(rs.lookedAt(b)), a.oldest.Compare(b.oldest), strings.Compare(a.class.Key, b.class.Key))
		})
	}
	slices.SortFunc(all, func(a, b *resourceDemand) int { return strings.Compare(a.namespace, b.namespace) })
	over, looked = map[*model.Class]plan.Reason{}, map[string]time.Time{}
	taken := map[model.Dim]bool{}
	for compare := rs.compareWaits; len(all) > 0; compare = rs.compareTurns {
		next := 0
		for i := range all {
			if compare(all[i], all[next]) < 0 {
				next = i
			}
		}
		d := all[next]
		c := d.classes[0]
		if len(taken)+countMissing(taken, c.dims) > solve.MostExtendedResources {
			over[c.class] = plan.Reason{Code: plan.ResourceShare, Detail: plan.OfResourceShare{Namespace: d.namespace, Have: len(c.dims), Most: solve.MostExtendedResources}}
			if was := rs.lookedAt(c); !was.IsZero() {
				looked[c.class.Key] = was
			}
		} else {
			looked[c.class.Key] = rs.now
			for _, x := range c.dims {
				taken[x], d.has[x] = true, true
			}
		}
		if d.classes = d.classes[1:]; len(d.classes) == 0 {
			all = slices.Delete(all, next, next+1)
		}
	}
	return over, looked
}

// compareWaits says whose next class has waited longest for its turn.
func (rs *resourceShares) compareWaits(a, b *resourceDemand) int {
	x, y := a.classes[0], b.classes[0]
	return cmp.Or(model.CompareBools(x.virtual, y.virtual), rs.lookedAt(x).Compare(rs.lookedAt(y)), x.oldest.Compare(y.oldest))
}

// compareTurns says which of two namespaces has the next class admitted.
func (rs *resourceShares) compareTurns(a, b *resourceDemand) int {
	x, y := a.classes[0], b.classes[0]
	return cmp.Or(model.CompareBools(x.virtual, y.virtual), cmp.Compare(len(a.has)+countMissing(a.has, x.dims), len(b.has)+countMissing(b.has, y.dims)),
		rs.lookedAt(x).Compare(rs.lookedAt(y)))
}

// lookedAt is when a class was last admitted while others were not; zero: it never was.
func (rs *resourceShares) lookedAt(c *resourceClass) time.Time { return rs.before.looked[c.class.Key] }

// countMissing is how many of the resources are not in a set.
func countMissing(set map[model.Dim]bool, dims []model.Dim) (n int) {
	for _, d := range dims {
		if !set[d] {
			n++
		}
	}
	return n
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package shares limits the demand of one step and divides it fairly among namespaces: by the work of solving it (Work), and by
// the number of extended resources (Resources). Pods beyond a namespace's share are set aside with a Reason and retried soon, so
// that no tenant blocks the pods of another.
//
// It places nothing. Each function returns what the next step should remember; a memory is immutable.
//
// Start reading at Work and Resources.
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

// workShares bounds how much work the demand of one step is, and shares it among namespaces: whoever may make pods in
// one namespace can ask for what takes long to decide on, and the pods of the others must not wait for that.
//
// A step has WorkInput.StepWork units, as solve.Estimate counts them. Each namespace with demand may have the same part of
// it; what one doesn't use is the others'. Of a namespace that asks for more, classes are looked at in turn: the one
// that was looked at longest ago first, then by age of its oldest pod. Its other pods are set aside with a Reason and
// looked at soon, later each time while that goes on.
type workShares struct {
	WorkInput
	before WorkMemory
}

// WorkInput contains the work budget of a step and the objects by which work is measured.
type WorkInput struct {
	Now      time.Time
	StepWork int64
	Pools    []*model.NodePool
	Nodes    []*model.Node
}

// WorkMemory is the state that Work keeps between steps. It is empty unless pods were set aside.
type WorkMemory struct {
	looked map[string]time.Time // when classes were last looked at, by key, of namespaces that ask for more than their part
	Retry  retryTurn
}

// classDemand is the pods of one class.
type classDemand struct {
	class  *model.Class
	oldest time.Time
	work   int64 // of the class after those before it
}

// namespaceDemand is the classes of one namespace, in the order in which they are looked at.
type namespaceDemand struct {
	name    string
	classes []*classDemand
	work    int64
	more    bool // there are classes whose work is not counted, as a whole step does not afford those before them
	share   int64
}

// reason is why a pod of the namespace is set aside.
func (d *namespaceDemand) reason() plan.Reason {
	return plan.Reason{Code: plan.WorkShare, Detail: plan.OfWorkShare{Namespace: d.name, Share: d.share, More: d.more, Work: d.work}}
}

// Work returns the demand that is considered in this step, decisions for the rest, and the state to keep. The state of classes of
// undecided pods is kept.
func Work(in WorkInput, before WorkMemory, demand, undecided []*model.Pod) (kept []*model.Pod, aside []plan.PodDecision, next WorkMemory) {
	ws := &workShares{in, before}
	all := ws.byNamespace(demand)
	ws.divide(all)
	over := map[*model.Class]plan.Reason{}
	looked := map[string]time.Time{}
	for _, d := range all {
		used := int64(0)
		for _, c := range d.classes {
			if used += c.work; used <= d.share {
				if d.work > d.share {
					looked[c.class.Key] = ws.Now
				}
				continue
			}
			if was, ok := ws.before.looked[c.class.Key]; ok {
				looked[c.class.Key] = was
			}
			over[c.class] = d.reason()
		}
	}
	keepLooked(looked, ws.before.looked, undecided)
	switch {
	case len(over) > 0:
		next = WorkMemory{looked: looked, Retry: ws.before.Retry.after(ws.Now)}
	case len(undecided) > 0:
		next = WorkMemory{looked: looked, Retry: ws.before.Retry}
	}
	if len(over) == 0 {
		return demand, nil, next
	}
	for _, p := range demand {
		if why, ok := over[p.Class]; ok {
			aside = append(aside, plan.PodDecision{Pod: p, Outcome: plan.Refused, Reasons: []plan.Reason{why}})
			continue
		}
		kept = append(kept, p)
	}
	return kept, aside, next
}

// keepLooked has when the classes of some pods were looked at last stay known.
func keepLooked(looked, before map[string]time.Time, pods []*model.Pod) {
	for _, p := range pods {
		if was, ok := before[p.Class.Key]; ok {
			looked[p.Class.Key] = was
		}
	}
}

// byNamespace lists the demand by namespace and class, the classes with the work that each is after those before it, as
// far as a step may afford them.
func (ws *workShares) byNamespace(demand []*model.Pod) []*namespaceDemand {
	byClass, byName := map[*model.Class]*classDemand{}, map[string]*namespaceDemand{}
	var all []*namespaceDemand
	for _, p := range demand {
		c := byClass[p.Class]
		if c != nil {
			if p.Created.Before(c.oldest) {
				c.oldest = p.Created
			}
			continue
		}
		c = &classDemand{class: p.Class, oldest: p.Created}
		byClass[p.Class] = c
		d := byName[p.Namespace]
		if d == nil {
			d = &namespaceDemand{name: p.Namespace}
			byName[p.Namespace], all = d, append(all, d)
		}
		d.classes = append(d.classes, c)
	}
	var standing solve.StandingRules
	solves := int64(1)
	if len(all) > 0 {
		solves = solve.CountSolves(ws.Pools, demand)
		namespaces := make(map[string]bool, len(all))
		for _, d := range all {
			namespaces[d.name] = true
		}
		standing = solve.CountStandingRules(ws.Nodes, namespaces)
	}
	for _, d := range all {
		slices.SortFunc(d.classes, func(a, b *classDemand) int {
			return cmp.Or(ws.before.looked[a.class.Key].Compare(ws.before.looked[b.class.Key]), a.oldest.Compare(b.oldest), strings.Compare(a.class.Key, b.class.Key))
		})
		estimate := solve.Estimate{Standing: standing, Solves: solves}
		for _, c := range d.classes {
			if d.more = d.work > ws.StepWork; d.more { // to count thousands that no step looks at takes as long as to look at some
				break
			}
			c.work = estimate.Add(c.class)
			d.work += c.work
		}
	}
	slices.SortFunc(all, func(a, b *namespaceDemand) int {
		return cmp.Or(cmp.Compare(a.work, b.work), strings.Compare(a.name, b.name))
	})
	return all
}

// divide gives each namespace its share, those that ask for least first, so that what they leave goes to the others.
// Of those that ask for more than is left for each, the one whose turn is first may have one class whatever that costs
// as long as a step affords it: else a class that is more work than a share would never be looked at.
func (ws *workShares) divide(all []*namespaceDemand) {
	left := ws.StepWork
	var first *namespaceDemand
	for i, d := range all {
		d.share = min(d.work, left/int64(len(all)-i))
		left -= d.share
		if d.share < d.classes[0].work && (first == nil || ws.turnOf(d).Before(ws.turnOf(first))) {
			first = d
		}
	}
	if first != nil {
		first.share = max(first.share, min(first.classes[0].work, ws.StepWork))
	}
}

// turnOf is when a namespace was last looked at; that of its class which comes next stands for it.
func (ws *workShares) turnOf(d *namespaceDemand) time.Time {
	return ws.before.looked[d.classes[0].class.Key]
}

// retryTurn is when pods that were set aside are due again: after firstRetry, twice as long each time, and at most
// after lastRetry.
type retryTurn struct {
	At    time.Time // zero: none are set aside
	times int       // for how many steps some have been
}

const (
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
)

// after is the next turn, of pods that are set aside now.
func (r retryTurn) after(now time.Time) retryTurn {
	return retryTurn{At: now.Add(model.Backoff(firstRetry, r.times, lastRetry)), times: r.times + 1}
}

// IsDue reports whether pods that were set aside must be considered now.
func (r retryTurn) IsDue(now time.Time) bool { return !r.At.IsZero() && !now.Before(r.At) }

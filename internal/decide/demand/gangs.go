// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package demand

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// A gang's demand is decided on together or refused together. All demand is solved first; if that places enough pods of each
// gang, the plan is the one that there would be without gangs. Otherwise the gangs that come short are left out, since what they
// took may be what others lack, and are then tried again in order (priority, age, name), several together and halved if that
// fails. A gang stays if no gang comes short with it. What is placed is decided by the solver each time, so the limits, set-aside
// capacity and constraints that bind single pods bind gangs too.

// GangNeed is a gang among the demand.
type GangNeed struct {
	Name     string
	Priority int32
	Created  time.Time // its oldest pod

	Least int // pods that must have a place for it to run
	Has   int // pods of it that have one already
	Need  int // pods of the demand that must be placed: Least without Has
	Given int // pods of it that are solved for; if fewer than Need, no plan can hold it
}

// GangTrial is a plan for some of the demand.
type GangTrial struct {
	Problem *solve.Problem
	Result  *solve.Result
	Lacks   func(gang string) []plan.Reason // why it leaves out the first pod of a gang that it leaves out; nil: it leaves none out
}

// maxGangPods bounds the pods that are solved for to find the gangs that have a place; a trial is counted as at least gangTrialPods.
const (
	maxGangPods   = 200_000
	gangTrialPods = 500
)

// GangChoice finds the gangs that have a place.
type GangChoice struct {
	gangs  []*GangNeed // in the order in which they are served
	demand []*model.Pod
	pack   func([]*model.Pod) GangTrial

	out  map[string]bool          // gangs that are left out
	why  map[string][]plan.Reason // by gang that came short: how far, and what kept a pod of it
	left int                      // pods that may still be solved for
}

// NewGangChoice returns a choice among the gangs of some demand, which pack solves for.
func NewGangChoice(gangs []*GangNeed, demand []*model.Pod, pack func([]*model.Pod) GangTrial) *GangChoice {
	slices.SortFunc(gangs, func(a, b *GangNeed) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name))
	})
	return &GangChoice{gangs: gangs, demand: demand, pack: pack, out: map[string]bool{}, why: map[string][]plan.Reason{}, left: maxGangPods}
}

// Place returns a plan that places enough pods of each gang or none, and the refusals of the pods that it leaves out for that.
func (gc *GangChoice) Place() (GangTrial, []solve.Refusal) {
	t := gc.pack(gc.demand)
	whole := gc.findShort(t)
	if len(whole) == 0 {
		return t, nil
	}
	for short := whole; len(short) > 0; short = gc.findShort(t) {
		for _, g := range short {
			gc.note(g, t)
			gc.out[g.Name] = true
		}
		t = gc.pack(gc.others())
	}
	var again []*GangNeed
	for _, g := range gc.gangs {
		if gc.out[g.Name] && g.Given >= g.Need {
			again = append(again, g)
		}
	}
	if len(again) == len(gc.out) && len(again) == len(whole) { // all of them together have been tried
		if len(again) > 1 {
			t = gc.readmitHalves(again, t)
		}
	} else {
		t = gc.readmit(again, t)
	}
	var refused []solve.Refusal
	for _, p := range gc.demand {
		if gc.out[p.Gang.Name] {
			refused = append(refused, solve.Refusal{Pod: p, Reasons: gc.why[p.Gang.Name]})
		}
	}
	return t, refused
}

// readmit puts gangs that are left out back into the plan t, as many as have a place together, and returns the plan with them.
func (gc *GangChoice) readmit(gangs []*GangNeed, t GangTrial) GangTrial {
	if len(gangs) == 0 || gc.left <= 0 {
		return t
	}
	for _, g := range gangs {
		delete(gc.out, g.Name)
	}
	with := gc.pack(gc.others())
	short := gc.findShort(with)
	if len(short) == 0 {
		return with
	}
	for _, g := range gangs {
		gc.out[g.Name] = true
	}
	if len(gangs) > 1 {
		return gc.readmitHalves(gangs, t)
	}
	if slices.Contains(short, gangs[0]) {
		gc.note(gangs[0], with)
	}
	return t
}

// readmitHalves puts back first one half of the gangs, then the other.
func (gc *GangChoice) readmitHalves(gangs []*GangNeed, t GangTrial) GangTrial {
	half := (len(gangs) + 1) / 2
	return gc.readmit(gangs[half:], gc.readmit(gangs[:half], t))
}

// others returns the demand without the gangs that are left out, and counts it as solved for.
func (gc *GangChoice) others() []*model.Pod {
	kept := make([]*model.Pod, 0, len(gc.demand))
	for _, p := range gc.demand {
		if !gc.out[p.Gang.Name] {
			kept = append(kept, p)
		}
	}
	gc.left -= max(len(kept), gangTrialPods)
	return kept
}

// findShort returns the gangs of which a plan places too few pods, but for those that are left out.
func (gc *GangChoice) findShort(t GangTrial) (short []*GangNeed) {
	placed := countPlaced(t.Result)
	for _, g := range gc.gangs {
		if !gc.out[g.Name] && placed[g.Name] < g.Need {
			short = append(short, g)
		}
	}
	return short
}

// note notes how many pods of a gang have a place in a plan that places too few of them, and what keeps the first of the others.
func (gc *GangChoice) note(g *GangNeed, t GangTrial) {
	gc.why[g.Name] = append([]plan.Reason{{Code: plan.GangTooLarge, Detail: plan.OfGangTooLarge{
		Gang: plan.Object(g.Name), Least: g.Least, Have: g.Has + countPlaced(t.Result)[g.Name]}}}, t.Lacks(g.Name)...)
}

// countPlaced counts the pods that a plan places, by gang.
func countPlaced(r *solve.Result) map[string]int {
	placed := map[string]int{}
	count := func(list []*model.Pod) {
		for _, p := range list {
			if p.HasGang() {
				placed[p.Gang.Name]++
			}
		}
	}
	for i := range r.OnNodes {
		count(r.OnNodes[i].Pods)
	}
	for i := range r.New {
		count(r.New[i].Pods)
	}
	return placed
}

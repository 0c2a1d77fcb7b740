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
// capacity and constraints that bind single pods bind gangs too. That includes the domain that a gang's pods must share, which is an
// affinity among them: the solver settles on a domain early, so a gang that comes short with it is also tried in each domain by itself.

// GangNeed is a gang with pods in the demand.
type GangNeed struct {
	Name     string
	Priority int32
	Created  time.Time // creation time of its oldest pod

	Least int // minimum number of its pods that must be placed
	Has   int // number of its pods that are already placed
	Need  int // number of pods of the demand that must be placed: Least minus Has
	Given int // number of its pods in the problem; if fewer than Need, no plan can place it

	Domain string // node label that must have the same value for all its pods; empty: none

	pods     []*model.Pod
	requests model.Resources // what Need of its pods ask for at least
}

// Room is the maximum amount of each resource that may be placed. A negative amount means no limit.
type Room model.Resources

// GangTrial is a plan for a part of the demand.
type GangTrial struct {
	Problem *solve.Problem
	Result  *solve.Result
	Lacks   func(gang string) (*model.Pod, []plan.Reason) // the first pod of a gang that is not placed, and why; nil: all are placed
}

// maxGangPods bounds the pods that are solved for to find the gangs that have a place; a trial is counted as at least gangTrialPods.
const (
	maxGangPods   = 200_000
	gangTrialPods = 500

	// maxSingleTrials bounds the trials of a gang in one domain, and of one for which there is no room, and maxDomains the domains that one
	// gang is tried in.
	maxSingleTrials = 32
	maxDomains      = 16
)

// Pins are the values of their domain labels to which gangs are pinned, by gang.
type Pins map[string]string

// GangChoice selects the gangs that can be placed.
type GangChoice struct {
	gangs  []*GangNeed // in the order in which they are served
	demand []*model.Pod
	pack   func([]*model.Pod, Pins) GangTrial
	values func(domain string) []string

	out  map[string]bool          // gangs that are left out
	why  map[string][]plan.Reason // by gang that came short: how far, and what kept a pod of it
	left int                      // pods that may still be solved for

	room   Room // of all demand
	pins   Pins // gangs that have a place in one domain only
	trials int  // that may still be made, see maxSingleTrials
}

// NewGangChoice returns a choice among the gangs of a demand, for at most room. pack solves for pods, and values returns the
// possible values of a domain label.
func NewGangChoice(gangs []*GangNeed, demand []*model.Pod, room Room, pack func([]*model.Pod, Pins) GangTrial, values func(domain string) []string) *GangChoice {
	slices.SortFunc(gangs, func(a, b *GangNeed) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name))
	})
	return &GangChoice{gangs: gangs, demand: demand, pack: pack, values: values, out: map[string]bool{}, why: map[string][]plan.Reason{}, left: maxGangPods,
		room: room, pins: Pins{}, trials: maxSingleTrials}
}

// Place returns a plan that places enough pods of each gang or none of its pods, and refusals for the pods left out for this
// reason.
func (gc *GangChoice) Place() (GangTrial, []solve.Refusal) {
	t := gc.pack(gc.demand, nil)
	whole := gc.findShort(t)
	if len(whole) == 0 {
		return t, nil
	}
	gc.sumRequests()
	for short := whole; len(short) > 0; short = gc.findShort(t) {
		for _, g := range short {
			gc.note(g, t, "")
			gc.out[g.Name] = true
		}
		t = gc.pack(gc.others(), gc.pins)
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
		} else if len(again) == 1 {
			t = gc.readmitInDomain(again[0], t)
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
	if !gc.hasRoom(gangs) {
		if len(gangs) > 1 {
			return gc.readmitHalves(gangs, t)
		}
		if gc.trials--; gc.trials < 0 { // it is tried only to find out how many of it would fit
			return t
		}
	}
	for _, g := range gangs {
		delete(gc.out, g.Name)
	}
	with := gc.pack(gc.others(), gc.pins)
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
		gc.note(gangs[0], with, "")
	}
	return gc.readmitInDomain(gangs[0], t)
}

// readmitInDomain puts a gang that must share a domain back into the plan t, in the domain in which that costs least. If there is none, it
// notes the domain in which most of its pods have a place.
func (gc *GangChoice) readmitInDomain(g *GangNeed, t GangTrial) GangTrial {
	if g.Domain == "" || gc.trials <= 0 || slices.ContainsFunc(g.pods, spreadsByAffinity) {
		return t
	}
	values := gc.values(g.Domain)
	best, most, pin := t, -1, ""
	for _, v := range values[:min(len(values), maxDomains)] {
		if gc.trials--; gc.trials < 0 || gc.left <= 0 {
			break
		}
		delete(gc.out, g.Name)
		gc.pins[g.Name] = v
		with := gc.pack(gc.others(), gc.pins)
		short := gc.findShort(with)
		gc.out[g.Name] = true
		switch placed := countPlaced(with.Result)[g.Name]; {
		case len(short) == 0:
			if pin == "" || with.Result.Cost.NewMicroPerHour < best.Result.Cost.NewMicroPerHour {
				best, pin = with, v
			}
		case slices.Contains(short, g) && placed > most:
			most = placed
			gc.note(g, with, v)
		}
	}
	delete(gc.pins, g.Name)
	if pin != "" {
		delete(gc.out, g.Name)
		gc.pins[g.Name] = pin
	}
	return best
}

// readmitHalves puts back first one half of the gangs, then the other.
func (gc *GangChoice) readmitHalves(gangs []*GangNeed, t GangTrial) GangTrial {
	half := (len(gangs) + 1) / 2
	return gc.readmit(gangs[half:], gc.readmit(gangs[:half], t))
}

// sumRequests finds out what each gang asks for at least.
func (gc *GangChoice) sumRequests() {
	byName := make(map[string]*GangNeed, len(gc.gangs))
	for _, g := range gc.gangs {
		byName[g.Name] = g
	}
	for _, p := range gc.demand {
		if g := byName[p.Gang.Name]; g != nil {
			g.pods = append(g.pods, p)
		}
	}
	amounts := []int64{}
	for _, g := range gc.gangs {
		for d := range gc.room {
			amounts = amounts[:0]
			for _, p := range g.pods {
				amounts = append(amounts, p.Class.Requests.At(model.Dim(d)))
			}
			slices.Sort(amounts)
			for _, n := range amounts[:min(g.Need, len(amounts))] {
				g.requests = g.requests.With(model.Dim(d), g.requests.At(model.Dim(d))+n)
			}
		}
	}
}

// hasRoom reports whether the gangs that are not left out and some more may have a place together, by the sums of what they ask for.
func (gc *GangChoice) hasRoom(more []*GangNeed) bool {
	var sum model.Resources
	for _, g := range gc.gangs {
		if !gc.out[g.Name] {
			sum = sum.AddInto(g.requests, 1)
		}
	}
	for _, g := range more {
		sum = sum.AddInto(g.requests, 1)
	}
	for d, most := range gc.room {
		if most >= 0 && sum.At(model.Dim(d)) > most {
			return false
		}
	}
	return true
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

// spreadsByAffinity reports whether a pod must be spread over the nodes that its node affinity allows: placed in one domain by its node
// affinity, it would be spread over that alone.
func spreadsByAffinity(p *model.Pod) bool {
	return slices.ContainsFunc(p.Class.Spread, func(s model.SpreadConstraint) bool { return s.Hard && !s.IgnoreAffinity })
}

// note notes how many pods of a gang have a place in a plan that places too few of them, and what keeps the first of the others. value is
// that of its domain label that it was tried with; empty: any.
func (gc *GangChoice) note(g *GangNeed, t GangTrial, value string) {
	d := plan.OfGangTooLarge{Gang: plan.Object(g.Name), Least: g.Least, Have: g.Has + countPlaced(t.Result)[g.Name], Domain: plan.Rule(g.Domain)}
	if value != "" {
		in := model.OneOf(g.Domain, value)
		d.Domain = plan.RuleOf(&in)
	}
	var rest []plan.Reason
	member, lacks := t.Lacks(g.Name)
	for _, r := range lacks {
		if value == "" || !isOfDomain(r, g.Domain) {
			rest = append(rest, r)
		}
	}
	if len(rest) > 0 && slices.ContainsFunc(g.pods, func(p *model.Pod) bool { return p.Class.Key != member.Class.Key }) {
		d.Member = member.Namespace + "/" + member.Name
	}
	gc.why[g.Name] = append([]plan.Reason{{Code: plan.GangTooLarge, Detail: d}}, rest...)
}

// isOfDomain reports whether a reason only says that pods that are pinned to a domain can't be elsewhere.
func isOfDomain(r plan.Reason, domain string) bool {
	switch d := r.Detail.(type) {
	case plan.OfPodAffinity:
		return d.OfGang
	case plan.OfRequirement:
		return d.Label == domain
	}
	return false
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

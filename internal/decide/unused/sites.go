// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package unused

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// launchSite is what unused launches are counted by. Without a template it is all pods, without a pool all pools.
type launchSite struct{ template, pool, group string } // the pool by uid

// Count is the unused launches of one site: a template of pods in a NodePool or node group. It is never written to, and is kept
// as JSON.
type Count struct {
	Basis    string // of the pool of the last
	Pool     string // by uid
	Times    int    // waves; 0: only others have ended launches
	Launches int
	At       time.Time // when the last wave was counted
	Until    time.Time // nothing is launched until then
	Wave     []string  // uids of the claims that were open then: they are of that wave
	Claim    string    // the last launch
	Node     string
	Owner    string // whom it was for, for people: as Launch.Owner
	NoPod    bool   `json:",omitempty"` // it was for no pod: only a launch that is of use ends it
	Cause    plan.Reason
	Micro    int64 // what the launches had cost when they were counted, micro-dollars

	Excused     int      `json:",omitempty"` // waves of launches that others ended, and that are not counted; of sites with a template and a pool
	ExcusedWave []string `json:",omitempty"` // uids of the claims that were open or had just ended at the last of these
}

// These are how long nothing is launched after so many waves of unused launches.
const (
	firstPause      = time.Minute      // after the first, if its node stands: what keeps pods away may be about to go. Any unused node is kept so long
	FirstRest       = 10 * time.Minute // after the second, then twice as long each time
	LongestRest     = time.Hour
	countKept       = time.Hour // a count is forgotten this long after its rest
	SiteFirstRest   = 5 * time.Minute
	siteLongestRest = 30 * time.Minute // as Cluster Autoscaler leaves a node group alone
	mostCounts      = 1000
	mostWave        = 200
	// MostExcused is how many waves of launches that others ended are not counted for a site.
	MostExcused = 3
)

// backOffAfter returns the back-off after the given number of waves of unused launches: how long nothing is launched at a site
// or, for a site without a template, how long the site is tried last.
func backOffAfter(k launchSite, times int, stands bool) time.Duration {
	switch {
	case k.template == "":
		return model.Backoff(SiteFirstRest, times-1, siteLongestRest)
	case times == 1 && stands && k.pool != "":
		return firstPause
	case times == 1:
		return 0 // other places are tried at once
	}
	return model.Backoff(FirstRest, times-2, LongestRest)
}

// siteCounts are the unused launches by site. What a copy of it holds does not change when it is written to.
type siteCounts struct {
	bySite  map[launchSite]Count
	changes int // counted
}

// counted returns the count of a site at which unused launches were counted; false: there is none.
func (sc *siteCounts) counted(k launchSite) (Count, bool) {
	c, ok := sc.bySite[k]
	return c, ok && c.Times > 0
}

// excuse returns a count with a launch that others have ended, and whether the launch is one of those that are not counted. open returns the uids of
// the launches that belong to the same wave.
func (c Count) excuse(x Ended, now time.Time, open func() []string) (Count, bool) {
	switch {
	case !x.External:
		return c, false
	case slices.Contains(c.ExcusedWave, x.UID):
		return c, true
	case c.Excused == MostExcused:
		return c, false
	}
	c.Excused++
	c.ExcusedWave = open()
	if c.Times == 0 {
		c.At, c.Until, c.Pool, c.Basis = now, now, x.Pool, x.Basis
	}
	return c, true
}

// sorted returns the sites of all counts in order.
func (sc *siteCounts) sorted() []launchSite {
	return slices.SortedFunc(maps.Keys(sc.bySite), compareSites)
}

func compareSites(a, b launchSite) int {
	return cmp.Or(strings.Compare(a.template, b.template), strings.Compare(a.pool, b.pool), strings.Compare(a.group, b.group))
}

// set sets the count of a site. Of too many, those whose rest ends first are forgotten.
func (sc *siteCounts) set(k launchSite, c Count) {
	if sc.bySite = maps.Clone(sc.bySite); sc.bySite == nil {
		sc.bySite = map[launchSite]Count{}
	}
	sc.bySite[k] = c
	for len(sc.bySite) > mostCounts {
		delete(sc.bySite, slices.MinFunc(sc.sorted(), func(a, b launchSite) int { return sc.bySite[a].Until.Compare(sc.bySite[b].Until) }))
	}
}

// drop forgets the counts that something is true of.
func (sc *siteCounts) drop(is func(launchSite, Count) bool) {
	next := maps.Clone(sc.bySite)
	if maps.DeleteFunc(next, is); len(next) < len(sc.bySite) {
		sc.bySite = next
		sc.changes++
	}
}

// reason returns why nothing is launched for pods; until is zero where the outcome of a launch is waited for.
func (c *Count) reason(until time.Time) plan.Reason {
	why := plan.Reason{Code: plan.UnusedLaunches, Detail: plan.OfUnusedLaunches{Cause: c.Cause.Code, Until: until, Said: plan.Words(c.Cause.Summary())}}
	if c.Cause.Code != plan.ClaimRefused { // else there is none
		why.Subject = plan.ObjectOf("nodeclaim", c.Claim)
	}
	return why
}

// ConditionType is the condition of a NodePool that is True while launches in it have served no pod.
const ConditionType = "UnusedLaunches"

// condition is what a pool's status should say of unused launches; an empty one: nothing, what it says stays.
func (sc *siteCounts) condition(p *model.NodePool) model.Condition {
	launches, micro := 0, int64(0)
	var last Count
	for _, k := range sc.sorted() {
		c := sc.bySite[k]
		if k.template == "" || k.pool != p.UID {
			continue
		}
		launches, micro = launches+c.Launches, micro+c.Micro
		if last.At.IsZero() || c.At.After(last.At) {
			last = c
		}
	}
	if launches == 0 {
		if p.Conditions[ConditionType].True() {
			return model.Condition{Status: "False", Reason: "PodsRan", Message: "pods run on the nodes that were launched for them"}
		}
		return model.Condition{}
	}
	served := " launches served no pod"
	if launches == 1 {
		served = " launch served no pod"
	}
	text := strconv.Itoa(launches) + served + " (cost $" + model.FormatMicro(micro) + "), the last for " + last.Owner
	if words := last.Cause.Summary(); words != "" {
		text += ": " + words
	}
	return model.Condition{Status: "True", Reason: string(last.Cause.Code), Message: text}
}

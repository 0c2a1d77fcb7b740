// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package unused

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Review looks at what is to be launched: launches that ended without the same pods are unused, and are counted. It
// reports whether one was counted. whyNotBound returns why verify is against binding a pod to the last node that it was to be
// bound to; an empty code: it is not.
func (ul *Launches) Review(nodes []solve.NewNode, whyNotBound func(*model.Pod) plan.Reason) (counted bool) {
	if len(ul.mem.ended) == 0 {
		return false
	}
	open := map[cluster.SlotKey][]int{} // places in ul.mem.ended
	for i := range ul.mem.ended {
		if x := &ul.mem.ended[i]; !x.Counted {
			k := x.key()
			open[k] = append(open[k], i)
		}
	}
	for i := range nodes {
		for _, p := range nodes[i].Pods {
			if p.Expected && !p.IsVirtual() {
				continue
			}
			k := ul.keyOf(p)
			for _, at := range open[k] {
				ul.count(at, ul.beneficiaryOf(p), whyNotBound(p))
				counted = true
			}
			delete(open, k)
		}
	}
	return counted
}

// beneficiary is whom launches are made for.
type beneficiary struct {
	template string
	name     string     // for people
	pod      *model.Pod // one of the pods; nil: it is a NodePool with a fixed number of nodes
}

// beneficiaryOf returns whom a launch for a pod is made for.
func (ul *Launches) beneficiaryOf(p *model.Pod) beneficiary {
	if p.IsVirtual() {
		return beneficiary{ul.templateOf(p.Class), nameOfBuffer(p), p}
	}
	return beneficiary{ul.templateOf(p.Class), "pods of " + ownerName(p), p}
}

// count counts an unused launch that was made for somebody who wants a node again. whyNotBound is why verify is against binding
// the pod; an empty code: it is not.
func (ul *Launches) count(at int, who beneficiary, whyNotBound plan.Reason) {
	x := ul.mem.ended[at]
	x.Counted = true
	if who.pod != nil {
		x.Cause = ul.causeFor(x, who.pod, whyNotBound)
	}
	if !slices.ContainsFunc(ul.mem.ended, func(o Ended) bool { return o.UID == x.UID && !o.Charged.IsZero() }) {
		x.Charged = x.Ended
		if x.Stands {
			x.Charged = ul.Now
		}
	}
	ul.mem.ended = slices.Clone(ul.mem.ended)
	ul.mem.ended[at] = x
	ul.mem.changes++
	ul.bump(launchSite{who.template, x.Pool, x.Group}, x, who)
	if x.Usable {
		ul.bump(launchSite{template: who.template}, x, who)
	} else if !ul.hasBecomeUsable(x) {
		ul.bump(launchSite{pool: x.Pool, group: x.Group}, x, who)
	}
	ul.out.Counted = append(ul.out.Counted, ul.describe(x, who))
}

// hasBecomeUsable reports whether a node that was launched where a launch was unused has become usable since.
func (ul *Launches) hasBecomeUsable(x Ended) bool {
	return slices.ContainsFunc(ul.Snapshot.Claims, func(c *model.Claim) bool {
		p := ul.Pool(c.Pool)
		return p != nil && p.UID == x.Pool && c.NodeGroup() == x.Group && c.Is(lifecycle.Initialized) && c.Conditions[lifecycle.Initialized].Since.After(x.Created)
	})
}

// bump counts an unused launch of a site: with the wave that it is of, or as a new one.
func (ul *Launches) bump(k launchSite, x Ended, who beneficiary) {
	c, was := ul.mem.counts[k]
	c.Launches++
	c.Micro += CostOf(x.Micro, x.Created, x.Charged)
	c.Claim, c.Node, c.Owner, c.Cause, c.Pool, c.Basis = x.Claim, x.Node, who.name, x.Cause, x.Pool, x.Basis
	c.NoPod = who.pod == nil || who.pod.IsVirtual()
	if !was || !slices.Contains(c.Wave, x.UID) {
		c.Times++
		c.At = ul.Now
		c.Until = ul.Now.Add(restAfter(k, c.Times, x.Stands))
		c.Wave = ul.openLaunches(k)
	}
	ul.mem.counts = maps.Clone(ul.mem.counts)
	if ul.mem.counts == nil {
		ul.mem.counts = map[launchSite]Count{}
	}
	ul.mem.counts[k] = c
	for len(ul.mem.counts) > mostCounts {
		ul.dropOldestCount()
	}
}

// dropOldestCount forgets the count whose rest ends first.
func (ul *Launches) dropOldestCount() {
	var oldest launchSite
	found := false
	for _, k := range ul.sortedSites() {
		if !found || ul.mem.counts[k].Until.Before(ul.mem.counts[oldest].Until) {
			oldest, found = k, true
		}
	}
	delete(ul.mem.counts, oldest) // of the copy that bump has made
}

// sortedSites returns the sites of all counts in order.
func (ul *Launches) sortedSites() []launchSite {
	return slices.SortedFunc(maps.Keys(ul.mem.counts), func(a, b launchSite) int {
		return strings.Compare(a.template+"\x00"+a.pool+"\x00"+a.group, b.template+"\x00"+b.pool+"\x00"+b.group)
	})
}

// restAfter is how long nothing is launched after so many waves of unused launches; of a site without a template, how long
// it is tried last.
func restAfter(k launchSite, times int, stands bool) time.Duration {
	switch {
	case k.template == "":
		return min(SiteFirstRest<<min(times-1, 10), siteLongestRest)
	case times == 1 && stands && k.pool != "":
		return firstPause
	case times == 1:
		return 0 // other places are tried at once
	}
	return min(FirstRest<<min(times-2, 10), LongestRest)
}

// openLaunches are the uids of launches of a site whose outcome is open, and of those that have just ended: none of them
// was made after what is counted now was known.
func (ul *Launches) openLaunches(k launchSite) (out []string) {
	here := func(pool, group string) bool { return k.pool == "" || k.pool == pool && k.group == group }
	for _, uid := range slices.Sorted(maps.Keys(ul.mem.held)) {
		if c := ul.mem.held[uid].claim; ul.Pool(c.Pool) != nil && here(ul.Pool(c.Pool).UID, c.NodeGroup()) {
			out = append(out, uid)
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(ul.mem.capacity)) {
		if c := ul.mem.capacity[uid].claim; ul.Pool(c.Pool) != nil && here(ul.Pool(c.Pool).UID, c.NodeGroup()) {
			out = append(out, uid)
		}
	}
	for i := range ul.mem.ended {
		if x := &ul.mem.ended[i]; here(x.Pool, x.Group) && !slices.Contains(out, x.UID) {
			out = append(out, x.UID)
		}
	}
	if len(out) > mostWave {
		out = out[len(out)-mostWave:] // those that ended last; of the rest, each counts as a wave of its own
	}
	return out
}

// CostOf is what a node costs from one instant to another, micro-dollars.
func CostOf(microPerHour int64, from, to time.Time) int64 {
	if !to.After(from) {
		return 0
	}
	return int64(float64(microPerHour) * to.Sub(from).Hours())
}

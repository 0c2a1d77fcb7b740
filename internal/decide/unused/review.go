// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package unused

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Launch is an unused launch.
type Launch struct {
	Claim, Group string
	Pool         *model.NodePool
	Owner        string      // display name of the owner of its pods
	Pod          *model.Pod  // one of the pods that it was for; nil: it was for no pod, or for a CapacityBuffer
	Cause        plan.Reason // the most likely cause
	Why          plan.Reason // message for the pods
	Micro        int64       // cost so far, in micro-dollars
	Times        int         // number of waves of unused launches there for these pods, including this one
	Until        time.Time   // nothing is launched there for these pods until then; zero: other places are tried first
}

// Cost is the additional cost of an unused launch since it was last reported, because its node still exists.
type Cost struct {
	Pool  string
	Micro int64 // micro-dollars
}

// describe tells of an unused launch that has just been counted.
func (ul *Launches) describe(x Ended, who beneficiary) Launch {
	c := ul.mem.counts.bySite[launchSite{who.template, x.Pool, x.Group}]
	v := Launch{Claim: x.Claim, Group: x.Group, Cause: x.Cause, Micro: CostOf(x.Micro, x.Created, x.Charged), Times: c.Times, Owner: who.name}
	if who.pod != nil && !who.pod.IsVirtual() {
		v.Pod = who.pod
	}
	if c.Until.After(ul.Now) {
		v.Until = c.Until
	}
	v.Why = c.reason(v.Until)
	for _, q := range ul.Snapshot.Pools {
		if q.UID == x.Pool {
			v.Pool, v.Why.Pool = q, q.Name
		}
	}
	return v
}

// ownerName names whose pod it is: namespace and name of its Deployment or controller, or its own.
func ownerName(p *model.Pod) string {
	return p.Namespace + "/" + cmp.Or(p.Deployment, p.Owner.Name, p.Name)
}

// Review looks at what is to be launched: launches that ended without the same pods are unused, and are counted. It
// reports whether one was counted. whyNotBound returns why verify is against binding a pod to the last node that it was to be
// bound to; an empty code: it is not.
func (ul *Launches) Review(nodes []solve.NewNode, whyNotBound func(*model.Pod) plan.Reason) (counted bool) {
	if len(ul.mem.ended.list) == 0 {
		return false
	}
	open := map[cluster.SlotKey][]int{} // places in ul.mem.ended.list
	for i := range ul.mem.ended.list {
		if x := &ul.mem.ended.list[i]; !x.Counted {
			k := x.key()
			open[k] = append(open[k], i)
		}
	}
	for i := range nodes {
		for _, p := range nodes[i].Pods {
			if p.Expected && !p.IsVirtual() {
				continue
			}
			k := keyOf(ul.View, p)
			for _, at := range open[k] {
				if x := ul.mem.ended.list[at]; x.Replaces && lifecycle.ToleratesDrain(p) {
					x.Counted = true // against nobody: the pods it was launched for ended with their node
					ul.mem.ended.set(at, x)
					continue
				}
				counted = ul.count(at, ul.beneficiaryOf(p), whyNotBound(p)) || counted
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
		return beneficiary{ul.templates.of(p.Class), nameOfBuffer(p), p}
	}
	return beneficiary{ul.templates.of(p.Class), "pods of " + ownerName(p), p}
}

// count counts an unused launch that was made for somebody who wants a node again. It reports whether it did: if a pod of the template has just come to a
// node that was launched there, what the launch has cost is told, and it counts only against the NodePool or group, if its node never became usable. whyNotBound is why verify is against binding the pod; an empty code: it is not.
func (ul *Launches) count(at int, who beneficiary, whyNotBound plan.Reason) bool {
	x := ul.mem.ended.list[at]
	x.Counted = true
	k := launchSite{who.template, x.Pool, x.Group}
	if c, excused := ul.mem.counts.bySite[k].excuse(x, ul.Now, func() []string { return ul.openLaunches(k) }); excused {
		ul.mem.counts.set(k, c)
		ul.mem.ended.set(at, x)
		return false
	}
	if who.pod != nil {
		x.Cause = ul.causeFor(x, who.pod, whyNotBound)
	}
	if !slices.ContainsFunc(ul.mem.ended.list, func(o Ended) bool { return o.UID == x.UID && !o.Charged.IsZero() }) {
		x.Charged = x.Ended
		if x.Stands {
			x.Charged = ul.Now
		}
	}
	ul.mem.ended.set(at, x)
	siteFails := !x.Usable && !ul.hasBecomeUsable(x)
	if siteFails {
		ul.bump(launchSite{pool: x.Pool, group: x.Group}, x, who)
	}
	if ul.served[k] {
		if v := ul.describe(x, who); v.Micro > 0 && v.Pool != nil {
			ul.out.Costs = append(ul.out.Costs, Cost{v.Pool.Name, v.Micro})
		}
		return siteFails
	}
	ul.bump(k, x, who)
	if x.Usable {
		ul.bump(launchSite{template: who.template}, x, who)
	}
	ul.out.Counted = append(ul.out.Counted, ul.describe(x, who))
	return true
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
	c := ul.mem.counts.bySite[k]
	c.Launches++
	c.Micro += CostOf(x.Micro, x.Created, x.Charged)
	c.Claim, c.Node, c.Owner, c.Cause, c.Pool, c.Basis = x.Claim, x.Node, who.name, x.Cause, x.Pool, x.Basis
	c.NoPod = who.pod == nil || who.pod.IsVirtual()
	if c.Times == 0 || !slices.Contains(c.Wave, x.UID) {
		c.Times++
		c.At = ul.Now
		c.Until = ul.Now.Add(backOffAfter(k, c.Times, x.Stands))
		c.Wave = ul.openLaunches(k)
	}
	ul.mem.counts.set(k, c)
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
		if c := ul.mem.capacity[uid].claim; !wantsLaunch(c) && ul.Pool(c.Pool) != nil && here(ul.Pool(c.Pool).UID, c.NodeGroup()) {
			out = append(out, uid)
		}
	}
	for i := range ul.mem.ended.list {
		if x := &ul.mem.ended.list[i]; here(x.Pool, x.Group) && !slices.Contains(out, x.UID) {
			out = append(out, x.UID)
		}
	}
	if len(out) > mostWave {
		out = out[len(out)-mostWave:] // those that ended last; of the rest, each counts as a wave of its own
	}
	return out
}

// StaticAllowance returns how many nodes may be launched now for a NodePool with a fixed number of them; negative: any
// number. Launches of it that ended unused are counted first: it wants a node again.
func (ul *Launches) StaticAllowance(p *model.NodePool) int {
	k := cluster.SlotKey{Class: staticClass, Owner: p.UID}
	t := templateOfKey(k)
	for at := range ul.mem.ended.list {
		if x := &ul.mem.ended.list[at]; !x.Counted && x.key() == k {
			ul.count(at, beneficiary{template: t, name: "the NodePool's own number of nodes (spec.replicas)"}, plan.Reason{})
		}
	}
	most := -1
	for _, at := range ul.mem.counts.sorted() {
		if _, ok := ul.mem.counts.counted(at); at.template != t || !ok {
			continue
		}
		b, _, until := ul.Bars.verdict(at)
		if b == barred {
			ul.out.WakeAt(until)
			return 0
		}
		most = 1
	}
	return most
}

// wantsLaunch reports whether a claim that somebody else has created has no instance yet.
func wantsLaunch(c *model.Claim) bool {
	return c.Maker != "" && c.ProviderID == "" && !c.Is(lifecycle.Launched) && c.Deleting.IsZero()
}

// reviewMade counts launches of NodeClaims of others that ended unused, where their makers want a node again.
func (ul *Launches) reviewMade() {
	for at := range ul.mem.ended.list {
		x := ul.mem.ended.list[at]
		if x.Counted || x.Class != madeClass {
			continue
		}
		again := slices.IndexFunc(ul.Snapshot.Claims, func(c *model.Claim) bool { return c.UID != x.UID && wantsLaunch(c) && keyOfMaker(c) == x.key() })
		if again >= 0 {
			ul.count(at, beneficiary{template: templateOfKey(x.key()), name: "NodeClaims created by " + x.Owner}, plan.Reason{})
		}
	}
}

// Wake has the step come again, and demand be solved, when the first rest ends that keeps one of some pods waiting.
func (ul *Launches) Wake(waiting []plan.PodDecision) {
	ul.mem.retryAt = time.Time{}
	if len(ul.mem.counts.bySite) == 0 {
		return
	}
	templates := map[string]bool{}
	for _, d := range waiting {
		if d.Outcome == plan.Refused {
			templates[ul.templates.of(d.Pod.Class)] = true
		}
	}
	for k, c := range ul.mem.counts.bySite {
		if templates[k.template] && ul.Now.Before(c.Until) && (ul.mem.retryAt.IsZero() || c.Until.Before(ul.mem.retryAt)) {
			ul.mem.retryAt = c.Until
		}
	}
	ul.out.WakeAt(ul.mem.retryAt)
}

// AreDue reports whether pods without a launch are to be evaluated again now, and otherwise when.
func (ul *Launches) AreDue() (bool, time.Time) {
	if ul.mem.retryAt.IsZero() {
		return false, time.Time{}
	}
	return ul.IsDue(ul.mem.retryAt)
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package unused

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// ruling is whether pods of a template are launched for at a site.
type ruling int

const (
	notBarred ruling = iota
	triedLast        // if no other place takes the pods
	barred           // not until some time, or until what came of another launch is known
)

// Bars contains what prevents launches, by count.
type Bars struct {
	rd        *reader
	counts    *siteCounts
	templates templateNames
	open      []openCapacity        // launches for no pod whose outcome is open
	softened  map[*model.Class]bool // classes for which no place is tried last: no other takes their pods
}

// verdict reports whether pods of a template are launched for at a site by what is counted of it, and if not until when:
// zero where that is not a matter of time.
func (ba *Bars) verdict(k launchSite) (ruling, Count, time.Time) {
	c, ok := ba.counts.counted(k)
	switch {
	case !ok:
		return notBarred, c, time.Time{}
	case k.template == "":
		if ba.rd.Now.Before(c.Until) {
			return triedLast, c, c.Until
		}
		return notBarred, c, time.Time{}
	case ba.rd.Now.Before(c.Until):
		return barred, c, c.Until
	}
	if probe := ba.openProbe(k, c, ""); probe != "" {
		c.Claim = probe
		return barred, c, time.Time{}
	}
	if k.pool == "" {
		return notBarred, c, time.Time{} // one node at a time: see HoldBack
	}
	return triedLast, c, time.Time{}
}

// openProbe returns the claim that is being tried after the last count of a site, but for one by name; empty: there is none.
func (ba *Bars) openProbe(k launchSite, c Count, but string) string {
	for _, name := range slices.Sorted(maps.Keys(ba.rd.Reservations)) {
		h := ba.rd.Reservations[name]
		p := ba.rd.Pool(h.Claim.Pool)
		if p == nil || h.Claim.UID != "" && slices.Contains(c.Wave, h.Claim.UID) || k.pool != "" && (k.pool != p.UID || k.group != h.Claim.NodeGroup()) {
			continue
		}
		if slices.ContainsFunc(h.Pods, func(q *model.Pod) bool { return q.Node == "" && ba.templates.of(q.Class) == k.template }) {
			return name
		}
	}
	for _, o := range ba.open {
		p := ba.rd.Pool(o.claim.Pool)
		if o.claim.Name == but || o.claim.UID != "" && slices.Contains(c.Wave, o.claim.UID) || k.pool != "" && (k.pool != p.UID || k.group != o.claim.NodeGroup()) {
			continue
		}
		if slices.ContainsFunc(o.keys, func(x cluster.SlotKey) bool { return templateOfKey(x) == k.template }) {
			return o.claim.Name
		}
	}
	return ""
}

// Pools returns the pools with what is not launched for the classes that wait for a node.
func (ba *Bars) Pools(pools []solve.Pool) []solve.Pool {
	if len(ba.counts.bySite) == 0 {
		return pools
	}
	classes := ba.waitingClasses()
	sites := ba.counts.sorted()
	for i := range pools {
		p := &pools[i]
		for _, c := range classes {
			t := ba.templates.of(c)
			for _, k := range sites {
				if k.pool != "" && k.pool != p.UID || k.template != "" && k.template != t {
					continue
				}
				b, count, until := ba.verdict(k)
				if b == notBarred || b == triedLast && ba.softened[c] {
					continue
				}
				p.Barred = append(p.Barred[:len(p.Barred):len(p.Barred)], solve.Bar{Class: c, Group: k.group, Why: count.reason(until)})
			}
		}
	}
	return pools
}

// IsEmpty reports whether no unused launch has been counted.
func (ba *Bars) IsEmpty() bool { return len(ba.counts.bySite) == 0 }

// Bar is why no node is launched for a pod, for explanations.
type Bar struct {
	plan.Reason
	Until time.Time   // zero: until the outcome of another launch is known
	Node  string      // the node of the last launch; empty: it had none
	Cause plan.Reason // why no pod ran on Node
}

// On returns what prevents a NodePool from launching a node for a pod, in the order of templates, pools and node groups.
func (ba *Bars) On(p *model.Pod, pool string) (out []Bar) {
	t := ba.templates.of(p.Class)
	for _, k := range ba.counts.sorted() {
		if k.template != t || k.pool != "" && (ba.rd.Pool(pool) == nil || ba.rd.Pool(pool).UID != k.pool) {
			continue
		}
		b, c, until := ba.verdict(k)
		if b != barred {
			continue
		}
		x := Bar{Reason: c.reason(until), Until: until, Node: c.Node, Cause: c.Cause}
		x.Pool = pool
		out = append(out, x)
	}
	return out
}

// OnStatic returns the reason that prevents a static NodePool from launching a node, and reports whether there is one.
func (ba *Bars) OnStatic(p *model.NodePool) (Bar, bool) {
	t := templateOfKey(cluster.SlotKey{Class: staticClass, Owner: p.UID})
	for _, k := range ba.counts.sorted() {
		if k.template != t {
			continue
		}
		if b, c, until := ba.verdict(k); b == barred {
			x := Bar{Reason: c.reason(until), Until: until, Node: c.Node, Cause: c.Cause}
			x.Pool = p.Name
			return x, true
		}
	}
	return Bar{}, false
}

// OnMade returns what keeps the instance of a NodeClaim that somebody else has created from being launched: launches of its maker that were of no use; false: nothing.
// Until is zero where another launch of the maker is being tried. Tried is when the last rest ended, or will.
func (ba *Bars) OnMade(c *model.Claim) (x Bar, tried time.Time, is bool) {
	if !wantsLaunch(c) || ba.IsEmpty() {
		return Bar{}, time.Time{}, false
	}
	t, pool := templateOfKey(keyOfMaker(c)), ba.rd.Pool(c.Pool)
	for _, k := range ba.counts.sorted() {
		if k.template != t || k.pool != "" && (pool == nil || k.pool != pool.UID || k.group != c.NodeGroup()) {
			continue
		}
		n, ok := ba.counts.counted(k)
		if !ok {
			continue
		}
		until := time.Time{}
		tried = model.LaterOf(tried, n.Until)
		if ba.rd.Now.Before(n.Until) {
			until = n.Until
		} else {
			n.Claim = ba.openProbe(k, n, c.Name)
			if probe := ba.rd.Claim(n.Claim); probe == nil || wantsLaunch(probe) && probe.Name > c.Name {
				continue // of several that come at once, the first by name is tried
			}
		}
		if !is || until.After(x.Until) {
			x, is = Bar{Reason: n.reason(until), Until: until, Node: n.Node, Cause: n.Cause}, true
			x.Pool = c.Pool
		}
	}
	return x, tried, is
}

// NodesInPause returns the nodes that stand unused while their pods wait for what keeps them away to go, and until when: it
// may go from the node, too.
func (ba *Bars) NodesInPause() map[string]time.Time {
	if len(ba.counts.bySite) == 0 {
		return nil
	}
	out := map[string]time.Time{}
	for _, c := range ba.waitingClasses() {
		t := ba.templates.of(c)
		for k, x := range ba.counts.bySite {
			if until := x.At.Add(firstPause); k.template == t && k.pool != "" && ba.rd.Now.Before(until) && ba.rd.FindNode(x.Node) >= 0 {
				out[x.Node] = until
			}
		}
	}
	return out
}

// waitingClasses are the classes of pods that a node is wanted for, by key.
func (ba *Bars) waitingClasses() (out []*model.Class) {
	seen := map[*model.Class]bool{}
	for _, pods := range [][]*model.Pod{ba.rd.Snapshot.Pending, ba.rd.Leaving} {
		for _, p := range pods {
			if !seen[p.Class] {
				seen[p.Class] = true
				out = append(out, p.Class)
			}
		}
	}
	for _, b := range ba.rd.Snapshot.Buffers {
		if b.Like != nil && !seen[b.Like.Class] {
			seen[b.Like.Class] = true
			out = append(out, b.Like.Class)
		}
	}
	slices.SortFunc(out, func(a, b *model.Class) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// Soften has the classes of refused pods try the places too that are tried last. It reports whether that may help one.
func (ba *Bars) Soften(refused []solve.Refusal) (some bool) {
	if len(ba.counts.bySite) == 0 {
		return false
	}
	for _, r := range refused {
		if ba.softened[r.Pod.Class] || !ba.isTriedLastSomewhere(r.Pod.Class) {
			continue
		}
		if ba.softened == nil {
			ba.softened = map[*model.Class]bool{}
		}
		ba.softened[r.Pod.Class], some = true, true
	}
	return some
}

func (ba *Bars) isTriedLastSomewhere(c *model.Class) bool {
	t := ba.templates.of(c)
	for k := range ba.counts.bySite {
		if k.template == "" || k.template == t {
			if b, _, _ := ba.verdict(k); b == triedLast {
				return true
			}
		}
	}
	return false
}

// HoldBack returns pods that wait for what comes of one node: where launches for their template were unused, one is
// tried at a time. None waits that belongs to a gang: a part of a gang can't be tried.
func (ba *Bars) HoldBack(nodes []solve.NewNode) (held map[*model.Pod]plan.Reason) {
	if len(ba.counts.bySite) == 0 {
		return nil
	}
	tried := map[launchSite]bool{}
	for i := range nodes {
		n := &nodes[i]
		pool := ba.rd.Pool(n.Pool)
		group := n.Offering.Labels[model.LabelNodeGroup]
		here := map[launchSite]bool{}
		for _, p := range n.Pods {
			t := ba.templates.of(p.Class)
			for _, k := range []launchSite{{t, pool.UID, group}, {template: t}} {
				c, ok := ba.counts.counted(k)
				switch {
				case !ok || p.IsPlacedTogether():
				case tried[k]:
					if held == nil {
						held = map[*model.Pod]plan.Reason{}
					}
					why := c.reason(time.Time{})
					why.Pool = n.Pool
					held[p] = why
				default:
					here[k] = true
				}
			}
		}
		for k := range here {
			tried[k] = true
		}
	}
	return held
}

// FindResting finds pods that kube-scheduler has left standing nodes unused for, and for which nothing is launched
// anywhere for now. They are not solved for: the nodes that are closed to them stay open to others. isLeft reports whether
// kube-scheduler has left standing nodes unused for a pod.
func (ba *Bars) FindResting(left []*model.Pod, isLeft func(*model.Pod) bool) (kept, resting []*model.Pod, refused []plan.PodDecision) {
	if len(ba.counts.bySite) == 0 {
		return left, nil, nil
	}
	for _, p := range left {
		if isLeft(p) {
			if b, c, until := ba.verdict(launchSite{template: ba.templates.of(p.Class)}); b == barred {
				resting = append(resting, p)
				refused = append(refused, plan.PodDecision{Pod: p, Outcome: plan.Refused, Reasons: []plan.Reason{c.reason(until)}})
				continue
			}
		}
		kept = append(kept, p)
	}
	return kept, resting, refused
}

// Condition is what a pool's status should say of unused launches; an empty one: nothing, what it says stays.
func (ba *Bars) Condition(p *model.NodePool) model.Condition { return ba.counts.condition(p) }

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

// verdict reports whether pods of a template are launched for at a site by what is counted of it, and if not until when:
// zero where that is not a matter of time.
func (ul *Launches) verdict(k launchSite) (ruling, Count, time.Time) {
	c, ok := ul.mem.counts[k]
	switch {
	case !ok:
		return notBarred, c, time.Time{}
	case k.template == "":
		if ul.Now.Before(c.Until) {
			return triedLast, c, c.Until
		}
		return notBarred, c, time.Time{}
	case ul.Now.Before(c.Until):
		return barred, c, c.Until
	}
	if probe := ul.openProbe(k, c); probe != "" {
		c.Claim = probe
		return barred, c, time.Time{}
	}
	if k.pool == "" {
		return notBarred, c, time.Time{} // one node at a time: see HoldBack
	}
	return triedLast, c, time.Time{}
}

// openProbe returns the claim that is being tried after the last count of a site; empty: there is none.
func (ul *Launches) openProbe(k launchSite, c Count) string {
	for _, name := range slices.Sorted(maps.Keys(ul.in.Reservations)) {
		h := ul.in.Reservations[name]
		p := ul.Pool(h.Claim.Pool)
		if p == nil || h.Claim.UID != "" && slices.Contains(c.Wave, h.Claim.UID) || k.pool != "" && (k.pool != p.UID || k.group != h.Claim.NodeGroup()) {
			continue
		}
		if slices.ContainsFunc(h.Pods, func(q *model.Pod) bool { return q.Node == "" && ul.templateOf(q.Class) == k.template }) {
			return name
		}
	}
	for _, o := range ul.capacity {
		p := ul.Pool(o.claim.Pool)
		if o.claim.UID != "" && slices.Contains(c.Wave, o.claim.UID) || k.pool != "" && (k.pool != p.UID || k.group != o.claim.NodeGroup()) {
			continue
		}
		if slices.ContainsFunc(o.keys, func(x cluster.SlotKey) bool { return templateOfKey(x) == k.template }) {
			return o.claim.Name
		}
	}
	return ""
}

// BarPools returns the pools with what is not launched for the classes that wait for a node.
func (ul *Launches) BarPools(pools []solve.Pool) []solve.Pool {
	if len(ul.mem.counts) == 0 {
		return pools
	}
	classes := ul.waitingClasses()
	sites := ul.sortedSites()
	for i := range pools {
		p := &pools[i]
		for _, c := range classes {
			t := ul.templateOf(c)
			for _, k := range sites {
				if k.pool != "" && k.pool != p.UID || k.template != "" && k.template != t {
					continue
				}
				b, count, until := ul.verdict(k)
				if b == notBarred || b == triedLast && ul.softened[c] {
					continue
				}
				p.Barred = append(p.Barred[:len(p.Barred):len(p.Barred)], solve.Bar{Class: c, Group: k.group, Why: ul.reason(count, until)})
			}
		}
	}
	return pools
}

// Bar is why no node is launched for a pod, as it is explained.
type Bar struct {
	plan.Reason
	Until time.Time   // zero: until the outcome of another launch is known
	Node  string      // the node of the last launch; empty: it had none
	Cause plan.Reason // why no pod came to node
}

// BarsOn returns what keeps a pool, by name, from launching a node for a pod, in the order of templates, pools and node groups.
func (ul *Launches) BarsOn(p *model.Pod, pool string) (out []Bar) {
	t := ul.templateOf(p.Class)
	for _, k := range ul.sortedSites() {
		if k.template != t || k.pool != "" && (ul.Pool(pool) == nil || ul.Pool(pool).UID != k.pool) {
			continue
		}
		b, c, until := ul.verdict(k)
		if b != barred {
			continue
		}
		x := Bar{Reason: ul.reason(c, until), Until: until, Node: c.Node, Cause: c.Cause}
		x.Pool = pool
		out = append(out, x)
	}
	return out
}

// NodesInPause returns the nodes that stand unused while their pods wait for what keeps them away to go, and until when: it
// may go from the node, too.
func (ul *Launches) NodesInPause() map[string]time.Time {
	if len(ul.mem.counts) == 0 {
		return nil
	}
	out := map[string]time.Time{}
	for _, c := range ul.waitingClasses() {
		t := ul.templateOf(c)
		for k, x := range ul.mem.counts {
			if k.template == t && k.pool != "" && x.Times == 1 && x.Node != "" && ul.Now.Before(x.Until) {
				out[x.Node] = x.Until
			}
		}
	}
	return out
}

// waitingClasses are the classes of pods that a node is wanted for, by key.
func (ul *Launches) waitingClasses() (out []*model.Class) {
	seen := map[*model.Class]bool{}
	for _, pods := range [][]*model.Pod{ul.Snapshot.Pending, ul.in.Leaving} {
		for _, p := range pods {
			if !seen[p.Class] {
				seen[p.Class] = true
				out = append(out, p.Class)
			}
		}
	}
	for _, b := range ul.Snapshot.Buffers {
		if b.Like != nil && !seen[b.Like.Class] {
			seen[b.Like.Class] = true
			out = append(out, b.Like.Class)
		}
	}
	slices.SortFunc(out, func(a, b *model.Class) int { return strings.Compare(a.Key, b.Key) })
	return out
}

// reason says why nothing is launched for pods; until is zero where the outcome of a launch is waited for.
func (ul *Launches) reason(c Count, until time.Time) plan.Reason {
	why := plan.Reason{Code: plan.UnusedLaunches, Detail: plan.OfUnusedLaunches{Cause: c.Cause.Code, Until: until, Said: plan.Words(c.Cause.Summary())}}
	if c.Cause.Code != plan.ClaimRefused { // else there is none
		why.Subject = plan.ObjectOf("nodeclaim", c.Claim)
	}
	return why
}

// Soften has the classes of refused pods try the places too that are tried last. It reports whether that may help one.
func (ul *Launches) Soften(refused []solve.Refusal) (some bool) {
	if len(ul.mem.counts) == 0 {
		return false
	}
	for _, r := range refused {
		if ul.softened[r.Pod.Class] || !ul.isTriedLastSomewhere(r.Pod.Class) {
			continue
		}
		if ul.softened == nil {
			ul.softened = map[*model.Class]bool{}
		}
		ul.softened[r.Pod.Class], some = true, true
	}
	return some
}

func (ul *Launches) isTriedLastSomewhere(c *model.Class) bool {
	t := ul.templateOf(c)
	for k := range ul.mem.counts {
		if k.template == "" || k.template == t {
			if b, _, _ := ul.verdict(k); b == triedLast {
				return true
			}
		}
	}
	return false
}

// HoldBack returns pods that wait for what comes of one node: where launches for their template were unused, one is
// tried at a time.
func (ul *Launches) HoldBack(nodes []solve.NewNode) (held map[*model.Pod]plan.Reason) {
	if len(ul.mem.counts) == 0 {
		return nil
	}
	tried := map[launchSite]bool{}
	for i := range nodes {
		n := &nodes[i]
		pool := ul.Pool(n.Pool)
		group := n.Offering.Labels[model.LabelNodeGroup]
		here := map[launchSite]bool{}
		for _, p := range n.Pods {
			t := ul.templateOf(p.Class)
			for _, k := range []launchSite{{t, pool.UID, group}, {template: t}} {
				c, ok := ul.mem.counts[k]
				switch {
				case !ok:
				case tried[k]:
					if held == nil {
						held = map[*model.Pod]plan.Reason{}
					}
					why := ul.reason(c, time.Time{})
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
func (ul *Launches) FindResting(left []*model.Pod, isLeft func(*model.Pod) bool) (kept, resting []*model.Pod, refused []plan.PodDecision) {
	if len(ul.mem.counts) == 0 {
		return left, nil, nil
	}
	for _, p := range left {
		if isLeft(p) {
			if b, c, until := ul.verdict(launchSite{template: ul.templateOf(p.Class)}); b == barred {
				resting = append(resting, p)
				refused = append(refused, plan.PodDecision{Pod: p, Outcome: plan.Refused, Reasons: []plan.Reason{ul.reason(c, until)}})
				continue
			}
		}
		kept = append(kept, p)
	}
	return kept, resting, refused
}

// Wake has the step come again, and demand be solved, when the first rest ends that keeps one of some pods waiting.
func (ul *Launches) Wake(waiting []plan.PodDecision) {
	ul.mem.retryAt = time.Time{}
	if len(ul.mem.counts) == 0 {
		return
	}
	templates := map[string]bool{}
	for _, d := range waiting {
		if d.Outcome == plan.Refused {
			templates[ul.templateOf(d.Pod.Class)] = true
		}
	}
	for k, c := range ul.mem.counts {
		if templates[k.template] && ul.Now.Before(c.Until) && (ul.mem.retryAt.IsZero() || c.Until.Before(ul.mem.retryAt)) {
			ul.mem.retryAt = c.Until
		}
	}
	ul.out.WakeAt(ul.mem.retryAt)
}

// AreDue reports whether pods that were kept from a launch are to be decided on again, and when they will be.
func (ul *Launches) AreDue() (bool, time.Time) {
	if ul.mem.retryAt.IsZero() {
		return false, time.Time{}
	}
	return ul.IsDue(ul.mem.retryAt)
}

// FailingGroup is a node group that is tried last, since nodes of it have not become usable of late.
type FailingGroup struct {
	Group string
	Why   plan.Reason
}

// FailingGroups returns the node groups that are tried last at an instant, by name.
func (m *Memory) FailingGroups(now time.Time) (out []FailingGroup) {
	for k, c := range m.counts {
		if k.template == "" && k.group != "" && now.Before(c.Until) {
			out = append(out, FailingGroup{k.group, c.Cause})
		}
	}
	slices.SortFunc(out, func(a, b FailingGroup) int { return strings.Compare(a.Group, b.Group) })
	return out
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package sim

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// schedulePods binds what fits, to the emptiest node or the fullest (Packs), the pods of the highest priority first. For
// one that fits nowhere it deletes pods of a lower priority, if there is a node that holds it then; of the rest it says
// that they are unschedulable.
func (c *Cluster) schedulePods() {
	waiting := byKey(c.on[""])
	if len(waiting) == 0 {
		return
	}
	slices.SortStableFunc(waiting, func(a, b *model.Pod) int { return cmp.Compare(b.Class.Priority, a.Class.Priority) })
	promised := map[string]model.Resources{}
	for _, p := range waiting {
		if _, assumed := c.late.assumed[p.UID]; p.Deleting.IsZero() && !p.Gated && !assumed {
			c.schedulePod(p, promised)
		}
	}
}

// schedulePod looks at one pod. promised is what pods that preempted others in this round will have, by node.
func (c *Cluster) schedulePod(p *model.Pod, promised map[string]model.Resources) {
	var best *model.Node
	var preempt victims
	if refused := c.isRefused(p); !refused && !c.Faults.refusesPod(p) {
		best, preempt = c.findNode(p, promised)
		if best == nil && preempt.node == "" && len(promised) == 0 {
			c.refusals.note(p)
		}
	}
	q := *p
	switch {
	case best != nil:
		if !c.bindLate(p, best.Name) {
			c.schedulerBinds(p, best)
		}
		return
	case preempt.node != "":
		for _, v := range preempt.pods {
			if v.Deleting.IsZero() {
				c.Tell(Event{Kind: Preempted, Pod: v, Object: v.Name, Text: "for " + p.Name})
				c.DeletePod(v, max(time.Second, v.GracePeriod))
			}
		}
		promised[preempt.node] = promised[preempt.node].Add(p.Class.Requests)
		if p.Nominated == preempt.node {
			return
		}
		q.Nominated = preempt.node
	case p.Nominated != "":
		q.Nominated = ""
	case p.Unschedulable.IsZero():
		q.Unschedulable = c.Now
	default:
		return
	}
	c.SetPod(&q)
}

// schedulerBinds binds a pod to the node that kube-scheduler has chosen: the API server looks at the pod alone. Those that come after see it there.
func (c *Cluster) schedulerBinds(p *model.Pod, n *model.Node) {
	q := *p
	q.Node, q.Bound, q.Nominated = n.Name, c.Now, ""
	c.startPod(&q)
	c.tellOverfilled(n, &q)
	c.SetPod(&q)
}

// findNode returns the node that a pod is bound to; nil: none has room, and these are the pods to delete for it, if that helps.
func (c *Cluster) findNode(p *model.Pod, promised map[string]model.Resources) (best *model.Node, preempt victims) {
	tolerations := slices.Clone(p.Class.Tolerations)
	for _, claim := range p.Reservations {
		tolerations = append(tolerations, model.Toleration{Key: model.TaintReserved, Value: claim, Effect: model.NoSchedule})
	}
	apart := c.topologyOf(p.Class)
	allows := func(n *model.Node) bool {
		return model.Untolerated(c.late.taintsOf(c.Now, n), tolerations) == nil && p.Class.AllowsStanding(n.Labels, n.Name) && apart.allows(n) && mayUseVolumes(p.Class, n)
	}
	roomOn := func(n *model.Node) model.Resources {
		return n.Allocatable.Sub(c.used[n.Name]).Sub(promised[n.Name]).Add(c.late.unseenOn(c, n.Name))
	}
	if c.Prefers != nil {
		if n := c.Nodes[c.Prefers(p)]; n != nil && allows(n) && p.Class.Requests.Fits(roomOn(n)) {
			return n, victims{}
		}
	}
	preempts := p.Class.Preempts && c.hasPodsBelow(p.Class.Priority)
	score := int64(math.MinInt64)
	for _, n := range c.sorted {
		if !allows(n) {
			continue
		}
		room := roomOn(n)
		if !p.Class.Requests.Fits(room) {
			if !preempts {
				continue
			}
			if v := c.victimsOn(n.Name, p.Class, room); len(v.pods) > 0 && (preempt.node == "" || v.isBetterThan(preempt)) {
				preempt = v
			}
			continue
		}
		s := room.At(model.CPU)
		if c.Packs {
			s = -s
		}
		if s > score {
			best, score = n, s
		}
	}
	return best, preempt
}

// mayUseVolumes reports whether a node has the drivers and the labels that the volumes of a class require.
func mayUseVolumes(class *model.Class, n *model.Node) bool {
	for i := range class.Volumes {
		v := &class.Volumes[i]
		if v.Registers && !slices.Contains(n.CSIDrivers, v.Driver) || len(v.Standing) > 0 && !slices.ContainsFunc(v.Standing, func(rs model.Requirements) bool { return rs.Matches(n.Labels) }) {
			return false
		}
	}
	return true
}

// isRefused reports whether it is known that no node has room for a pod. It is never known if what kube-scheduler sees changes with time.
func (c *Cluster) isRefused(p *model.Pod) bool {
	if len(c.late.nodes)+len(c.late.pods)+len(c.late.assumed) > 0 {
		return false
	}
	at, ok := c.refusals.of[p.Class][strings.Join(p.Reservations, " ")]
	return ok && at == c.refusals.happened(p.Class)
}

// victims are the pods that kube-scheduler deletes on a node for a pod of higher priority.
type victims struct {
	node    string
	pods    []*model.Pod
	highest int32
	sum     int64
}

// isBetterThan reports whether kube-scheduler prefers v: first the lowest priority of the most important victim, then the
// lowest sum, then the fewest.
func (v victims) isBetterThan(o victims) bool {
	return cmp.Or(cmp.Compare(v.highest, o.highest), cmp.Compare(v.sum, o.sum), cmp.Compare(len(v.pods), len(o.pods))) < 0
}

// hasPodsBelow reports whether there are pods of a lower priority.
func (c *Cluster) hasPodsBelow(priority int32) bool {
	for class := range c.ofClass {
		if class.Priority < priority {
			return true
		}
	}
	return false
}

// victimsOn returns the pods of lower priority on a node without which a pod of a class fits into what is free there, those of
// the lowest priority first; none: it doesn't fit without them either. Pods that are ending already count as victims that
// cost nothing.
func (c *Cluster) victimsOn(node string, class *model.Class, room model.Resources) victims {
	var lower []*model.Pod
	for _, p := range c.on[node] { // the order of lower is made below
		if p.Class.Priority < class.Priority {
			lower = append(lower, p)
			room = room.Add(p.Class.Requests)
		}
	}
	if !class.Requests.Fits(room) {
		return victims{}
	}
	// Those that can stay do, the most important first.
	slices.SortStableFunc(lower, func(a, b *model.Pod) int {
		if a.Deleting.IsZero() != b.Deleting.IsZero() {
			if a.Deleting.IsZero() {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.Class.Priority, a.Class.Priority), cmp.Compare(a.Key(), b.Key()))
	})
	v := victims{node: node, highest: math.MinInt32}
	for _, p := range lower {
		if left := room.Sub(p.Class.Requests); class.Requests.Fits(left) {
			room = left
			continue
		}
		v.pods = append(v.pods, p)
		if p.Deleting.IsZero() {
			v.highest, v.sum = max(v.highest, p.Class.Priority), v.sum+int64(p.Class.Priority)+1<<31
		}
	}
	return v
}

// topology is what the required anti-affinity of a class and its required spread leave of the domains.
type topology struct {
	closed map[string]map[string]bool // by topology key: domains with a pod that the class keeps away from
	spread []domains
}

// domains are how many pods count in each domain of a spread constraint.
type domains struct {
	key   string
	pods  map[string]int
	least int
	skew  int
}

// topologyOf counts for a class. Pods of other classes that keep away from it are not looked at.
func (c *Cluster) topologyOf(class *model.Class) topology {
	t := topology{closed: map[string]map[string]bool{}}
	for _, term := range class.AntiAffinity {
		closed := map[string]bool{}
		for other, pods := range c.ofClass {
			if !slices.Contains(term.Selector.Namespaces, other.Namespace) || term.Selector.Pods == nil || !term.Selector.Pods.Matches(other.Labels) {
				continue
			}
			for _, p := range pods {
				if n := c.Nodes[p.Node]; n != nil {
					closed[n.Labels[term.TopologyKey]] = true
				}
			}
		}
		if had := t.closed[term.TopologyKey]; had != nil {
			maps.Copy(closed, had)
		}
		t.closed[term.TopologyKey] = closed
	}
	for _, s := range class.Spread {
		if !s.Hard {
			continue
		}
		d := domains{key: s.TopologyKey, pods: map[string]int{}, least: math.MaxInt, skew: int(s.MaxSkew)}
		for _, n := range c.Nodes {
			if class.AllowsStanding(n.Labels, n.Name) {
				d.pods[n.Labels[s.TopologyKey]] += 0
			}
		}
		for other, pods := range c.ofClass {
			if other.Namespace != class.Namespace || s.Selector == nil || !s.Selector.Matches(other.Labels) {
				continue
			}
			for _, p := range pods {
				if n := c.Nodes[p.Node]; n != nil && p.Deleting.IsZero() && class.AllowsStanding(n.Labels, n.Name) {
					d.pods[n.Labels[s.TopologyKey]]++
				}
			}
		}
		for _, n := range d.pods {
			d.least = min(d.least, n)
		}
		t.spread = append(t.spread, d)
	}
	return t
}

func (t topology) allows(n *model.Node) bool {
	for key, closed := range t.closed {
		if closed[n.Labels[key]] {
			return false
		}
	}
	for _, d := range t.spread {
		if d.pods[n.Labels[d.key]]+1-d.least > d.skew {
			return false
		}
	}
	return true
}

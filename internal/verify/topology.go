// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package verify

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// checkTopology replays the plan: all machines are up, and pods come one by one, each to its own node, as soon as
// kube-scheduler would let it. One order that works is enough. The first tried is the usual one. In the next, pods
// with spread come first, then those with affinity or anti-affinity; pods without rules come last, for they may come
// at any time, but once on a node can't be taken back. Classes that got stuck come earlier in the next order, all of
// them first, then one by one. Once all have come, spreads must hold as they would had the pod that has them come
// last: nobody says who comes first.
func (c *checker) checkTopology() {
	if !c.hasTopologyRules() {
		return
	}
	c.makeHosts()
	c.checkUnmadeVolumes()
	order := c.usualOrder()
	if stuck, crowded := c.replayInOrder(func(x arrival) int { return -order[x.pod.Class] }); len(stuck) == 0 {
		c.found = append(c.found, crowded...)
		return
	}
	var first []Violation
	earlier := map[*model.Class]int{}
	for try := range 12 {
		stuck, crowded := c.replayInOrder(func(x arrival) int {
			class := x.pod.Class
			return 1000*earlier[class] + 100*len(class.Spread) + 10*len(class.Affinity) + len(class.AntiAffinity)
		})
		if len(stuck) == 0 {
			c.found = append(c.found, crowded...)
			return
		}
		if first == nil {
			first = stuck
		}
		var classes []*model.Class
		for _, v := range stuck {
			if !slices.Contains(classes, v.Pod.Class) {
				classes = append(classes, v.Pod.Class)
			}
		}
		if try == 0 {
			for _, class := range classes {
				earlier[class]++
			}
			continue
		}
		earlier[classes[try%len(classes)]]++ // one alone: two that are stuck may be in each other's way
	}
	c.found = append(c.found, first...)
}

// usualOrder numbers classes in the order in which a planner would take them, which is worth trying first: by
// priority, those with most rules before those with few, those with affinity last, then large before small, and by
// key. All pods of one class come before those of the next.
func (c *checker) usualOrder() map[*model.Class]int {
	var total model.Resources
	var classes []*model.Class
	out := map[*model.Class]int{}
	for _, p := range c.in.Demand {
		total = total.AddInto(p.Class.Requests, 1)
		if _, ok := out[p.Class]; !ok {
			out[p.Class] = 0
			classes = append(classes, p.Class)
		}
	}
	ties := func(x *model.Class) int {
		n := 0
		if len(x.Spread) > 0 {
			n++
		}
		if len(x.AntiAffinity) > 0 || len(x.HostPorts) > 0 {
			n++
		}
		if len(x.Affinity) > 0 {
			n = -1
		}
		return n
	}
	size := map[*model.Class]int64{}
	for _, x := range classes {
		for d, v := range x.Requests {
			if sum := total.At(model.Dim(d)); sum > 0 {
				size[x] += v * 1_000_000 / (sum/int64(len(c.in.Demand)) + 1)
			}
		}
	}
	slices.SortStableFunc(classes, func(a, b *model.Class) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(ties(b), ties(a)), cmp.Compare(size[b], size[a]), strings.Compare(a.Key, b.Key))
	})
	for i, x := range classes {
		out[x] = i
	}
	return out
}

// replayInOrder replays the plan in one order, higher ranks first, and returns who is stuck, and whom others would
// crowd out if they came first.
func (c *checker) replayInOrder(rank func(arrival) int) (stuck, crowded []Violation) {
	t := &replay{c: c, arrived: map[*host][]*model.Pod{}, memo: map[memoKey]bool{}, termsByClass: map[*model.Class]*classTerms{},
		known: map[countKey]*term{}, spreads: map[*model.SpreadConstraint]*term{}}
	var waiting []arrival
	for _, h := range c.hosts {
		for _, p := range h.planned {
			waiting = append(waiting, arrival{p, h})
		}
	}
	slices.SortStableFunc(waiting, func(a, b arrival) int { return rank(b) - rank(a) })
	t.registerTerms(waiting)
	for _, h := range c.hosts {
		for _, p := range h.pods {
			t.countPod(p, h)
		}
	}
	for _, x := range t.placeAll(slices.Clone(waiting), rank) {
		stuck = append(stuck, Violation{Rule: Topology, Pod: x.pod, Site: x.host.site, Detail: t.whyRefused(x.pod, x.host)})
	}
	type place struct {
		class *model.Class
		host  *host
	}
	seen := map[place]bool{}
	for _, x := range waiting {
		at := place{x.pod.Class, x.host}
		if seen[at] {
			continue
		}
		seen[at] = true
		for i := range x.pod.Class.Spread {
			if s := &x.pod.Class.Spread[i]; s.Hard {
				if why := t.whySpreadFails(x.pod.Class, s, x.host, 0); why != "" {
					crowded = append(crowded, Violation{Rule: Topology, Pod: x.pod, Site: x.host.site, Detail: "others may come first: " + why})
				}
			}
		}
	}
	return stuck, crowded
}

// checkUnmadeVolumes checks that pods which share a volume that is still to be made are in one zone.
func (c *checker) checkUnmadeVolumes() {
	at := map[string]string{}
	for _, planned := range []bool{false, true} {
		for _, h := range c.hosts {
			pods := h.pods
			if planned {
				pods = h.planned
			}
			for _, p := range pods {
				for _, v := range p.Class.Volumes {
					zone, ok := domainOf(h, model.LabelZone)
					if !v.Unmade || !ok {
						continue
					}
					if zone == "?" {
						zone = "of " + h.name
					}
					if was, used := at[v.Claim]; !used {
						at[v.Claim] = zone
					} else if planned && was != zone {
						c.addViolation(Topology, p, h.site, "volume %s will be made in zone %s", v.Claim, was)
					}
				}
			}
		}
	}
}

// placeAll lets pods come until none can, and returns those that could not. Pods of lower rank come when none of
// higher rank can.
func (t *replay) placeAll(waiting []arrival, rank func(arrival) int) (stuck []arrival) {
	for len(waiting) > 0 {
		n := 1
		for n < len(waiting) && rank(waiting[n]) == rank(waiting[0]) {
			n++
		}
		stuck = append(stuck, waiting[:n]...)
		waiting = waiting[n:]
		for moved := true; moved; {
			before := len(stuck)
			stuck = slices.DeleteFunc(stuck, func(x arrival) bool {
				if t.whyRefused(x.pod, x.host) != "" {
					return false
				}
				t.countPod(x.pod, x.host)
				t.arrived[x.host] = append(t.arrived[x.host], x.pod)
				return true
			})
			moved = len(stuck) < before
		}
	}
	return stuck
}

// hasTopologyRules reports whether any pod has a rule about where other pods are. Without one there is nothing to replay.
func (c *checker) hasTopologyRules() bool {
	for _, p := range c.in.Demand {
		if x := p.Class; len(x.Spread) > 0 || len(x.Affinity) > 0 || len(x.AntiAffinity) > 0 ||
			slices.ContainsFunc(x.Volumes, func(v model.Volume) bool { return v.Unmade }) {
			return true
		}
	}
	if slices.ContainsFunc(c.in.Daemons, func(d *model.Daemon) bool { return len(d.Pod().AntiAffinity) > 0 }) {
		return true
	}
	for i := range c.in.Nodes {
		if c.in.Nodes[i].NoAnti {
			continue
		}
		for _, p := range c.in.Nodes[i].Pods {
			if len(p.Class.AntiAffinity) > 0 {
				return true
			}
		}
	}
	return false
}

// makeHosts lists nodes and machines to be bought, with the labels that are certain and the keys of those that are not.
func (c *checker) makeHosts() {
	byName := map[string]*host{}
	for i := range c.in.Nodes {
		r := &c.in.Nodes[i]
		if r.Drained {
			continue
		}
		h := &host{name: r.Name, site: Site{Node: r.Name}, labels: r.Labels, open: map[string]bool{}, taints: r.Taints, pods: r.Pods, closed: r.Closed, standing: standing(r) != nil}
		for _, q := range r.Open {
			h.open[q.Key] = true
		}
		c.hosts = append(c.hosts, h)
		byName[r.Name] = h
	}
	for _, a := range c.in.OnNodes {
		if h := byName[a.Node]; h != nil {
			h.planned = append(h.planned, a.Pods...)
			h.coming = c.daemonsToCome(c.nodes[a.Node])
		}
	}
	for i := range c.in.New {
		m := &c.in.New[i]
		p := c.pools[m.Pool]
		if p == nil {
			continue
		}
		h := &host{name: siteOf(i, m).String(), site: siteOf(i, m), labels: model.Labels{}, open: map[string]bool{}, taints: p.Taints, planned: m.Pods}
		first := true
		c.forEachOffering(p, m, func(_ *model.InstanceType, _ *model.Offering, v *variant) {
			if !slices.Contains(h.become, v) {
				h.become = append(h.become, v)
			}
			for k, x := range v.labels {
				if was, ok := h.labels[k]; first {
					h.labels[k] = x
				} else if !ok || was != x {
					h.open[k] = true
				}
			}
			for k := range h.labels {
				if _, ok := v.labels[k]; !ok {
					h.open[k] = true
				}
			}
			first = false
		})
		c.hosts = append(c.hosts, h)
	}
}

// whyRefused is why kube-scheduler would not place the pod on the host now; empty when it would.
func (t *replay) whyRefused(p *model.Pod, h *host) string {
	class := p.Class
	for i := range class.Spread {
		if s := &class.Spread[i]; s.Hard {
			self := 0
			if t.selectsClass(t.spreadTerm(class, s), class) {
				self = 1
			}
			if why := t.whySpreadFails(class, s, h, self); why != "" {
				return why
			}
		}
	}
	if why := t.whyAffinityFails(class, h); why != "" {
		return why
	}
	if why := t.whyNeighboursRefuse(class, h); why != "" {
		return why
	}
	if why := t.whyDaemonsRefuse(class, h); why != "" {
		return why
	}
	for _, x := range t.termsOf(class, true).anti {
		if t.countInDomain(x, h) > 0 {
			return "anti-affinity over " + x.key + ": a pod it selects is there"
		}
	}
	for _, x := range t.termsAgainst(class) {
		if t.countInDomain(x, h) > 0 {
			return "anti-affinity over " + x.key + ": a pod there has it against this one"
		}
	}
	return ""
}

// whyNeighboursRefuse is why anti-affinity over hosts keeps a class away from the pods that are on a host; empty when
// it does not. The pods there are few, while the terms of all pods may be very many: so each is asked, and nothing is
// counted.
func (t *replay) whyNeighboursRefuse(class *model.Class, h *host) string {
	var last *model.Class
	for _, pods := range [][]*model.Pod{h.pods, t.arrived[h]} {
		for _, p := range pods {
			if p.Class == last {
				continue
			}
			last = p.Class
			if t.avoidsOnHost(class, last) {
				return "anti-affinity over " + model.LabelHostname + ": a pod it selects is there"
			}
			if t.avoidsOnHost(last, class) {
				return "anti-affinity over " + model.LabelHostname + ": a pod there has it against this one"
			}
		}
	}
	return ""
}

// whyDaemonsRefuse is why anti-affinity, over whatever key, keeps a class away from pods of DaemonSets that are to come to a host;
// empty when it does not.
func (t *replay) whyDaemonsRefuse(class *model.Class, h *host) string {
	refused := func(coming []*model.Class) string {
		for _, daemon := range coming {
			for i := range class.AntiAffinity {
				if x := &class.AntiAffinity[i]; selects(&x.Selector, daemon, t.c.in.Namespaces) {
					return "anti-affinity over " + x.TopologyKey + ": a DaemonSet's pod that it selects comes there"
				}
			}
			for i := range daemon.AntiAffinity {
				if x := &daemon.AntiAffinity[i]; selects(&x.Selector, class, t.c.in.Namespaces) {
					return "anti-affinity over " + x.TopologyKey + ": a DaemonSet's pod that comes there has it against this one"
				}
			}
		}
		return ""
	}
	why := refused(h.coming)
	for _, v := range h.become {
		if why == "" {
			why = refused(v.coming)
		}
	}
	return why
}

// isNearAnyway reports whether a class's affinity holds on a host whatever that becomes: a DaemonSet's pod that comes there meets all its
// terms, or pods in all its domains do.
func (t *replay) isNearAnyway(class *model.Class, h *host) bool {
	holds := func(coming []*model.Class, domain func(key string) (string, bool)) bool {
		beside := slices.ContainsFunc(coming, func(daemon *model.Class) bool {
			return !slices.ContainsFunc(class.Affinity, func(x model.PodTerm) bool { return !selects(&x.Selector, daemon, t.c.in.Namespaces) })
		})
		return !slices.ContainsFunc(t.termsOf(class, true).affinity, func(x *term) bool {
			d, ok := domain(x.key)
			return !ok || !beside && (d == "?" || x.counts[d] == 0)
		})
	}
	if len(h.become) == 0 {
		return holds(h.coming, func(key string) (string, bool) { return domainOf(h, key) })
	}
	return !slices.ContainsFunc(h.become, func(v *variant) bool {
		return !holds(v.coming, func(key string) (string, bool) {
			if key == model.LabelHostname {
				return h.name, true
			}
			d, ok := v.labels[key]
			return d, ok
		})
	})
}

// avoidsOnHost reports whether a class has anti-affinity over hosts to pods of another.
func (t *replay) avoidsOnHost(class, other *model.Class) bool {
	return slices.ContainsFunc(class.AntiAffinity, func(x model.PodTerm) bool {
		return x.TopologyKey == model.LabelHostname && selects(&x.Selector, other, t.c.in.Namespaces)
	})
}

// whyAffinityFails is why a class's pod affinity does not hold on a host; empty when it does. The first pod of a
// group that selects itself may go anywhere.
func (t *replay) whyAffinityFails(class *model.Class, h *host) string {
	if len(class.Affinity) == 0 || t.isNearAnyway(class, h) {
		return ""
	}
	met, anywhere := true, false
	var first *term
	for _, x := range t.termsOf(class, true).affinity {
		d, ok := domainOf(h, x.key)
		if !ok || d == "?" {
			return "affinity over " + x.key + ": the domain is not known"
		}
		if first == nil {
			first = x
		}
		met = met && x.counts[d] > 0
		anywhere = anywhere || len(x.counts) > 0
	}
	if met || !anywhere && t.selectsClass(first, class) {
		return ""
	}
	return "affinity over " + first.key + ": no pod it selects is there"
}

// whySpreadFails is why a spread constraint does not hold on a host with so many pods more; empty when it does.
func (t *replay) whySpreadFails(class *model.Class, s *model.SpreadConstraint, h *host, more int) string {
	x := t.spreadTerm(class, s)
	d, ok := domainOf(h, s.TopologyKey)
	if !ok || d == "?" {
		return "spread over " + s.TopologyKey + ": the domain is not known"
	}
	least := 0
	if n := len(x.domains); n > 0 && n >= int(s.MinDomains) && len(x.counts) >= n { // fewer are counted: some domain has none
		least = math.MaxInt
		for _, v := range x.domains {
			least = min(least, x.counts[v])
		}
	}
	if have := x.counts[d]; have+more-least > int(s.MaxSkew) {
		return fmt.Sprintf("spread over %s: %d in %s, %d elsewhere, skew at most %d", s.TopologyKey, have+more, d, least, s.MaxSkew)
	}
	return ""
}

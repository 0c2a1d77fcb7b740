// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package demo

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// pod is what the show needs to know of a Pod.
type pod struct {
	name    string // namespace/name
	node    string // empty: not bound
	ours    bool   // of the Deployment that is scaled
	stuck   bool   // kube-scheduler says Unschedulable
	running bool   // and Ready
	ending  bool
	requests
}

// requests of a pod or of all pods on a node.
type requests struct{ cpu, memory, pods int64 } // milli-CPU, bytes, count

// node is what the show needs to know of a Node.
type node struct {
	name, pool, machine, zone, capacityType string // no pool: Dovetail does not own it
	group                                   string // Auto Scaling group that it is a member of
	ready                                   bool
	cpu, memory                             int64 // allocatable
}

// claim is what the show needs to know of a NodeClaim.
type claim struct {
	name, machine, zone, capacityType string
	group                             string // Auto Scaling group that its instance is a member of
	launched, initialized, ending     bool
}

// price of an offering.
type price struct {
	micro    int64 // micro-dollars per hour
	modelled bool
}

type offering struct{ machine, zone, capacityType string }

// onDemand is also what a node without a capacity type is.
const onDemand = "on-demand"

// change is what a watch told: one of the pointers, and whether it is gone, or
// why a claim is given up.
type change struct {
	at    time.Time
	gone  bool
	pod   *pod
	node  *node
	claim *claim
	ended reason
}

// reason why a NodeClaim is deleted, in the controller's word.
type reason struct{ claim, why string }

// cluster is what the watches told so far.
type cluster struct {
	prices map[offering]price
	pods   map[string]pod
	nodes  map[string]node
	claims map[string]claim
	why    map[string]string // by claim
	had    map[string]string // by claim that an instance was launched for, ever: the group that it came from
	wanted int               // replicas
	epoch  time.Time         // when the step began
}

func newCluster(prices map[offering]price) *cluster {
	return &cluster{prices: prices, pods: map[string]pod{}, nodes: map[string]node{}, claims: map[string]claim{}, why: map[string]string{}, had: map[string]string{}}
}

// take enters a change and says what happened by it.
func (c *cluster) take(ch change) []moment {
	at := max(0, ch.at.Sub(c.epoch))
	var out []moment
	say := func(what kind, name, text string) { out = append(out, moment{at, what, name, text}) }
	switch {
	case ch.pod != nil:
		p, was := *ch.pod, c.pods[ch.pod.name]
		if ch.gone {
			delete(c.pods, p.name)
		} else {
			c.pods[p.name] = p
		}
		switch {
		case !p.ours:
		case (ch.gone || p.ending) && was.name != "" && !was.ending:
			say(podsEnded, p.name, "")
		case ch.gone || p.ending:
		case p.stuck && !was.stuck:
			say(podsPending, p.name, "")
		case p.running && !was.running:
			say(podsRunning, p.name, fmt.Sprintf("%d of %d", c.running(), c.wanted))
		}
	case ch.node != nil:
		n, was := *ch.node, c.nodes[ch.node.name]
		if ch.gone {
			delete(c.nodes, n.name)
		} else {
			c.nodes[n.name] = n
		}
		if n.pool == "" || ch.gone {
			break
		}
		if was.pool == "" { // a group's node comes without the label that says so
			say(nodeRegistered, short(n.name), "")
		}
		if n.ready && (!was.ready || was.pool == "") {
			say(nodeReady, short(n.name), "")
		}
	case ch.claim != nil:
		n, was := *ch.claim, c.claims[ch.claim.name]
		if ch.gone {
			delete(c.claims, n.name)
			say(instanceTerminated, n.name, n.machine)
			break
		}
		c.claims[n.name] = n
		if was.name == "" {
			say(claimMade, n.name, "")
		}
		if n.launched && !was.launched {
			c.had[n.name] = n.group
			text := fmt.Sprintf("%s %s %s at %s", n.machine, n.capacityType, n.zone, c.price(n.machine, n.zone, n.capacityType))
			if n.group != "" {
				text += " of group " + n.group
			}
			say(instanceLaunched, n.name, text)
		}
		if n.ending && !was.ending {
			say(claimEnded, n.name, "")
			if why := c.why[n.name]; why != "" {
				say(claimReason, n.name, why)
			}
		}
	case ch.ended.claim != "":
		if c.why[ch.ended.claim] == "" {
			c.why[ch.ended.claim] = ch.ended.why
			say(claimReason, ch.ended.claim, ch.ended.why)
		}
	}
	return out
}

func (c *cluster) running() int {
	n := 0
	for _, p := range c.pods {
		if p.ours && p.running && !p.ending {
			n++
		}
	}
	return n
}

// podsOn counts the pods that run on a node, of the Deployment or not.
func (c *cluster) podsOn(node string) int {
	n := 0
	for _, p := range c.pods {
		if p.node == node && p.running && !p.ending {
			n++
		}
	}
	return n
}

// requests of the pods bound to each node.
func (c *cluster) requests() map[string]requests {
	out := map[string]requests{}
	for _, p := range c.pods {
		if p.node != "" {
			r := out[p.node]
			out[p.node] = requests{r.cpu + p.cpu, r.memory + p.memory, r.pods + 1}
		}
	}
	return out
}

// sortedNodes has those first that Dovetail does not own.
func (c *cluster) sortedNodes() []node {
	return slices.SortedFunc(maps.Values(c.nodes), func(a, b node) int {
		if (a.pool == "") != (b.pool == "") {
			if a.pool == "" {
				return -1
			}
			return 1
		}
		return strings.Compare(a.name, b.name)
	})
}

func (c *cluster) sortedClaims() []claim {
	return slices.SortedFunc(maps.Values(c.claims), func(a, b claim) int { return strings.Compare(a.name, b.name) })
}

// baseName is the name of the node that Dovetail does not own.
func (c *cluster) baseName() string {
	for _, n := range c.sortedNodes() {
		if n.pool == "" {
			return short(n.name)
		}
	}
	return "no node"
}

// launchedCost is what the nodes that Dovetail launched cost, in micro-dollars
// per hour, and how many there are.
func (c *cluster) launchedCost() (micro int64, nodes int) {
	for _, n := range c.nodes {
		if n.pool != "" {
			micro += c.prices[offering{n.machine, n.zone, n.capacityType}].micro
			nodes++
		}
	}
	return micro, nodes
}

// untilRunning says what is missing until every replica runs and no node is
// on its way; "" when nothing is.
func (c *cluster) untilRunning() string {
	total, running := 0, 0
	for _, p := range c.pods {
		if p.ours {
			total++
			if p.running && !p.ending {
				running++
			}
		}
	}
	var boot []string
	for _, n := range c.sortedClaims() {
		if !n.initialized && !n.ending {
			boot = append(boot, n.name)
		}
	}
	switch {
	case running != c.wanted || total != c.wanted:
		text := fmt.Sprintf("%d of %d pods running", running, c.wanted)
		if total > c.wanted {
			text = fmt.Sprintf("%d pods, want %d", total, c.wanted)
		}
		if len(boot) > 0 {
			text += "; booting: " + listed(boot)
		}
		return text
	case len(boot) > 0:
		return "booting: " + listed(boot)
	}
	return ""
}

// untilCheaper says what is missing until the replicas run on nodes that
// cost less than before, and none is on its way in or out.
func (c *cluster) untilCheaper(before int64) string {
	if missing := c.untilRunning(); missing != "" {
		return missing
	}
	for _, n := range c.sortedClaims() {
		if n.ending {
			return "removing " + n.name
		}
	}
	if cost, _ := c.launchedCost(); cost >= before {
		return fmt.Sprintf("cost is still %s/h: waiting for consolidation", dollars(cost))
	}
	return ""
}

// untilEmpty says what is missing until no launched node and no replica is left.
func (c *cluster) untilEmpty() string {
	pods, launched, ending := 0, 0, 0
	for _, p := range c.pods {
		if p.ours {
			pods++
		}
	}
	for _, n := range c.nodes {
		if n.pool != "" {
			launched++
		}
	}
	for _, n := range c.claims {
		if n.ending {
			ending++
		}
	}
	switch {
	case pods > 0:
		return count(pods, "pod is", "pods are") + " left"
	case ending > 0:
		return count(ending, "node is", "nodes are") + " being removed"
	case launched > 0 || len(c.claims) > 0:
		return count(max(launched, len(c.claims)), "empty node is", "empty nodes are") + " not removed yet"
	}
	return ""
}

// origins says how many instances came from where, groups by name.
func (c *cluster) origins() string {
	of := map[string]int{}
	for _, group := range c.had {
		of[group]++
	}
	var out []string
	for _, group := range slices.Sorted(maps.Keys(of)) {
		if group == "" {
			out = append(out, fmt.Sprintf("%d by CreateFleet", of[group]))
		} else {
			out = append(out, fmt.Sprintf("%d of group %s", of[group], group))
		}
	}
	return strings.Join(out, ", ")
}

// short is a node's name without the domain that every simulated one has.
func short(node string) string { return strings.TrimSuffix(node, ".ec2.internal") }

func count(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

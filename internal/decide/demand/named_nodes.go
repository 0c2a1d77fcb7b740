// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package demand

import (
	"cmp"
	"slices"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// fieldName is the field by which node affinity names nodes.
const fieldName = "metadata.name"

// mostNamedNodes is of how many named nodes it is said what keeps a pod off them.
const mostNamedNodes = 5

// namedNode is a node that a class may run on, by a term that admits no other.
type namedNode struct {
	name, key string // key: the label or field by which it is named
	rule      *model.Requirement
	term      *model.NodeTerm
}

// namedNodes lists the nodes that a class is bound to by name or hostname, in the order of its terms. There are none if
// some term admits nodes of any name: then a node that is launched may do.
func namedNodes(c *model.Class) (out []namedNode) {
	for i := range c.Terms {
		t := &c.Terms[i]
		rule, key := t.Names, fieldName
		if rule == nil || rule.Complement {
			rule, key = t.Requirements.Get(model.LabelHostname), model.LabelHostname
		}
		if rule == nil || rule.Complement || len(rule.Values) == 0 {
			return nil
		}
		for _, v := range rule.Values {
			if !slices.ContainsFunc(out, func(n namedNode) bool { return n.name == v }) {
				out = append(out, namedNode{v, key, rule, t})
			}
		}
	}
	return out
}

// NamedNodeReasons returns why none of the nodes fits a class that can run only on certain nodes: by node, nearest miss first. It
// omits the reasons of NodePools, because a new node cannot help such pods. For any other class, it returns the given reasons.
func NamedNodeReasons(v *cluster.View, c *model.Class, reasons []plan.Reason) []plan.Reason {
	named := namedNodes(c)
	if len(named) == 0 || len(reasons) > 0 && isPodFault(reasons[0].Code) {
		return reasons
	}
	type miss struct {
		reason plan.Reason
		near   int
	}
	var out []miss
	for _, n := range named[:min(len(named), mostNamedNodes)] {
		words, near := namedNodeMiss(v, c, n)
		out = append(out, miss{plan.Reason{Code: plan.NodeName, Detail: plan.OfNodeName{Node: n.name, Label: n.key, Want: plan.RuleOf(n.rule), Said: plan.Words(words)}}, near})
	}
	slices.SortStableFunc(out, func(a, b miss) int { return cmp.Compare(b.near, a.near) })
	list := make([]plan.Reason, len(out))
	for i := range out {
		list[i] = out[i].reason
	}
	return list
}

// isPodFault reports whether a reason is of the pod itself: it finds no node whichever there are.
func isPodFault(code plan.Code) bool {
	switch code {
	case plan.TooComplex, plan.VolumeClaim, plan.Unsupported, plan.WorkShare, plan.ResourceShare, plan.NotSchedulable, plan.GangTooLarge:
		return true
	}
	return false
}

// namedNodeMiss returns what keeps a class off a node that it names, and how near it comes to running there: the more
// of kube-scheduler's checks it passes, the nearer.
func namedNodeMiss(v *cluster.View, c *model.Class, want namedNode) (words string, near int) {
	i := slices.IndexFunc(v.Snapshot.Nodes, func(n *model.Node) bool {
		return want.key == fieldName && n.Name == want.name || want.key == model.LabelHostname && n.Labels[model.LabelHostname] == want.name
	})
	if i < 0 {
		return "does not exist", 0
	}
	n := v.Snapshot.Nodes[i]
	if !n.Deleting.IsZero() || n.HasTaint(model.TaintDisrupted) || isLeaving(v, n) {
		return "is being removed", 1
	}
	if t := want.term; t.Names != nil && !t.Names.Matches(n.Name, true) {
		return "does not match the pod's node affinity (required: " + t.Names.String() + ")", 2
	}
	for i := range want.term.Requirements {
		q := &want.term.Requirements[i]
		if has, ok := n.Labels[q.Key]; !q.Matches(has, ok) {
			if !ok {
				return "does not have label " + q.Key + " (required: " + q.String() + ")", 2
			}
			return "has label " + q.Key + "=" + has + " (required: " + q.String() + ")", 2
		}
	}
	if t := model.Untolerated(n.Taints, c.Tolerations); t != nil {
		text := t.Key
		if t.Value != "" {
			text += "=" + t.Value
		}
		return "has taint " + text + ":" + t.Effect + ", which the pod does not tolerate", 3
	}
	if !n.Ready {
		return "is not Ready", 4
	}
	free := n.Allocatable.Sub(n.Used)
	for d, need := range c.Requests {
		dim := model.Dim(d)
		if need <= 0 || need <= free.At(dim) {
			continue
		}
		name := v.Snapshot.ResourceNames[d]
		if need > n.Allocatable.At(dim) {
			return "is too small: the pod needs " + model.ShortAmount(dim, need, 1) + " " + name + ", and the node has " + model.ShortAmount(dim, n.Allocatable.At(dim), 1) + " allocatable", 5
		}
		return "is full: the pod needs " + model.ShortAmount(dim, need, 1) + " " + name + ", and " + model.ShortAmount(dim, max(0, free.At(dim)), 1) + " is free", 6
	}
	for _, p := range n.Pods {
		for _, h := range p.Class.HostPorts {
			if slices.ContainsFunc(c.HostPorts, h.Conflicts) {
				return "has pod " + p.Key() + " on a host port that the pod needs", 7
			}
		}
	}
	if v, lacksDriver := c.UnusableVolume(n); lacksDriver {
		return "does not have CSI driver " + v.Driver + " of the pod's volume registered", 8
	}
	return "has enough capacity, but a rule for other pods or volumes, or capacity reserved for other pods, excludes it", 9
}

// isLeaving reports whether the machine of a node is on its way out.
func isLeaving(v *cluster.View, n *model.Node) bool {
	c := v.Claim(n.Claim)
	return n.Claim != "" && c != nil && !c.Deleting.IsZero()
}

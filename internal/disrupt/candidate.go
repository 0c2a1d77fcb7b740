// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package disrupt

import (
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Candidate is a node of a NodePool that disruption may take away, with what that decision rests on.
type Candidate struct {
	Claim      *model.Claim
	Node       *model.Node
	Pool       *model.NodePool
	Labels     model.Labels // of the machine, see MachineLabels; they must not be changed
	PriceMicro int64        // an hour; negative: not known, see nodePriceMicro
	Pods       []*model.Pod // those to be rescheduled when the node goes (model.Pod.IsReschedulable), but for expendable ones; in the order of Node.Pods
	Expendable int          // expendable pods on it
	Occupied   bool         // a workload pod is on it that is not expendable; one that is being deleted counts, for as long as its node waits for it, see HasWorkloadPods

	Initialized      bool           // its claim is initialized
	UnchangedSince   time.Time      // from when consolidateAfter counts: the last pod that came or left
	Ending           []*model.Pod   // workload pods that are being deleted on it
	PodsEndBy        time.Time      // when the last of their grace periods ends; zero: there are none
	Nominated        bool           // pods are expected on it
	CommandID        plan.CommandID // the disruption command that takes it away, or another word for why it goes; empty: none
	UnmetRequirement string         // the requirement of its pool that it does not meet any more; empty: it meets all

	// podsAreOrdinary: no pod on it says anything of its own about being evicted, and each has an owner. Then only
	// PodDisruptionBudgets can block the pods, and podClasses holds the classes to ask about, each once.
	podsAreOrdinary bool
	podClasses      []*model.Class
}

// asSuccessor returns a pod as the one that will take its place.
func asSuccessor(p *model.Pod) *model.Pod {
	c := p.CreatedAs()
	if c == p.Class {
		return p
	}
	q := *p
	q.Class, q.First, q.Successor = c, nil, nil
	return &q
}

// NewCandidate fills in a candidate's price and pods; pods below the cutoff are expendable. Initialized, UnchangedSince,
// Nominated, CommandID and UnmetRequirement are left to the caller.
func NewCandidate(claim *model.Claim, node *model.Node, pool *model.NodePool, cutoff model.PriorityCutoff) *Candidate {
	c := &Candidate{Claim: claim, Node: node, Pool: pool, Labels: MachineLabels(claim, node)}
	c.PriceMicro = nodePriceMicro(pool, c.Labels)
	c.podsAreOrdinary = true
	for _, p := range node.Pods {
		switch {
		case cutoff.IsExpendable(p):
			c.Expendable++
		case p.IsReschedulable():
			c.Pods = append(c.Pods, asSuccessor(p))
			c.Occupied = true
		default:
			if p.IsWorkload() && !p.Terminal {
				c.Occupied, c.Ending, c.PodsEndBy = true, append(c.Ending, p), model.LaterOf(c.PodsEndBy, p.Deleting)
			}
		}
		c.podsAreOrdinary = c.podsAreOrdinary && isOrdinaryPod(p) && !rulesConcern(pool, p)
	}
	if c.podsAreOrdinary {
		for _, p := range node.Pods {
			if !slices.Contains(c.podClasses, p.Class) {
				c.podClasses = append(c.podClasses, p.Class)
			}
		}
	}
	return c
}

// isOrdinaryPod reports whether a pod has no annotation or gang that could keep it, and an owner that makes it again.
func isOrdinaryPod(p *model.Pod) bool {
	return !p.HasGang() && p.DoNotDisrupt == "" && (p.SafeToEvict == "" || p.SafeToEvict == trueValue) &&
		(p.Owner.UID != "" || p.Mirror || p.Class.Daemon)
}

// NodeGroup is the name of the node group that the node is a member of; empty: none.
func (c *Candidate) NodeGroup() string { return c.Claim.Labels[model.LabelNodeGroup] }

// IsEmpty reports whether the node has neither a workload pod nor a virtual one.
func (c *Candidate) IsEmpty() bool {
	return !c.Occupied && !slices.ContainsFunc(c.Pods, (*model.Pod).IsVirtual)
}

// nodeSubject and poolSubject are the subjects of reasons about the node and its pool.
func (c *Candidate) nodeSubject() plan.Object { return plan.ObjectOf("node", c.Node.Name) }
func (c *Candidate) poolSubject() plan.Object { return plan.ObjectOf("nodepool", c.Pool.Name) }

// DisruptionWeight is what disrupting the node weighs, in thousandths: 1000 for itself and EvictionWeight for each pod.
func (c *Candidate) DisruptionWeight() int64 {
	w := int64(1000)
	for _, p := range c.Pods {
		w += EvictionWeight(p)
	}
	return w
}

// HasWorkloadPods reports whether any pod runs on a node that is neither of a DaemonSet nor a mirror pod. Pods that are
// being deleted count.
func HasWorkloadPods(n *model.Node) bool {
	for _, p := range n.Pods {
		if p.IsWorkload() && !p.Terminal {
			return true
		}
	}
	return false
}

// MachineLabels returns the labels of a machine as its claim records them. A label that the claim does not have is the
// node's. Labels of a Node can be edited by anybody, and an edit changes neither the machine nor its price.
func MachineLabels(c *model.Claim, n *model.Node) model.Labels {
	out := make(model.Labels, len(n.Labels))
	maps.Copy(out, n.Labels)
	maps.Copy(out, c.Labels)
	return out
}

// nodePriceMicro is what a node with these labels costs in its pool, in micro-dollars an hour; -1 when its instance
// type or offering is no longer there. A node from a reservation that has ended costs its on-demand price.
func nodePriceMicro(p *model.NodePool, l model.Labels) int64 {
	if o := NodeOffering(p, l); o != nil {
		return o.PriceMicro
	}
	return -1
}

// NodeOffering is what a node with these labels is priced as in its pool; nil when its instance type or offering is no
// longer there. The result must not be changed.
func NodeOffering(p *model.NodePool, l model.Labels) *model.Offering {
	t := FindInstanceType(p, l[model.LabelInstanceType])
	if t == nil {
		return nil
	}
	var onDemand *model.Offering
	for i := range t.Offerings {
		o := &t.Offerings[i]
		if o.Zone != l[model.LabelZone] {
			continue
		}
		if o.CapacityType == l[model.LabelCapacityType] {
			return o
		}
		if o.CapacityType == model.OnDemand && l[model.LabelCapacityType] == model.Reserved {
			onDemand = o
		}
	}
	return onDemand
}

// FindInstanceType is the instance type of this name among those that a pool is offered; nil when it is not there.
func FindInstanceType(p *model.NodePool, name string) *model.InstanceType {
	i, ok := slices.BinarySearchFunc(p.Types, name, func(t *model.InstanceType, n string) int {
		switch {
		case t.Name < n:
			return -1
		case t.Name > n:
			return 1
		}
		return 0
	})
	if !ok {
		return nil
	}
	return p.Types[i]
}

// PodsOf returns the pods on the nodes of candidates.
func PodsOf(candidates []*Candidate) (out []*model.Pod) {
	for _, c := range candidates {
		out = append(out, c.Pods...)
	}
	return out
}

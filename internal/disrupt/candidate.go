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

// Candidate is a node of a NodePool that may be disrupted, with the facts for that decision.
type Candidate struct {
	Claim      *model.Claim
	Node       *model.Node
	Pool       *model.NodePool
	Labels     model.Labels // labels of the machine, see MachineLabels; read-only
	PriceMicro int64        // per hour; negative: unknown, see nodePriceMicro
	Pods       []*model.Pod // pods to reschedule when the node is removed (model.Pod.IsReschedulable), without expendable ones; in the order of Node.Pods
	Expendable int          // expendable pods on it
	Occupied   bool         // it has a workload pod that is not expendable; includes pods being deleted while the node waits for them, see HasWorkloadPods

	Initialized      bool           // its NodeClaim is initialized
	UnchangedSince   time.Time      // start of consolidateAfter: the last addition or removal of a pod
	Ending           []*model.Pod   // workload pods on it that are being deleted
	PodsEndBy        time.Time      // end of their last grace period; zero: none
	Nominated        bool           // kube-scheduler is expected to place pods on it
	CommandID        plan.CommandID // its disruption command, or another reason for its removal; empty: none
	UnmetRequirement string         // the pool's requirement that it no longer meets; empty: none

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

// NewCandidate returns a candidate with its price and pods; pods below the cutoff are expendable. The caller sets
// Initialized, UnchangedSince, Nominated, CommandID and UnmetRequirement.
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

// NodeGroup returns the name of the node's node group; empty: none.
func (c *Candidate) NodeGroup() string { return c.Claim.Labels[model.LabelNodeGroup] }

// IsEmpty reports whether the node has no workload pods and no virtual pods.
func (c *Candidate) IsEmpty() bool {
	return !c.Occupied && !slices.ContainsFunc(c.Pods, (*model.Pod).IsVirtual)
}

// nodeSubject and poolSubject are the subjects of reasons about the node and its pool.
func (c *Candidate) nodeSubject() plan.Object { return plan.ObjectOf("node", c.Node.Name) }
func (c *Candidate) poolSubject() plan.Object { return plan.ObjectOf("nodepool", c.Pool.Name) }

// DisruptionWeight returns the weight of disrupting the node in thousandths: 1000 for the node, plus EvictionWeight for each
// pod.
func (c *Candidate) DisruptionWeight() int64 {
	w := int64(1000)
	for _, p := range c.Pods {
		w += EvictionWeight(p)
	}
	return w
}

// HasWorkloadPods reports whether a node has pods other than DaemonSet and mirror pods. Pods that are being deleted count.
func HasWorkloadPods(n *model.Node) bool {
	for _, p := range n.Pods {
		if p.IsWorkload() && !p.Terminal {
			return true
		}
	}
	return false
}

// MachineLabels returns the labels of a machine: those of its NodeClaim, and other labels of its Node. NodeClaim labels
// take precedence, because users can edit Node labels.
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

// NodeOffering returns the offering that determines the price of a node with these labels in its pool; nil if its instance
// type or offering no longer exists. The result is read-only.
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

// FindInstanceType returns the pool's instance type with this name; nil if there is none.
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

// PodsOf returns the pods on the candidates' nodes.
func PodsOf(candidates []*Candidate) (out []*model.Pod) {
	for _, c := range candidates {
		out = append(out, c.Pods...)
	}
	return out
}

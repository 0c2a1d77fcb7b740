// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

import (
	"slices"
	"strconv"
)

// Class is what all pods alike share: the same namespace, labels, requests and constraints. The solver works on classes with
// counts, never on single pods. Interned by Key in state: one Class value a key, so pointers compare.
type Class struct {
	Key string // canonical text of all that follows; equal keys mean equal classes. Orders classes where an order is needed

	// SlotKey is Key without what becomes known of a volume only when its pod is bound, so that a pod is taken for the one its slot
	// was made for before and after. Empty where it is no other than Key.
	SlotKey string

	// TemplateKey is SlotKey without what tells apart the pods of one template: those of a StatefulSet, and those of the Jobs of a
	// CronJob. Empty where it is no other than SlotKey, or Key where that is empty.
	TemplateKey string `json:",omitempty"`

	Namespace string
	Labels    Labels
	Requests  Resources // what kube-scheduler counts: init, sidecar, overhead, pod-level resources; Pods is 1

	// Node selection: the pod may go where any Term matches; no Terms means anywhere. nodeSelector is merged into every Term.
	Terms     []NodeTerm
	Preferred []WeightedNodeTerm

	// SelectorKeys and AffinityKeys are the labels that Terms are about by where the pod says them, nodeSelector and required node affinity;
	// sorted. OS is spec.os.name, which selects nodes too. They say what to edit, and are no part of Key.
	SelectorKeys, AffinityKeys []string `json:",omitempty"`
	OS                         string   `json:",omitempty"`

	Tolerations []Toleration

	Spread                []SpreadConstraint
	Affinity              []PodTerm
	AntiAffinity          []PodTerm
	PreferredAffinity     []WeightedPodTerm
	PreferredAntiAffinity []WeightedPodTerm

	HostPorts []HostPort
	Volumes   []Volume

	Priority  int32
	Preempts  bool     // preemptionPolicy is not Never
	Critical  bool     // priority class system-cluster-critical or system-node-critical
	Daemon    bool     // owned by a DaemonSet (or a mirror pod): never demand
	Unsolved  []string // constraints that can't be honoured at all, each a reason to refuse: "resourceClaims gpu: …"
	Scheduler string   // spec.schedulerName
	Excess    Excess   `json:",omitzero"` // the pod asks for more of something than is looked at: no node is looked for

	// HasClaims says that kube-scheduler alone allocates and reserves devices for the pod, and binds it: it has resource claims, or requests extended
	// resources that a DeviceClass stands for. OnlyExtended: it has no resource claims.
	HasClaims    bool `json:",omitempty"`
	OnlyExtended bool `json:",omitempty"`

	Request string `json:",omitempty"` // namespace/name of the ProvisioningRequest whose capacity the pods are for; empty: none
}

// Excess is what a pod asks for too much of. The zero value says that there is no such thing. The class of such a pod
// lacks what is too much, so a pod that runs already takes up what it requests and its other rules hold.
type Excess struct {
	What string // in the plural: "node selector keys"
	Have int64
	Most int64 // that are looked at
}

// ClaimsField is the field of a pod that says which devices it needs.
func (c *Class) ClaimsField() string {
	if c.OnlyExtended {
		return "spec.containers[*].resources.requests"
	}
	return "spec.resourceClaims"
}

// NodeFields are the fields of a pod's spec in which it requires something of a node's label.
func (c *Class) NodeFields(label string) (out []string) {
	if slices.Contains(c.SelectorKeys, label) {
		out = append(out, "spec.nodeSelector["+label+"]")
	}
	if c.OS != "" && label == LabelOS {
		out = append(out, "spec.os.name")
	}
	if len(out) == 0 || slices.Contains(c.AffinityKeys, label) {
		out = append(out, "spec.affinity.nodeAffinity["+label+"]")
	}
	return out
}

// AllowsStanding reports whether required node affinity lets pods of the class on a node that is there. A term without rules
// allows none.
func (c *Class) AllowsStanding(labels Labels, name string) bool {
	return len(c.Terms) == 0 || slices.ContainsFunc(c.Terms, func(t NodeTerm) bool {
		return (len(t.Requirements) > 0 || t.Names != nil) && t.OnStanding().Matches(labels) && (t.Names == nil || t.Names.Matches(name, true))
	})
}

// ToleratesEverything reports whether a pod would land on any taint, so that no reservation can keep it to its node.
func (c *Class) ToleratesEverything() bool {
	for _, t := range c.Tolerations {
		if t.Key == "" && t.Exists && (t.Effect == "" || t.Effect == NoSchedule) {
			return true
		}
	}
	return false
}

// DependsOnOtherPods reports whether where pods of a class may or would rather be depends on where others are.
func (c *Class) DependsOnOtherPods() bool {
	return len(c.Spread)+len(c.Affinity)+len(c.AntiAffinity)+len(c.PreferredAffinity)+len(c.PreferredAntiAffinity) > 0
}

// NodeTerm is one alternative of required node affinity: labels, and with matchFields the names of the nodes allowed.
type NodeTerm struct {
	Requirements Requirements
	Names        *Requirement // on metadata.name; nil: any

	// Standing is what a node that is there must meet instead of Requirements, because its labels are what they are. It differs
	// if the pod uses names that labels had before Kubernetes 1.17: new nodes get these as well. Empty: Requirements.
	Standing Requirements `json:",omitempty"`
}

// OnStanding returns what the labels of a node that is there must meet.
func (t *NodeTerm) OnStanding() Requirements {
	if len(t.Standing) > 0 {
		return t.Standing
	}
	return t.Requirements
}

// WeightedNodeTerm is a preferred node affinity term, weight 1 to 100.
type WeightedNodeTerm struct {
	Weight int32
	Term   NodeTerm
}

// Selector chooses pods by namespace and label.
type Selector struct {
	Namespaces []string      // sorted; names allowed
	NamespaceL *Requirements // namespaces whose labels match are allowed too; nil: none beside Namespaces
	Pods       *Requirements // nil selects no pod
}

// PodTerm is a required pod affinity or anti-affinity term. matchLabelKeys and mismatchLabelKeys are already merged into Selector.
type PodTerm struct {
	TopologyKey string
	Selector    Selector
}

// WeightedPodTerm is a preferred one, weight 1 to 100.
type WeightedPodTerm struct {
	Weight int32
	Term   PodTerm
}

// SpreadConstraint is a topology spread constraint. matchLabelKeys are already merged into Selector. The Selector counts pods of
// the class's own namespace.
type SpreadConstraint struct {
	TopologyKey    string
	MaxSkew        int32
	MinDomains     int32 // 0: not set, which means 1
	Hard           bool  // DoNotSchedule
	Selector       *Requirements
	IgnoreAffinity bool // nodeAffinityPolicy Ignore: domains the pod could not go to count too
	HonorTaints    bool // nodeTaintsPolicy Honor
}

// HostPort is a port taken on the node. IP is empty or 0.0.0.0 for every address. Or it is a disk that the pod names itself, without a
// claim, and that pods on one node may share only to read from it.
type HostPort struct {
	IP       string
	Protocol string
	Port     int32

	Disk     string `json:",omitempty"` // plugin and name, such as gcePersistentDisk/data; empty: a port
	ReadOnly bool   `json:",omitempty"` // of a disk
}

// String returns the port as a Reason names it, 80/TCP, or the disk.
func (p HostPort) String() string {
	if p.Disk != "" {
		return p.Disk
	}
	return strconv.Itoa(int(p.Port)) + "/" + p.Protocol
}

// Conflicts reports whether two ports, or two uses of a disk, cannot be on one node.
func (p HostPort) Conflicts(o HostPort) bool {
	if p.Disk != "" || o.Disk != "" {
		return p.Disk == o.Disk && !(p.ReadOnly && o.ReadOnly)
	}
	all := func(ip string) bool { return ip == "" || ip == "0.0.0.0" || ip == "::" }
	return p.Port == o.Port && p.Protocol == o.Protocol && (p.IP == o.IP || all(p.IP) || all(o.IP))
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

import (
	"slices"
	"strconv"
)

// Class is the common part of identical pods: the same namespace, labels, requests and constraints. The solver works on
// classes with counts, never on single pods. state interns classes by Key, so equal classes have equal pointers.
type Class struct {
	Key string // canonical text of the fields below; equal keys mean equal classes. Also the sort order of classes

	// SlotKey is Key without the properties of volumes that are known only after the pod is bound, so that a pod matches its
	// slot before and after. Empty if equal to Key.
	SlotKey string

	// TemplateKey is SlotKey without the differences between pods of one template: those of a StatefulSet, and those of the
	// Jobs of a CronJob. Empty if equal to SlotKey (or to Key if that is empty).
	TemplateKey string `json:",omitempty"`

	Namespace string
	Labels    Labels
	Requests  Resources // as counted by kube-scheduler, with init and sidecar containers, overhead and pod-level resources; Pods is 1

	// Terms are the ORed terms of required node affinity; none means any node. nodeSelector is merged into each.
	Terms     []NodeTerm
	Preferred []WeightedNodeTerm

	// SelectorKeys and AffinityKeys are the sorted label keys of Terms that come from nodeSelector and from required node
	// affinity. OS is spec.os.name, which also selects nodes. They identify the field to edit, and are not part of Key.
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
	Unsolved  []string // unsupported constraints, each a reason to refuse the pod: "resourceClaims gpu: …"
	Scheduler string   // spec.schedulerName
	Excess    Excess   `json:",omitzero"` // the pod exceeds a limit, so no node is launched for it

	// HasClaims: only kube-scheduler allocates devices for the pod and binds it, because it has resource claims, or requests
	// extended resources of a DeviceClass. OnlyExtended: it has no resource claims.
	HasClaims    bool `json:",omitempty"`
	OnlyExtended bool `json:",omitempty"`

	Request string `json:",omitempty"` // namespace/name of the pods' ProvisioningRequest; empty: none
}

// Excess is a limit that a pod exceeds; the zero value means none. The class lacks what is beyond the limit; for a running
// pod, its requests and other constraints still count.
type Excess struct {
	What string // in the plural: "node selector keys"
	Have int64
	Most int64 // the limit
}

// ClaimsField returns the field of a pod that requests its devices.
func (c *Class) ClaimsField() string {
	if c.OnlyExtended {
		return "spec.containers[*].resources.requests"
	}
	return "spec.resourceClaims"
}

// NodeFields returns the fields of a pod's spec that constrain a node label.
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

// AllowsStanding reports whether required node affinity allows pods of the class on an existing node. A term without
// requirements allows none.
func (c *Class) AllowsStanding(labels Labels, name string) bool {
	return len(c.Terms) == 0 || slices.ContainsFunc(c.Terms, func(t NodeTerm) bool {
		return (len(t.Requirements) > 0 || t.Names != nil) && t.OnStanding().Matches(labels) && (t.Names == nil || t.Names.Matches(name, true))
	})
}

// ToleratesEverything reports whether a pod tolerates every taint, so that no reservation keeps it on its node.
func (c *Class) ToleratesEverything() bool {
	for _, t := range c.Tolerations {
		if t.Key == "" && t.Exists && (t.Effect == "" || t.Effect == NoSchedule) {
			return true
		}
	}
	return false
}

// DependsOnOtherPods reports whether the required or preferred placement of the class depends on other pods.
func (c *Class) DependsOnOtherPods() bool {
	return len(c.Spread)+len(c.Affinity)+len(c.AntiAffinity)+len(c.PreferredAffinity)+len(c.PreferredAntiAffinity) > 0
}

// NodeTerm is one term of required node affinity: labels, and the node names of matchFields.
type NodeTerm struct {
	Requirements Requirements
	Names        *Requirement // on metadata.name; nil: any

	// Standing replaces Requirements for existing nodes. It differs if the pod uses label names from before Kubernetes 1.17,
	// which new nodes get as well. Empty: Requirements.
	Standing Requirements `json:",omitempty"`
}

// OnStanding returns the requirements for the labels of an existing node.
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

// Selector selects pods by namespace and label.
type Selector struct {
	Namespaces []string      // sorted; names allowed
	NamespaceL *Requirements // also allows namespaces with matching labels; nil: only Namespaces
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

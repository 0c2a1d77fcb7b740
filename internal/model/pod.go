// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
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

	Request string `json:",omitempty"` // namespace/name of the ProvisioningRequest whose capacity the pods are for; empty: none
}

// Excess is what a pod asks for too much of. The zero value says that there is no such thing. The class of such a pod
// lacks what is too much, so a pod that runs already takes up what it requests and its other rules hold.
type Excess struct {
	What string // in the plural: "node selector keys"
	Have int64
	Most int64 // that are looked at
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

// AllowsStanding reports whether required node affinity lets pods of the class on a node that is there. A term without rules
// allows none.
func (c *Class) AllowsStanding(labels Labels, name string) bool {
	return len(c.Terms) == 0 || slices.ContainsFunc(c.Terms, func(t NodeTerm) bool {
		return (len(t.Requirements) > 0 || t.Names != nil) && t.OnStanding().Matches(labels) && (t.Names == nil || t.Names.Matches(name, true))
	})
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

// Toleration mirrors the Kubernetes one.
type Toleration struct {
	Key      string
	Exists   bool // operator Exists; else Equal
	Value    string
	Effect   string        // empty: every effect
	For      time.Duration // for NoExecute; negative: for ever
	Operator string        // Gt or Lt where the cluster has numeric tolerations, else empty
}

// Taint mirrors the Kubernetes one.
type Taint struct {
	Key, Value, Effect string
}

// Taint effects.
const (
	NoSchedule       = "NoSchedule"
	PreferNoSchedule = "PreferNoSchedule"
	NoExecute        = "NoExecute"
)

// Tolerates reports whether the toleration covers the taint.
func (t *Toleration) Tolerates(x Taint) bool {
	if t.Effect != "" && t.Effect != x.Effect {
		return false
	}
	if t.Key != "" && t.Key != x.Key {
		return false
	}
	if t.Exists {
		return true
	}
	if t.Operator != "" {
		bound, err := strconv.ParseInt(t.Value, 10, 64)
		have, herr := strconv.ParseInt(x.Value, 10, 64)
		return err == nil && herr == nil && (t.Operator == "Gt" && have > bound || t.Operator == "Lt" && have < bound)
	}
	return t.Key != "" && t.Value == x.Value
}

// Tolerated reports whether some toleration covers the taint.
func Tolerated(x Taint, ts []Toleration) bool {
	for i := range ts {
		if ts[i].Tolerates(x) {
			return true
		}
	}
	return false
}

// Untolerated returns the first hard taint (NoSchedule, NoExecute) that no toleration covers, nil if there is none.
func Untolerated(taints []Taint, ts []Toleration) *Taint {
	for i := range taints {
		if taints[i].Effect != PreferNoSchedule && !Tolerated(taints[i], ts) {
			return &taints[i]
		}
	}
	return nil
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

// Volume is what one volume of a pod asks of its node.
type Volume struct {
	Claim     string         // namespace/name of the PersistentVolumeClaim; empty: the pod names the volume itself, without a claim
	Driver    string         // CSI driver whose attach limit counts it; empty: not counted
	InTree    string         // in-tree plugin that the driver replaces; empty: a CSI volume
	Handle    string         // identity for the limit: equal handles of one driver are one volume
	Topology  []Requirements // a node must match one; empty: any
	Standing  []Requirements // what a node that is there must match one of instead, its labels being what they are; empty: Topology
	Migrated  []Requirements // Standing on nodes whose kubelet leaves the volumes of InTree to the driver; empty: Standing
	Exclusive bool           // ReadWriteOncePod: one pod in the cluster
	OneNode   bool           // ReadWriteOnce: pods on one node at a time
	Registers bool           // pods that use it go only to nodes on which Driver is registered
	Unmade    bool           // it will be made in the zone of the first pod that uses it, and the others must follow
	Problem   VolumeProblem  // what keeps the pod from every node
	Reported  string         // StorageClass whose driver has to report free storage on a node before pods are placed there; empty: none has to
	Kept      string         // PersistentVolume that it could use where Topology does not let it, and that another claim may be bound to first; empty: none
}

// OnStanding returns what a node that is there must match one of, empty if any node will do. migrated reports whether its
// kubelet leaves the volumes of the in-tree plugin to the driver.
func (v *Volume) OnStanding(migrated bool) []Requirements {
	switch {
	case migrated && len(v.Migrated) > 0:
		return v.Migrated
	case len(v.Standing) > 0:
		return v.Standing
	}
	return v.Topology
}

// LacksDriver reports whether pods that use the volume are kept off a node that is there because its driver is not registered on it.
// drivers are those that are, sorted; nil: the node has no CSINode. Without one, in-tree volumes are not looked at.
func (v *Volume) LacksDriver(drivers []string) bool {
	if !v.Registers || drivers == nil && v.InTree != "" {
		return false
	}
	_, found := slices.BinarySearch(drivers, v.Driver)
	return !found
}

// AwaitsStorage reports whether the volume has to be made where its driver reports free storage, and it reports none on any
// node that is there.
func (v *Volume) AwaitsStorage() bool {
	return v.Reported != "" && len(v.Standing) > 0 && !slices.ContainsFunc(v.Standing, func(rs Requirements) bool {
		return !slices.ContainsFunc(rs, func(r Requirement) bool { return r.Empty() })
	})
}

// ID names a volume that one pod alone may use: by its claim, as kube-scheduler does.
func (v *Volume) ID() string {
	if v.Claim != "" {
		return v.Claim
	}
	return v.Handle
}

// VolumeProblem is a state of a PersistentVolumeClaim in which no node can run the pod. The zero value is none.
type VolumeProblem struct {
	Kind   VolumeProblemKind
	Object string // what is missing, in use or at fault, as kind/name: persistentvolume/pv-1; empty: the claim itself
	Words  string // what kube-scheduler says
}

// VolumeProblemKind tells what would help.
type VolumeProblemKind string

// Kinds of VolumeProblem.
const (
	ClaimMissing    VolumeProblemKind = "ClaimMissing"    // the claim is not there
	ClaimDeleting   VolumeProblemKind = "ClaimDeleting"   // the claim is being deleted
	ClaimLost       VolumeProblemKind = "ClaimLost"       // the claim lost its volume
	ClaimNotOwned   VolumeProblemKind = "ClaimNotOwned"   // the claim of an ephemeral volume belongs to somebody else
	ClaimNoClass    VolumeProblemKind = "ClaimNoClass"    // not bound, and no StorageClass
	ClassMissing    VolumeProblemKind = "ClassMissing"    // not bound, and the StorageClass is not there
	ClaimUnbound    VolumeProblemKind = "ClaimUnbound"    // not bound, and it is not waiting for a pod
	ClaimPrebound   VolumeProblemKind = "ClaimPrebound"   // it names a volume and is not bound to it
	VolumeMissing   VolumeProblemKind = "VolumeMissing"   // bound to a volume that is not there
	VolumeDeleting  VolumeProblemKind = "VolumeDeleting"  // bound to a volume that is being deleted, which its driver attaches to no other node
	VolumeNotFound  VolumeProblemKind = "VolumeNotFound"  // no volume can be bound and none can be made
	VolumeKept      VolumeProblemKind = "VolumeKept"      // a volume that it could be bound to may be bound to another claim first
	StorageTooSmall VolumeProblemKind = "StorageTooSmall" // no node's storage holds it, and a new node's would not either
)

// VolumeProblem returns the first problem among the pod's volumes, and the claim that has it; nil if there is none.
func (c *Class) VolumeProblem() *Volume {
	for i := range c.Volumes {
		if c.Volumes[i].Problem.Kind != "" {
			return &c.Volumes[i]
		}
	}
	return nil
}

// MissingDriver returns the first CSI driver that must be registered on a node before pods of the class come there, and is not; empty: none.
// drivers are those that are registered: see LacksDriver.
func (c *Class) MissingDriver(drivers []string) string {
	for i := range c.Volumes {
		if v := &c.Volumes[i]; v.LacksDriver(drivers) {
			return v.Driver
		}
	}
	return ""
}

// VolumeElsewhere returns the claim of the first volume of the class that can't be used on a node that is there, its labels being what they are;
// false: there is none. CSI drivers give a node the labels of their topology when they are registered there. A volume whose driver reports storage
// is none of these: kube-scheduler alone knows how much there is.
func (c *Class) VolumeElsewhere(n *Node) (claim string, found bool) {
	for i := range c.Volumes {
		v := &c.Volumes[i]
		if v.Reported != "" {
			continue
		}
		places := v.OnStanding(v.InTree != "" && slices.Contains(n.Migrated, v.InTree))
		if len(places) > 0 && !slices.ContainsFunc(places, func(rs Requirements) bool { return rs.Matches(n.Labels) }) {
			return v.Claim, true
		}
	}
	return "", false
}

// Owner is the controller of a pod.
type Owner struct {
	Kind, Name, UID string
}

// Pod is one pod as the autoscaler needs it.
type Pod struct {
	Namespace, Name, UID string
	Class                *Class
	Owner                Owner
	Node                 string // bound to; empty: not bound
	Nominated            string // status.nominatedNodeName
	Created              time.Time
	Seen                 uint64    // version of the object when it was first seen: pods that a watch told of were made in this order, and kube-scheduler takes them so
	Unschedulable        time.Time // when kube-scheduler last said so; zero: it has not
	Refusal              string    // and in which words
	Bound                time.Time // PodScheduled's transition; zero: not bound
	Deleting             time.Time // deletionTimestamp; zero: not being deleted
	EndsWithNamespace    bool      // Deleting is when its namespace was deleted; itself it is not being deleted yet
	GracePeriod          time.Duration
	Terminal             bool          // Succeeded or Failed
	Failed               bool          // Failed
	Starting             bool          // bound, and none of its containers has run yet
	Finalizers           []string      // whoever holds the object when it is deleted
	Ready                bool          // condition Ready
	Gated                bool          // has scheduling gates
	Mirror               bool          // static pod
	ReadySince           time.Time     // last transition of condition Ready to True; zero: not Ready
	DoNotDisrupt         string        // value of karpenter.sh/do-not-disrupt
	SafeToEvict          string        // value of cluster-autoscaler.kubernetes.io/safe-to-evict
	LocalVolume          string        // the first volume of its own on the node that no annotation calls safe to lose; empty: none
	DaemonEviction       string        // of a DaemonSet's pod: value of cluster-autoscaler.kubernetes.io/enable-ds-eviction
	ScaleUpDelay         time.Duration // value of cluster-autoscaler.kubernetes.io/pod-scale-up-delay; 0: none, or it can't be read
	ReservedFor          string        // NodeClaim named by the dovetail.sh/reserved toleration; the last one where there are several
	Reservations         []string
	Tolerating           string // NodeClaim whose toleration is being written to it, or may have been: no answer came; empty: none
	Deployment           string // name of the Deployment whose ReplicaSet controls it; empty: none
	RestartedAt          string // annotation that it has from its template when its Deployment was restarted
	Surge                string // value of dovetail.sh/surge
	Unreservable         bool   // the API server refused its toleration: no reservation can let it in
	Unbindable           bool   // the API server refused to have it bound by us
	Binding              string // the node that we are binding it to, until its own Node says so; empty: we are not
	Expected             bool   // it is not there yet: its ReplicaSet is making it, or it is a virtual one
	Buffer               string // namespace/name of the CapacityBuffer whose virtual pod it is: it stands for capacity and is never made; empty: a real pod
	DisruptionCost       int32  // karpenter.sh/disruption-cost, or controller.kubernetes.io/pod-deletion-cost
	RestartCost          string // value of dovetail.sh/restart-cost, see ParseRestartCost; empty: not given
	Gang                 Gang   `json:",omitzero"` // the pods that it runs together with; zero: none

	Consumes    Consumed `json:",omitzero"`  // the ProvisioningRequest whose capacity it is for
	Placeholder bool     `json:",omitempty"` // it stands for a pod that its ProvisioningRequest is for and that does not exist: it is never bound
}

// IsLetIn reports whether a pod tolerates the reservation of a NodeClaim, or may do so at any moment. A toleration is never taken back.
func (p *Pod) IsLetIn(claim string) bool {
	return p.Tolerating == claim && claim != "" || slices.Contains(p.Reservations, claim)
}

// LetInBy returns the NodeClaims whose reservations a pod tolerates, or may at any moment.
func (p *Pod) LetInBy() []string {
	if p.Tolerating == "" {
		return p.Reservations
	}
	return append(slices.Clip(p.Reservations), p.Tolerating)
}

// PodKey returns the key of the pod of a name.
func PodKey(namespace, name string) string { return namespace + "/" + name }

// Key is namespace/name.
func (p *Pod) Key() string { return PodKey(p.Namespace, p.Name) }

// ComparePodKeys orders pods by their keys.
func ComparePodKeys(a, b *Pod) int { return strings.Compare(a.Key(), b.Key()) }

// IsVirtual reports whether a pod only stands for the capacity that a CapacityBuffer holds.
func (p *Pod) IsVirtual() bool { return p.Buffer != "" }

// DefaultScheduler is the scheduler of pods that name none.
const DefaultScheduler = "default-scheduler"

// RealPods returns the pods of a list that are not virtual, and the list itself if none is.
func RealPods(pods []*Pod) []*Pod {
	if !slices.ContainsFunc(pods, (*Pod).IsVirtual) {
		return pods
	}
	return slices.DeleteFunc(slices.Clone(pods), (*Pod).IsVirtual)
}

// VirtualPods returns the virtual pods of a list.
func VirtualPods(pods []*Pod) (out []*Pod) {
	for _, p := range pods {
		if p.IsVirtual() {
			out = append(out, p)
		}
	}
	return out
}

// IsWorkload reports whether a scheduler chose, or is to choose, the pod's node: it is neither a DaemonSet's pod nor a static one.
func (p *Pod) IsWorkload() bool { return !p.Class.Daemon && !p.Mirror }

// IsForScheduler reports whether the default kube-scheduler will look for a node for a pending pod.
func (p *Pod) IsForScheduler() bool {
	return !p.Gated && p.Nominated == "" && p.IsWorkload() && p.Class.Scheduler == DefaultScheduler
}

// ComparePodAge compares pods in the order in which they were first seen, then by namespace and name.
func ComparePodAge(a, b *Pod) int {
	return cmp.Or(cmp.Compare(a.Seen, b.Seen), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// IsReschedulable reports whether a pod needs another node when its node goes: it is no pod of a DaemonSet, no mirror pod,
// has not ended and is not being deleted.
func (p *Pod) IsReschedulable() bool { return p.IsWorkload() && !p.Terminal && p.Deleting.IsZero() }

// SuccessorFollowsEnd reports whether a pod's successor is made only when the pod is wholly gone, as a StatefulSet does; a ReplicaSet does not
// wait for that. It is taken to be so for unknown owners.
func (p *Pod) SuccessorFollowsEnd() bool {
	return p.Owner.Kind != "ReplicaSet" && p.Owner.Kind != "ReplicationController"
}

// Annotations on pods and nodes by which people keep nodes from being removed.
const (
	AnnotationDoNotDisrupt      = "karpenter.sh/do-not-disrupt"
	AnnotationScaleDownDisabled = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
)

// Held reports whether its karpenter.sh/do-not-disrupt holds a pod where it is, and until when; zero: for ever. A duration counts from when the
// pod was bound; a value that is neither true nor a duration holds nothing.
func (p *Pod) Held(now time.Time) (bool, time.Time) {
	switch p.DoNotDisrupt {
	case "":
		return false, time.Time{}
	case "true":
		return true, time.Time{}
	}
	d, err := time.ParseDuration(p.DoNotDisrupt)
	if err != nil || d <= 0 {
		return false, time.Time{}
	}
	until := p.Bound.Add(d)
	return now.Before(until), until
}

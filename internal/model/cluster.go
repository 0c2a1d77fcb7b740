// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

import (
	"slices"
	"strings"
	"time"
)

// Node is a Kubernetes node and the pods bound to it.
type Node struct {
	Name, UID, ProviderID string
	Labels                Labels
	Annotations           Labels
	Taints                []Taint // as on the object, spec.unschedulable included as its taint; a reservation that is written as a cordon as its taint too
	DaemonsOnly           bool    // its reservation is written as a cordon: pods of all DaemonSets are let in
	Capacity              Resources
	Allocatable           Resources
	Used                  Resources // sum over Pods that are not terminal
	Pods                  []*Pod    // bound and not terminal, sorted by namespace and name
	NoAnti                bool      // it is known that none of Pods has required anti-affinity
	Ready                 bool
	BootID                string    // of the operating system that runs, another one after each reboot; empty: not known
	Phase                 string    // status.phase, which Kubernetes has long given up; for metrics alone
	ReadySince            time.Time // last transition of condition Ready
	Created               time.Time
	Deleting              time.Time        // zero: not being deleted
	Claim                 string           // NodeClaim it belongs to (same provider id); empty: not ours
	HasFinalizer          bool             // karpenter.sh/termination
	OtherFinalizers       []string         // somebody else's: without ours the object stays all the same
	CSILimits             map[string]int64 // attach limit by driver, from CSINode; absent: no limit known
	CSIDrivers            []string         // CSI drivers registered on it, from CSINode; sorted; nil: it has no CSINode
	Migrated              []string         // in-tree volume plugins whose volumes the node's kubelet leaves to CSI drivers, from CSINode; sorted
	Attached              []Attachment     // volumes that are attached to it or being detached, by name
	Conditions            map[string]Condition
	LastPodEvent          time.Time // when a pod that is neither a daemon's nor expendable last came or left, as far as is known
}

// HasTaint reports whether the node has a taint of this key, whatever its value and effect.
func (n *Node) HasTaint(key string) bool {
	return slices.ContainsFunc(n.Taints, func(t Taint) bool { return t.Key == key })
}

// ExistingNode is a node that is there or in flight, as the solver sees it: pods may be put on it for nothing.
type ExistingNode struct {
	Name        string
	InFlight    bool         // a claim not yet a usable node
	Labels      Labels       // hostname included; for a claim in flight what is certain
	Open        Requirements // in flight only: labels not certain yet (zone, type while several are allowed)
	Taints      []Taint      // those that will still be there when pods come: ephemeral and startup taints are left out by the caller
	Free        Resources    // allocatable minus bound pods; DaemonSets that will still come are charged by solve
	Allocatable Resources
	Pods        []*Pod // bound to it, or planned on it before
	NoAnti      bool   // it is known that none of Pods has required anti-affinity, and they need not be looked through for it
	Fresh       bool   // its labels and what agents report are still to come; so it is where InFlight is true
	CSILimits   map[string]int64
	CSIDrivers  []string     // CSI drivers registered on it; sorted; nil: it has no CSINode. A node that is not standing is expected to get them
	Migrated    []string     // in-tree volume plugins whose volumes its kubelet leaves to CSI drivers; sorted
	Attached    []Attachment // volumes attached to it
	Closed      bool         // takes no new pods (being deleted, cordoned), but its Pods count for spread and affinity
	Drained     bool         // its Pods do not count either: they are planned for elsewhere
}

// IsStanding reports whether the node's labels are what they will be.
func (n *ExistingNode) IsStanding() bool { return !n.InFlight && !n.Fresh }

// Attachment is a volume attached to a node, as its VolumeAttachment says.
type Attachment struct {
	Name  string // of the VolumeAttachment
	Claim string // namespace/name of the PersistentVolumeClaim; empty: not known

	// Driver and Handle name the volume as Volume does, where it counts for the driver's limit; empty: it does not.
	Driver, Handle string
}

// InstanceType is a kind of machine.
type InstanceType struct {
	Name        string
	Labels      Labels    // single-valued: instance type, arch, os, provider labels. Zone and capacity type are the offering's
	Capacity    Resources // what the machine has
	Allocatable Resources // what pods may ask for in sum, before DaemonSets
	Offerings   []Offering
	CSILimits   map[string]int64 // expected attach limit by CSI driver; absent: none known
	Boots       string           // the image that machines of it boot from; empty: not known

	// CapacityOverlays are the NodeOverlays that add extended resources to Capacity and Allocatable, by name.
	CapacityOverlays []string

	// Promised is what the provider says is allocatable, where machines of the type came with less: then Allocatable is what those had.
	Promised Resources
}

// Label returns the value of a label that nodes of the type have when they are launched from an offering, and whether they
// have it. The offering's labels come before the type's; a zone or capacity type that is not known is no label.
func (t *InstanceType) Label(key string, o *Offering) (value string, ok bool) {
	switch key {
	case LabelZone:
		return o.Zone, o.Zone != ""
	case LabelCapacityType:
		return o.CapacityType, o.CapacityType != ""
	}
	if v, ok := o.Labels[key]; ok {
		return v, true
	}
	if v, ok := t.Labels[key]; ok {
		return v, true
	}
	if key == LabelInstanceType {
		return t.Name, true
	}
	return "", false
}

// IsCloudLabel reports whether the cloud sets a label on nodes of some of the types. Instance type, zone and capacity type
// are set on all nodes.
func IsCloudLabel(key string, types []*InstanceType) bool {
	switch key {
	case LabelInstanceType, LabelZone, LabelCapacityType:
		return true
	}
	for _, t := range types {
		if _, ok := t.Labels[key]; ok {
			return true
		}
		for i := range t.Offerings {
			if _, ok := t.Label(key, &t.Offerings[i]); ok {
				return true
			}
		}
	}
	return false
}

// Offering is where, how and for how much a type can be had.
type Offering struct {
	Zone         string
	CapacityType string // on-demand, spot, reserved
	PriceMicro   int64  // micro-dollars per hour
	Available    bool   // false: set aside, out of capacity
	Quota        string // Available false: the reached quota of the account that it would count against, and what to do; empty: none is known
	Labels       Labels // further labels the node will bear, e.g. a reservation id; may be nil
	Remaining    int64  // for reserved capacity and node groups: how many more can be had; negative: not limited
	Most         int64  // of a node group: how many machines it may have; 0: not known
	Modelled     bool   // the price is a model's, not a published one; said wherever it is shown

	PriceOverlay   string // the NodeOverlay that sets PriceMicro; empty: it is the provider's price
	ListPriceMicro int64  // with PriceOverlay: the provider's price
}

// NodePool is what may be bought and how it must look.
type NodePool struct {
	Name, UID     string
	Weight        int32
	Requirements  Requirements // on the node, template labels and nodepool label included as In
	Labels        Labels       // template labels
	Annotations   Labels       // template annotations
	Taints        []Taint
	StartupTaints []Taint
	Limits        Resources // meaningful where HasLimit
	HasLimit      []bool    // by Dim
	NodeLimit     int64     // spec.limits.nodes; negative: none
	Replicas      int64     // static pool; negative: dynamic

	ClassGroup, ClassKind, ClassName string
	ClassGeneration                  int64 // of the node class as it is; 0: not known

	ExpireAfter            time.Duration // negative: Never
	TerminationGracePeriod time.Duration // negative: none

	Surge               string        // value of dovetail.sh/surge
	RestartCost         string        // value of dovetail.sh/restart-cost, see ParseRestartCost; empty: not given
	ConsolidateAfter    time.Duration // negative: Never
	ConsolidationPolicy string
	Budgets             []Budget

	Hash        string // of the template, version v3
	Provisioner string // name of the v1alpha5 Provisioner it comes from; empty: none
	Discovered  bool   // it was made for a node group that was found, and is written anew when somebody edits it

	Ready    bool
	NotReady Condition // why not: reason and message; empty: it is not known yet, as with reason OfferingsNotAsked
	Deleting bool
	Scaling  *GroupScaling // of node groups: as their node class says; nil: of no node groups, or it does not say
	OfGroups bool          // its node class is of node groups
	Taken    bool          // taken over from another autoscaler that is live: its node class reference, or the group's tags, hide it from that one
	Manager  string        // the other autoscaler that it was given back to; empty: none
	Release  string        // how far giving it back has come: ReleaseSettle or ReleaseHold; empty: it is not given back
	LetGo    bool          // its node groups are nobody's to scale any more: its machines are left as they are

	// The status as it is in the API server, so that only a difference is written.
	StatusResources       Resources
	StatusNodes           int64
	StatusHash            string // of the hash annotation
	StatusClassGeneration int64  // of the node class
	Conditions            map[string]Condition

	Types []*InstanceType // what the provider offers it, sorted by name; offerings set aside are there with Available false
}

// What a NodePool that is given back to another autoscaler is kept from.
const (
	ReleaseSettle = "settle" // nothing new is decided; nodes that come or go are seen through
	ReleaseHold   = "hold"   // nothing is done at all
)

// MayBuyType reports whether the pool's requirements allow an instance type at all.
func (p *NodePool) MayBuyType(t *InstanceType) bool {
	for i := range p.Requirements {
		q := &p.Requirements[i]
		if v, ok := t.Labels[q.Key]; ok && !q.Matches(v, true) {
			return false
		}
	}
	return true
}

// MayBuyOffering reports whether the pool's requirements allow an offering's zone and capacity type.
func (p *NodePool) MayBuyOffering(o *Offering) bool { return p.Requirements.AllowOffering(o) }

// AllowOffering reports whether requirements allow an offering's zone and capacity type.
func (rs Requirements) AllowOffering(o *Offering) bool {
	for _, kv := range [2][2]string{{LabelZone, o.Zone}, {LabelCapacityType, o.CapacityType}} {
		if q := rs.Get(kv[0]); q != nil && !q.Matches(kv[1], true) {
			return false
		}
	}
	return true
}

// NodeGroups returns the node groups that the pool is offered something of, sorted.
func (p *NodePool) NodeGroups() []string {
	var out []string
	for _, t := range p.Types {
		for i := range t.Offerings {
			if g := t.Offerings[i].Labels[LabelNodeGroup]; g != "" && !slices.Contains(out, g) {
				out = append(out, g)
			}
		}
	}
	slices.Sort(out)
	return out
}

// ImpliesLabel reports whether a label of the pool's nodes follows from what the pool is: its name, its Provisioner and
// its node class. It stands in no field that could be edited.
func (p *NodePool) ImpliesLabel(key string) bool {
	return key == LabelNodePool || key == LabelProvisioner || p.ClassKind != "" && key == p.ClassGroup+"/"+strings.ToLower(p.ClassKind)
}

// KeepsDaemonPod reports whether a drain of a node of the pool leaves a DaemonSet's pod there until the node ends: the
// pod's annotation says so, or it says nothing and the pool's node groups leave such pods alone, on nodes that are
// removed for being empty (emptied) or on the others. It is false for any other pod. p may be nil.
func (p *NodePool) KeepsDaemonPod(pod *Pod, emptied bool) bool {
	switch {
	case !pod.Class.Daemon || pod.DaemonEviction == "true":
		return false
	case pod.DaemonEviction == "false":
		return true
	case p == nil || p.Scaling == nil:
		return false
	case emptied:
		return p.Scaling.Eviction.KeepEmptyDaemons
	}
	return p.Scaling.Eviction.KeepOtherDaemons
}

// Budget is one disruption budget.
type Budget struct {
	Nodes    int64 // absolute; or percent when Percent
	Percent  bool
	Reasons  []string // empty: every reason
	Schedule string   // cron; empty: always
	Duration time.Duration
}

// Slot is room on a claim kept for pods of one class and one owner (contract 9).
type Slot struct {
	Class    string // hash of Class.Key
	Owner    string // uid of the pods' controller; for a pod without one, the pod's uid
	Count    int
	Requests Resources // of one pod
	Loose    bool      // these pods can't be kept to the node: they tolerate everything
}

// Claim is a NodeClaim.
type Claim struct {
	Name, UID     string
	Pool          string // empty: standalone
	Requirements  Requirements
	Labels        Labels
	Annotations   Labels
	Taints        []Taint
	StartupTaints []Taint
	Requests      Resources

	ClassGroup, ClassKind, ClassName string

	ExpireAfter            time.Duration // negative: Never
	TerminationGracePeriod time.Duration // negative: none

	Created      time.Time
	Deleting     time.Time // zero: not being deleted
	HasFinalizer bool

	OtherFinalizers []string // somebody else's

	ProviderID  string
	NodeName    string
	ImageID     string
	Capacity    Resources // status
	Allocatable Resources

	Conditions   map[string]Condition
	LastPodEvent time.Time

	// Exact landing (contract 9).
	Reserved    bool
	Slots       []Slot // sorted by class, owner
	SlotsUnsure bool   // nobody knows whether these were written: the call that was to do so has failed
	NoReserve   string // why not reserved; empty when reserved

	// Orphan: it was made for a NodePool, and no NodePool owns it any more. That is so after the NodePool was deleted with
	// --cascade=orphan.
	Orphan bool

	// Provisional: the claim was decided and its creation is under way; UID is empty.
	Provisional bool
}

// Is reports whether a condition of the claim is True.
func (c *Claim) Is(condition string) bool { return c.Conditions[condition].True() }

// IsStartupTaint reports whether a taint is one that the claim's node starts with.
func (c *Claim) IsStartupTaint(t Taint) bool {
	return slices.ContainsFunc(c.StartupTaints, func(s Taint) bool { return s.Key == t.Key && s.Effect == t.Effect })
}

// NodeGroup returns the node group that the claim's machine is of, or is to be; empty: none, or one of several.
func (c *Claim) NodeGroup() string {
	if c == nil {
		return ""
	}
	if g := c.Labels[LabelNodeGroup]; g != "" {
		return g
	}
	if q := c.Requirements.Get(LabelNodeGroup); q != nil && !q.Complement && len(q.Values) == 1 {
		return q.Values[0]
	}
	return ""
}

// Daemon is a DaemonSet: its pods will stand on every node they match, so new nodes are charged for them.
type Daemon struct {
	Namespace, Name, UID string
	Class                *Class // its template, as admission leaves a pod made from it. It decides on which nodes the DaemonSet controller makes pods
	Generation           string // of its template: pods made from it bear it as the label LabelTemplateGeneration. Empty: not known
	Newest               *Class // of the newest living pod made from today's template; nil: there is none
}

// Pod returns the class of a pod that the DaemonSet makes now. The newest pod tells what webhooks, a RuntimeClass or an autoscaler
// of its requests have added to the template.
func (d *Daemon) Pod() *Class {
	if d.Newest != nil {
		return d.Newest
	}
	return d.Class
}

// Runs reports whether a pod is one of the DaemonSet's.
func (d *Daemon) Runs(p *Pod) bool {
	return p.Owner.Kind == "DaemonSet" && p.Owner.Name == d.Name && p.Namespace == d.Namespace && (d.UID == "" || p.Owner.UID == "" || p.Owner.UID == d.UID)
}

// PDB is a PodDisruptionBudget.
type PDB struct {
	Namespace, Name    string
	Selector           *Requirements // nil selects nothing
	DisruptionsAllowed int32
	AlwaysAllowUnready bool   // unhealthyPodEvictionPolicy AlwaysAllow
	MinAvailable       string // as written: a number or a share; empty: not set
	MaxUnavailable     string

	// The status: pods that are healthy now, that must be, that are counted.
	Healthy, Desired, Expected int32
}

// Key is namespace/name.
func (b *PDB) Key() string { return b.Namespace + "/" + b.Name }

// IsExhaustedAtRest reports whether the budget allows no eviction though every pod that it counts is healthy: no waiting, only
// another budget or more pods change that.
func (b *PDB) IsExhaustedAtRest() bool {
	return b.DisruptionsAllowed <= 0 && b.Expected > 0 && b.Healthy >= b.Expected
}

// Instance is a machine as its cloud lists it.
type Instance struct {
	ProviderID string
	ClaimUID   string // empty: it bears no claim of ours, and is not ours to end unasked
	ClaimName  string
	Launched   time.Time
	Gone       bool // shutting down or terminated

	// What labels say of a machine that runs in no reservation, where its claim says that it does: the reservation has ended. An empty value:
	// the label is gone. nil: nothing is to be said. Shared and never changed.
	Unreserved Labels

	// Of a member of a node group that no claim was made for, when one may be.
	Class  string // the node class that its group belongs to; empty: no claim is to be made
	Labels Labels // type, zone, capacity type, group
	// Replacing: the cloud replaces the members of its group, or may. What it starts then no pod needs yet, so a claim is made
	// only when its node class says so too, which keeps nodes of the group from being given back.
	Replacing bool
}

// Snapshot is all that a decision may look at. It is immutable; equal clusters give equal Snapshots.
type Snapshot struct {
	ResourceNames []string               // by Dim
	Nodes         []*Node                // by name
	Claims        []*Claim               // by name
	Pools         []*NodePool            // by weight descending, then name
	Pending       []*Pod                 // not bound, not terminal, not being deleted; by namespace and name
	Making        []Making               // by the uid of the ReplicaSet
	GangsEnded    map[string]int         // by Gang.Name: pods that have succeeded, which no list has; nil: none
	Buffers       []*Buffer              // by namespace and name
	Requests      []*ProvisioningRequest // by namespace and name; Pending has the placeholders of those that are active
	Limits        []*CapacityLimit       // over several pools, by name
	Daemons       []*Daemon              // by namespace and name
	PDBs          []*PDB                 // by namespace and name
	Deployments   []*Deployment          // by namespace and name; nil: nobody is allowed to look
	Namespaces    map[string]Labels
	Ending        map[string]time.Time      // since when a namespace is being deleted: no pod is created in it any more
	Instances     []*Instance               // by provider id; from the last List
	InstancesAt   time.Time                 // when that List was asked for; zero: never
	Drift         map[string]string         // by claim uid: why its machine is not what its node class asks for; empty: it is; absent: not asked
	InFlight      map[ActionKey]time.Time   // actions begun whose effect has not come back yet
	Failures      map[string]LaunchFailure  // of the last launch, by claim uid
	Unmade        []UnmadeClaim             // NodeClaims that the API server has refused of late, oldest first
	Failed        map[ActionKey]CallFailure // calls that failed the last time and will be repeated
}

// FindNode returns the node of a name; nil: there is none.
func (s *Snapshot) FindNode(name string) *Node {
	return findByName(s.Nodes, name, func(n *Node) string { return n.Name })
}

// FindClaim returns the NodeClaim of a name; nil: there is none.
func (s *Snapshot) FindClaim(name string) *Claim {
	return findByName(s.Claims, name, func(c *Claim) string { return c.Name })
}

// findByName finds an element of a list that is in order of names; nil: it is not there.
func findByName[T any](list []*T, name string, nameOf func(*T) string) *T {
	i, ok := slices.BinarySearchFunc(list, name, func(x *T, name string) int { return strings.Compare(nameOf(x), name) })
	if !ok {
		return nil
	}
	return list[i]
}

// ActionKey names the effect of an action: see plan.Action.Key, which makes it.
type ActionKey string

// CallFailure is what came of a call that is repeated.
type CallFailure struct {
	Times   int       // in a row
	Since   time.Time // of the first of these failures
	Message string    // of the last
}

// UnmadeClaim is a NodeClaim that the API server, or an admission policy, has refused.
type UnmadeClaim struct {
	Claim, Pool, Group string // the pool by name
	Slots              []Slot
	At                 time.Time
	Message            string
}

// LaunchFailure is why the last launch of a claim failed.
type LaunchFailure struct {
	Kind    string // as in cloud.Kind
	Message string
}

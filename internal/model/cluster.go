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

// ExistingNode is a node as the solver sees it: one that exists, or the node of a NodeClaim that is being launched. Placing pods on it
// costs nothing. It is in one of these states:
//
//   - standing: registered and initialized; its labels are final
//   - fresh: registered, but labels, drivers and resources that its agents report may still be missing
//   - in flight: no usable node yet; some labels may still be open
type ExistingNode struct {
	Name     string
	InFlight bool // the NodeClaim has no usable node yet
	Fresh    bool // labels and resources reported by agents may still change. Always true if InFlight

	Labels Labels       // including the hostname; only the certain ones if InFlight
	Open   Requirements // only if InFlight: allowed values of labels that are not certain yet, for example several zones or instance types
	Taints []Taint      // taints that remain when pods arrive, without ephemeral taints and startup taints

	Allocatable Resources
	Free        Resources // Allocatable minus the requests of Pods. The solver subtracts the requests of DaemonSet pods still to come
	Pods        []*Pod    // pods bound to the node, or planned on it before
	NoAnti      bool      // none of Pods has required anti-affinity; false: not known, each pod is checked

	CSILimits  map[string]int64 // attach limit by CSI driver; absent: no limit known
	CSIDrivers []string         // CSI drivers registered on the node, sorted; nil: no CSINode. If it is not standing, drivers are expected to register
	Migrated   []string         // in-tree volume plugins that the kubelet replaces by CSI drivers, sorted
	Attached   []Attachment     // volumes attached to the node

	Closed  bool // accepts no new pods (cordoned, or being deleted), but Pods count for topology spread and affinity
	Drained bool // Pods do not count either, because they are planned for other nodes
}

// IsStanding reports whether the node's labels and resources are final.
func (n *ExistingNode) IsStanding() bool { return !n.InFlight && !n.Fresh }

// Attachment is a volume attached to a node, as its VolumeAttachment says.
type Attachment struct {
	Name  string // of the VolumeAttachment
	Claim string // namespace/name of the PersistentVolumeClaim; empty: not known

	// Driver and Handle name the volume as Volume does, where it counts for the driver's limit; empty: it does not.
	Driver, Handle string
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

// Snapshot is all that a decision may look at. It is immutable; equal clusters give equal Snapshots.
type Snapshot struct {
	ResourceNames []string               // by Dim
	Nodes         []*Node                // by name
	Claims        []*Claim               // by name
	Pools         []*NodePool            // by weight descending, then name
	Pending       []*Pod                 // not bound, not terminal, not being deleted; by namespace and name
	Making        []Making               // by the uid of the ReplicaSet
	Failing       []*FailingReplicas     // by namespace and name of the ReplicaSet; decisions don't depend on them
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
	Outages       []Outage                  `json:",omitempty"` // of the cloud, oldest first; the last may last still
	Shifts        []ZonalShift              // in effect, by zone; nothing is launched in these zones
	ShiftsUnread  bool                      `json:",omitempty"` // Shifts is empty because the cloud's answer has not come yet
	Drift         map[string]string         // by claim uid: why its machine is not what its node class asks for; empty: it is; absent: not asked
	InFlight      map[ActionKey]time.Time   // actions begun whose effect has not come back yet
	Failures      map[string]LaunchFailure  // of the last launch, by claim uid
	Unmade        []UnmadeClaim             // NodeClaims that the API server has refused of late, oldest first
	Failed        map[ActionKey]CallFailure // calls that failed the last time and will be repeated
	Undone        map[ActionKey]UndoneChange
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

// UndoneChange is a change that succeeds and is undone by somebody else, again and again.
type UndoneChange struct {
	Times int       // in a row
	Since time.Time // when it was made first
}

// CallFailure is what came of a call that is repeated.
type CallFailure struct {
	Times   int       // in a row
	Since   time.Time // of the first of these failures
	Message string    // of the last
}

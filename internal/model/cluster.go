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
	Taints                []Taint // as on the object, plus the taint for spec.unschedulable; for a reservation stored as a cordon, plus its taint
	DaemonsOnly           bool    // its reservation is stored as a cordon: DaemonSet pods are allowed
	Capacity              Resources
	Allocatable           Resources
	Used                  Resources // sum over Pods that are not terminal
	Pods                  []*Pod    // bound and not terminal, sorted by namespace and name
	NoAnti                bool      // it is known that none of Pods has required anti-affinity
	Ready                 bool
	BootID                string    // boot ID of the running operating system; empty: unknown
	Phase                 string    // status.phase, which is deprecated; for metrics only
	ReadySince            time.Time // last transition of condition Ready
	Created               time.Time
	Deleting              time.Time        // zero: not being deleted
	Claim                 string           // NodeClaim with the same provider ID; empty: none
	HasFinalizer          bool             // karpenter.sh/termination
	OtherFinalizers       []string         // finalizers of other controllers, which keep the object after Dovetail's is removed
	CSILimits             map[string]int64 // attach limit by driver, from CSINode; absent: no limit known
	CSIDrivers            []string         // registered CSI drivers, from CSINode; sorted; nil: no CSINode
	Migrated              []string         // in-tree volume plugins migrated to CSI, from CSINode; sorted
	Attached              []Attachment     // volumes that are attached to it or being detached, by name
	Conditions            map[string]Condition
	LastPodEvent          time.Time // last addition or removal of a pod that is neither of a DaemonSet nor expendable, if known
}

// HasTaint reports whether the node has a taint with this key, with any value and effect.
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

// Attachment is a VolumeAttachment of a node.
type Attachment struct {
	Name  string // of the VolumeAttachment
	Claim string // namespace/name of the PersistentVolumeClaim; empty: not known

	// Driver and Handle identify the volume as in Volume, if it counts towards the driver's limit; otherwise empty.
	Driver, Handle string
}

// Daemon is a DaemonSet. Its requests are subtracted from new nodes on which its pods would run.
type Daemon struct {
	Namespace, Name, UID string
	Class                *Class // a pod of the template after admission, which determines the nodes of the DaemonSet
	Generation           string // generation of the template, which pods have as label LabelTemplateGeneration; empty: unknown
	Newest               *Class // class of the newest running pod of the current template; nil: none
}

// Pod returns the class of the DaemonSet's next pod. The newest pod shows what webhooks, a RuntimeClass or VPA add to the
// template.
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

	// Status: pods that are healthy, that must be healthy, and that count.
	Healthy, Desired, Expected int32
}

// Key is namespace/name.
func (b *PDB) Key() string { return b.Namespace + "/" + b.Name }

// IsExhaustedAtRest reports whether the budget allows no eviction although all of its pods are healthy, so only a changed
// budget or more pods help.
func (b *PDB) IsExhaustedAtRest() bool {
	return b.DisruptionsAllowed <= 0 && b.Expected > 0 && b.Healthy >= b.Expected
}

// Snapshot is the complete input of a decision about the cluster. It is immutable; equal clusters give equal Snapshots.
type Snapshot struct {
	ResourceNames []string               // by Dim
	Nodes         []*Node                // by name
	Claims        []*Claim               // by name
	Pools         []*NodePool            // by weight descending, then name
	Pending       []*Pod                 // not bound, not terminal, not being deleted; by namespace and name
	Making        []Making               // by the uid of the ReplicaSet
	Failing       []*FailingReplicas     // by namespace and name of the ReplicaSet; decisions don't depend on them
	Templates     map[string]Template    // by uid of the controller, of those that have pods; nil: nobody looks; decisions don't depend on them
	GangsEnded    map[string]int         // by Gang.Name: succeeded pods, which are in no other list; nil: none
	Buffers       []*Buffer              // by namespace and name
	Requests      []*ProvisioningRequest // by namespace and name; Pending contains the placeholders of active ones
	Limits        []*CapacityLimit       // over several pools, by name
	Daemons       []*Daemon              // by namespace and name
	PDBs          []*PDB                 // by namespace and name
	Deployments   []*Deployment          // by namespace and name; nil: no permission to list them
	Namespaces    map[string]Labels
	Ending        map[string]time.Time      // by namespace: when its deletion began; no pods are created in it
	Instances     []*Instance               // by provider id; from the last List
	InstancesAt   time.Time                 // when that List was requested; zero: never
	Outages       []Outage                  `json:",omitempty"` // of the cloud, oldest first; the last one may continue
	Shifts        []ZonalShift              // in effect, by zone; nothing is launched in these zones
	ShiftsUnread  bool                      `json:",omitempty"` // Shifts is empty because it has not been read yet
	Drift         map[string]string         // by NodeClaim UID: why its instance differs from its node class; empty: it does not; absent: not checked
	InFlight      map[ActionKey]time.Time   // started actions whose effect is not visible yet
	Failures      map[string]LaunchFailure  // the last failed launch, by NodeClaim UID
	Unmade        []UnmadeClaim             // NodeClaims that the API server recently rejected, oldest first
	Failed        map[ActionKey]CallFailure // calls whose last attempt failed, and which will be retried
	Undone        map[ActionKey]UndoneChange
}

// FindNode returns the node with this name; nil if there is none.
func (s *Snapshot) FindNode(name string) *Node {
	return findByName(s.Nodes, name, func(n *Node) string { return n.Name })
}

// FindClaim returns the NodeClaim with this name; nil if there is none.
func (s *Snapshot) FindClaim(name string) *Claim {
	return findByName(s.Claims, name, func(c *Claim) string { return c.Name })
}

// findByName returns an element of a list sorted by name; nil if there is none.
func findByName[T any](list []*T, name string, nameOf func(*T) string) *T {
	i, ok := slices.BinarySearchFunc(list, name, func(x *T, name string) int { return strings.Compare(nameOf(x), name) })
	if !ok {
		return nil
	}
	return list[i]
}

// ActionKey identifies the effect of an action; plan.Action.Key returns it.
type ActionKey string

// UndoneChange describes a change that another client repeatedly reverts.
type UndoneChange struct {
	Times int       // in a row
	Since time.Time // time of the first change
}

// CallFailure describes a call that failed and is retried.
type CallFailure struct {
	Times   int       // in a row
	Since   time.Time // of the first of these failures
	Message string    // of the last
}

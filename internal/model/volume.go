// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

import "slices"

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

// UnusableVolume returns the first volume of the class that pods can't use on a node that is there, nil if there is none: its driver must be
// registered there first, and is not (lacksDriver; see LacksDriver), or the node's labels are not those of a place where the volume is. CSI drivers
// give a node the labels of their topology when they are registered there. The labels are not looked at for a volume whose driver reports storage:
// kube-scheduler alone knows how much there is.
func (c *Class) UnusableVolume(n *Node) (v *Volume, lacksDriver bool) {
	for i := range c.Volumes {
		v := &c.Volumes[i]
		if v.LacksDriver(n.CSIDrivers) {
			return v, true
		}
		places := v.OnStanding(v.InTree != "" && slices.Contains(n.Migrated, v.InTree))
		if v.Reported == "" && len(places) > 0 && !slices.ContainsFunc(places, func(rs Requirements) bool { return rs.Matches(n.Labels) }) {
			return v, false
		}
	}
	return nil, false
}

// AwaitedVolume returns the first volume of the class that pods can't use on a node that is there before its CSI driver is registered on it: the driver
// is missing, or labels that it sets are. nil if there is none, or if the labels that the node has keep pods off for good.
func (c *Class) AwaitedVolume(n *Node) (awaited *Volume) {
	for i := range c.Volumes {
		v := &c.Volumes[i]
		places := v.OnStanding(v.InTree != "" && slices.Contains(n.Migrated, v.InTree))
		isMissing := false
		if v.Reported == "" && len(places) > 0 && !slices.ContainsFunc(places, func(rs Requirements) bool { return rs.Matches(n.Labels) }) {
			if isMissing = slices.ContainsFunc(places, func(rs Requirements) bool { return rs.mayMatch(n.Labels) }); !isMissing {
				return nil
			}
		}
		if awaited == nil && (isMissing || v.LacksDriver(n.CSIDrivers)) {
			awaited = v
		}
	}
	return awaited
}

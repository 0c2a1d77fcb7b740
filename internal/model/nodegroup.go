// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

import (
	"cmp"
	"regexp"
	"slices"
	"time"
)

// NodeGroup is a node group of a NodePool, as last observed.
type NodeGroup struct {
	Name         string
	Min          int64  // minimum size
	Max, Desired int64  // maximum and desired size; only for groups selected by a node class
	Problem      string // why nothing can be launched in it; empty: nothing prevents it. Only for groups selected by a node class
	Refresh      string // status of the current instance refresh; empty: none
	Options      *GroupOptions
}

// GroupOptions are the scale-down options of the node group itself. They override those of its node class.
type GroupOptions struct {
	UtilizationPercent, GPUPercent int32 // negative: not set
	Unready, Provision             time.Duration
	IgnoreDaemons, SaysDaemons     bool // whether requests of DaemonSet pods are ignored, if SaysDaemons is set
}

// GroupPriority ranks node groups: the highest priority is used first, groups without one last.
type GroupPriority struct {
	Priority int32
	Names    []*regexp.Regexp
}

// EvictionRules define which additional pods prevent consolidation of a node group's node, and how its pods are evicted.
type EvictionRules struct {
	LocalStorage      bool          // keep nodes with pods that have local volumes: hostPath, or emptyDir not in memory
	CustomControllers bool          // keep nodes with pods whose controller is not a built-in kind of Kubernetes
	SystemPods        time.Duration // keep nodes with kube-system pods without a PodDisruptionBudget until the pods reach this age; 0: no such rule
	MinReplicas       int32         // keep nodes with pods whose controller has fewer pods
	KeepEmptyDaemons  bool          // do not evict DaemonSet pods from a node that is removed as empty
	KeepOtherDaemons  bool          // do not evict DaemonSet pods from a node that is removed for another reason

	// DrainBands are priority groups of pods, ascending, evicted one after the other. None: all pods are evicted together,
	// each with its own grace period.
	DrainBands []DrainBand
}

// DelayDeletionPrefix is the prefix of annotations that delay the deletion of a node until they are removed, or until a
// timeout.
const DelayDeletionPrefix = "delay-deletion.cluster-autoscaler.kubernetes.io/"

// DrainBand is the group of pods with at least this priority, up to that of the next band. The first band also includes lower
// priorities.
type DrainBand struct {
	Priority int32
	MaxGrace time.Duration // maximum grace period of its pods
}

// DrainBand returns the index of the band in which a pod of this priority is evicted, and its maximum grace period; 0 means
// the pod's own.
func (r *EvictionRules) DrainBand(priority int32) (band int, maxGrace time.Duration) {
	if len(r.DrainBands) == 0 {
		return 0, 0
	}
	for band+1 < len(r.DrainBands) && r.DrainBands[band+1].Priority <= priority {
		band++
	}
	return band, r.DrainBands[band].MaxGrace
}

// PriorityCutoff is a priority below which pods are expendable: no node is launched or kept for them. The zero value means
// that no pod is.
type PriorityCutoff struct {
	Set   bool
	Below int32
}

// CutoffOf returns the cutoff that applies with these pools. A pod may be evicted in one pool and pending for another, so
// there is none unless all pools have one; then the lowest applies.
func CutoffOf(pools []*NodePool) (out PriorityCutoff) {
	for i, p := range pools {
		if p.Scaling == nil || !p.Scaling.Cutoff.Set {
			return PriorityCutoff{}
		}
		if c := p.Scaling.Cutoff; i == 0 || c.Below < out.Below {
			out = c
		}
	}
	return out
}

// IsExpendable reports whether a pod is expendable. Pods of DaemonSets and static pods never are: they are removed with their
// node.
func (c PriorityCutoff) IsExpendable(p *Pod) bool {
	return c.Set && p.Class.Priority < c.Below && p.IsWorkload()
}

// ScaleDownDelays are how long no node of a node group is consolidated after an event; 0: no delay.
type ScaleDownDelays struct {
	AfterAdd     time.Duration // after a launch
	AfterDelete  time.Duration // after a consolidation, or the removal of an empty node, begins
	AfterFailure time.Duration // after such a removal is cancelled
	PerGroup     bool          // only events in the node's own group count
}

// GroupScaling contains the scale-down and expander options of node groups.
type GroupScaling struct {
	// UtilizationPercent is the requested share of CPU or memory, whichever is higher, above which a node is kept; GPUPercent
	// is that of GPUs for nodes with GPUs. Negative: no threshold.
	UtilizationPercent, GPUPercent int32
	GPUs                           []Dim
	IgnoreDaemons                  bool          // requests of DaemonSet pods do not count
	IgnoreMirrors                  bool          // requests of static pods do not count
	Unready                        time.Duration // how long a node may be not Ready; 0: the provider's default
	Provision                      time.Duration // how long a machine may take to register; 0: the default

	Groups []NodeGroup // by name: groups with options, limits or problems
	Chosen []string    // names of all selected groups, sorted; nil: unknown
	Unread bool        // the node class has no status yet, so its groups and their minimum sizes are unknown

	Expanders  []string        // expanders in order; each chooses among the groups that the previous one left
	Priorities []GroupPriority // of the expander priority
	Eviction   EvictionRules
	// DeletionDelay is the maximum time that a drained node waits for the removal of annotations with DelayDeletionPrefix. 0:
	// the default; negative: no wait.
	DeletionDelay time.Duration
	Delays        ScaleDownDelays
	TaintDelay    time.Duration  // minimum time between tainting a node and evicting its pods
	PodDelay      time.Duration  // minimum age of a pod before a node is launched for it; 0: none. The minimum over all pools applies
	Cutoff        PriorityCutoff // pods below it are expendable if all pools have a cutoff; the lowest applies
	Balance       bool           // groups that differ only in zones and the labels in Ignore are kept at about the same size
	Ignore        []string
}

// Of returns the scaling options of one group, with its own options applied.
func (s *GroupScaling) Of(group string) *GroupScaling {
	i := slices.IndexFunc(s.Groups, func(g NodeGroup) bool { return g.Name == group && g.Options != nil })
	if group == "" || i < 0 {
		return s
	}
	o, out := s.Groups[i].Options, *s
	if o.UtilizationPercent >= 0 {
		out.UtilizationPercent = o.UtilizationPercent
	}
	if o.GPUPercent >= 0 {
		out.GPUPercent = o.GPUPercent
	}
	if o.SaysDaemons {
		out.IgnoreDaemons = o.IgnoreDaemons
	}
	out.Unready, out.Provision = cmp.Or(o.Unready, s.Unready), cmp.Or(o.Provision, s.Provision)
	return &out
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

import (
	"cmp"
	"regexp"
	"slices"
	"time"
)

// NodeGroup is one of a NodePool's node groups as it was last seen.
type NodeGroup struct {
	Name         string
	Min          int64  // how few machines it may have
	Max, Desired int64  // how many it may have and is to have; only of the groups of a node class
	Problem      string // why nothing can be launched in it; empty: it can. Only of the groups of a node class
	Refresh      string // the status of an instance refresh that is under way; empty: there is none
	Options      *GroupOptions
}

// GroupOptions is what a node group itself says of when its machines are given back. It takes the place of its node class's options.
type GroupOptions struct {
	UtilizationPercent, GPUPercent int32 // negative: not said
	Unready, Provision             time.Duration
	IgnoreDaemons, SaysDaemons     bool // whether DaemonSets' pods count, if it is said
}

// GroupPriority ranks node groups: the highest is taken first, and those that none names last.
type GroupPriority struct {
	Priority int32
	Names    []*regexp.Regexp
}

// EvictionRules are which pods keep a node of a node group from being consolidated, beside those that keep any node,
// and how its pods are evicted.
type EvictionRules struct {
	LocalStorage      bool          // pods with volumes on the node: hostPath, or emptyDir that is not in memory
	CustomControllers bool          // pods whose controller is of a kind that is not Kubernetes' own
	SystemPods        time.Duration // pods of kube-system without a PodDisruptionBudget, until they are so old; 0: none
	MinReplicas       int32         // pods whose controller has fewer pods than this
	KeepEmptyDaemons  bool          // pods of DaemonSets are not evicted from a node that goes for being empty
	KeepOtherDaemons  bool          // nor from one that goes for anything else

	// DrainBands are groups of pods by priority, ascending, that are evicted one after the other. None: all pods go
	// together, each with the grace period that it asks for.
	DrainBands []DrainBand
}

// DelayDeletionPrefix is what the keys of annotations begin with by which whoever has still something to do with a node
// delays its deletion, until the annotation is removed or too much time has passed.
const DelayDeletionPrefix = "delay-deletion.cluster-autoscaler.kubernetes.io/"

// DrainBand is the pods from a priority up to that of the next band; the first band takes those of a lower one too.
type DrainBand struct {
	Priority int32
	MaxGrace time.Duration // no pod of it has longer to end
}

// DrainBand returns the band that a pod of a priority is evicted in, by position, and how long it has to end at most; 0
// for as long as it asks for.
func (r *EvictionRules) DrainBand(priority int32) (band int, maxGrace time.Duration) {
	if len(r.DrainBands) == 0 {
		return 0, 0
	}
	for band+1 < len(r.DrainBands) && r.DrainBands[band+1].Priority <= priority {
		band++
	}
	return band, r.DrainBands[band].MaxGrace
}

// PriorityCutoff is a priority below which pods are expendable: no node is launched for them, and none is kept for them.
// The zero value calls no pod expendable.
type PriorityCutoff struct {
	Set   bool
	Below int32
}

// CutoffOf returns the cutoff that holds where there are these pools. A pod may be evicted in one pool and pend for
// another, so that there is none unless all pools have one; then the least counts.
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

// IsExpendable reports whether a pod is expendable. Pods of DaemonSets and static pods go with their node anyway, and are
// not.
func (c PriorityCutoff) IsExpendable(p *Pod) bool {
	return c.Set && p.Class.Priority < c.Below && p.IsWorkload()
}

// ScaleDownDelays are how long no node of a node group is consolidated after something happened to one; 0: no such rule.
type ScaleDownDelays struct {
	AfterAdd     time.Duration // after a node was launched
	AfterDelete  time.Duration // after the removal of a node for its cost or for being empty began
	AfterFailure time.Duration // after such a removal was taken back
	PerGroup     bool          // only what happened to nodes of its own group counts
}

// GroupScaling is when machines of node groups are given back.
type GroupScaling struct {
	// A node of whose CPU or memory, whichever is more, a larger share than this is asked for stays where it is; of one with GPUs only
	// they count. Negative: no bound.
	UtilizationPercent, GPUPercent int32
	GPUs                           []Dim
	IgnoreDaemons                  bool          // what pods of DaemonSets ask for does not count
	IgnoreMirrors                  bool          // nor what static pods ask for
	Unready                        time.Duration // after so long without being Ready a node is broken; 0: as its provider says
	Provision                      time.Duration // so long a machine has to become a node; 0: as long as any other

	Groups []NodeGroup // by name: those of which something has to be minded
	Chosen []string    // names of all groups that the node class chooses, in order; nil: not known
	Unread bool        // the node class's status has not said yet which groups it chooses, nor what has to be minded of them

	Expanders  []string        // by which of several groups one is taken, each among those that the one before leaves
	Priorities []GroupPriority // of the expander priority
	Eviction   EvictionRules
	// DeletionDelay is how long a node whose pods are gone stays at most for annotations with the prefix
	// DelayDeletionPrefix; 0: as long as any other node, negative: not at all.
	DeletionDelay time.Duration
	Delays        ScaleDownDelays
	TaintDelay    time.Duration  // so long a node has been tainted at least before its pods are evicted
	PodDelay      time.Duration  // so long after its creation a pod gets no node launched; 0: at once. The least of all pools counts
	Cutoff        PriorityCutoff // pods below it are expendable, where all pools have one; the least of them counts
	Balance       bool           // groups that are alike but for their zones and these labels are kept at about the same size
	Ignore        []string
}

// Of returns the scaling of the machines of one group: with the group's own options.
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

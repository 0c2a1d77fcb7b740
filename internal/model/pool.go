// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

import (
	"slices"
	"strings"
	"time"
)

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
	TerminationGracePeriod time.Duration // for new NodeClaims: how long a drain waits for pods; negative: no limit

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

// OfferingsNotAsked is the reason of a NodePool that is not ready because its provider has not been asked yet what it is
// offered.
const OfferingsNotAsked = "NodeClassReadinessUnknown"

// IsUnread reports whether it is not known yet what a NodePool is offered, as after a start: its provider has not answered.
func (p *NodePool) IsUnread() bool {
	return p.Types == nil && !p.Ready && (p.NotReady.Reason == "" || p.NotReady.Reason == OfferingsNotAsked)
}

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

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

import (
	"slices"
	"strings"
	"time"
)

// NodePool defines which nodes may be launched, and their properties.
type NodePool struct {
	Name, UID     string
	Weight        int32
	Requirements  Requirements // on the node, template labels and nodepool label included as In
	Labels        Labels       // template labels
	Annotations   Labels       // template annotations
	Taints        []Taint
	StartupTaints []Taint
	Limits        Resources // limits by Dim; valid where HasLimit
	HasLimit      []bool    // by Dim
	NodeLimit     int64     // spec.limits.nodes; negative: none
	Replicas      int64     // static pool; negative: dynamic

	ClassGroup, ClassKind, ClassName string
	ClassGeneration                  int64 // of the current node class; 0: unknown

	ExpireAfter            time.Duration // negative: Never
	TerminationGracePeriod time.Duration // for new NodeClaims: how long a drain waits for pods; negative: no limit

	Surge               string        // value of dovetail.sh/surge
	RestartCost         string        // value of dovetail.sh/restart-cost, see ParseRestartCost; empty: not given
	ConsolidateAfter    time.Duration // negative: Never
	ConsolidationPolicy string
	Budgets             []Budget

	Hash        string // of the template, version v3
	Provisioner string // name of its v1alpha5 Provisioner; empty: none
	Discovered  bool   // generated for a discovered node group; changes by others are reverted

	Ready    bool
	NotReady Condition // why it is not Ready, with reason and message; empty: unknown, as with reason OfferingsNotAsked
	Deleting bool
	Scaling  *GroupScaling // options of its node groups; nil: it has no node groups, or no options
	OfGroups bool          // its node class selects node groups
	Taken    bool          // taken over from a running autoscaler, which does not see it because of its node class reference or the tags of its group
	Manager  string        // the autoscaler that it was released to; empty: none
	Release  string        // state of the release: ReleaseSettle or ReleaseHold; empty: not being released
	LetGo    bool          // its node groups are no longer scaled, and its nodes are left unchanged

	// The status in the API server, so that only changes are written.
	StatusResources       Resources
	StatusNodes           int64
	StatusHash            string // of the hash annotation
	StatusClassGeneration int64  // of the node class
	Conditions            map[string]Condition

	Types []*InstanceType // instance types that the provider offers, sorted by name; unavailable offerings have Available false
}

// Restrictions on a NodePool that is being released to another autoscaler.
const (
	ReleaseSettle = "settle" // no new launches or disruptions; those in progress are completed
	ReleaseHold   = "hold"   // no actions
)

// OfferingsNotAsked is the reason of a NodePool that is not Ready because its offerings have not been read from the provider
// yet.
const OfferingsNotAsked = "NodeClassReadinessUnknown"

// IsUnread reports whether the pool's offerings are still unknown, for example after a start.
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

// NodeGroups returns the sorted names of the node groups in the pool's offerings.
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

// ImpliesLabel reports whether a node label follows from the identity of the pool: its name, Provisioner or node class. Such
// a label is not in an editable field.
func (p *NodePool) ImpliesLabel(key string) bool {
	return key == LabelNodePool || key == LabelProvisioner || p.ClassKind != "" && key == p.ClassGroup+"/"+strings.ToLower(p.ClassKind)
}

// KeepsDaemonPod reports whether a drain of the pool's node does not evict a DaemonSet pod, because of the pod's annotation
// or, without one, because of the options of the pool's node groups for nodes removed as empty (emptied) or for other
// reasons. It is false for other pods. p may be nil.
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

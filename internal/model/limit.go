// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package model

import (
	"slices"
)

// CapacityLimit bounds what the nodes that its selector matches have in sum, whoever launched them: a CapacityQuota, or
// the limits over the whole cluster.
type CapacityLimit struct {
	Name     string       // ClusterLimits, or capacityquota/NAME
	Selector Requirements // of node labels; empty: every node counts

	Most         Resources // of capacity; meaningful where HasMost
	HasMost      []bool    // by Dim
	Nodes        int64     // negative: not limited
	MicroPerHour int64     // what the nodes may cost, micro-dollars an hour; negative: not limited

	Quota *Quota // the object; nil: the limit is not a CapacityQuota

	Least Resources // no node is removed of its own accord that would leave less capacity than this; zero: none
}

// Quota is the CapacityQuota that a limit comes from.
type Quota struct {
	Name, UID  string
	Generation int64
	Resources  []string // that it names, sorted; those that nodes can't have included
	Invalid    string   // why it can't hold, with the remedy; empty: it holds

	// The status as it is in the API server, so that only a difference is written.
	Used               map[string]string // by resource; nil: not written yet
	ObservedGeneration int64
	Conditions         map[string]Condition
}

// ClusterLimits is the name of the limits over the whole cluster, which are flags of the controller.
const ClusterLimits = "cluster"

// DollarsPerHour is how a limit on what nodes cost is called where its resources are.
const DollarsPerHour = "dollars-per-hour"

// LimitUse is a limit and what counts against it, nodes that are being launched included.
type LimitUse struct {
	*CapacityLimit
	Used      Resources // by Dim: capacity
	UsedNodes int64
	UsedMicro int64 // micro-dollars an hour, of the nodes whose price is known
}

// Matches reports whether nodes with these labels count.
func (l *CapacityLimit) Matches(labels Labels) bool {
	for i := range l.Selector {
		v, ok := labels[l.Selector[i].Key]
		if !l.Selector[i].Matches(v, ok) {
			return false
		}
	}
	return true
}

// IsUnlimited reports whether the limit allows any number of nodes of any size and price, as that of an invalid
// CapacityQuota does.
func (l *CapacityLimit) IsUnlimited() bool {
	return l.Nodes < 0 && l.MicroPerHour < 0 && !slices.Contains(l.HasMost, true)
}

// IsLimited reports whether the limit bounds a resource.
func (l *CapacityLimit) IsLimited(d Dim) bool { return int(d) < len(l.HasMost) && l.HasMost[d] }

// LimitShortage says of what a limit allows no more, how much was wanted, and how much of it is used.
type LimitShortage struct {
	Resource         string // a resource's name, "nodes" or DollarsPerHour; the unit of the amounts
	Need, Used, Most int64
}

// ShortOfNodes says that the limit on nodes is reached.
func (u *LimitUse) ShortOfNodes() LimitShortage {
	return LimitShortage{"nodes", 1, u.UsedNodes, u.Nodes}
}

// ShortOfDollars says that the limit on dollars leaves less than a node costs, in micro-dollars an hour.
func (u *LimitUse) ShortOfDollars(micro int64) LimitShortage {
	return LimitShortage{DollarsPerHour, micro, u.UsedMicro, u.MicroPerHour}
}

// ShortOf says that the limit on a resource leaves less than a node has.
func (u *LimitUse) ShortOf(d Dim, name string, amount int64) LimitShortage {
	return LimitShortage{name, amount, u.Used.At(d), u.Most.At(d)}
}

// Shortage returns what the limit lacks for one more node, and false where it allows it.
func (u *LimitUse) Shortage(names []string, capacity Resources, micro int64) (LimitShortage, bool) {
	if u.Nodes >= 0 && u.UsedNodes >= u.Nodes {
		return u.ShortOfNodes(), true
	}
	for d, limited := range u.HasMost {
		if d := Dim(d); limited && capacity.At(d) > 0 && u.Used.At(d)+capacity.At(d) > u.Most.At(d) {
			return u.ShortOf(d, names[d], capacity.At(d)), true
		}
	}
	if u.MicroPerHour >= 0 && micro > 0 && u.UsedMicro+micro > u.MicroPerHour {
		return u.ShortOfDollars(micro), true
	}
	return LimitShortage{}, false
}

// SetMost limits a resource.
func (l *CapacityLimit) SetMost(d Dim, amount int64) {
	for len(l.HasMost) <= int(d) {
		l.HasMost = append(l.HasMost, false)
	}
	l.Most, l.HasMost[d] = l.Most.With(d, amount), true
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package nodegroups

import (
	"slices"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Groups maps names of node groups with size limits to the groups.
type Groups map[string]*disrupt.NodeGroup

// New returns the node groups with constraints on their size, and the number of their staying machines. A machine without a
// NodeClaim does not count: keeping one machine too many is safer.
func New(s *model.Snapshot, isStaying func(*model.Claim) bool) Groups {
	out := Groups{}
	for _, p := range s.Pools {
		if p.Scaling == nil {
			continue
		}
		for _, g := range p.Scaling.Groups {
			if x := out[g.Name]; x == nil {
				out[g.Name] = &disrupt.NodeGroup{MinSize: g.Min, InstanceRefresh: g.Refresh}
			} else {
				x.MinSize = max(x.MinSize, g.Min)
			}
		}
	}
	if len(out) == 0 {
		return nil
	}
	for _, c := range s.Claims {
		if x := out[c.Labels[model.LabelNodeGroup]]; x != nil && c.ProviderID != "" && isStaying(c) {
			x.Staying++
		}
	}
	return out
}

// RemovableByGroup returns how many more machines of each group may be removed.
func (ng Groups) RemovableByGroup() map[string]int64 {
	out := make(map[string]int64, len(ng))
	for name, x := range ng {
		out[name] = max(0, x.Staying-x.MinSize)
	}
	return out
}

// IsRefreshing reports whether the cloud is replacing the machines of a group.
func (ng Groups) IsRefreshing(group string) bool {
	x := ng[group]
	return x != nil && x.InstanceRefresh != ""
}

// WithoutRefreshingGroups returns the pools with the offerings of groups whose machines are being replaced marked unavailable.
func (ng Groups) WithoutRefreshingGroups(pools []solve.Pool) []solve.Pool {
	return replaceOfferings(pools, func(o *model.Offering) bool {
		if !o.Available || !ng.IsRefreshing(o.Labels[model.LabelNodeGroup]) {
			return false
		}
		o.Available = false
		return true
	})
}

// WithinMaximums returns the pools, limited to what the maximum of each group allows in addition to its machines and its NodeClaims
// for more: the desired capacity was read from the cloud a while ago and may not include the latest of them. sizes returns the
// current and requested number of machines per group: see Sizes.
func WithinMaximums(pools []solve.Pool, sizes func() map[string]int64) []solve.Pool {
	if !slices.ContainsFunc(pools, func(p solve.Pool) bool {
		return slices.ContainsFunc(p.Types, func(t *model.InstanceType) bool { return len(t.Offerings) > 0 && t.Offerings[0].Most > 0 })
	}) {
		return pools
	}
	taken := sizes()
	return replaceOfferings(pools, func(o *model.Offering) bool {
		g := o.Labels[model.LabelNodeGroup]
		left := max(0, o.Most-taken[g])
		if g == "" || o.Most == 0 || o.Remaining <= left {
			return false
		}
		o.Remaining = left
		return true
	})
}

// Sizes returns the current and requested number of machines of each node group, by name: those of NodeClaims that have not ended,
// and those without a NodeClaim. A NodeClaim without a machine that is being deleted, or that isDeleted reports to be deleted, does
// not count; isDeleted may be nil. The empty name has the machines without a group.
func Sizes(s *model.Snapshot, isDeleted func(*model.Claim) bool) map[string]int64 {
	gone, claimed := map[string]bool{}, map[string]bool{} // by provider id
	for _, i := range s.Instances {
		gone[i.ProviderID] = i.Gone
	}
	out := map[string]int64{}
	for _, c := range s.Claims {
		if c.ProviderID == "" && (!c.Deleting.IsZero() || isDeleted != nil && isDeleted(c)) || gone[c.ProviderID] {
			continue // it gets none, or its machine has ended
		}
		claimed[c.ProviderID], claimed[c.Annotations[model.AnnotationAdopt]] = true, true
		out[c.NodeGroup()]++
	}
	for _, i := range s.Instances {
		if !i.Gone && i.ClaimUID == "" && !claimed[i.ProviderID] {
			out[i.Labels[model.LabelNodeGroup]]++
		}
	}
	return out
}

// replaceOfferings are pools of whose offerings some are changed; change says which. Those given stay as they are.
func replaceOfferings(pools []solve.Pool, change func(*model.Offering) bool) []solve.Pool {
	for i := range pools {
		var types []*model.InstanceType
		for j, t := range pools[i].Types {
			var list []model.Offering
			for k, o := range t.Offerings {
				if !change(&o) {
					continue
				}
				if list == nil {
					list = slices.Clone(t.Offerings)
				}
				list[k] = o
			}
			if list == nil {
				continue
			}
			if types == nil {
				types = slices.Clone(pools[i].Types)
			}
			x := *t
			x.Offerings = list
			types[j] = &x
		}
		if types != nil {
			p := *pools[i].NodePool
			p.Types = types
			pools[i].NodePool = &p
		}
	}
	return pools
}

// sizeByGroup is how many machines each node group has, and is to have for claims under way.
func sizeByGroup(claims []*model.Claim) map[string]int64 {
	out := map[string]int64{}
	for _, c := range claims {
		if c.Deleting.IsZero() {
			out[c.NodeGroup()]++
		}
	}
	delete(out, "")
	return out
}

// PodCounter returns a function that counts the existing and pending pods of a controller, by UID, without completed and
// terminating pods. The first call counts the pods of all controllers.
func PodCounter(s *model.Snapshot) func(ownerUID string) int32 {
	var counts map[string]int32
	return func(ownerUID string) int32 {
		if counts == nil {
			counts = map[string]int32{}
			count := func(pods []*model.Pod) {
				for _, p := range pods {
					if p.Owner.UID != "" && !p.Terminal && p.Deleting.IsZero() {
						counts[p.Owner.UID]++
					}
				}
			}
			count(s.Pending)
			for _, n := range s.Nodes {
				count(n.Pods)
			}
		}
		return counts[ownerUID]
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package cluster answers what one Snapshot says of itself: which nodes, claims and instances of the cloud belong together,
// and which object has a name. It is computed once per Snapshot, and parts that still hold are taken over from the Snapshot
// before.
//
// It decides nothing and knows no rule: what should be done about any of it is decide's. Nothing in it can be written to by
// those who ask.
//
// Start reading at View.
package cluster

import (
	"slices"
	"strings"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// View is a Snapshot and what is looked up in it. Claims and nodes are told by their position in the Snapshot, too.
type View struct {
	s         *model.Snapshot
	pools     map[string]*model.NodePool
	links     *Links
	instances *Instances
}

// New returns the View of a Snapshot. Links and instances are those of the View before: links are taken over if they are
// given, since only their owner knows that claims and nodes are alike, and instances if both are the same.
func New(s *model.Snapshot, links *Links, instances *Instances) *View {
	v := &View{s: s, pools: make(map[string]*model.NodePool, len(s.Pools)), links: links, instances: instances}
	for _, p := range s.Pools {
		v.pools[p.Name] = p
	}
	if links == nil {
		v.links = newLinks(s)
	}
	if instances == nil || instances.links != v.links || !instances.Are(s.Instances) {
		v.instances = newInstances(s, v.links)
	}
	return v
}

// Links returns which nodes and claims belong together, for the View of the next Snapshot.
func (v *View) Links() *Links { return v.links }

// Instances returns the cloud's list as it is sorted, for the View of the next Snapshot.
func (v *View) Instances() *Instances { return v.instances }

// Pool returns a NodePool by name; nil: there is none.
func (v *View) Pool(name string) *model.NodePool { return v.pools[name] }

// Claim returns a NodeClaim by name; nil: there is none.
func (v *View) Claim(name string) *model.Claim {
	if i := v.FindClaim(name); i >= 0 {
		return v.s.Claims[i]
	}
	return nil
}

// ClaimWithUID returns a NodeClaim by uid; nil: there is none.
func (v *View) ClaimWithUID(uid string) *model.Claim {
	if i, ok := v.links.claimByUID[uid]; ok {
		return v.s.Claims[i]
	}
	return nil
}

// FindClaim returns the position of a claim by its name; None: there is no such claim.
func (v *View) FindClaim(name string) int32 { return findClaim(v.s, name) }

// FindNode returns the position of a node by its name; None: there is no such node.
func (v *View) FindNode(name string) int32 {
	i, ok := slices.BinarySearchFunc(v.s.Nodes, name, func(n *model.Node, name string) int { return strings.Compare(n.Name, name) })
	if !ok {
		return None
	}
	return int32(i)
}

// NodeOf returns the position of the only node that has a claim's provider id; None or Several.
func (v *View) NodeOf(claim int32) int32 { return v.links.nodeOf[claim] }

// ClaimOf returns the position of the claim that a node names; None: it names none that is there.
func (v *View) ClaimOf(node int32) int32 { return v.links.claimOf[node] }

// ClaimOn returns the claim that a node names; nil: it names none that is there.
func (v *View) ClaimOn(node int32) *model.Claim {
	if at := v.links.claimOf[node]; at >= 0 {
		return v.s.Claims[at]
	}
	return nil
}

// NodesAt returns all nodes with a claim's provider id.
func (v *View) NodesAt(claim int32) []*model.Node {
	switch i := v.links.nodeOf[claim]; i {
	case None:
		return nil
	case Several:
		var out []*model.Node
		for _, i := range v.links.nodesByProviderID[v.s.Claims[claim].ProviderID] {
			out = append(out, v.s.Nodes[i])
		}
		return out
	default:
		return v.s.Nodes[i : i+1 : i+1]
	}
}

// ClaimOfInstance returns the position of the last claim that has an instance's provider id; None: no claim has it.
func (v *View) ClaimOfInstance(i *model.Instance) int32 {
	if at, ok := v.links.claimByProviderID[i.ProviderID]; ok {
		return at
	}
	return None
}

// Orphans returns the instances that no claim wants, those too young to say included. They are not to be written to.
func (v *View) Orphans() []*model.Instance { return v.instances.orphans }

// InstancesAt returns a claim's instances in the cloud's list: those with its provider id, and those that bear its uid and
// are no other claim's.
func (v *View) InstancesAt(at int32) []*model.Instance {
	c := v.s.Claims[at]
	var out []*model.Instance
	if last, ok := v.links.claimByProviderID[c.ProviderID]; ok && last == at {
		list := v.s.Instances
		i, _ := slices.BinarySearchFunc(list, c.ProviderID, func(x *model.Instance, id string) int { return strings.Compare(x.ProviderID, id) })
		for ; i < len(list) && list[i].ProviderID == c.ProviderID; i++ {
			out = append(out, list[i])
		}
	}
	if loose := v.instances.unclaimed[c.UID]; c.UID != "" && len(loose) > 0 {
		out = append(out, loose...)
		slices.SortStableFunc(out, func(a, b *model.Instance) int { return strings.Compare(a.ProviderID, b.ProviderID) })
	}
	return out
}

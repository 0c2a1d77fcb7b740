// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package cluster derives the facts of one Snapshot: links between nodes, NodeClaims and instances, objects by name,
// the slot kind of each pod, the capacity that NodeClaims reserve for pods, running disruption commands, interrupted
// instances, and the NodeClaims and nodes to evaluate because something about them may have changed.
//
// The facts are computed once per Snapshot; parts that have not changed are reused from the previous View. The
// package contains no rules and makes no decisions. A View is read-only, except that the stage that assigns slots
// fills its Reservation before later stages read it. Start reading at View.
package cluster

import (
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// View is a Snapshot at an instant and what is looked up in it. Claims and nodes are told by their position in the Snapshot, too.
type View struct {
	Snapshot *model.Snapshot
	Now      time.Time            // the instant that the Snapshot is looked at
	Cutoff   model.PriorityCutoff // of pods that are expendable

	// DirtyClaims and DirtyNodes are those that are evaluated in this step, since something about them may have changed: all
	// claims but those of unchanged machines, and the nodes, by position, that are neither unchanged nor unowned. See SetDirty.
	DirtyClaims []*model.Claim
	DirtyNodes  []int32
	Unchanged   map[string]PoolSum // by pool: of the claims that are not dirty

	Interruptions map[string]*Interruption // by claim name: machines that their cloud takes away; see ReadInterruptions

	slotKeys
	pools         map[string]*model.NodePool
	links         *Links
	instances     *Instances
	dirtyPosition map[*model.Claim]int32       // where DirtyClaims stand in the Snapshot
	deployments   map[string]*model.Deployment // by key; nil before it is asked for
	nominated     map[string][]*model.Pod      // nil before it is asked for
}

// New returns the View of a Snapshot. Links and instances are those of the View before: links are taken over if they are
// given, since only their owner knows that claims and nodes are alike, and instances if both are the same.
func New(s *model.Snapshot, now time.Time, links *Links, instances *Instances) *View {
	v := &View{Snapshot: s, Now: now, Cutoff: model.CutoffOf(s.Pools), pools: make(map[string]*model.NodePool, len(s.Pools)), links: links, instances: instances}
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

// Pool returns the NodePool with the given name, or nil if it does not exist.
func (v *View) Pool(name string) *model.NodePool { return v.pools[name] }

// Claim returns the NodeClaim with the given name, or nil if it does not exist.
func (v *View) Claim(name string) *model.Claim {
	if i := v.FindClaim(name); i >= 0 {
		return v.Snapshot.Claims[i]
	}
	return nil
}

// ClaimWithUID returns a NodeClaim by uid; nil: there is none.
func (v *View) ClaimWithUID(uid string) *model.Claim {
	if i, ok := v.links.claimByUID[uid]; ok {
		return v.Snapshot.Claims[i]
	}
	return nil
}

// FindClaim returns the position of a claim by its name; None: there is no such claim.
func (v *View) FindClaim(name string) int32 { return findClaim(v.Snapshot, name) }

// FindNode returns the position of a node by its name; None: there is no such node.
func (v *View) FindNode(name string) int32 {
	i, ok := slices.BinarySearchFunc(v.Snapshot.Nodes, name, func(n *model.Node, name string) int { return strings.Compare(n.Name, name) })
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
		return v.Snapshot.Claims[at]
	}
	return nil
}

// PositionOf returns where a claim stands in the Snapshot.
func (v *View) PositionOf(c *model.Claim) int32 {
	if i, ok := v.dirtyPosition[c]; ok {
		return i
	}
	return v.FindClaim(c.Name)
}

// NodeFor returns a claim's node; nil: it has none, or several.
func (v *View) NodeFor(c *model.Claim) *model.Node {
	if i := v.PositionOf(c); i >= 0 && v.NodeOf(i) >= 0 {
		return v.Snapshot.Nodes[v.NodeOf(i)]
	}
	return nil
}

// PoolSum is what claims of a NodePool come to.
type PoolSum struct {
	Count    int64
	Capacity model.Resources
}

// SetDirty sets which claims and nodes, by position, are evaluated in this step, and what the other claims come to, by pool.
// Only their owner, who knows what has changed, calls it.
func (v *View) SetDirty(claims, nodes []int32, unchanged map[string]PoolSum) {
	v.DirtyNodes, v.Unchanged = nodes, unchanged
	v.DirtyClaims, v.dirtyPosition = make([]*model.Claim, len(claims)), make(map[*model.Claim]int32, len(claims))
	for j, i := range claims {
		c := v.Snapshot.Claims[i]
		v.DirtyClaims[j], v.dirtyPosition[c] = c, i
	}
}

// IsReschedulable reports whether a pod needs another node when its node goes: see model.Pod. One that is expendable does not.
func (v *View) IsReschedulable(p *model.Pod) bool {
	return p.IsReschedulable() && v.HasSuccessor(p)
}

// HasSuccessor reports whether a pod that goes is made again somewhere else, as far as its namespace and priority say.
func (v *View) HasSuccessor(p *model.Pod) bool {
	return !v.Cutoff.IsExpendable(p) && v.Snapshot.Ending[p.Namespace].IsZero()
}

// DeploymentOf returns the Deployment that a pod belongs to; nil: none, or nobody may look.
func (v *View) DeploymentOf(p *model.Pod) *model.Deployment {
	if p.Deployment == "" || len(v.Snapshot.Deployments) == 0 {
		return nil
	}
	if v.deployments == nil {
		v.deployments = make(map[string]*model.Deployment, len(v.Snapshot.Deployments))
		for _, d := range v.Snapshot.Deployments {
			v.deployments[d.Key()] = d
		}
	}
	return v.deployments[p.Namespace+"/"+p.Deployment]
}

// EachPod calls f with every pod that is pending or on a node.
func (v *View) EachPod(f func(*model.Pod)) {
	for _, p := range v.Snapshot.Pending {
		f(p)
	}
	for _, n := range v.Snapshot.Nodes {
		for _, p := range n.Pods {
			f(p)
		}
	}
}

// LastSeenPod returns when the last pod was seen, as a number.
func (v *View) LastSeenPod() (last uint64) {
	v.EachPod(func(p *model.Pod) { last = max(last, p.Seen) })
	return last
}

// IsDue reports whether an instant has come, and if not, when it comes.
func (v *View) IsDue(at time.Time) (bool, time.Time) {
	if v.Now.Before(at) {
		return false, at
	}
	return true, time.Time{}
}

// NodesAt returns all nodes with a claim's provider id.
func (v *View) NodesAt(claim int32) []*model.Node {
	switch i := v.links.nodeOf[claim]; i {
	case None:
		return nil
	case Several:
		var out []*model.Node
		for _, i := range v.links.nodesByProviderID[v.Snapshot.Claims[claim].ProviderID] {
			out = append(out, v.Snapshot.Nodes[i])
		}
		return out
	default:
		return v.Snapshot.Nodes[i : i+1 : i+1]
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
	c := v.Snapshot.Claims[at]
	var out []*model.Instance
	if last, ok := v.links.claimByProviderID[c.ProviderID]; ok && last == at {
		list := v.Snapshot.Instances
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

// GotNoInstance reports whether a NodeClaim is being deleted after there was no capacity for its instance. It counts against no limit, although
// it exists until a later list of instances confirms that it has none: a claim with a deletion timestamp is not launched any more, by no leader.
func (v *View) GotNoInstance(c *model.Claim) bool {
	f, failed := v.Snapshot.Failures[c.UID]
	if !failed || f.Kind != "InsufficientCapacity" || c.Deleting.IsZero() || c.ProviderID != "" {
		return false
	}
	at := v.PositionOf(c)
	return v.NodeOf(at) == None && len(v.InstancesAt(at)) == 0
}

// BootTime returns how long nodes have taken from the creation of their NodeClaim to their initialization, the median of all that are there, but
// no less than a second; 0: none is initialized.
func (v *View) BootTime() time.Duration {
	var boots []time.Duration
	for _, c := range v.Snapshot.Claims {
		if l := c.Conditions[lifecycle.Initialized]; l.True() && l.Since.After(c.Created) {
			boots = append(boots, l.Since.Sub(c.Created))
		}
	}
	if len(boots) == 0 {
		return 0
	}
	slices.Sort(boots)
	return max(boots[len(boots)/2], time.Second)
}

// NominatedPods returns, by node, the pending pods that kube-scheduler has nominated to a node. They take its capacity as soon as the pods
// that it has preempted for them have ended.
func (v *View) NominatedPods() map[string][]*model.Pod {
	if v.nominated == nil {
		v.nominated = map[string][]*model.Pod{}
		for _, p := range v.Snapshot.Pending {
			if p.Nominated != "" {
				v.nominated[p.Nominated] = append(v.nominated[p.Nominated], p)
			}
		}
	}
	return v.nominated
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package groupstatus

import (
	"cmp"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// startupLimit is how long a node may take until it counts as unready, and an instance until its node counts as missing
// where its pool does not say how long.
const startupLimit = 15 * time.Minute

// Conditions of NodeClaims, as lifecycle writes them.
const (
	initialized = "Initialized"
	disrupted   = "DisruptionReason"
)

// Counts are numbers of nodes of node groups by state. Each node has exactly one state.
type Counts struct {
	Ready            int
	Unready          int
	NotStarted       int // registered, not initialized yet
	BeingDeleted     int
	Unregistered     int // launched or requested, not registered yet
	LongUnregistered int // not registered for longer than an instance may take
}

// Registered returns the number of registered nodes.
func (c Counts) Registered() int { return c.Ready + c.Unready + c.NotStarted + c.BeingDeleted }

// Total returns the number of existing and requested nodes.
func (c Counts) Total() int { return c.Registered() + c.Unregistered + c.LongUnregistered }

func (c *Counts) add(x Counts) {
	c.Ready, c.Unready, c.NotStarted = c.Ready+x.Ready, c.Unready+x.Unready, c.NotStarted+x.NotStarted
	c.BeingDeleted, c.Unregistered, c.LongUnregistered = c.BeingDeleted+x.BeingDeleted, c.Unregistered+x.Unregistered, c.LongUnregistered+x.LongUnregistered
}

// Group is the state of a node group.
type Group struct {
	model.NodeGroup
	Nodes      Counts
	Candidates int  // nodes without a pod to reschedule, and nodes selected by a disruption command
	Backoff    bool // it may grow, but all its offerings are unavailable for lack of capacity

	// FailingCode and Failing are why nodes of the group recently did not become usable, so that it is tried last; empty: they did.
	FailingCode, Failing string
}

// IsHealthy reports whether nodes can be launched in the group and become usable.
func (g *Group) IsHealthy() bool { return g.Problem == "" && g.FailingCode == "" }

// NoteFailing records that nodes of a group recently did not become usable: code and message of the most likely cause.
func (v *View) NoteFailing(group, code, message string) {
	for i := range v.Groups {
		if g := &v.Groups[i]; g.Name == group {
			g.FailingCode, g.Failing = code, message
		}
	}
}

// View is the state of a cluster.
type View struct {
	Groups []Group // in the order given
	Nodes  Counts  // of all groups

	UnschedulablePods int // pending pods that kube-scheduler has refused
	UnseenPods        int // pending pods that it has not considered yet

	MilliCPU, MemoryBytes int64 // capacity of all nodes of the cluster that are not being deleted
	ScaleDownWaits        bool  // all NodePools of node groups wait because a node was added recently (delayAfterAdd)
}

// Observe returns the state of the given node groups, whose names must be unique.
func Observe(s *model.Snapshot, groups []model.NodeGroup, now time.Time) *View {
	o := observation{now: now, view: &View{}, index: map[string]int{}, nodes: map[string]*model.Node{}, nodesByProvider: map[string]*model.Node{}, scaling: map[string]*model.GroupScaling{}}
	for i, g := range groups {
		o.view.Groups = append(o.view.Groups, Group{NodeGroup: g})
		o.index[g.Name] = i
	}
	for _, p := range s.Pools {
		o.scaling[p.Name] = p.Scaling
	}
	for _, n := range s.Nodes {
		o.nodes[n.Name] = n
		if n.ProviderID != "" {
			o.nodesByProvider[n.ProviderID] = n
		}
		if n.Deleting.IsZero() {
			o.view.MilliCPU += n.Capacity.At(model.CPU)
			o.view.MemoryBytes += n.Capacity.At(model.Memory)
		}
	}
	o.countMembers(s)
	for i := range o.view.Groups {
		o.view.Nodes.add(o.view.Groups[i].Nodes)
	}
	for _, p := range s.Pending {
		switch {
		case !p.IsWorkload():
		case p.Unschedulable.IsZero():
			o.view.UnseenPods++
		default:
			o.view.UnschedulablePods++
		}
	}
	o.findBackoffs(s)
	o.view.ScaleDownWaits = scaleDownWaits(s, now)
	return o.view
}

// observation is the work of Observe.
type observation struct {
	now                    time.Time
	view                   *View
	index                  map[string]int // of groups, by name
	nodes, nodesByProvider map[string]*model.Node
	scaling                map[string]*model.GroupScaling // by pool
}

// countMembers counts the nodes of claims, and of members that no claim was made for yet.
func (o *observation) countMembers(s *model.Snapshot) {
	claimed := map[string]bool{} // by provider id
	for _, c := range s.Claims {
		claimed[c.ProviderID], claimed[c.Annotations[model.AnnotationAdopt]] = true, true
		i, known := o.index[c.NodeGroup()]
		if !known {
			continue
		}
		g := &o.view.Groups[i]
		n := o.nodes[c.NodeName]
		if n == nil {
			o.countMissing(g, c)
			continue
		}
		switch {
		case !c.Deleting.IsZero() || !n.Deleting.IsZero():
			g.Nodes.BeingDeleted++
			continue
		case !c.Is(initialized) && o.now.Sub(n.Created) < startupLimit:
			g.Nodes.NotStarted++
		case n.Ready && c.Is(initialized):
			g.Nodes.Ready++
		default:
			g.Nodes.Unready++
		}
		if c.Is(disrupted) || c.Is(initialized) && !hasWorkload(n) {
			g.Candidates++
		}
	}
	for _, m := range s.Instances {
		i, known := o.index[m.Labels[model.LabelNodeGroup]]
		if !known || m.Gone || m.ClaimUID != "" || claimed[m.ProviderID] {
			continue
		}
		g := &o.view.Groups[i]
		switch n := o.nodesByProvider[m.ProviderID]; {
		case n == nil && o.now.Sub(m.Launched) < startupLimit:
			g.Nodes.Unregistered++
		case n == nil:
			g.Nodes.LongUnregistered++
		case n.Ready:
			g.Nodes.Ready++
		default:
			g.Nodes.Unready++
		}
	}
}

// countMissing counts a claim whose node is not there.
func (o *observation) countMissing(g *Group, c *model.Claim) {
	limit := startupLimit
	if scaling := o.scaling[c.Pool]; scaling != nil {
		limit = cmp.Or(scaling.Of(g.Name).Provision, limit)
	}
	switch {
	case !c.Deleting.IsZero(): // it ends, and no node is awaited
	case o.now.Sub(c.Created) < limit:
		g.Nodes.Unregistered++
	default:
		g.Nodes.LongUnregistered++
	}
}

// hasWorkload reports whether a node holds a pod that would have to move.
func hasWorkload(n *model.Node) bool {
	for _, p := range n.Pods {
		if p.IsWorkload() {
			return true
		}
	}
	return false
}

// findBackoffs finds the groups that could grow but for their offerings, which are all set aside.
func (o *observation) findBackoffs(s *model.Snapshot) {
	offered, available := map[string]bool{}, map[string]bool{} // by group
	for _, p := range s.Pools {
		for _, t := range p.Types {
			for i := range t.Offerings {
				if g := t.Offerings[i].Labels[model.LabelNodeGroup]; g != "" {
					offered[g] = true
					available[g] = available[g] || t.Offerings[i].Available
				}
			}
		}
	}
	for i := range o.view.Groups {
		g := &o.view.Groups[i]
		g.Backoff = offered[g.Name] && !available[g.Name] && g.Desired < g.Max
	}
}

// scaleDownWaits reports whether every pool of node groups waits with consolidation because a node of a group was launched a
// short while ago.
func scaleDownWaits(s *model.Snapshot, now time.Time) bool {
	var last time.Time
	for _, c := range s.Claims {
		if c.Created.After(last) && c.Annotations[model.AnnotationAdopt] == "" && c.NodeGroup() != "" {
			last = c.Created
		}
	}
	waits := false
	for _, p := range s.Pools {
		if p.Scaling == nil {
			continue
		}
		if after := p.Scaling.Delays.AfterAdd; after == 0 || now.Sub(last) >= after {
			return false
		}
		waits = true
	}
	return waits
}

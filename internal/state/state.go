// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package state applies a stream of changes and returns immutable Snapshots of the cluster.
//
// It has four parts. The tables hold the objects of the cluster (podTable, nodeTable, claimTable, Pools,
// instanceTable, replicaSets, and one table for each plain kind). Overlay holds requested changes that the watch has
// not shown yet, and applies them to the objects as they are read. InFlight holds the actions that were started, so
// that decide does not repeat them before their effect is visible. ChangeCounts and TakeDemandChanges report which
// kinds of objects have changed. State passes each change to all parts that need it.
//
// Invariants:
//
//   - A State has one owner. Only the owner calls its methods and those of its parts, except ResourceTable and
//     PodFactsTable, which are safe for concurrent use.
//   - A Snapshot and its contents are never changed after it is returned.
//   - Objects may arrive in any order: a pod before its node, a node before its NodeClaim.
//   - The cost is proportional to what changed: a moved pod creates one new Node value, and a Snapshot copies only
//     the lists that changed.
//
// It makes no calls and no decisions, and reads no clock. Start reading at State and Snapshot, then Overlay.
package state

import (
	"cmp"
	"iter"
	"maps"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/model"
)

// Change is one change of the world, as kube and the providers hand them over.
type Change func(*State)

// State is the cluster as last seen, and what was asked of it since.
type State struct {
	Pools    *Pools
	Overlay  *Overlay
	InFlight *InFlight
	PodFacts *PodFactsTable

	// BeforeClaim and BeforeNode are called with a NodeClaim or a node that was read, before it is taken in, and with how
	// it was shown until then; was is nil where it is new. nil: nobody asks.
	BeforeClaim func(was, is *model.Claim)
	BeforeNode  func(was, is *model.Node)

	pods        *podTable
	nodes       *nodeTable
	claims      *claimTable
	replicaSets *replicaSets
	instances   instanceTable
	daemons     *daemonTable
	pdbs        table[*model.PDB]                 // by namespace/name
	buffers     table[*model.Buffer]              // by namespace/name
	requests    table[*model.ProvisioningRequest] // by namespace/name
	limits      table[*model.CapacityLimit]       // by name
	deployments table[*model.Deployment]          // by namespace/name; no rows: nobody looks at them
	namespaces  namespaceTable

	resources    *ResourceTable
	classes      classTable
	shifts       []model.ZonalShift             // replaced, never changed
	shiftsUnread bool                           // see model.Snapshot
	drift        map[string]string              // by claim uid, as last asked; replaced, never changed
	failures     map[string]model.LaunchFailure // by claim uid
	unmade       []model.UnmadeClaim            // replaced, never changed

	counts *ChangeCounts
	now    time.Time
}

// New makes an empty State.
func New() *State {
	s := &State{
		InFlight: newInFlight(), PodFacts: newPodFactsTable(), nodes: newNodeTable(), claims: newClaimTable(), replicaSets: newReplicaSets(),
		instances: instanceTable{ended: map[string]ended{}},
		pdbs: newTable(func(a, b *model.PDB) int {
			return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
		}),
		buffers:     newTable(func(a, b *model.Buffer) int { return strings.Compare(a.Key(), b.Key()) }),
		requests:    newTable(func(a, b *model.ProvisioningRequest) int { return strings.Compare(a.Key(), b.Key()) }),
		limits:      newTable(func(a, b *model.CapacityLimit) int { return strings.Compare(a.Name, b.Name) }),
		deployments: table[*model.Deployment]{compare: func(a, b *model.Deployment) int { return strings.Compare(a.Key(), b.Key()) }},
		namespaces:  namespaceTable{labels: map[string]model.Labels{}, changed: true},
		resources:   NewResourceTable(), classes: classTable{}, failures: map[string]model.LaunchFailure{}, counts: &ChangeCounts{},
	}
	s.Pools = newPools(s.InFlight, s.counts)
	s.nodes.pools = s.Pools
	s.pods = newPodTable(s.nodes, s.replicaSets, s.counts)
	s.daemons = newDaemonTable(s.counts)
	s.Overlay = newOverlay(s.pods, s.claims, s.InFlight, s.counts, s.SetPod)
	return s
}

// SetNow sets the instant that the following changes are taken to happen at.
func (s *State) SetNow(now time.Time) { s.now = now }

// Resources is the table that all vectors of this State use.
func (s *State) Resources() *ResourceTable { return s.resources }

// ChangeCounts returns how many changes there have been since the start.
func (s *State) ChangeCounts() ChangeCounts {
	s.daemons.refresh()
	return *s.counts
}

// Snapshot returns the cluster as it is now. Lists that did not change since the last Snapshot are shared with it.
func (s *State) Snapshot(now time.Time) *model.Snapshot {
	s.daemons.refresh()
	return &model.Snapshot{
		ResourceNames: s.resources.Names(),
		Nodes:         s.nodes.listNodes(s.claims.nameByProviderID),
		Claims:        s.claims.listClaims(),
		Pools:         s.Pools.ListPools(),
		Pending:       s.listPending(now),
		Making:        s.replicaSets.listMaking(),
		Failing:       s.replicaSets.failing.list(),
		Templates:     s.replicaSets.listTemplates(),
		GangsEnded:    s.pods.listEnded(),
		Buffers:       s.buffers.list(),
		Requests:      s.requests.list(),
		Limits:        s.limits.list(),
		Daemons:       s.daemons.list(),
		PDBs:          s.pdbs.list(),
		Deployments:   s.deployments.list(),
		Namespaces:    s.namespaces.list(),
		Ending:        s.namespaces.ending,
		Instances:     s.instances.list,
		InstancesAt:   s.instances.at,
		Outages:       s.instances.outagesUntil(now),
		Shifts:        s.shifts,
		ShiftsUnread:  s.shiftsUnread,
		Drift:         s.drift,
		InFlight:      s.InFlight.list(now),
		Failures:      maps.Clone(s.failures),
		Failed:        s.InFlight.failed(),
		Undone:        s.InFlight.undone(),
		Unmade:        s.unmade,
	}
}

// ExpireActions ends the actions in flight whose time is over, and says when the next one's will be; zero: none is
// left. A claim whose creation ends so is no longer shown: it was made and gone again before any watch showed it.
func (s *State) ExpireActions(now time.Time) time.Time {
	ended, next := s.InFlight.expireActions(now)
	for _, key := range ended {
		s.Overlay.dropUnseenClaim(key)
	}
	return next
}

// internClass returns the one class of this key.
func (s *State) internClass(c *model.Class) *model.Class {
	return s.classes.intern(c, len(s.pods.byKey)+len(s.daemons.rows)+len(s.buffers.rows), s.usedClasses())
}

// usedClasses goes through the classes of all pods, DaemonSets, CapacityBuffers and ProvisioningRequests, in no order.
func (s *State) usedClasses() iter.Seq[*model.Class] {
	return func(yield func(*model.Class) bool) {
		for _, p := range s.pods.byKey {
			if !yield(p.Class) || p.First != nil && !yield(p.First) || p.Successor != nil && !yield(p.Successor) {
				return
			}
		}
		for _, d := range s.daemons.rows {
			if !yield(d.Class) || d.Newest != nil && !yield(d.Newest) {
				return
			}
		}
		for _, b := range s.buffers.rows {
			if b.Like != nil && !yield(b.Like.Class) {
				return
			}
		}
		for _, r := range s.requests.rows {
			for i := range r.Sets {
				if !yield(r.Sets[i].Class) {
					return
				}
			}
		}
	}
}

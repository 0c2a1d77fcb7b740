// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// index is the snapshot and what is looked up in it. It is built before the first stage and read by all; only
// markClaimsDirty adds to the lists of what is dirty, when a disruption command names a claim that looks unchanged by
// itself.
type index struct {
	*cluster.View
	slotKeys
	s   *model.Snapshot
	now time.Time
	pol Policy

	cutoff        model.PriorityCutoff         // of pods that are expendable
	dirtyClaims   []*model.Claim               // all claims but those of unchanged machines
	dirtyPosition map[*model.Claim]int32       // where these stand in the Snapshot
	dirtyNodes    []int32                      // nodes that are neither unchanged nor unowned, by position in the Snapshot
	deployments   map[string]*model.Deployment // by key; nil before it is asked for
}

// isReschedulable reports whether a pod needs another node when its node goes: see disrupt.IsReschedulable. One that is
// expendable does not.
func (ix *index) isReschedulable(p *model.Pod) bool {
	return disrupt.IsReschedulable(p) && !ix.cutoff.IsExpendable(p)
}

// isForeign reports whether a claim is another provider's: of its machine nothing is known here, not even that there is
// none, so it is left to whoever serves its class.
func (ix *index) isForeign(c *model.Claim) bool {
	return len(ix.pol.NodeClasses) > 0 && c.ClassKind != "" && !slices.Contains(ix.pol.NodeClasses, c.ClassGroup+"/"+c.ClassKind)
}

// isStuck reports whether a claim's node has come and is still not initialized when a claim without a node would be given
// up: nothing waits for it any longer, though it may yet become usable. If not, it may be so at an instant.
func (ix *index) isStuck(c *model.Claim) (bool, time.Time) {
	if c.Is(lifecycle.Initialized) {
		return false, time.Time{}
	}
	due := c.Created.Add(ix.pol.Lifecycle.WithTimeoutsOf(ix.Pool(c.Pool)).RegistrationTimeout)
	if ix.now.Before(due) {
		return false, due
	}
	return true, time.Time{}
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[K ~string, T any](m map[K]T) []K { return slices.Sorted(maps.Keys(m)) }

// mergeLabels returns new labels: those of a, and those of b in their place.
func mergeLabels(a, b model.Labels) model.Labels {
	out := make(model.Labels, len(a)+len(b))
	for k, v := range a {
		out[k] = v
	}
	for k, v := range b {
		out[k] = v
	}
	return out
}

// lastSeenPod is when the last pod was seen, as a number.
func (ix *index) lastSeenPod() (last uint64) {
	ix.eachPod(func(p *model.Pod) { last = max(last, p.Seen) })
	return last
}

// eachPod calls f with every pod that is pending or on a node.
func (ix *index) eachPod(f func(*model.Pod)) {
	for _, p := range ix.s.Pending {
		f(p)
	}
	for _, n := range ix.s.Nodes {
		for _, p := range n.Pods {
			f(p)
		}
	}
}

// deploymentOf is the one that a pod belongs to; nil: none, or nobody may look.
func (ix *index) deploymentOf(p *model.Pod) *model.Deployment {
	if p.Deployment == "" || len(ix.s.Deployments) == 0 {
		return nil
	}
	if ix.deployments == nil {
		ix.deployments = make(map[string]*model.Deployment, len(ix.s.Deployments))
		for _, d := range ix.s.Deployments {
			ix.deployments[d.Key()] = d
		}
	}
	return ix.deployments[p.Namespace+"/"+p.Deployment]
}

// positionOf is where a claim stands in the Snapshot.
func (ix *index) positionOf(c *model.Claim) int32 {
	if i, ok := ix.dirtyPosition[c]; ok {
		return i
	}
	return ix.FindClaim(c.Name)
}

// nodeOf is the claim's node; nil: it has none, or several.
func (ix *index) nodeOf(c *model.Claim) *model.Node {
	if i := ix.positionOf(c); i >= 0 && ix.NodeOf(i) >= 0 {
		return ix.s.Nodes[ix.NodeOf(i)]
	}
	return nil
}

// isDue reports whether an instant has come, and if not, when it comes.
func (ix *index) isDue(at time.Time) (bool, time.Time) {
	if ix.now.Before(at) {
		return false, at
	}
	return true, time.Time{}
}

// trimZeros takes off trailing zeros, so that equal sums look the same however they came about.
func trimZeros(r model.Resources) model.Resources {
	for len(r) > 0 && r[len(r)-1] == 0 {
		r = r[:len(r)-1]
	}
	if len(r) == 0 {
		return nil
	}
	return r
}

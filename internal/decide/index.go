// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// index is the snapshot and what is looked up in it. It is built before the first stage and read by all; only
// markClaimsDirty adds to the lists of what is dirty, when a disruption command names a claim that looks unchanged by
// itself.
type index struct {
	slotKeys
	s   *model.Snapshot
	now time.Time
	pol Policy

	cutoff        model.PriorityCutoff // of pods that are expendable
	poolByName    map[string]*model.NodePool
	claims        *claimIndex
	instances     *instanceIndex
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
	due := c.Created.Add(ix.pol.Lifecycle.WithTimeoutsOf(ix.poolByName[c.Pool]).RegistrationTimeout)
	if ix.now.Before(due) {
		return false, due
	}
	return true, time.Time{}
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[T any](m map[string]T) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

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

// claimIndex is which nodes and claims belong together, by position in a Snapshot.
type claimIndex struct {
	nodeOf            []int32            // by claim: the only node with its provider id; or none, or several
	claimOf           []int32            // by node: the claim it names; or none
	claimByProviderID map[string]int32   // by provider id: the last claim that has it
	claimByUID        map[string]int32   // claims
	nodesByProviderID map[string][]int32 // by provider id: its nodes, where they are several
}

const (
	none    int32 = -1
	several int32 = -2
)

// instanceIndex is what the cloud's list says beside the claims.
type instanceIndex struct {
	instances []*model.Instance
	shape     *claimIndex
	unclaimed map[string][]*model.Instance // whose provider id no claim has, by the uid of the claim they bear
	orphans   []*model.Instance            // that no claim wants, those too young to say included
}

// sameSlice reports whether two slices are the very same, and not only equal.
func sameSlice[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// newClaimIndex finds which nodes and claims of a snapshot belong together.
func newClaimIndex(s *model.Snapshot) *claimIndex {
	x := &claimIndex{nodeOf: make([]int32, len(s.Claims)), claimOf: make([]int32, len(s.Nodes)),
		claimByProviderID: make(map[string]int32, len(s.Claims)), claimByUID: make(map[string]int32, len(s.Claims))}
	var shared map[string][]int32 // claims of one provider id, but for the last
	for i, c := range s.Claims {
		x.nodeOf[i] = none
		if c.UID != "" {
			x.claimByUID[c.UID] = int32(i)
		}
		if c.ProviderID == "" {
			continue
		}
		if at, ok := x.claimByProviderID[c.ProviderID]; ok {
			if shared == nil {
				shared = map[string][]int32{}
			}
			shared[c.ProviderID] = append(shared[c.ProviderID], at)
		}
		x.claimByProviderID[c.ProviderID] = int32(i)
	}
	for i, n := range s.Nodes {
		x.claimOf[i] = none
		at, ok := x.claimByProviderID[n.ProviderID]
		if ok && n.ProviderID != "" {
			for _, at := range append(shared[n.ProviderID], at) {
				switch have := x.nodeOf[at]; have {
				case none:
					x.nodeOf[at] = int32(i)
				case several:
				default:
					x.nodeOf[at] = several
				}
			}
		}
		switch {
		case n.Claim == "":
		case ok && s.Claims[at].Name == n.Claim:
			x.claimOf[i] = at
		default:
			x.claimOf[i] = findClaim(s, n.Claim)
		}
	}
	for i, c := range s.Claims {
		if x.nodeOf[i] == several && x.nodesByProviderID[c.ProviderID] == nil {
			if x.nodesByProviderID == nil {
				x.nodesByProviderID = map[string][]int32{}
			}
			for j, n := range s.Nodes {
				if n.ProviderID == c.ProviderID {
					x.nodesByProviderID[c.ProviderID] = append(x.nodesByProviderID[c.ProviderID], int32(j))
				}
			}
		}
	}
	return x
}

// findClaim returns the position of a claim by its name; none: there is no such claim.
func findClaim(s *model.Snapshot, name string) int32 {
	i, ok := slices.BinarySearchFunc(s.Claims, name, func(c *model.Claim, name string) int { return strings.Compare(c.Name, name) })
	if !ok {
		return none
	}
	return int32(i)
}

// findNode returns the position of a node by its name; none: there is no such node.
func findNode(s *model.Snapshot, name string) int32 {
	i, ok := slices.BinarySearchFunc(s.Nodes, name, func(n *model.Node, name string) int { return strings.Compare(n.Name, name) })
	if !ok {
		return none
	}
	return int32(i)
}

// claimNamed finds one by name; nil: there is none.
func (ix *index) claimNamed(name string) *model.Claim {
	if i := findClaim(ix.s, name); i >= 0 {
		return ix.s.Claims[i]
	}
	return nil
}

// claimWithUID finds one by uid; nil: there is none.
func (ix *index) claimWithUID(uid string) *model.Claim {
	if i, ok := ix.claims.claimByUID[uid]; ok {
		return ix.s.Claims[i]
	}
	return nil
}

// positionOf is where a claim stands in the Snapshot.
func (ix *index) positionOf(c *model.Claim) int32 {
	if i, ok := ix.dirtyPosition[c]; ok {
		return i
	}
	return findClaim(ix.s, c.Name)
}

// nodeOf is the claim's node; nil: it has none, or several.
func (ix *index) nodeOf(c *model.Claim) *model.Node {
	if i := ix.positionOf(c); i >= 0 && ix.claims.nodeOf[i] >= 0 {
		return ix.s.Nodes[ix.claims.nodeOf[i]]
	}
	return nil
}

// nodesAt are all with the claim's provider id.
func (ix *index) nodesAt(at int32) []*model.Node {
	switch i := ix.claims.nodeOf[at]; i {
	case none:
		return nil
	case several:
		var out []*model.Node
		for _, i := range ix.claims.nodesByProviderID[ix.s.Claims[at].ProviderID] {
			out = append(out, ix.s.Nodes[i])
		}
		return out
	default:
		return ix.s.Nodes[i : i+1 : i+1]
	}
}

// newInstanceIndex sorts the cloud's machines by whether a claim is theirs.
func newInstanceIndex(s *model.Snapshot, x *claimIndex) *instanceIndex {
	f := &instanceIndex{instances: s.Instances, shape: x, unclaimed: map[string][]*model.Instance{}}
	for _, i := range s.Instances {
		at, owned := x.claimByProviderID[i.ProviderID]
		if owned = owned && i.ProviderID != ""; !owned {
			f.unclaimed[i.ClaimUID] = append(f.unclaimed[i.ClaimUID], i)
		}
		// One without a claim's uid is not ours: another autoscaler bought it, and whoever has its claim ends it.
		if i.Gone || i.ClaimUID == "" || owned && (s.Claims[at].UID == i.ClaimUID || s.Claims[at].Name == i.ClaimName) {
			continue
		}
		// A claim has one machine. Another that bears its name was bought beside it, or made in its likeness by hand.
		if at, ok := x.claimByUID[i.ClaimUID]; ok && (s.Claims[at].ProviderID == "" || s.Claims[at].ProviderID == i.ProviderID) {
			continue
		}
		if at := findClaim(s, i.ClaimName); at >= 0 && s.Claims[at].ProviderID == i.ProviderID {
			continue
		}
		f.orphans = append(f.orphans, i)
	}
	return f
}

// instancesAt are a claim's in the cloud's list: those with its provider id, and those that bear its uid and are no
// other claim's.
func (ix *index) instancesAt(at int32) []*model.Instance {
	c := ix.s.Claims[at]
	var out []*model.Instance
	if last, ok := ix.claims.claimByProviderID[c.ProviderID]; ok && last == at {
		list := ix.s.Instances
		i, _ := slices.BinarySearchFunc(list, c.ProviderID, func(x *model.Instance, id string) int { return strings.Compare(x.ProviderID, id) })
		for ; i < len(list) && list[i].ProviderID == c.ProviderID; i++ {
			out = append(out, list[i])
		}
	}
	if loose := ix.instances.unclaimed[c.UID]; c.UID != "" && len(loose) > 0 {
		out = append(out, loose...)
		slices.SortStableFunc(out, func(a, b *model.Instance) int { return strings.Compare(a.ProviderID, b.ProviderID) })
	}
	return out
}

// isDue reports whether an instant has come, and if not, when it comes.
func (ix *index) isDue(at time.Time) (bool, time.Time) {
	if ix.now.Before(at) {
		return false, at
	}
	return true, time.Time{}
}

// earlierOf returns the earlier of two instants; zero is never.
func earlierOf(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
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

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"reflect"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/decide/claims"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// A machine is unchanged when there is nothing to do about it and only an event can bring something: a change of its
// claim, its node or its pool, of what its provider says about it, or the passing of a known instant. Nearly all
// machines are, nearly always. What one step has found unchanged the next passes over, as long as the objects are the
// very same ones, which a Snapshot never changes; all other machines are dirty and evaluated. Of an unchanged machine a
// step needs the solver's node, the candidate and its part in its pool's sums, and those are kept too.
//
// Nothing here decides or knows a rule: a machine is evaluated once in a step (see findings), and is unchanged if nothing
// was found and nothing was decided about it. A step that remembers nothing finds every machine dirty and decides the
// same.

// unchangedMachines passes over machines about which nothing has changed since the step before.
type unchangedMachines struct {
	*cluster.View

	unchanged     *unchangedNodes // for this step and the next
	ownsUnchanged bool            // it is this step's own by now, and may be written to
	idleClaims    []idleClaim
}

// nodeState is whether a node is evaluated in this step.
type nodeState byte

const (
	dirty     nodeState = iota
	unchanged           // with its claim
	unowned             // not changed either, and no claim's
)

// unchangedNodes is what a step has found out for the next. It is never written to.
type unchangedNodes struct {
	claims    []*model.Claim
	nodes     []*model.Node
	pools     []*model.NodePool
	links     *cluster.Links
	instances *cluster.Instances
	drift     map[string]string
	lifecycle lifecycle.Policy
	settle    time.Duration
	repair    []claims.RepairPolicy
	classes   []string
	cutoff    model.PriorityCutoff

	state           []nodeState                // by node; and where that is not dirty:
	solverNodes     []solve.ExistingNode       // as the solver takes it
	candidates      []*disrupt.Candidate       // nil for an unowned node
	until           []time.Time                // when it is to be looked at again; zero: never by itself
	next            time.Time                  // the first of those
	sums            map[string]cluster.PoolSum // by pool: of unchanged machines
	dirtyCandidates map[string]*disrupt.Candidate
	dirtyClaims     []int32 // positions of dirty claims
	dirtyNodes      []int32 // and of dirty nodes
}

// loadUnchanged returns the View of a Snapshot, with what still holds of the step before taken over and the rest dirty.
func loadUnchanged(s *model.Snapshot, now time.Time, pol *Policy, old *unchangedNodes) *unchangedMachines {
	if old == nil {
		old = &unchangedNodes{}
	}
	k := &unchangedNodes{claims: s.Claims, nodes: s.Nodes, pools: s.Pools, drift: s.Drift, lifecycle: pol.Lifecycle, settle: pol.LandingGrace, repair: pol.Repair, classes: pol.NodeClasses, cutoff: model.CutoffOf(s.Pools)}
	if old.cutoff == k.cutoff {
		k.dirtyCandidates = old.dirtyCandidates
	}
	changedClaims, likeClaims := listChanged(old.claims, s.Claims, func(a, b *model.Claim) bool {
		return a.Name == b.Name && a.UID == b.UID && a.ProviderID == b.ProviderID
	})
	changedNodes, likeNodes := listChanged(old.nodes, s.Nodes, func(a, b *model.Node) bool {
		return a.Name == b.Name && a.ProviderID == b.ProviderID && a.Claim == b.Claim
	})
	known := old.links != nil && old.lifecycle == pol.Lifecycle && old.settle == pol.LandingGrace && slices.Equal(old.repair, pol.Repair) && slices.Equal(old.classes, pol.NodeClasses) && old.cutoff == k.cutoff
	links := old.links
	if !likeClaims || !likeNodes {
		links = nil
	}
	um := &unchangedMachines{View: cluster.New(s, now, links, old.instances), unchanged: k}
	k.links, k.instances = um.Links(), um.Instances()
	switch {
	case !known:
		n := len(s.Nodes)
		k.state, k.solverNodes, k.candidates, k.until, k.sums = make([]nodeState, n), make([]solve.ExistingNode, n), make([]*disrupt.Candidate, n), make([]time.Time, n), map[string]cluster.PoolSum{}
		um.ownsUnchanged = true
	case k.links == old.links:
		k.state, k.solverNodes, k.candidates, k.until, k.sums, k.next = old.state, old.solverNodes, old.candidates, old.until, old.sums, old.next
		for _, i := range changedClaims {
			if p := um.NodeOf(i); p >= 0 && k.state[p] == unchanged {
				um.markDirty(p)
			}
		}
		for _, p := range changedNodes {
			um.markDirty(p)
		}
	default:
		um.carryOver(old)
	}
	if !sameSlice(old.pools, s.Pools) {
		um.updatePools(old.pools)
	}
	if reflect.ValueOf(s.Drift).Pointer() != reflect.ValueOf(old.drift).Pointer() {
		for p, u := range k.candidates {
			if k.state[p] == unchanged && s.Drift[u.Claim.UID] != old.drift[u.Claim.UID] {
				um.markDirty(int32(p))
			}
		}
	}
	if old.instances == nil || !old.instances.Are(s.Instances) {
		for _, i := range s.Instances {
			if i.Unreserved == nil {
				continue
			}
			if at := um.ClaimOfInstance(i); at >= 0 {
				if p := um.NodeOf(at); p >= 0 && lifecycle.LabelsWithoutReservation(s.Claims[at], s.Nodes[p], i) != nil {
					um.markDirty(p)
				}
			}
		}
	}
	if !k.next.IsZero() && !um.Now.Before(k.next) {
		for p, t := range k.until {
			if k.state[p] != dirty && !t.IsZero() && !um.Now.Before(t) {
				um.markDirty(int32(p))
			}
		}
	}
	if um.ownsUnchanged {
		um.listDirty()
		k.updateNext()
	} else {
		k.dirtyClaims, k.dirtyNodes = old.dirtyClaims, old.dirtyNodes
	}
	um.SetDirty(um.unchanged.dirtyClaims, um.unchanged.dirtyNodes, um.unchanged.sums)
	return um
}

// updatePools marks the machines dirty whose pool has changed. Where no more of it has changed than its status, which
// each purchase changes, they only refer to the new pool.
func (um *unchangedMachines) updatePools(old []*model.NodePool) {
	k := um.unchanged
	alike := map[*model.NodePool]*model.NodePool{} // what a pool was, to what it is; nil: something else
	for _, was := range old {
		if is := um.Pool(was.Name); is == was || is != nil && equalButStatus(was, is) {
			alike[was] = is
		}
	}
	for p, u := range k.candidates {
		if k.state[p] != unchanged {
			continue
		}
		switch is := alike[u.Pool]; is {
		case u.Pool:
		case nil:
			um.markDirty(int32(p))
		default:
			um.own()
			v := *u
			v.Pool = is
			k.candidates[p] = &v
		}
	}
}

// equalButStatus reports whether two states of a pool are the same but for its status.
func equalButStatus(a, b *model.NodePool) bool {
	x, y := *a, *b
	for _, p := range []*model.NodePool{&x, &y} {
		p.StatusResources, p.StatusNodes, p.StatusHash, p.StatusClassGeneration, p.Conditions = nil, 0, "", 0, nil
	}
	return reflect.DeepEqual(x, y)
}

// sameSlice reports whether two slices are the very same, and not only equal.
func sameSlice[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// listChanged lists what of a list is not the very same as it was; like: what takes its place is as good as it to
// whoever asks.
func listChanged[T any](old, now []*T, as func(a, b *T) bool) (changed []int32, like bool) {
	if len(old) != len(now) {
		return nil, false
	}
	if sameSlice(old, now) {
		return nil, true
	}
	for i, x := range now {
		if x == old[i] {
			continue
		}
		if !as(old[i], x) {
			return nil, false
		}
		changed = append(changed, int32(i))
	}
	return changed, true
}

// carryOver takes over what is known of unchanged machines where others have come or gone, so that positions differ.
func (um *unchangedMachines) carryOver(old *unchangedNodes) {
	k, s := um.unchanged, um.Snapshot
	n := len(s.Nodes)
	k.state, k.solverNodes, k.candidates, k.until, k.sums = make([]nodeState, n), make([]solve.ExistingNode, n), make([]*disrupt.Candidate, n), make([]time.Time, n), cloneSums(old.sums)
	um.ownsUnchanged = true
	k.next = old.next
	i := 0
	for j, was := range old.nodes {
		if old.state[j] == dirty {
			continue
		}
		for i < n && s.Nodes[i] != was && s.Nodes[i].Name < was.Name {
			i++
		}
		u := old.candidates[j]
		if i < n && s.Nodes[i] == was {
			at := um.ClaimOf(int32(i))
			if u == nil && at < 0 || u != nil && at >= 0 && s.Claims[at] == u.Claim && um.NodeOf(at) == int32(i) {
				k.state[i], k.solverNodes[i], k.candidates[i], k.until[i] = old.state[j], old.solverNodes[j], u, old.until[j]
				continue
			}
		}
		if u != nil {
			k.count(u, -1)
		}
	}
}

// count adds a machine to its pool's sums (n = 1), or takes it off (n = -1). The sums are the step's own by then.
func (k *unchangedNodes) count(u *disrupt.Candidate, n int64) {
	x := k.sums[u.Pool.Name]
	if x = (cluster.PoolSum{Count: x.Count + n, Capacity: x.Capacity.AddInto(u.Claim.Capacity, n)}); x.Count > 0 {
		k.sums[u.Pool.Name] = x
	} else {
		delete(k.sums, u.Pool.Name)
	}
}

// cloneSums returns a deep copy.
func cloneSums(m map[string]cluster.PoolSum) map[string]cluster.PoolSum {
	out := make(map[string]cluster.PoolSum, len(m))
	for k, v := range m {
		out[k] = cluster.PoolSum{Count: v.Count, Capacity: v.Capacity.Clone()}
	}
	return out
}

// own copies what is known, so that this step may change it.
func (um *unchangedMachines) own() {
	if k := um.unchanged; !um.ownsUnchanged {
		um.ownsUnchanged = true
		k.state, k.solverNodes, k.candidates, k.until, k.sums = slices.Clone(k.state), slices.Clone(k.solverNodes), slices.Clone(k.candidates), slices.Clone(k.until), cloneSums(k.sums)
	}
}

// markDirty has the node at a position evaluated in this step.
func (um *unchangedMachines) markDirty(p int32) {
	k := um.unchanged
	if k.state[p] == dirty {
		return
	}
	um.own()
	if u := k.candidates[p]; u != nil {
		k.count(u, -1)
	}
	k.state[p], k.candidates[p], k.until[p], k.solverNodes[p] = dirty, nil, time.Time{}, solve.ExistingNode{}
}

// listDirty lists the dirty claims and nodes.
func (um *unchangedMachines) listDirty() {
	k := um.unchanged
	k.dirtyClaims, k.dirtyNodes = nil, nil
	for p, x := range k.state {
		if x == dirty {
			k.dirtyNodes = append(k.dirtyNodes, int32(p))
		}
	}
	for i := range um.Snapshot.Claims {
		p := um.NodeOf(int32(i))
		if p < 0 || k.state[p] != unchanged || um.ClaimOf(p) != int32(i) {
			k.dirtyClaims = append(k.dirtyClaims, int32(i))
		}
	}
}

// markClaimsDirty marks machines dirty about which another object says something: they are candidates of a disruption
// command.
func (um *unchangedMachines) markClaimsDirty(claims []*model.Claim) {
	any := false
	for _, c := range claims {
		if i := um.PositionOf(c); i >= 0 {
			if p := um.NodeOf(i); p >= 0 && um.unchanged.state[p] == unchanged {
				um.markDirty(p)
				any = true
			}
		}
	}
	if any {
		um.listDirty()
		um.SetDirty(um.unchanged.dirtyClaims, um.unchanged.dirtyNodes, um.unchanged.sums)
	}
}

// updateNext finds the first instant at which an unchanged machine is to be evaluated again.
func (k *unchangedNodes) updateNext() {
	k.next = time.Time{}
	for p, t := range k.until {
		if k.state[p] != dirty && !t.IsZero() && (k.next.IsZero() || t.Before(k.next)) {
			k.next = t
		}
	}
}

// idleClaim is a claim that lifecycle has nothing to do for before an instant; zero: ever.
type idleClaim struct {
	at    int32
	until time.Time
}

// markDecided marks the unchanged machines dirty whose objects this step has decided to change, and returns them.
func (um *unchangedMachines) markDecided(d *draft) (out []*disrupt.Candidate) {
	k := um.unchanged
	mark := func(p int32) {
		if p >= 0 && k.state[p] == unchanged {
			out = append(out, k.candidates[p])
			um.markDirty(p)
		}
	}
	for name := range d.changedClaims {
		if at := um.FindClaim(name); at >= 0 {
			mark(um.NodeOf(at))
		}
	}
	for name := range d.changedNodes {
		mark(um.FindNode(name))
	}
	return out
}

// addDirtyCandidate keeps the candidate of a dirty machine, which the next step takes over if its objects are the same.
func (k *unchangedNodes) addDirtyCandidate(u *disrupt.Candidate) {
	if k.dirtyCandidates == nil {
		k.dirtyCandidates = map[string]*disrupt.Candidate{}
	}
	k.dirtyCandidates[u.Claim.Name] = u
}

// save returns for the next step which machines this one has found unchanged, until the instant that lifecycle named.
func (um *unchangedMachines) save(d *draft, machines map[*model.Claim]evaluation, nodes *solverView) *unchangedNodes {
	k := um.unchanged
	decided := um.markDecided(d)
	for _, x := range um.idleClaims {
		c, p := um.Snapshot.Claims[x.at], um.NodeOf(x.at)
		m, known := machines[c]
		if !known || p < 0 || um.ClaimOf(p) != x.at || m.found != (findings{}) || d.changedClaims[c.Name] || d.changedNodes[m.Node.Name] {
			continue
		}
		um.own()
		k.state[p], k.candidates[p], k.until[p] = unchanged, m.Candidate, x.until
		k.solverNodes[p], _ = nodes.standingNode(m.Node, c, nil)
		k.count(m.Candidate, 1)
	}
	for _, p := range um.DirtyNodes {
		if n := um.Snapshot.Nodes[p]; um.ClaimOf(p) < 0 && n.Deleting.IsZero() && !nodes.mayBeOwned(n) {
			um.own()
			k.state[p] = unowned
			k.solverNodes[p], _ = nodes.standingNode(n, nil, nil)
		}
	}
	if um.ownsUnchanged {
		um.listDirty()
		k.updateNext()
	}
	k.dirtyCandidates = nil
	for _, u := range decided {
		k.addDirtyCandidate(u)
	}
	for c, m := range machines {
		if p := um.NodeOf(um.PositionOf(c)); p < 0 || k.candidates[p] != m.Candidate {
			k.addDirtyCandidate(m.Candidate)
		}
	}
	return k
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package unused finds launches that served no pod, and keeps more of them from being made.
//
// The slots of a NodeClaim say for which pods it was launched. A launch has ended without them if the claim holds nothing for
// pods any more and none of them has been on its node, for whichever reason: it was refused, no instance came, the instance
// never joined, the node is tainted, kube-scheduler does not use it, somebody has deleted it. It is unused when a node is wanted
// for the same pods again. Nothing here asks why, so that a cause nobody has thought of ends as the others do. The likeliest
// cause is only told.
//
// Unused launches are counted by the template of the pods and by where the node was launched: the NodePool, or the node
// group. Launches that were under way when one was counted are of the same wave and count with it. After the first wave
// other NodePools and groups are tried first, and then one node at a time. After the second nothing is launched there for
// these pods for ten minutes, then twenty, at last once an hour. A node that became usable and was not used speaks
// against the pods as well, which are counted over all NodePools. One that did not speaks against the NodePool or group, which
// every pod then tries last.
//
// A count ends when a pod of the template runs on a node that was launched there, when the NodePool's template or
// its node class changes, or when the taint that kept pods away is taken off. Counts outlive the process: see Memory.Learned.
//
// It launches and removes nothing. Its answers change only with what it is told by Read, Review, StaticAllowance and
// MarkScaledDown. A Memory is replaced and never changed in place.
//
// Start reading at Launches.Read and Launches.Review.
package unused

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// Launches finds unused launches, and keeps more of them from being made. It is asked by those who launch: what they
// launch is reviewed, and pods and NodePools for which nothing is to be launched are told. Result returns what was found.
type Launches struct {
	*cluster.View
	in  In
	mem Memory
	out Out

	capacity  []openCapacity        // launches for no pod whose outcome is open, those among them that are not made yet
	softened  map[*model.Class]bool // classes for which no place is tried last: no other takes their pods
	templates map[*model.Class]string
}

// In is what unused launches are found from, besides the Snapshot.
type In struct {
	Lifecycle lifecycle.Policy
	IsForeign func(*model.Claim) bool // reports whether a claim is another provider's, and left alone

	Reservations map[string]*cluster.Reservation // by claim name: what claims hold for pods, with these pods
	Commands     *cluster.Commands
	Held         map[string][]cluster.SlotKey // by claim name: the CapacityBuffers, by KeyOfBuffer, whose capacity was held on its node after the last step
	Leaving      []*model.Pod                 // pods on nodes that are drained, which will have successors; by namespace and name
}

// Out is what was found, for Step to merge.
type Out struct {
	plan.Part
	Counted []Launch // launches that were counted, in the order in which they were
	Costs   []Cost   // what launches counted earlier have cost since, in the order in which they are forgotten
}

// New returns Launches that go by what is remembered alone, until Read.
func New(v *cluster.View, mem Memory) *Launches {
	return &Launches{View: v, mem: mem}
}

// Result returns what was found, and what to remember of it.
func (ul *Launches) Result() (Out, Memory) { return ul.out, ul.mem }

// Memory is what Launches remember from step to step.
type Memory struct {
	Begun  bool                  // Read has been called in this process
	held   map[string]heldLaunch // by claim uid: launches that hold slots for pods
	ended  []Ended               // launches without a pod of theirs, by claim uid and slot
	counts map[launchSite]Count

	capacity   map[string]openCapacity // by claim uid: launches for no pod whose outcome is open
	scaledDown map[string]bool         // by claim uid: removed by a NodePool that has more than its fixed number of nodes

	changes int       // of ended and counts, counted
	retryAt time.Time // when pods that are kept from a launch may have one; zero: there are none
}

// heldLaunch is a launch whose outcome is open.
type heldLaunch struct {
	claim  *model.Claim
	served map[cluster.SlotKey]bool // slots of which a pod has been on the node
}

// Ended is a launch that has ended without the pods of one of its slots: it holds none any more, and none of them has been on
// its node. It is kept as JSON.
type Ended struct {
	Claim, UID  string
	Pool, Group string // the pool by uid
	Basis       string // of the pool
	Class       string `json:",omitempty"` // of the slot, with Owner
	Owner       string `json:",omitempty"`
	Created     time.Time
	Ended       time.Time
	Usable      bool   // the node was initialized
	Stands      bool   // and is there
	Node        string // empty: there was none
	Cause       plan.Reason
	Micro       int64     // micro-dollars an hour that it costs
	Counted     bool      // as unused
	Charged     time.Time // what it has cost until then is told; zero: nothing is, or it is told with another slot of the launch
}

// key returns the kind of the slot whose pods the launch was made for.
func (x Ended) key() cluster.SlotKey { return cluster.SlotKey{Class: x.Class, Owner: x.Owner} }

// launchSite is what unused launches are counted by. Without a template it is all pods, without a pool all pools.
type launchSite struct{ template, pool, group string } // the pool by uid

// Count is the unused launches of one site: a template of pods in a NodePool or node group. It is never written to, and is kept
// as JSON.
type Count struct {
	Basis    string // of the pool of the last
	Pool     string // by uid
	Times    int    // waves
	Launches int
	At       time.Time // when the last wave was counted
	Until    time.Time // nothing is launched until then
	Wave     []string  // uids of the claims that were open then: they are of that wave
	Claim    string    // the last launch
	Node     string
	Owner    string // whom it was for, for people: see beneficiary
	NoPod    bool   `json:",omitempty"` // it was for no pod: only a launch that is of use ends it
	Cause    plan.Reason
	Micro    int64 // what the launches had cost when they were counted, micro-dollars
}

// These are how long nothing is launched after so many waves of unused launches.
const (
	firstPause      = time.Minute      // after the first, if its node stands: what keeps pods away may be about to go
	FirstRest       = 10 * time.Minute // after the second, then twice as long each time
	LongestRest     = time.Hour
	countKept       = time.Hour // a count is forgotten this long after its rest
	SiteFirstRest   = 5 * time.Minute
	siteLongestRest = 30 * time.Minute // as Cluster Autoscaler leaves a node group alone
	mostCounts      = 1000
	mostWave        = 200
)

// templateOf names the template that pods of a class are made from.
func (ul *Launches) templateOf(c *model.Class) string {
	t, ok := ul.templates[c]
	if !ok {
		t = templateName(c)
		if ul.templates == nil {
			ul.templates = map[*model.Class]string{}
		}
		ul.templates[c] = t
	}
	return t
}

// templateName names the template that pods of a class are made from.
func templateName(c *model.Class) string {
	if c.TemplateKey != "" {
		return cluster.HashName(13, c.TemplateKey)
	}
	return cluster.ClassHash(c)
}

// Read finds launches that have ended without a pod of theirs, and takes back what is counted where a pod has come.
func (ul *Launches) Read(in In) {
	ul.in = in
	held := make(map[string]heldLaunch, len(in.Reservations))
	for _, h := range in.Reservations {
		if h.Claim.UID == "" || len(h.Claim.Slots) == 0 || h.Claim.Annotations[cluster.AnnotationHost] != "" || h.Claim.Annotations[model.AnnotationAdopt] != "" {
			continue
		}
		was, known := ul.mem.held[h.Claim.UID]
		if known && h.Node != nil && !h.Node.Deleting.IsZero() {
			continue // somebody deletes its Node, and the pods have to leave
		}
		held[h.Claim.UID], _ = ul.serve(heldLaunch{claim: h.Claim, served: was.served}, h.Node)
	}
	known := make(map[string]bool, len(ul.mem.ended))
	for i := range ul.mem.ended {
		known[ul.mem.ended[i].UID] = true
	}
	var ended []Ended
	for _, uid := range slices.Sorted(maps.Keys(ul.mem.held)) {
		if _, still := held[uid]; still || known[uid] {
			continue
		}
		x := ul.mem.held[uid]
		if c := ul.ClaimWithUID(uid); c != nil { // else it is gone, without having been seen to go
			x.claim = c
		}
		n := ul.NodeFor(x.claim)
		x, starting := ul.serve(x, n)
		switch {
		case starting:
			held[uid] = x
		case ul.in.Commands.Of(x.claim) != "" && n != nil && slices.ContainsFunc(n.Pods, (*model.Pod).IsWorkload):
			// A disruption command removes it, which is no fault of the launch.
		default:
			ended = append(ended, ul.endLaunch(x.claim, x.served)...)
		}
	}
	for _, c := range ul.Snapshot.Claims { // of an earlier process, or that ended before they were seen to hold anything
		if ul.mem.Begun && (c.Deleting.IsZero() || c.Is(lifecycle.Initialized)) || c.UID == "" || len(c.Slots) == 0 || !c.LastPodEvent.IsZero() {
			continue
		}
		if _, was := ul.mem.held[c.UID]; was || known[c.UID] || held[c.UID].claim != nil {
			continue
		}
		if n := ul.NodeFor(c); n != nil && slices.ContainsFunc(n.Pods, (*model.Pod).IsWorkload) {
			continue
		}
		ended = append(ended, ul.endLaunch(c, nil)...)
	}
	ended = append(ended, ul.readCapacity(known)...)
	for i := range ul.Snapshot.Unmade {
		u := &ul.Snapshot.Unmade[i]
		if uid := "unmade/" + u.Claim + "/" + u.At.UTC().Format(time.RFC3339Nano); !known[uid] && ul.Now.Before(u.At.Add(countKept)) {
			ended = append(ended, ul.endUnmade(u, uid)...)
		}
	}
	ul.mem.held, ul.mem.Begun = held, true
	if len(ended) > 0 {
		slices.SortFunc(ended, func(a, b Ended) int {
			return strings.Compare(a.UID+"\x00"+a.Class+"\x00"+a.Owner, b.UID+"\x00"+b.Class+"\x00"+b.Owner)
		})
		ul.mem.ended = append(slices.Clip(ul.mem.ended), ended...)
		ul.mem.changes++
	}
	ul.forget()
	ul.takeBack()
}

// endLaunch returns what is to be remembered of a launch that has ended: an entry for each of its slots that no pod has
// been on the node for.
func (ul *Launches) endLaunch(c *model.Claim, served map[cluster.SlotKey]bool) (out []Ended) {
	x, ok := ul.newEnded(c)
	if !ok {
		return nil
	}
	n := ul.NodeFor(c)
	for _, s := range c.Slots {
		k := cluster.KeyOf(s)
		if served[k] || n != nil && slices.ContainsFunc(n.Pods, func(q *model.Pod) bool { return ul.SlotKeyOf(q) == k && hasRun(q, ul.Now) }) {
			continue
		}
		x.Class, x.Owner = s.Class, s.Owner
		out = append(out, x)
	}
	return out
}

// startTime is how long a pod that is bound may take to start before it counts as one that has run: its image may be what
// is missing, and that is no fault of its node.
const startTime = 5 * time.Minute

// hasRun reports whether a pod on a node has run there, or has had the time to.
func hasRun(p *model.Pod, now time.Time) bool {
	return !p.Starting || !now.Before(p.Bound.Add(startTime))
}

// serve returns a launch with the slots of which a pod has run on its node, and whether others have pods there that have yet
// to start: they may lose the node before.
func (ul *Launches) serve(x heldLaunch, n *model.Node) (_ heldLaunch, starting bool) {
	if n == nil {
		return x, false
	}
	leaves := !n.Deleting.IsZero() || !x.claim.Deleting.IsZero()
	for _, p := range n.Pods {
		k := ul.SlotKeyOf(p)
		if x.served[k] || !slices.ContainsFunc(x.claim.Slots, func(s model.Slot) bool { return k == cluster.KeyOf(s) }) {
			continue
		}
		if !hasRun(p, ul.Now) {
			if starting = starting || !leaves; starting {
				ul.out.WakeAt(p.Bound.Add(startTime))
			}
			continue
		}
		if x.served = maps.Clone(x.served); x.served == nil {
			x.served = map[cluster.SlotKey]bool{}
		}
		x.served[k] = true
	}
	return x, starting
}

// newEnded returns what is to be remembered of a launch that has ended, but for whom it was made; false: nothing. Nothing
// was launched if there was no capacity, or the node class was not ready.
func (ul *Launches) newEnded(c *model.Claim) (Ended, bool) {
	p := ul.Pool(c.Pool)
	if p == nil || ul.in.IsForeign(c) || c.Annotations[cluster.AnnotationHost] != "" || c.Annotations[model.AnnotationAdopt] != "" {
		return Ended{}, false
	}
	if h := c.Annotations[model.AnnotationPoolHash]; h != "" && p.Hash != "" && h != p.Hash {
		return Ended{}, false // it was launched as something else
	}
	if f, ok := ul.Snapshot.Failures[c.UID]; ok && c.ProviderID == "" {
		switch f.Kind {
		case "InsufficientCapacity", "NodeClassNotReady", "NotReady":
			return Ended{}, false
		}
	}
	n := ul.NodeFor(c)
	x := Ended{Claim: c.Name, UID: c.UID, Pool: p.UID, Basis: cluster.LaunchBasis(p), Group: c.NodeGroup(), Created: c.Created, Ended: ul.Now,
		Usable: c.Is(lifecycle.Initialized), Stands: c.Is(lifecycle.Initialized) && n != nil && n.Deleting.IsZero() && c.Deleting.IsZero() && ul.Interruptions[c.Name] == nil,
		Node: c.NodeName, Cause: ul.causeOf(c, n), Micro: ul.priceOf(c)}
	if n != nil {
		x.Node = n.Name
	}
	return x, true
}

// endUnmade returns what is to be remembered of a NodeClaim that the API server has refused.
func (ul *Launches) endUnmade(u *model.UnmadeClaim, uid string) (out []Ended) {
	p := ul.Pool(u.Pool)
	if p == nil {
		return nil
	}
	for _, s := range u.Slots {
		out = append(out, Ended{Claim: u.Claim, UID: uid, Pool: p.UID, Basis: cluster.LaunchBasis(p), Group: u.Group, Class: s.Class, Owner: s.Owner,
			Created: u.At, Ended: ul.Now, Cause: plan.Reason{Code: plan.ClaimRefused, Detail: plan.OfSaid{Said: plan.Words(u.Message)}}})
	}
	return out
}

// forget forgets launches and counts that say nothing any more.
func (ul *Launches) forget() {
	pools := make(map[string]*model.NodePool, len(ul.Snapshot.Pools))
	for _, p := range ul.Snapshot.Pools {
		pools[p.UID] = p
	}
	stale := func(x Ended) bool {
		if hasChanged(pools[x.Pool], x.Basis) {
			return true
		}
		gone := ul.ClaimWithUID(x.UID) == nil
		return gone && (x.Counted && !strings.HasPrefix(x.UID, "unmade/") || !ul.Now.Before(x.Ended.Add(countKept)))
	}
	if slices.ContainsFunc(ul.mem.ended, stale) {
		for i := range ul.mem.ended {
			if x := &ul.mem.ended[i]; !x.Charged.IsZero() && stale(*x) && pools[x.Pool] != nil {
				ul.out.Costs = append(ul.out.Costs, Cost{pools[x.Pool].Name, CostOf(x.Micro, x.Charged, ul.Now)})
			}
		}
		ul.mem.ended = slices.DeleteFunc(slices.Clone(ul.mem.ended), stale)
		ul.mem.changes++
	}
	ul.deleteCounts(func(_ launchSite, c Count) bool {
		return hasChanged(pools[c.Pool], c.Basis) || !ul.Now.Before(c.Until.Add(max(countKept, 2*ul.in.Lifecycle.RegistrationTimeout)))
	})
}

// hasChanged reports whether a pool launches other nodes than when something was noted of it: it is gone, or its template is
// another one, or its node class is.
func hasChanged(p *model.NodePool, basis string) bool {
	if p == nil {
		return true
	}
	if hash, _, _ := strings.Cut(basis, "/"); p.ClassGeneration == 0 {
		return hash != p.Hash // its node class has not been read yet
	}
	return cluster.LaunchBasis(p) != basis
}

// deleteCounts forgets the counts that something is true of.
func (ul *Launches) deleteCounts(drop func(launchSite, Count) bool) {
	some := false
	for k, c := range ul.mem.counts {
		some = some || drop(k, c)
	}
	if !some {
		return
	}
	ul.mem.counts = maps.Clone(ul.mem.counts)
	maps.DeleteFunc(ul.mem.counts, drop)
	ul.mem.changes++
}

// takeBack takes back what is counted: of templates of which a pod runs on a node that was launched where earlier
// ones were unused, of places where a node has become usable since, and of nodes that have lost the taint which kept pods away.
func (ul *Launches) takeBack() {
	if len(ul.mem.ended) == 0 && len(ul.mem.counts) == 0 {
		return
	}
	watched := ul.claimsWatched()
	served := map[launchSite]bool{}
	launched := map[string]map[cluster.SlotKey]bool{} // by claim uid: slots of which a pod runs on its node
	oldest := ul.Now
	for _, x := range ul.mem.counts {
		if x.At.Before(oldest) {
			oldest = x.At
		}
	}
	for at, n := range ul.Snapshot.Nodes { // whether they have changed or not: a count may be older than what is on them
		i := ul.ClaimOf(int32(at))
		if i < 0 || len(n.Pods) == 0 {
			continue
		}
		c := ul.Snapshot.Claims[i]
		p := ul.Pool(c.Pool)
		if p == nil {
			continue
		}
		for _, q := range n.Pods {
			if !q.IsWorkload() || !q.Deleting.IsZero() || !hasRun(q, ul.Now) || q.Bound.Before(oldest.Add(-time.Second)) && !watched[c.UID] {
				continue
			}
			t := ul.templateOf(q.Class)
			for _, k := range []launchSite{{t, p.UID, c.NodeGroup()}, {template: t}} {
				// A pod that came before the last wave was counted says nothing of that.
				if x, ok := ul.mem.counts[k]; ok && (!q.Bound.Before(x.At.Add(-time.Second)) || x.Node == n.Name) {
					served[k] = true
				}
			}
			if !watched[c.UID] {
				continue
			}
			if launched[c.UID] == nil {
				launched[c.UID] = map[cluster.SlotKey]bool{}
			}
			launched[c.UID][ul.SlotKeyOf(q)] = true
		}
	}
	ul.takeBackCapacity(served, launched)
	for _, c := range ul.Snapshot.Claims {
		if p := ul.Pool(c.Pool); p != nil && c.Is(lifecycle.Initialized) {
			k := launchSite{pool: p.UID, group: c.NodeGroup()}
			if x, ok := ul.mem.counts[k]; ok && c.Conditions[lifecycle.Initialized].Since.After(x.At) {
				served[k] = true
			}
		}
	}
	ul.deleteCounts(func(k launchSite, x Count) bool { return served[k] || !x.NoPod && ul.hasLostTaint(x) })
	drop := func(x Ended) bool { return launched[x.UID][x.key()] }
	if slices.ContainsFunc(ul.mem.ended, drop) {
		ul.mem.ended = slices.DeleteFunc(slices.Clone(ul.mem.ended), drop)
		ul.mem.changes++
	}
}

// claimsWatched are the uids of claims whose launch has ended without a pod, or was the last to be counted.
func (ul *Launches) claimsWatched() map[string]bool {
	out := map[string]bool{}
	for i := range ul.mem.ended {
		out[ul.mem.ended[i].UID] = true
	}
	for _, x := range ul.mem.counts {
		if c := ul.Claim(x.Claim); c != nil {
			out[c.UID] = true
		}
	}
	return out
}

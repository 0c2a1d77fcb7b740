// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package unused detects launches whose nodes never ran any of their pods, and limits further ones.
//
// The slots of a NodeClaim name the pods that it was launched for. A launch ended without them if the NodeClaim holds
// no slots any more and none of the pods has been on its node, for any reason: the NodeClaim was rejected, no
// instance was launched, the instance did not join, the node is tainted, kube-scheduler does not use it, or it was
// deleted. Such a launch is unused when a node is needed for the same pods again. The rules do not depend on the
// reason, so they cover unknown causes too; the most likely cause is only reported. One exception: a launch that the cloud
// interrupted, or that somebody deleted, counts from the fourth time on.
//
// Unused launches are counted per pod template and per launch site: the NodePool or the node group. Launches in
// flight when one is counted belong to the same wave. After the first wave, other NodePools and groups are tried
// first, then one node at a time. After the second wave, nothing is launched there for these pods for ten minutes,
// then twenty, and finally for one hour at a time. A node that became usable and was not used counts against the
// pods, over all NodePools. A node that did not become usable counts against the NodePool or group, which all pods
// then try last.
//
// A count is reset when a pod of the template runs on a node launched there, when the NodePool's template or its node
// class changes, or when the taint that repelled the pods is removed. Counts survive restarts (Memory.Learned).
//
// The package neither launches nor removes nodes. Its results change only through Read, Review, StaticAllowance and
// MarkScaledDown. A Memory is replaced, never modified. Start reading at Launches.Read and Launches.Review.
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

// Launches finds unused launches and limits further ones. Callers pass their launches to Review; Bars contains the pods and
// NodePools for which nothing is launched. Result returns the results.
type Launches struct {
	*reader
	mem       Memory
	out       Out
	templates templateNames
	served    map[launchSite]bool // where, and for what, a pod was bound less than a second ago to a node that was launched there, and runs

	Bars *Bars // from the reviewed launches
}

// Out is the result, which Step merges.
type Out struct {
	plan.Part
	Counted []Launch // counted launches, in order
	Costs   []Cost   // further costs of launches counted earlier, in the order in which they are forgotten
}

// New returns Launches that use only their memory until Read is called.
func New(v *cluster.View, mem Memory) *Launches {
	ul := &Launches{reader: &reader{View: v}, mem: mem, templates: templateNames{}, served: map[launchSite]bool{}}
	ul.Bars = &Bars{rd: ul.reader, counts: &ul.mem.counts, templates: ul.templates}
	return ul
}

// Result returns the results, and the state to keep for the next step.
func (ul *Launches) Result() (Out, Memory) { return ul.out, ul.mem }

// Memory is the state that Launches keeps between steps.
type Memory struct {
	Begun  bool                  // Read has been called in this process
	held   map[string]heldLaunch // by claim uid: launches that hold slots for pods
	ended  endedLaunches
	counts siteCounts

	capacity   map[string]openCapacity // by claim uid: launches for no pod whose outcome is open
	scaledDown map[string]bool         // by claim uid: removed by a NodePool that has more than its fixed number of nodes

	yielded map[string]bool // by claim uid: claims whose pods got a node in another zone because of a zonal shift

	retryAt time.Time // when pods that are kept from a launch may have one; zero: there are none
}

// heldLaunch is a launch whose outcome is open.
type heldLaunch struct {
	claim  *model.Claim
	served map[cluster.SlotKey]bool // slots of which a pod has been on the node
}

// Read finds launches that ended without any of their pods, and resets counts if a pod has run.
func (ul *Launches) Read(in In) {
	ul.In = in
	held := make(map[string]heldLaunch, len(in.Reservations))
	for _, h := range in.Reservations {
		was, known := ul.mem.held[h.Claim.UID]
		if h.Claim.UID == "" || len(h.Claim.Slots) == 0 || h.Claim.Annotations[cluster.AnnotationHost] != "" || h.Claim.Annotations[model.AnnotationAdopt] != "" ||
			!known && h.Claim.Annotations[model.AnnotationBooked] != "" {
			continue
		}
		if known && h.Node != nil && !h.Node.Deleting.IsZero() {
			continue // somebody deletes its Node, and the pods have to leave
		}
		held[h.Claim.UID], _ = ul.serve(heldLaunch{claim: h.Claim, served: was.served}, h.Node)
	}
	known := make(map[string]bool, len(ul.mem.ended.list))
	for i := range ul.mem.ended.list {
		known[ul.mem.ended.list[i].UID] = true
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
		case lifecycle.WasRebooted(x.claim), ul.mem.yielded[uid]: // its pods have left it for that
		case ul.Commands.Of(x.claim) != "" && n != nil && slices.ContainsFunc(n.Pods, (*model.Pod).IsWorkload):
			// A disruption command removes it, which is no fault of the launch.
		default:
			ended = append(ended, ul.endLaunch(x.claim, x.served)...)
		}
	}
	for _, c := range ul.Snapshot.Claims { // of an earlier process, or that ended before they were seen to hold anything
		if ul.mem.Begun && (c.Deleting.IsZero() || c.Is(lifecycle.Initialized)) || c.UID == "" || len(c.Slots) == 0 || !c.LastPodEvent.IsZero() || lifecycle.WasRebooted(c) || ul.mem.yielded[c.UID] {
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
	ul.mem.held, ul.mem.Begun, ul.mem.yielded = held, true, ul.readYielded()
	ul.mem.ended.add(ended)
	ul.forget()
	ul.takeBack()
	ul.reviewMade()
}

// readYielded returns the claims that exist and hold nothing for their pods because of a zonal shift, or did so at an earlier step.
func (ul *Launches) readYielded() map[string]bool {
	if len(ul.Snapshot.Shifts)+len(ul.mem.yielded) == 0 {
		return nil
	}
	out := map[string]bool{}
	for _, c := range ul.Snapshot.Claims {
		if c.UID != "" && (ul.mem.yielded[c.UID] || ul.isYielding(c, ul.NodeFor(c))) {
			out[c.UID] = true
		}
	}
	return out
}

// readCapacity follows the launches for no pod, and returns those that have ended unused.
func (ul *Launches) readCapacity(known map[string]bool) []Ended {
	open, ended := ul.capacity().read(known, ul.mem.scaledDown, ul.mem.Begun)
	if slices.ContainsFunc(slices.Collect(maps.Keys(ul.mem.scaledDown)), func(uid string) bool { return ul.ClaimWithUID(uid) == nil }) {
		ul.forgetScaledDown()
	}
	ul.Bars.open, ul.mem.capacity = open, map[string]openCapacity{}
	for _, x := range open {
		if x.claim.UID != "" {
			ul.mem.capacity[x.claim.UID] = x
		}
	}
	return ended
}

// capacity returns what tells what has become of launches for no pod.
func (ul *Launches) capacity() *capacityReader { return &capacityReader{ul.reader, ul.mem.capacity} }

// MarkScaledDown records that a NodePool with a fixed number of nodes removes a surplus NodeClaim.
func (ul *Launches) MarkScaledDown(uid string) {
	ul.forgetScaledDown()
	ul.mem.scaledDown[uid] = true
}

// forgetScaledDown copies that without the claims that are gone.
func (ul *Launches) forgetScaledDown() {
	next := map[string]bool{}
	for uid := range ul.mem.scaledDown {
		if ul.ClaimWithUID(uid) != nil {
			next[uid] = true
		}
	}
	ul.mem.scaledDown = next
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
				ul.out.WakeAt(p.Bound.Add(lifecycle.StartTime))
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
	for _, x := range ul.mem.ended.list {
		if !x.Charged.IsZero() && stale(x) && pools[x.Pool] != nil {
			ul.out.Costs = append(ul.out.Costs, Cost{pools[x.Pool].Name, CostOf(x.Micro, x.Charged, ul.Now)})
		}
	}
	ul.mem.ended.drop(stale)
	ul.mem.counts.drop(func(_ launchSite, c Count) bool {
		return hasChanged(pools[c.Pool], c.Basis) || !ul.Now.Before(c.Until.Add(max(countKept, 2*ul.Lifecycle.RegistrationTimeout)))
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

// takeBack takes back what is counted: of templates of which a pod runs on a node that was launched where earlier
// ones were unused, of places where a node has become usable since, and of nodes that have lost the taint which kept pods away.
func (ul *Launches) takeBack() {
	if len(ul.mem.ended.list) == 0 && len(ul.mem.counts.bySite) == 0 {
		return
	}
	watched := ul.claimsWatched()
	served := map[launchSite]bool{}
	launched := map[string]map[cluster.SlotKey]bool{} // by claim uid: slots of which a pod runs on its node
	oldest := ul.Now
	for _, x := range ul.mem.counts.bySite {
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
		if n.LastPodEvent.Before(oldest.Add(-time.Second)) && !watched[c.UID] {
			continue // all its pods came before
		}
		p := ul.Pool(c.Pool)
		if p == nil {
			continue
		}
		for _, q := range n.Pods {
			if !q.IsWorkload() || !q.Deleting.IsZero() || !hasRun(q, ul.Now) || q.Bound.Before(oldest.Add(-time.Second)) && !watched[c.UID] {
				continue
			}
			t := ul.templates.of(q.Class)
			for _, k := range []launchSite{{t, p.UID, c.NodeGroup()}, {template: t}} {
				if !q.Bound.Before(ul.Now.Add(-time.Second)) {
					ul.served[k] = true
				}
				// A pod that came before the last wave was counted says nothing of that.
				if x, ok := ul.mem.counts.bySite[k]; ok && (!q.Bound.Before(x.At.Add(-time.Second)) || x.Node == n.Name) {
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
	ul.capacity().takeBack(&ul.mem.counts, watched, served, launched)
	for _, c := range ul.Snapshot.Claims {
		if p := ul.Pool(c.Pool); p != nil && c.Is(lifecycle.Initialized) {
			k := launchSite{pool: p.UID, group: c.NodeGroup()}
			if x, ok := ul.mem.counts.bySite[k]; ok && c.Conditions[lifecycle.Initialized].Since.After(x.At) {
				served[k] = true
			}
		}
	}
	ul.mem.counts.drop(func(k launchSite, x Count) bool { return served[k] || !x.NoPod && ul.hasLostTaint(x) })
	ul.mem.ended.drop(func(x Ended) bool { return launched[x.UID][x.key()] })
}

// claimsWatched are the uids of claims whose launch has ended without a pod, or was the last to be counted.
func (ul *Launches) claimsWatched() map[string]bool {
	out := map[string]bool{}
	for i := range ul.mem.ended.list {
		out[ul.mem.ended.list[i].UID] = true
	}
	for _, x := range ul.mem.counts.bySite {
		if c := ul.Claim(x.Claim); c != nil {
			out[c.UID] = true
		}
	}
	return out
}

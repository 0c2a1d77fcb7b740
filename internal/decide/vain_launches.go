// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// Of every launch it is known for which pods it was made: its NodeClaim's slots say so. A launch has ended without
// them when the claim holds nothing for pods any more and none of them has been on its node, for whichever reason: it
// was refused, no instance came, the instance never joined, the node is tainted, kube-scheduler does not use it,
// somebody has deleted it. It is vain when a node is wanted for the same pods again. Nothing here asks why, so that a
// cause nobody has thought of ends as the others do. The cause is only told.
//
// Vain launches are counted by the template of the pods and by where the node was launched: the NodePool, or the node
// group. Launches that were under way when one was counted are of the same wave and count with it. After the first wave
// other pools and groups are tried first, and then one node at a time; after the second nothing is launched there for
// these pods for ten minutes, then twenty, at last once an hour. A node that became usable and was not used speaks
// against the pods as well, which are counted over all pools. One that did not speaks against the pool or group, which
// every pod then tries last.
//
// A count ends when a pod of the template runs on a node that was launched there, and when the NodePool's template or
// its node class changes, or the taint that kept pods away is taken off. All of it outlives the process: see
// LearnedCapacity.

// vainLaunches finds launches that were in vain, and keeps more of them from being made.
type vainLaunches struct {
	*draft
	mem           *vainMemory
	disagreements *schedulerDisagreements
	interruptions *interruptions
	pods          *podTable
	reservations  *reservations

	softened  map[*model.Class]bool // classes for which no place is tried last: no other takes their pods
	templates map[*model.Class]string
}

// vainMemory is what vainLaunches remembers from step to step.
type vainMemory struct {
	begun   bool                  // of this process
	held    map[string]heldLaunch // by claim uid: launches that hold slots for pods
	ended   []endedLaunch         // launches without a pod of theirs, by claim uid and slot
	counts  map[vainSite]vainCount
	changes int       // of ended and counts, counted: see LearnedChanges
	retryAt time.Time // when pods that are kept from a launch may have one; zero: there are none
}

// heldLaunch is a launch whose outcome is open.
type heldLaunch struct {
	claim  *model.Claim
	served map[slotKey]bool // slots of which a pod has been on the node
}

// endedLaunch is a launch that holds no slot any more, and that no pod of one of its slots has been on the node of.
type endedLaunch struct {
	Claim, UID  string
	Pool, Group string // the pool by uid
	Basis       string // of the pool
	Class       string `json:",omitempty"` // of the slot, with Owner
	Owner       string `json:",omitempty"`
	Created     time.Time
	Ended       time.Time
	Usable      bool // the node was initialized
	Stands      bool // and is there
	Node        string
	Cause       plan.Reason
	Micro       int64 // micro-dollars an hour that it costs
	Counted     bool
	Charged     time.Time // what it has cost until then is told; zero: nothing is, or it is told with another slot of the launch
}

// vainSite is what vain launches are counted by. Without a template it is all pods, without a pool all pools.
type vainSite struct{ template, pool, group string } // the pool by uid

// vainCount is the vain launches of one site. It is never written to.
type vainCount struct {
	Basis    string // of the pool of the last
	Pool     string // by uid
	Times    int    // waves
	Launches int
	At       time.Time // when the last wave was counted
	Until    time.Time // nothing is launched until then
	Wave     []string  // uids of the claims that were open then: they are of that wave
	Claim    string    // the last launch
	Node     string
	Owner    string // of its pods: namespace/name
	Cause    plan.Reason
	Micro    int64 // what the launches had cost when they were counted, micro-dollars
}

// How long nothing is launched after so many waves of vain launches.
const (
	vainPause       = time.Minute      // after the first, if its node stands: what keeps pods away may be about to go
	vainFirstRest   = 10 * time.Minute // after the second, then twice as long each time
	vainLongestRest = time.Hour
	vainForget      = time.Hour // a count is forgotten this long after its rest
	siteFirstRest   = 5 * time.Minute
	siteLongestRest = 30 * time.Minute // as Cluster Autoscaler leaves a node group alone
	mostVainCounts  = 1000
	mostWave        = 200
)

// templateOf names the template that pods of a class are made from.
func (vl *vainLaunches) templateOf(c *model.Class) string {
	t, ok := vl.templates[c]
	if !ok {
		if t = ClassHash(c); c.TemplateKey != "" {
			t = hashName(13, c.TemplateKey)
		}
		if vl.templates == nil {
			vl.templates = map[*model.Class]string{}
		}
		vl.templates[c] = t
	}
	return t
}

// read finds launches that have ended without a pod of theirs, and takes back what is counted where a pod has come.
func (vl *vainLaunches) read() {
	held := make(map[string]heldLaunch, len(vl.reservations.byClaim))
	for _, h := range vl.reservations.byClaim {
		if h.claim.UID == "" || len(h.claim.Slots) == 0 || h.claim.Annotations[AnnotationHost] != "" || h.claim.Annotations[model.AnnotationAdopt] != "" {
			continue
		}
		x := heldLaunch{claim: h.claim, served: vl.mem.held[h.claim.UID].served}
		for i := range h.slots {
			s := &h.slots[i]
			if k := (slotKey{s.Class, s.Owner}); s.bound > 0 && !x.served[k] {
				if x.served = maps.Clone(x.served); x.served == nil {
					x.served = map[slotKey]bool{}
				}
				x.served[k] = true
			}
		}
		held[h.claim.UID] = x
	}
	known := make(map[string]bool, len(vl.mem.ended))
	for i := range vl.mem.ended {
		known[vl.mem.ended[i].UID] = true
	}
	var ended []endedLaunch
	for _, uid := range sortedKeys(vl.mem.held) {
		if _, still := held[uid]; still || known[uid] {
			continue
		}
		c := vl.claimWithUID(uid)
		if c == nil {
			c = vl.mem.held[uid].claim // it is gone, without having been seen to go
		}
		ended = append(ended, vl.endLaunch(c, vl.mem.held[uid].served)...)
	}
	for _, c := range vl.s.Claims { // of an earlier process, or that ended before they were seen to hold anything
		if vl.mem.begun && (c.Deleting.IsZero() || c.Is(lifecycle.Initialized)) || c.UID == "" || len(c.Slots) == 0 || !c.LastPodEvent.IsZero() {
			continue
		}
		if _, was := vl.mem.held[c.UID]; was || known[c.UID] || held[c.UID].claim != nil {
			continue
		}
		if n := vl.nodeOf(c); n != nil && slices.ContainsFunc(n.Pods, (*model.Pod).IsWorkload) {
			continue
		}
		ended = append(ended, vl.endLaunch(c, nil)...)
	}
	for i := range vl.s.Unmade {
		u := &vl.s.Unmade[i]
		if uid := "unmade/" + u.Claim + "/" + u.At.UTC().Format(time.RFC3339Nano); !known[uid] && vl.now.Before(u.At.Add(vainForget)) {
			ended = append(ended, vl.endUnmade(u, uid)...)
		}
	}
	vl.mem.held, vl.mem.begun = held, true
	if len(ended) > 0 {
		slices.SortFunc(ended, func(a, b endedLaunch) int {
			return strings.Compare(a.UID+"\x00"+a.Class+"\x00"+a.Owner, b.UID+"\x00"+b.Class+"\x00"+b.Owner)
		})
		vl.mem.ended = append(slices.Clip(vl.mem.ended), ended...)
		vl.mem.changes++
	}
	vl.forget()
	vl.takeBack()
}

// endLaunch returns what is to be remembered of a launch that has ended: an entry for each of its slots that no pod has
// been on the node for. Nothing was launched where there was no capacity, or the node class was not ready.
func (vl *vainLaunches) endLaunch(c *model.Claim, served map[slotKey]bool) (out []endedLaunch) {
	p := vl.poolByName[c.Pool]
	if p == nil || vl.isForeign(c) || len(c.Slots) == 0 || c.Annotations[AnnotationHost] != "" || c.Annotations[model.AnnotationAdopt] != "" {
		return nil
	}
	if h := c.Annotations[hashAnnotation]; h != "" && p.Hash != "" && h != p.Hash {
		return nil // it was launched as something else
	}
	if f, ok := vl.s.Failures[c.UID]; ok && c.ProviderID == "" {
		switch f.Kind {
		case "InsufficientCapacity", "NodeClassNotReady", "NotReady":
			return nil
		}
	}
	n := vl.nodeOf(c)
	x := endedLaunch{Claim: c.Name, UID: c.UID, Pool: p.UID, Basis: registrationBasis(p), Group: c.NodeGroup(), Created: c.Created, Ended: vl.now,
		Usable: c.Is(lifecycle.Initialized), Stands: c.Is(lifecycle.Initialized) && n != nil && n.Deleting.IsZero() && c.Deleting.IsZero() && vl.interruptions.byClaim[c.Name] == nil,
		Node: c.NodeName, Cause: vl.causeOf(c, n), Micro: vl.priceOf(c)}
	if n != nil {
		x.Node = n.Name
	}
	for _, s := range c.Slots {
		k := slotKey{s.Class, s.Owner}
		if served[k] || n != nil && slices.ContainsFunc(n.Pods, func(q *model.Pod) bool { return vl.slotKeyOf(q) == k }) {
			continue
		}
		x.Class, x.Owner = s.Class, s.Owner
		out = append(out, x)
	}
	return out
}

// endUnmade returns what is to be remembered of a NodeClaim that the API server has refused.
func (vl *vainLaunches) endUnmade(u *model.UnmadeClaim, uid string) (out []endedLaunch) {
	p := vl.poolByName[u.Pool]
	if p == nil {
		return nil
	}
	for _, s := range u.Slots {
		out = append(out, endedLaunch{Claim: u.Claim, UID: uid, Pool: p.UID, Basis: registrationBasis(p), Group: u.Group, Class: s.Class, Owner: s.Owner,
			Created: u.At, Ended: vl.now, Cause: plan.Reason{Code: plan.ClaimRefused, Have: u.Message}})
	}
	return out
}

// forget forgets launches and counts that say nothing any more.
func (vl *vainLaunches) forget() {
	pools := make(map[string]*model.NodePool, len(vl.s.Pools))
	for _, p := range vl.s.Pools {
		pools[p.UID] = p
	}
	stale := func(x endedLaunch) bool {
		if hasChanged(pools[x.Pool], x.Basis) {
			return true
		}
		gone := vl.claimWithUID(x.UID) == nil
		return gone && (x.Counted && !strings.HasPrefix(x.UID, "unmade/") || !vl.now.Before(x.Ended.Add(vainForget)))
	}
	if slices.ContainsFunc(vl.mem.ended, stale) {
		for i := range vl.mem.ended {
			if x := &vl.mem.ended[i]; !x.Charged.IsZero() && stale(*x) && pools[x.Pool] != nil {
				vl.out.VainCosts = append(vl.out.VainCosts, VainCost{pools[x.Pool].Name, costOf(x.Micro, x.Charged, vl.now)})
			}
		}
		vl.mem.ended = slices.DeleteFunc(slices.Clone(vl.mem.ended), stale)
		vl.mem.changes++
	}
	vl.deleteCounts(func(_ vainSite, c vainCount) bool {
		return hasChanged(pools[c.Pool], c.Basis) || !vl.now.Before(c.Until.Add(max(vainForget, 2*vl.pol.Lifecycle.RegistrationTimeout)))
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
	return registrationBasis(p) != basis
}

// deleteCounts forgets the counts that something is true of.
func (vl *vainLaunches) deleteCounts(drop func(vainSite, vainCount) bool) {
	some := false
	for k, c := range vl.mem.counts {
		some = some || drop(k, c)
	}
	if !some {
		return
	}
	vl.mem.counts = maps.Clone(vl.mem.counts)
	maps.DeleteFunc(vl.mem.counts, drop)
	vl.mem.changes++
}

// takeBack takes back what is counted: of templates of which a pod runs on a node that was launched where they were in
// vain, of places where a node has become usable since, and of nodes that have lost the taint which kept pods away.
func (vl *vainLaunches) takeBack() {
	if len(vl.mem.ended) == 0 && len(vl.mem.counts) == 0 {
		return
	}
	watched := vl.claimsWatched()
	served := map[vainSite]bool{}
	launched := map[string]map[slotKey]bool{} // by claim uid: slots of which a pod runs on its node
	oldest := vl.now
	for _, x := range vl.mem.counts {
		if x.At.Before(oldest) {
			oldest = x.At
		}
	}
	for at, n := range vl.s.Nodes { // whether they have changed or not: a count may be older than what is on them
		i := vl.claims.claimOf[at]
		if i < 0 || len(n.Pods) == 0 {
			continue
		}
		c := vl.s.Claims[i]
		p := vl.poolByName[c.Pool]
		if p == nil {
			continue
		}
		for _, q := range n.Pods {
			if !q.IsWorkload() || !q.Deleting.IsZero() || q.Bound.Before(oldest.Add(-time.Second)) && !watched[c.UID] {
				continue
			}
			t := vl.templateOf(q.Class)
			for _, k := range []vainSite{{t, p.UID, c.NodeGroup()}, {template: t}} {
				// A pod that came before the last wave was counted says nothing of that.
				if x, ok := vl.mem.counts[k]; ok && (!q.Bound.Before(x.At.Add(-time.Second)) || x.Node == n.Name) {
					served[k] = true
				}
			}
			if !watched[c.UID] {
				continue
			}
			if launched[c.UID] == nil {
				launched[c.UID] = map[slotKey]bool{}
			}
			launched[c.UID][vl.slotKeyOf(q)] = true
		}
	}
	for _, c := range vl.s.Claims {
		if p := vl.poolByName[c.Pool]; p != nil && c.Is(lifecycle.Initialized) {
			k := vainSite{pool: p.UID, group: c.NodeGroup()}
			if x, ok := vl.mem.counts[k]; ok && c.Conditions[lifecycle.Initialized].Since.After(x.At) {
				served[k] = true
			}
		}
	}
	vl.deleteCounts(func(k vainSite, x vainCount) bool { return served[k] || vl.hasLostTaint(x) })
	drop := func(x endedLaunch) bool { return launched[x.UID][slotKey{x.Class, x.Owner}] }
	if slices.ContainsFunc(vl.mem.ended, drop) {
		vl.mem.ended = slices.DeleteFunc(slices.Clone(vl.mem.ended), drop)
		vl.mem.changes++
	}
}

// claimsWatched are the uids of claims whose launch has ended without a pod, or was the last to be counted.
func (vl *vainLaunches) claimsWatched() map[string]bool {
	out := map[string]bool{}
	for i := range vl.mem.ended {
		out[vl.mem.ended[i].UID] = true
	}
	for _, x := range vl.mem.counts {
		if c := vl.claimNamed(x.Claim); c != nil {
			out[c.UID] = true
		}
	}
	return out
}

// review looks at what is to be launched: launches that ended without the same pods were in vain, and are counted. It
// reports whether one was counted.
func (vl *vainLaunches) review(nodes []solve.NewNode) (counted bool) {
	if len(vl.mem.ended) == 0 {
		return false
	}
	open := map[slotKey][]int{} // places in vl.mem.ended
	for i := range vl.mem.ended {
		if x := &vl.mem.ended[i]; !x.Counted {
			k := slotKey{x.Class, x.Owner}
			open[k] = append(open[k], i)
		}
	}
	for i := range nodes {
		for _, p := range nodes[i].Pods {
			if p.IsVirtual() || p.Expected {
				continue
			}
			k := vl.slotKeyOf(p)
			for _, at := range open[k] {
				vl.count(at, p)
				counted = true
			}
			delete(open, k)
		}
	}
	return counted
}

// count counts a vain launch; p is one of the pods that it was made for.
func (vl *vainLaunches) count(at int, p *model.Pod) {
	x := vl.mem.ended[at]
	x.Counted = true
	x.Cause = vl.causeFor(x, p)
	if !slices.ContainsFunc(vl.mem.ended, func(o endedLaunch) bool { return o.UID == x.UID && !o.Charged.IsZero() }) {
		x.Charged = x.Ended
		if x.Stands {
			x.Charged = vl.now
		}
	}
	vl.mem.ended = slices.Clone(vl.mem.ended)
	vl.mem.ended[at] = x
	vl.mem.changes++
	t := vl.templateOf(p.Class)
	owner := ownerName(p)
	vl.bump(vainSite{t, x.Pool, x.Group}, x, owner)
	if x.Usable {
		vl.bump(vainSite{template: t}, x, owner)
	} else if !vl.hasBecomeUsable(x) {
		vl.bump(vainSite{pool: x.Pool, group: x.Group}, x, owner)
	}
	vl.out.Vain = append(vl.out.Vain, vl.describe(x, t, p))
}

// hasBecomeUsable reports whether a node that was launched where a launch was in vain has become usable since.
func (vl *vainLaunches) hasBecomeUsable(x endedLaunch) bool {
	return slices.ContainsFunc(vl.s.Claims, func(c *model.Claim) bool {
		p := vl.poolByName[c.Pool]
		return p != nil && p.UID == x.Pool && c.NodeGroup() == x.Group && c.Is(lifecycle.Initialized) && c.Conditions[lifecycle.Initialized].Since.After(x.Created)
	})
}

// bump counts a vain launch of a site: with the wave that it is of, or as a new one.
func (vl *vainLaunches) bump(k vainSite, x endedLaunch, owner string) {
	c, was := vl.mem.counts[k]
	c.Launches++
	c.Micro += costOf(x.Micro, x.Created, x.Charged)
	c.Claim, c.Node, c.Owner, c.Cause, c.Pool, c.Basis = x.Claim, x.Node, owner, x.Cause, x.Pool, x.Basis
	if !was || !slices.Contains(c.Wave, x.UID) {
		c.Times++
		c.At = vl.now
		c.Until = vl.now.Add(restAfter(k, c.Times, x.Stands))
		c.Wave = vl.openLaunches(k)
	}
	vl.mem.counts = maps.Clone(vl.mem.counts)
	if vl.mem.counts == nil {
		vl.mem.counts = map[vainSite]vainCount{}
	}
	vl.mem.counts[k] = c
	for len(vl.mem.counts) > mostVainCounts {
		vl.dropOldestCount()
	}
}

// dropOldestCount forgets the count whose rest ends first.
func (vl *vainLaunches) dropOldestCount() {
	var oldest vainSite
	found := false
	for _, k := range vl.sortedSites() {
		if !found || vl.mem.counts[k].Until.Before(vl.mem.counts[oldest].Until) {
			oldest, found = k, true
		}
	}
	delete(vl.mem.counts, oldest) // of the copy that bump has made
}

// sortedSites returns the sites of all counts in order.
func (vl *vainLaunches) sortedSites() []vainSite {
	return slices.SortedFunc(maps.Keys(vl.mem.counts), func(a, b vainSite) int {
		return strings.Compare(a.template+"\x00"+a.pool+"\x00"+a.group, b.template+"\x00"+b.pool+"\x00"+b.group)
	})
}

// restAfter is how long nothing is launched after so many waves of vain launches; of a site without a template, how long
// it is tried last.
func restAfter(k vainSite, times int, stands bool) time.Duration {
	switch {
	case k.template == "":
		return min(siteFirstRest<<min(times-1, 10), siteLongestRest)
	case times == 1 && stands && k.pool != "":
		return vainPause
	case times == 1:
		return 0 // other places are tried at once
	}
	return min(vainFirstRest<<min(times-2, 10), vainLongestRest)
}

// openLaunches are the uids of launches of a site whose outcome is open, and of those that have just ended: none of them
// was made after what is counted now was known.
func (vl *vainLaunches) openLaunches(k vainSite) (out []string) {
	here := func(pool, group string) bool { return k.pool == "" || k.pool == pool && k.group == group }
	for _, uid := range sortedKeys(vl.mem.held) {
		if c := vl.mem.held[uid].claim; vl.poolByName[c.Pool] != nil && here(vl.poolByName[c.Pool].UID, c.NodeGroup()) {
			out = append(out, uid)
		}
	}
	for i := range vl.mem.ended {
		if x := &vl.mem.ended[i]; here(x.Pool, x.Group) && !slices.Contains(out, x.UID) {
			out = append(out, x.UID)
		}
	}
	if len(out) > mostWave {
		out = out[len(out)-mostWave:] // those that ended last; of the rest, each counts as a wave of its own
	}
	return out
}

// costOf is what a node costs from one instant to another, micro-dollars.
func costOf(microPerHour int64, from, to time.Time) int64 {
	if !to.After(from) {
		return 0
	}
	return int64(float64(microPerHour) * to.Sub(from).Hours())
}

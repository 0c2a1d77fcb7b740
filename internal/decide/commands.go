// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/solve"
)

// A move takes machines away for a reason: replacements first where pods need them, each with slots for those pods' successors; when
// all of them are initialised the old nodes are tainted; when the taints are seen and every pod still has a home the old claims are
// deleted, and lifecycle drains them. Until then it can be taken back: taints and conditions are removed and the replacements become
// machines like any other.
//
// Its record is in the API server alone, so that it outlives whoever began it: AnnotationMove on each replacement names the move, how
// many replacements it has and which claims go; the condition DisruptionReason on each of those names the move too. A move whose
// replacements are not all there was not begun whole, or has lost one: it is taken back. A move that needs no replacement is written
// down by the condition alone; until that has come back, Memory knows of it.

// AnnotationCommand on a NodeClaim says which move it was made for.
const AnnotationCommand = "dovetail.sh/move"

// commandRecord is the value of AnnotationMove.
type commandRecord struct {
	ID     string    `json:"id"`
	Cause  plan.Code `json:"cause"`
	Of     int       `json:"of"`               // replacements in all
	Hosts  int       `json:"hosts,omitempty"`  // nodes that stand and have room reserved for it
	Claims []string  `json:"claims,omitempty"` // that go, by uid: a name may come back
}

// command is a move as the Snapshot shows it.
type command struct {
	commandRecord
	since        time.Time
	candidates   []*model.Claim // that are not being deleted yet
	deleting     int            // that are
	replacements []*model.Claim
	hosts        []*model.Claim // that have AnnotationHost
}

var disruptedTaint = model.Taint{Key: model.TaintDisrupted, Effect: model.NoSchedule}

// readCommands reads the moves under way from the Snapshot, and the units.
func (dc *disruptionCommands) read() {
	dc.byID = map[string]*command{}
	dc.ofClaim = map[string]string{}
	lost := map[string]commandRecord{} // by replacements that go themselves: a move that nothing else speaks of is over
	get := func(r commandRecord, since time.Time) *command {
		m := dc.byID[r.ID]
		if m == nil {
			m = &command{commandRecord: r, since: since}
			dc.byID[r.ID] = m
		}
		if since.Before(m.since) {
			m.since = since
		}
		return m
	}
	for _, c := range dc.dirtyClaims {
		if text := c.Annotations[AnnotationCommand]; text != "" {
			var r commandRecord
			if json.Unmarshal([]byte(text), &r) != nil || r.ID == "" {
				continue // somebody else's writing: no move of ours
			}
			if !c.Deleting.IsZero() || dc.interruptions.byClaim[c.Name] != nil {
				lost[r.ID] = r
				continue
			}
			m := get(r, c.Created)
			m.Of, m.Hosts, m.Claims = r.Of, r.Hosts, r.Claims
			m.replacements = append(m.replacements, c)
		}
	}
	for _, c := range dc.dirtyClaims {
		if r, ok := readHostRecord(c); ok && c.Deleting.IsZero() && dc.interruptions.byClaim[c.Name] == nil {
			m := get(r.commandRecord, r.Since)
			m.Of, m.Hosts = r.Of, r.Hosts
			m.hosts = append(m.hosts, c)
		}
	}
	for _, c := range dc.dirtyClaims {
		if dc.interruptions.byClaim[c.Name] != nil {
			continue // it goes by itself
		}
		id := commandIDOf(c)
		if id == "" {
			continue
		}
		d := c.Conditions[lifecycle.Disrupted]
		m := dc.byID[id]
		if c.Deleting.IsZero() {
			m = get(commandRecord{ID: id, Cause: plan.Code(d.Reason)}, d.Since)
		}
		if m == nil {
			continue // nothing is left of its move but machines that go
		}
		if !slices.Contains(m.Claims, c.UID) {
			m.Claims = append(m.Claims[:len(m.Claims):len(m.Claims)], c.UID)
		}
	}
	dc.readUnwritten(get)
	dc.backOffLost(lost)
	for _, id := range sortedKeys(dc.byID) {
		m := dc.byID[id]
		for _, uid := range m.Claims {
			switch c := dc.claimWithUID(uid); {
			case c == nil:
			case dc.interruptions.byClaim[c.Name] != nil: // it goes by itself; what was bought for its pods is there for them
			case !c.Deleting.IsZero():
				m.deleting++
			case dc.ofClaim[c.Name] == "":
				m.candidates = append(m.candidates, c)
				dc.ofClaim[c.Name] = id
			}
		}
		dc.memo.markClaimsDirty(m.candidates)
	}
	dc.forgetFinishedHosts()
}

// backOffLostCommands takes up what replacements that go themselves say of their moves. Where nothing else speaks of one it has failed before anything was
// done to the machines that were to go: they are free, though they rest a while, once.
func (dc *disruptionCommands) backOffLost(records map[string]commandRecord) {
	known := make(map[string]bool, len(records))
	for _, id := range sortedKeys(records) {
		r := records[id]
		if m := dc.byID[id]; m != nil {
			m.Of, m.Claims = r.Of, r.Claims
			continue
		}
		known[id] = true
		if dc.mem.lost[id] {
			continue
		}
		for _, uid := range r.Claims {
			if c := dc.claimWithUID(uid); c != nil && c.Deleting.IsZero() {
				dc.backOffClaim(uid, dc.pol.BackOff)
			}
		}
	}
	dc.mem.lost = known
}

// unwrittenCommand is a move without replacements whose mark has not come back yet.
type unwrittenCommand struct {
	commandRecord
	since time.Time
}

// readUnwrittenCommands takes up the moves that only Memory knows of, until the mark of each of their claims has been read.
func (dc *disruptionCommands) readUnwritten(get func(commandRecord, time.Time) *command) {
	if len(dc.mem.unwritten) == 0 {
		return
	}
	left := make(map[string]unwrittenCommand, len(dc.mem.unwritten))
	for _, uid := range sortedKeys(dc.mem.unwritten) {
		b, c := dc.mem.unwritten[uid], dc.claimWithUID(uid)
		if c == nil || !c.Deleting.IsZero() || commandIDOf(c) == b.ID {
			continue
		}
		left[uid] = b
		if m := get(b.commandRecord, b.since); !slices.Contains(m.Claims, uid) {
			m.Claims = append(m.Claims[:len(m.Claims):len(m.Claims)], uid)
		}
	}
	dc.mem.unwritten = left
}

// commandIDOf returns the id of the disruption command that a claim's condition DisruptionReason names; empty: it names none.
func commandIDOf(c *model.Claim) string {
	d := c.Conditions[lifecycle.Disrupted]
	if !d.True() {
		return ""
	}
	id, _ := plan.CommandID(d.Message)
	return id
}

// commandServedBy is the move under way that a claim was made for, or that its node hosts; nil: none.
func (dc *disruptionCommands) servedBy(c *model.Claim) *command {
	for _, m := range dc.byID {
		if slices.Contains(m.replacements, c) || slices.Contains(m.hosts, c) {
			return m
		}
	}
	return nil
}

// podsWithReplacements are the pods on machines of moves that have replacements or hosts: slots are kept for them though they have not been asked to go yet.
func (dc *disruptionCommands) podsWithReplacements() []*model.Pod {
	var out []*model.Pod
	for _, id := range sortedKeys(dc.byID) {
		out = append(out, dc.podsToReplace(dc.byID[id])...)
	}
	return out
}

// podsToReplace are those of one move.
func (dc *disruptionCommands) podsToReplace(m *command) (out []*model.Pod) {
	if len(m.replacements)+len(m.hosts) == 0 {
		return nil
	}
	for _, c := range m.candidates {
		if n := dc.nodeOf(c); n != nil {
			for _, p := range n.Pods {
				if disrupt.IsReschedulable(p) {
					out = append(out, p)
				}
			}
		}
	}
	return out
}

// buildCandidates are the machines of pools with a node, by node name, and how many each pool has for its budgets.
func (ca *candidates) build() {
	ca.budgetCounts = map[string]disrupt.NodeCount{}
	for name, x := range ca.memo.unchanged.sums {
		ca.budgetCounts[name] = disrupt.NodeCount{Total: x.count}
	}
	ca.base = make(map[*model.Claim]*disrupt.Candidate, len(ca.dirtyClaims))
	for _, c := range ca.dirtyClaims {
		pool := ca.poolByName[c.Pool]
		if pool == nil || ca.isForeign(c) {
			continue
		}
		n := ca.nodeOf(c)
		initial := c.Is(lifecycle.Initialized)
		if initial && !c.Is(lifecycle.Terminating) {
			k := ca.budgetCounts[pool.Name]
			k.Total++
			if !c.Deleting.IsZero() || n == nil || !n.Ready || !n.Deleting.IsZero() || ca.commands.ofClaim[c.Name] != "" || ca.interruptions.byClaim[c.Name] != nil || ca.isDeleting(c) {
				k.Unavailable++
			}
			ca.budgetCounts[pool.Name] = k
		}
		if n == nil || !c.Deleting.IsZero() || !n.Deleting.IsZero() {
			continue
		}
		u := ca.memo.unchanged.dirtyCandidates[c.Name]
		if u == nil || u.Claim != c || u.Node != n || u.Pool != pool {
			u = disrupt.NewCandidate(c, n, pool)
			if r := pool.Requirements.Mismatch(mergeLabels(c.Labels, n.Labels)); r != nil {
				u.UnmetRequirement = r.String()
			}
			u.UnchangedSince, u.Initialized = lifecycle.Quiet(c, n), initial
		}
		ca.base[c] = u
		v := *u
		switch v.CommandID = ca.commands.ofClaim[c.Name]; {
		case ca.interruptions.byClaim[c.Name] != nil:
			v.CommandID = "interrupted"
		case v.CommandID == "" && ca.isDeleting(c):
			v.CommandID = "deleted"
		}
		v.Nominated = ca.demand.awaitsPods[n.Name] || ca.demand.awaitsPods[c.Name] || ca.reservations.byClaim[c.Name] != nil
		ca.dirty = append(ca.dirty, &v)
	}
	byNode := func(a, b *disrupt.Candidate) int { return strings.Compare(a.Node.Name, b.Node.Name) }
	slices.SortStableFunc(ca.dirty, byNode)
	// Those that are still have no more than pods on their way to them.
	ca.all = make([]*disrupt.Candidate, 0, len(ca.s.Nodes))
	rest := ca.dirty
	for p, u := range ca.memo.unchanged.candidates {
		if u != nil {
			ca.all = append(ca.all, u)
		}
		for len(rest) > 0 && rest[0].Node == ca.s.Nodes[p] {
			ca.all, rest = append(ca.all, rest[0]), rest[1:]
		}
	}
	for name := range ca.demand.awaitsPods {
		at := none
		if c := findClaim(ca.s, name); c >= 0 {
			at = ca.claims.nodeOf[c]
		}
		for _, p := range []int32{findNode(ca.s, name), at} {
			if p < 0 || ca.memo.unchanged.candidates[p] == nil {
				continue
			}
			if i := slices.Index(ca.all, ca.memo.unchanged.candidates[p]); i >= 0 { // else it is known to be
				v := *ca.all[i]
				v.Nominated = true
				ca.all[i] = &v
			}
		}
	}
	ca.guard = ca.newGuard()
}

// markStarting has units go in a move that begins now. Those given stay as they are: others remember them.
func (ca *candidates) markStarting(units []*disrupt.Candidate) []*disrupt.Candidate {
	out := make([]*disrupt.Candidate, len(units))
	for i, u := range units {
		v := *u
		v.CommandID = "begun"
		out[i] = &v
		for _, list := range [][]*disrupt.Candidate{ca.all, ca.dirty} {
			if j := slices.Index(list, u); j >= 0 {
				list[j] = &v
			}
		}
	}
	return out
}

// budgetLeft is how many more machines of a pool may go for a reason.
func (ca *candidates) budgetLeft(pool *model.NodePool, cause plan.Code) (int64, plan.Reason) {
	return disrupt.AllowedDisruptions(pool, ca.budgetCounts[pool.Name], cause, ca.now)
}

func (ca *candidates) countDown(pool *model.NodePool, n int64) {
	k := ca.budgetCounts[pool.Name]
	k.Unavailable += n
	ca.budgetCounts[pool.Name] = k
}

// advanceCommands takes each move under way one step on.
func (dc *disruptionCommands) advanceAll() {
	dc.taintedAt = map[string]time.Time{}
	for _, id := range sortedKeys(dc.byID) {
		m := dc.byID[id]
		left := len(m.candidates)
		for _, c := range m.candidates {
			if dc.isAboutToBeDeleted(c) {
				left--
			}
		}
		begun := m.deleting > 0 || left < len(m.candidates)
		if begun || len(m.candidates) == 0 {
			dc.releaseLandedHosts(m)
		}
		switch {
		case len(m.candidates) == 0 && m.deleting == 0:
			for _, c := range m.replacements { // it is over: they are machines like any other
				dc.clearRecord(c, true)
			}
		case begun && dc.isReadyToDelete(m):
			dc.deleteCandidates(m) // begun to delete, though that may not show yet: no way back
		case left == 0: // what may not be deleted any more is not there, and what is can't be taken back
		case dc.passiveReason != "":
			dc.abort(m, dc.passiveReason, dc.pol.SearchInterval)
		default:
			dc.advance(m)
		}
	}
	dc.removeStrayTaints()
	dc.mem.taintedAt = dc.taintedAt
}

// replacementsReady says whether the replacements that are known are ready for pods.
func (m *command) replacementsReady() bool {
	return !slices.ContainsFunc(m.replacements, func(c *model.Claim) bool { return !c.Is(lifecycle.Initialized) })
}

// isReadyToDelete says whether all is there that a move needs before it deletes. Where it is not, a machine of it goes because of somebody else.
func (dc *disruptionCommands) isReadyToDelete(m *command) bool {
	if !m.replacementsReady() {
		return false
	}
	for _, c := range m.candidates {
		if n := dc.nodeOf(c); n != nil && !slices.Contains(n.Taints, disruptedTaint) {
			return false
		}
	}
	return len(m.replacements) >= m.Of
}

func (dc *disruptionCommands) advance(m *command) {
	if why := dc.abortCause(m); why != "" {
		dc.abort(m, why, dc.pol.BackOff) // what failed once may well fail again
		return
	}
	written := true
	for _, c := range m.candidates {
		if commandIDOf(c) != m.ID {
			dc.markDisrupted(c, m.commandRecord)
			written = false
		}
	}
	if !m.replacementsReady() {
		dc.wakeAt(m.since.Add(dc.pol.CommandTimeout))
		return
	}
	ready := true
	for _, c := range m.candidates {
		n := dc.nodeOf(c)
		if n == nil || slices.Contains(n.Taints, disruptedTaint) {
			continue
		}
		ready = false
		dc.taintCandidate(n, c, m.commandRecord)
	}
	reserved, lost := dc.reserveHosts(m)
	if lost != "" {
		dc.abort(m, "node of nodeclaim "+lost+", whose room it counts on, is gone or goes itself", dc.pol.BackOff)
		return
	}
	if !ready || !reserved {
		return
	}
	since, ok := dc.mem.taintedAt[m.ID]
	if !ok {
		since = dc.now
	}
	dc.taintedAt[m.ID] = since
	if due := since.Add(dc.pol.TaintSettleDelay); dc.now.Before(due) {
		dc.wakeAt(due)
		return
	}
	if !written {
		return // what can't be taken back is not begun before it is known to all
	}
	if p := dc.findUnplaceablePod(m); p != nil {
		dc.abort(m, "pod "+p.Key()+" has come, or has no home any more", 5*dc.pol.SearchInterval)
		return
	}
	dc.deleteCandidates(m)
}

// taintCandidate keeps new pods off a node that is to go.
func (dc *disruptionCommands) taintCandidate(n *model.Node, c *model.Claim, r commandRecord) {
	dc.addAction(plan.UpdateNode{Node: n.Name, UID: n.UID, AddTaints: []model.Taint{disruptedTaint}, Why: plan.Reason{Code: r.Cause, Pool: c.Pool, Subject: "node/" + n.Name, Key: r.ID}})
}

// abortCause says why a move must be taken back; empty: it may go on.
func (dc *disruptionCommands) abortCause(m *command) string {
	if len(m.replacements) < m.Of {
		return "a replacement is gone or was never made"
	}
	if dc.lacksHost(m) {
		return "a node whose room it counts on is not reserved"
	}
	if !dc.now.Before(m.since.Add(dc.pol.CommandTimeout)) {
		return "it has taken longer than " + dc.pol.CommandTimeout.String()
	}
	if m.Cause == plan.Expired || m.Cause == plan.Unhealthy {
		return ""
	}
	for _, u := range dc.candidates.dirty {
		if u.CommandID != m.ID {
			continue
		}
		free := *u
		free.CommandID, free.Nominated, free.Initialized = "", false, true
		for _, r := range dc.candidates.guard.Blockers(&free, m.Cause, false) {
			switch r.Code {
			case plan.Quiet, plan.Payback, plan.NoPrice, plan.DisruptionBudgetPDB: // decided on before, or for the drain to wait for
			case plan.GroupMinimum:
				if x := dc.candidates.guard.NodeGroups[u.NodeGroup()]; x.Staying < x.MinSize { // without what goes; the minimum has been raised since
					return string(r.Code) + " " + r.Subject
				}
			default:
				return string(r.Code) + " " + r.Subject
			}
		}
	}
	pools := map[string]bool{}
	for _, c := range m.candidates {
		if pool := dc.poolByName[c.Pool]; pool != nil && !pools[c.Pool] {
			pools[c.Pool] = true
			if left, why := dc.candidates.budgetLeft(pool, m.Cause); left < 0 && m.Cause != plan.Unhealthy {
				return string(why.Code) + " " + why.Key
			}
		}
	}
	return ""
}

// findUnplaceablePod returns a pod on a machine that is about to go for which no room is kept, or not enough, and that may find none on what stands;
// nil: all have a home.
func (dc *disruptionCommands) findUnplaceablePod(m *command) *model.Pod {
	slots := map[slotKey]int{}
	for _, c := range slices.Concat(m.replacements, m.hosts) {
		there := map[slotKey]int{} // those who were there, and others who have come meanwhile
		n := dc.nodeOf(c)
		if n != nil {
			for _, p := range n.Pods {
				if p.Deleting.IsZero() {
					there[dc.pods.slotKeyOf(p)]++
				}
			}
		}
		if n != nil && slices.Contains(m.hosts, c) && dc.lacksCapacityForSlots(c, n) {
			if pods := dc.podsToReplace(m); len(pods) > 0 {
				return pods[0]
			}
		}
		for _, s := range c.Slots {
			k := slotKey{s.Class, s.Owner}
			slots[k] += max(0, s.Count-there[k])
		}
	}
	var rest []*model.Pod
	var closed []string
	for _, c := range m.candidates {
		n := dc.nodeOf(c)
		if n == nil {
			continue
		}
		closed = append(closed, n.Name)
		for _, p := range n.Pods {
			if !disrupt.IsReschedulable(p) {
				continue
			}
			if m.Cause == plan.Empty {
				return p // wherever it might go: it came before the taint was known, and is not asked to leave again
			}
			k := dc.pods.slotKeyOf(p)
			if slots[k] > 0 {
				slots[k]--
				continue
			}
			rest = append(rest, p)
		}
	}
	if len(rest) == 0 {
		return nil
	}
	return dc.findUnplaceable(m, closed, rest)
}

// isAboutToBeDeleted says whether a claim is about to be deleted, though that does not show yet.
func (dr *draft) isAboutToBeDeleted(c *model.Claim) bool {
	return c.Deleting.IsZero() && dr.isDeleting(c)
}

// unboundInTransit are the pods that are on their way, can't be held back, and have no machine that is kept for them: what standing room they take is
// not known before they are there. Those that have waited for long take none, but where they are expected.
func (pt *podTable) unboundInTransit() []*model.Pod {
	var out []*model.Pod
	for _, p := range pt.s.Pending {
		if _, expected := pt.demand.mem.placements[p.UID]; !pt.covered[p.UID] && IsForScheduler(p) && (expected || pt.now.Before(p.Created.Add(pt.pol.InTransitWait))) {
			out = append(out, p)
		}
	}
	for _, p := range pt.leavingPods() {
		if !pt.covered[p.UID] {
			out = append(out, p)
		}
	}
	for _, c := range pt.dirtyClaims {
		if n := pt.nodeOf(c); n != nil && pt.isAboutToBeDeleted(c) {
			out = append(out, pt.unreservedPodsOn(n)...)
		}
	}
	return slices.Concat(out, pt.terminatingUnreserved(), pt.pacing.podsPendingSuccessor())
}

// unreservedPodsOn are the pods on a node that would go with it and have no slot.
func (pt *podTable) unreservedPodsOn(n *model.Node) (out []*model.Pod) {
	for _, p := range n.Pods {
		if disrupt.IsReschedulable(p) && !pt.covered[p.UID] {
			out = append(out, p)
		}
	}
	return out
}

// deleteCandidates deletes the claims that go. There is no way back from here; lifecycle drains them.
func (dc *disruptionCommands) deleteCandidates(m *command) {
	for _, c := range m.candidates {
		dc.addAction(plan.DeleteClaim{Claim: c.Name, UID: c.UID, Why: plan.Reason{Code: m.Cause, Pool: c.Pool, Subject: "node/" + c.NodeName, Key: plan.CommandKey(m.ID)}})
	}
}

// abortCommand puts everything back as it was. What was bought stays, and is free room like any other from now on. So does what is being deleted
// though that does not show yet: of that nothing can be put back.
func (dc *disruptionCommands) abort(m *command, why string, rest time.Duration) {
	reason := plan.Reason{Code: plan.Aborted, Key: m.ID, Want: string(m.Cause), Have: why}
	for _, c := range m.candidates {
		if dc.isAboutToBeDeleted(c) {
			continue
		}
		r := reason
		r.Pool, r.Subject = c.Pool, "nodeclaim/"+c.Name
		if c.Is(lifecycle.Disrupted) && dc.isWriting(c) {
			dc.wakeAt(dc.now.Add(dc.pol.SearchInterval / 10))
			continue // both or neither: a claim still marked would have its node tainted again
		}
		if n := dc.nodeOf(c); n != nil && slices.Contains(n.Taints, disruptedTaint) {
			dc.addAction(plan.UpdateNode{Node: n.Name, UID: n.UID, RemoveTaints: []model.Taint{disruptedTaint}, Why: r})
		}
		if c.Is(lifecycle.Disrupted) {
			dc.addAction(plan.UpdateClaim{Claim: c.Name, UID: c.UID, Why: r, Conditions: map[string]model.Condition{
				lifecycle.Disrupted: {Status: "False", Reason: string(plan.Aborted), Message: why}}})
		}
		dc.backOffClaim(c.UID, rest)
		if _, ok := dc.mem.unwritten[c.UID]; ok {
			dc.mem.unwritten = withoutKey(dc.mem.unwritten, c.UID)
		}
	}
	for _, c := range m.replacements {
		dc.clearRecord(c, false)
	}
	for _, c := range m.hosts {
		r := reason
		r.Pool, r.Subject = c.Pool, "nodeclaim/"+c.Name
		dc.releaseHost(c, r)
	}
	dc.setHosts(m.ID, nil)
}

// withoutKey is a map less one key; the map itself stays as it was.
func withoutKey[T any](m map[string]T, key string) map[string]T {
	out := make(map[string]T, len(m))
	for k, v := range m {
		if k != key {
			out[k] = v
		}
	}
	return out
}

// clearCommandRecord takes the record of a move off a replacement: the move is over, or taken back.
func (dc *disruptionCommands) clearRecord(c *model.Claim, done bool) {
	if c.UID == "" {
		return // not seen yet: when it is
	}
	u := plan.UpdateClaim{Claim: c.Name, UID: c.UID, Annotations: map[string]string{AnnotationCommand: plan.Unset},
		Why: plan.Reason{Code: plan.Landed, Pool: c.Pool, Subject: "nodeclaim/" + c.Name}}
	if !done {
		u.Annotations[disrupt.KeepUntil] = plan.Unset
		u.Why.Code = plan.Aborted
	}
	dc.addAction(u)
}

// removeStrayTaints frees nodes that were tainted for a move that nobody knows of any more.
func (dc *disruptionCommands) removeStrayTaints() {
	for _, u := range dc.candidates.dirty {
		c, n := u.Claim, u.Node
		if u.CommandID == "" && commandIDOf(c) == "" && slices.Contains(n.Taints, disruptedTaint) {
			dc.addAction(plan.UpdateNode{Node: n.Name, UID: n.UID, RemoveTaints: []model.Taint{disruptedTaint},
				Why: plan.Reason{Code: plan.Aborted, Pool: c.Pool, Subject: "node/" + n.Name, Have: "no move"}})
		}
	}
}

func (dc *disruptionCommands) markDisrupted(c *model.Claim, r commandRecord) {
	dc.addAction(plan.UpdateClaim{Claim: c.Name, UID: c.UID, Why: plan.Reason{Code: r.Cause, Pool: c.Pool, Subject: "nodeclaim/" + c.Name, Key: r.ID},
		Conditions: map[string]model.Condition{lifecycle.Disrupted: {Status: "True", Reason: string(r.Cause), Message: plan.CommandKey(r.ID)}}})
}

// startCommand starts a move: the replacements first, which makes it durable, and the mark on what goes.
func (dc *disruptionCommands) start(m *disrupt.Command) {
	hosts := dc.hostsFor(m.OnExisting)
	r := commandRecord{Cause: m.Cause, Of: len(m.Replacements), Hosts: len(hosts)}
	if m.OneForOne {
		r.Of = len(m.Candidates)
	}
	parts := []string{string(m.Cause), strconv.FormatInt(dc.now.Unix(), 10)}
	for _, u := range m.Candidates {
		r.Claims = append(r.Claims, u.Claim.UID)
		parts = append(parts, u.Claim.UID)
		dc.candidates.countDown(u.Pool, 1)
		if x := dc.candidates.guard.NodeGroups[u.NodeGroup()]; x != nil {
			x.Staying--
		}
	}
	m.Candidates = dc.candidates.markStarting(m.Candidates)
	r.ID = hashName(10, parts...)
	dc.setHosts(r.ID, hosts)
	dc.out.Commands = append(dc.out.Commands, StartedCommand{ID: r.ID, Command: m})
	if r.Of > 0 {
		text, err := json.Marshal(r)
		if err != nil {
			return // a struct of strings can be written
		}
		notes := map[string]string{AnnotationCommand: string(text)}
		if s := m.SavingMicroPerHour(); s > 0 && m.Cause == plan.Underutilized {
			hours := float64(m.CostMicro) / float64(s)
			notes[disrupt.KeepUntil] = dc.now.Add(min(time.Duration(hours*float64(time.Hour)), dc.pol.Disrupt.Horizon)).UTC().Format(time.RFC3339)
		}
		at := len(dc.out.Actions)
		dc.purchases.createClaims(m.Replacements)
		if m.OneForOne {
			for _, u := range m.Candidates {
				if a, ok := dc.purchases.staticClaim(u.Pool, m.Why); ok {
					if pods := slices.DeleteFunc(slices.Clone(u.Pods), func(p *model.Pod) bool { return !disrupt.IsReschedulable(p) }); dc.pol.Landing == LandBind && len(pods) > 0 && len(u.Pool.StartupTaints) == 0 {
						a.Slots, a.Reserved, a.NoReserve = slotsForPods(pods), true, plan.Reason{} // those of the one that goes
					}
					dc.addAction(a)
					dc.purchases.namedClaims[a.Name] = true
				}
			}
		}
		for i := at; i < len(dc.out.Actions); i++ {
			if a, ok := dc.out.Actions[i].(plan.CreateClaim); ok {
				a.Annotations = notes
				if keep := dc.now.Add(dc.pol.Disrupt.Horizon).UTC().Format(time.RFC3339); !a.Reserved && notes[disrupt.KeepUntil] != "" {
					// Others may take its room, and then the move has not saved what it promised: not soon again.
					a.Annotations = map[string]string{AnnotationCommand: notes[AnnotationCommand], disrupt.KeepUntil: keep}
				}
				a.Why = plan.Reason{Code: m.Cause, Pool: a.Pool.Name, Key: plan.CommandKey(r.ID), Want: m.Why.Want, Have: m.Why.Have}
				dc.out.Actions[i] = a
			}
		}
	}
	if r.Of > 0 {
		return // the replacements say which claims go; those are marked once the replacements are there, or a lost one would go unnoticed
	}
	next := make(map[string]unwrittenCommand, len(dc.mem.unwritten)+len(m.Candidates))
	for k, v := range dc.mem.unwritten {
		next[k] = v
	}
	for _, u := range m.Candidates {
		next[u.Claim.UID] = unwrittenCommand{r, dc.now}
		dc.markDisrupted(u.Claim, r)
		dc.taintCandidate(u.Node, u.Claim, r)
	}
	dc.mem.unwritten = next
	dc.reserveHosts(&command{commandRecord: r})
}

// StartedCommand is a move as it was decided.
type StartedCommand struct {
	ID string
	*disrupt.Command
}

// backOff is since when and how often moves of a claim failed.
type backOff struct {
	until time.Time
	times int
}

// backOffRefused keeps claims from new commands for a while that were to go in one that verify refused.
func (dc *disruptionCommands) backOffRefused(uids []string) {
	for _, uid := range uids {
		dc.backOffClaim(uid, dc.pol.BackOff)
	}
}

// backOffClaim keeps a claim from new moves for a while after one failed, twice as long each time.
func (dc *disruptionCommands) backOffClaim(uid string, d time.Duration) {
	old := dc.mem.backOffs[uid]
	if dc.now.Before(old.until) {
		return // the same failure, told again
	}
	m := make(map[string]backOff, len(dc.mem.backOffs)+1)
	for k, v := range dc.mem.backOffs {
		if dc.claimWithUID(k) != nil {
			m[k] = v
		}
	}
	m[uid] = backOff{until: dc.now.Add(min(d<<min(old.times, 10), 2*time.Hour)), times: old.times + 1}
	dc.mem.backOffs = m
	dc.wakeAt(m[uid].until)
}

func (dc *disruptionCommands) isInBackOff(uid string) bool {
	s, ok := dc.mem.backOffs[uid]
	if ok && dc.now.Before(s.until) {
		dc.wakeAt(s.until)
		return true
	}
	return false
}

// searchInput is what disrupt looks at. With worn, nodes that have drifted may host what moves.
func (se *disruptionSearch) input(worn bool) *disrupt.Input {
	rooms, _ := se.nodes.list()
	going := map[string]bool{} // also what was decided in this very step, which no object shows yet
	for _, u := range se.candidates.all {
		if u.CommandID != "" || se.candidates.isRefreshing(u.NodeGroup()) {
			going[u.Node.Name] = true
		}
	}
	rooms = closeNodes(rooms, se.commands.closedToDisruption(going, worn))
	se.measureStartTimes()
	in := &disrupt.Input{ResourceNames: se.s.ResourceNames, Nodes: rooms, Pools: se.candidates.withoutRefreshingGroups(se.purchases.pools()), GroupLeft: se.candidates.removableByGroup(), Daemons: se.s.Daemons, Namespaces: se.s.Namespaces,
		BudgetLeft: map[string]int64{}, StartTimes: se.mem.startTimes, BootTime: se.mem.bootTime, BindsPods: se.pol.Landing == LandBind, PoolTotals: map[string]disrupt.PoolTotal{},
		WhyUnreservable: func(n *solve.NewNode) plan.Reason {
			return se.reservations.reservationRefusal(se.poolByName[n.Pool], n.Requests, n.Pods)
		}}
	se.forecast.addTo(in, se.pol.Disrupt.Horizon)
	in.UnboundInTransit = se.pods.unboundInTransit()
	for _, p := range se.commands.podsToReschedule() {
		if !se.pods.covered[p.UID] && !slices.Contains(in.UnboundInTransit, p) {
			in.UnboundInTransit = append(in.UnboundInTransit, p)
		}
	}
	for _, u := range se.candidates.all {
		if u.Pool.ConsolidationPolicy != disrupt.Balanced {
			continue
		}
		w := in.PoolTotals[u.Pool.Name]
		w.PriceMicro += max(u.PriceMicro, 0)
		w.DisruptionWeight += u.DisruptionWeight()
		in.PoolTotals[u.Pool.Name] = w
	}
	return in
}

// measureStartTimes finds out how long pods take to start, and machines to come. Every pod and claim is looked at for that, so not in every search.
func (se *disruptionSearch) measureStartTimes() {
	if due := se.mem.measuredAt.Add(se.pol.FullSearchInterval / 10); se.mem.startTimes != nil && se.now.Before(due) {
		return
	}
	se.mem.startTimes, se.mem.bootTime, se.mem.measuredAt = disrupt.StartTimes{}, 0, se.now
	for _, n := range se.s.Nodes {
		se.mem.startTimes.MeasurePods(n)
	}
	var boots []time.Duration
	for _, c := range se.s.Claims {
		if l := c.Conditions[lifecycle.Initialized]; l.True() && l.Since.After(c.Created) {
			boots = append(boots, l.Since.Sub(c.Created))
		}
	}
	if slices.Sort(boots); len(boots) > 0 {
		se.mem.bootTime = max(boots[len(boots)/2], time.Second)
	}
}

// podsToReschedule are the pods on machines of moves under way that are not being deleted yet.
func (dc *disruptionCommands) podsToReschedule() []*model.Pod {
	var out []*model.Pod
	for _, id := range sortedKeys(dc.byID) {
		for _, c := range dc.byID[id].candidates {
			if n := dc.nodeOf(c); n != nil {
				for _, p := range n.Pods {
					if disrupt.IsReschedulable(p) {
						out = append(out, p)
					}
				}
			}
		}
	}
	return out
}

// hasPodsInTransit says whether pods are on their way to standing room because of a move or a drain begun within the last minute: what they take is
// not known before they are there. A drain that lasts longer is not waited for; what its pods will take is then reckoned with.
func (pt *podTable) areInTransit() bool {
	recent := func(since time.Time) bool { return pt.now.Before(since.Add(pt.pol.InTransitWait)) }
	uncovered := func(c *model.Claim) bool {
		n := pt.nodeOf(c)
		return n != nil && len(pt.unreservedPodsOn(n)) > 0
	}
	for _, id := range sortedKeys(pt.commands.byID) {
		for _, c := range pt.commands.byID[id].candidates {
			if recent(pt.commands.byID[id].since) && uncovered(c) {
				return true
			}
		}
	}
	for _, c := range pt.dirtyClaims {
		if !c.Deleting.IsZero() && recent(c.Deleting) && uncovered(c) {
			return true
		}
	}
	for _, p := range pt.s.Pending {
		if pt.isDemand(p) && !pt.covered[p.UID] && recent(p.Created) {
			return true
		}
	}
	for _, a := range pt.pacing.mem.evictions { // it may have no successor yet that anybody could see
		if !a.slot && pt.now.Before(a.at.Add(successorTimeout)) {
			return true
		}
	}
	for _, name := range sortedKeys(pt.reservations.byClaim) { // room that others may take until its pods are there
		if h := pt.reservations.byClaim[name]; !h.claim.Reserved && h.awaitedPods() > 0 && recent(h.claim.Created) {
			return true
		}
	}
	return false
}

// consolidateNodes looks for machines whose pods can be had for less.
func (se *disruptionSearch) consolidate() {
	var may []*disrupt.Candidate
	left := map[string]int64{}
	flying := make(map[string]bool, len(se.s.InFlight))
	for k := range se.s.InFlight {
		flying[k] = true
	}
	for _, a := range se.out.Actions {
		flying[a.Key()] = true
	}
	var soon time.Time
	var after time.Duration // the longest consolidateAfter of those that will be at rest soon
	fresh := false          // some have come to rest since machines were looked at last
	for _, u := range se.candidates.all {
		if len(u.Pods) == 0 || se.commands.isInBackOff(u.Claim.UID) {
			continue
		}
		if why := se.candidates.guard.Blockers(u, plan.Underutilized, true); len(why) > 0 {
			if due := se.candidates.guard.EligibleAt(u); why[0].Code == plan.Quiet && !due.IsZero() && due.Before(se.now.Add(se.pol.QuietWait)) {
				if after = max(after, u.Pool.ConsolidateAfter); due.After(soon) {
					soon = due
				}
			}
			continue
		}
		fresh = fresh || u.UnchangedSince.Add(u.Pool.ConsolidateAfter).After(se.mem.searchedAt)
		if flying[plan.UpdateClaim{UID: u.Claim.UID}.Key()] { // a write of its own, and then it may
			if due := se.now.Add(se.pol.SearchInterval / 5); due.After(soon) {
				soon = due
			}
			continue
		}
		n, ok := left[u.Pool.Name]
		if !ok {
			n, _ = se.candidates.budgetLeft(u.Pool, plan.Underutilized)
			left[u.Pool.Name] = n
		}
		if n <= 0 {
			se.wakeAt(se.now.Add(10 * time.Second)) // a schedule may open, another node may be gone
			continue
		}
		may = append(may, u)
	}
	if len(may) == 0 {
		se.mem.quietWaitSince, se.mem.quietWaitFresh = time.Time{}, false
		return
	}
	// Machines whose pods left together come to rest one after another: all of them at once make a better move than each by itself. As long as
	// none of them has, the others, which have been looked at before, are not looked at alone.
	if se.mem.quietWaitSince.IsZero() || fresh && !se.mem.quietWaitFresh {
		se.mem.quietWaitSince, se.mem.quietWaitFresh = se.now, fresh
	}
	limit := se.pol.QuietWait
	if !se.mem.quietWaitFresh {
		limit += after
	}
	if !soon.IsZero() && se.now.Before(se.mem.quietWaitSince.Add(limit)) {
		se.wakeAt(soon)
		return
	}
	if due := se.mem.searchedAt.Add(se.pol.SearchInterval); se.now.Before(due) {
		se.wakeAt(due)
		return
	}
	if se.pods.areInTransit() {
		se.wakeAt(se.now.Add(se.pol.SearchInterval))
		return
	}
	se.mem.searchedAt = se.now
	in := se.input(false)
	in.Candidates, in.BudgetLeft = may, left
	var again time.Time
	in.Scope, again = se.scope()
	found, mem := disrupt.Consolidate(in, se.pol.Disrupt, se.pol.Solve, se.mem.consolidation)
	for _, name := range mem.Judged {
		if v := mem.WhyKept(name); v.Code != se.mem.consolidation.WhyKept(name).Code {
			se.out.Kept = append(se.out.Kept, Kept{Node: name, Cause: plan.Underutilized, Why: v})
		}
	}
	se.mem.consolidation = mem
	if len(found) > 0 || !mem.Unfinished { // what comes to rest from now on is waited for anew
		se.mem.quietWaitSince, se.mem.quietWaitFresh = time.Time{}, false
	}
	for _, m := range found {
		se.commands.start(m)
	}
	if mem.WasWide {
		se.mem.searchedAllAt = se.now
	}
	switch {
	case len(found) > 0 || mem.Unfinished:
		se.wakeAt(se.now.Add(se.pol.SearchInterval))
	case mem.HasUnsearched():
		se.wakeAt(again)
	}
}

// restPerWork is how long searches rest after a wide one, for each step of its work: ten to twenty times as long as it took.
const restPerWork = 100 * time.Nanosecond

// searchScope is how far to look for moves now, and when further: at everything anew when anything has changed, whenever that was, but no more often
// than costs a small part of a processor; in between at what has changed.
func (se *disruptionSearch) scope() (disrupt.Scope, time.Time) {
	rest := se.mem.searchedAllAt.Add(max(se.pol.SearchInterval, min(time.Duration(se.mem.consolidation.LastWideWork)*restPerWork, se.pol.FullSearchInterval)))
	if se.now.Before(rest) {
		return disrupt.Narrow, rest
	}
	return disrupt.Wide, se.now.Add(se.pol.SearchInterval)
}

// replaceRequired starts the next move of a machine that must go: broken, expired, drifted. Those without pods just go. It says whether
// something was begun that is bought for.
func (rq *requiredDisruption) replace() bool {
	type due struct {
		u     *disrupt.Candidate
		cause plan.Code
		since time.Time
		rank  int
	}
	var queue []due
	for _, u := range rq.candidates.dirty {
		c := u.Claim
		switch {
		case u.CommandID != "":
		case rq.health.canReplaceBroken(c):
			queue = append(queue, due{u, plan.Unhealthy, rq.health.byClaim[c.Name].due, -1})
		case u.Initialized && lifecycle.IsExpired(c, rq.now):
			queue = append(queue, due{u, plan.Expired, c.Created.Add(c.ExpireAfter), 0})
		case c.Is(conditionDrifted):
			queue = append(queue, due{u, plan.Drifted, c.Conditions[conditionDrifted].Since, 1})
		}
	}
	slices.SortStableFunc(queue, func(a, b due) int {
		if a.rank != b.rank {
			return a.rank - b.rank
		}
		if x, y := len(a.u.Pods) > 0, len(b.u.Pods) > 0; x != y { // empty ones first: they cost nobody anything
			if y {
				return -1
			}
			return 1
		}
		return a.since.Compare(b.since)
	})
	for _, d := range queue {
		u := d.u
		if len(rq.candidates.guard.Blockers(u, d.cause, true)) > 0 || rq.commands.isInBackOff(u.Claim.UID) {
			continue
		}
		if rq.isWriting(u.Claim) {
			rq.wakeAt(rq.now.Add(rq.pol.SearchInterval))
			continue
		}
		if left, _ := rq.candidates.budgetLeftFor(u, d.cause); left <= 0 {
			rq.wakeAt(rq.now.Add(10 * time.Second))
			continue
		}
		if len(u.Pods) == 0 && u.Pool.Replicas < 0 {
			rq.commands.start(&disrupt.Command{Cause: d.cause, Candidates: []*disrupt.Candidate{u}, OldMicroPerHour: max(u.PriceMicro, 0), Why: rq.reason(u, d.cause)})
			continue
		}
		var m *disrupt.Command
		if u.Pool.Replicas >= 0 {
			if m = rq.static.replace(u, d.cause); m == nil {
				continue
			}
		} else {
			var why plan.Reason
			for _, worn := range []bool{false, true} {
				if m, why = disrupt.Replace(rq.search.input(worn), []*disrupt.Candidate{u}, d.cause, rq.pol.Disrupt, rq.pol.Solve); m != nil {
					break
				}
			}
			if m == nil {
				rq.commands.backOffClaim(u.Claim.UID, rq.pol.BackOff/10)
				rq.out.Kept = append(rq.out.Kept, Kept{Node: u.Node.Name, Cause: d.cause, Why: why})
				continue
			}
		}
		m.Why = rq.reason(u, d.cause)
		rq.commands.start(m)
		return true
	}
	return false
}

// Kept is a machine that should go and can't, or was looked at and need not; told when the reason changes.
type Kept struct {
	Node  string
	Cause plan.Code
	Why   plan.Reason
}

func (rq *requiredDisruption) reason(u *disrupt.Candidate, cause plan.Code) plan.Reason {
	r := plan.Reason{Code: cause, Pool: u.Pool.Name, Subject: "node/" + u.Node.Name}
	switch cause {
	case plan.Unhealthy:
		return rq.health.byClaim[u.Claim.Name].cause
	case plan.Expired:
		r.Key, r.Want, r.Have = "expireAfter", u.Claim.ExpireAfter.String(), rq.now.Sub(u.Claim.Created).Round(time.Second).String()
	case plan.Drifted:
		d := u.Claim.Conditions[conditionDrifted]
		r.Key, r.Have = d.Reason, d.Message
	}
	return r
}

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
func (st *step) readCommands() {
	st.commands = map[string]*command{}
	st.commandOfClaim = map[string]string{}
	lost := map[string]commandRecord{} // by replacements that go themselves: a move that nothing else speaks of is over
	get := func(r commandRecord, since time.Time) *command {
		m := st.commands[r.ID]
		if m == nil {
			m = &command{commandRecord: r, since: since}
			st.commands[r.ID] = m
		}
		if since.Before(m.since) {
			m.since = since
		}
		return m
	}
	for _, c := range st.dirtyClaims {
		if text := c.Annotations[AnnotationCommand]; text != "" {
			var r commandRecord
			if json.Unmarshal([]byte(text), &r) != nil || r.ID == "" {
				continue // somebody else's writing: no move of ours
			}
			if !c.Deleting.IsZero() || st.interrupted[c.Name] != nil {
				lost[r.ID] = r
				continue
			}
			m := get(r, c.Created)
			m.Of, m.Hosts, m.Claims = r.Of, r.Hosts, r.Claims
			m.replacements = append(m.replacements, c)
		}
	}
	for _, c := range st.dirtyClaims {
		if r, ok := readHostRecord(c); ok && c.Deleting.IsZero() && st.interrupted[c.Name] == nil {
			m := get(r.commandRecord, r.Since)
			m.Of, m.Hosts = r.Of, r.Hosts
			m.hosts = append(m.hosts, c)
		}
	}
	for _, c := range st.dirtyClaims {
		if st.interrupted[c.Name] != nil {
			continue // it goes by itself
		}
		id := commandIDOf(c)
		if id == "" {
			continue
		}
		d := c.Conditions[lifecycle.Disrupted]
		m := st.commands[id]
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
	st.readUnwrittenCommands(get)
	st.backOffLostCommands(lost)
	for _, id := range sortedKeys(st.commands) {
		m := st.commands[id]
		for _, uid := range m.Claims {
			switch c := st.claimWithUID(uid); {
			case c == nil:
			case st.interrupted[c.Name] != nil: // it goes by itself; what was bought for its pods is there for them
			case !c.Deleting.IsZero():
				m.deleting++
			case st.commandOfClaim[c.Name] == "":
				m.candidates = append(m.candidates, c)
				st.commandOfClaim[c.Name] = id
			}
		}
		st.markClaimsDirty(m.candidates)
	}
	st.forgetFinishedHosts()
}

// backOffLostCommands takes up what replacements that go themselves say of their moves. Where nothing else speaks of one it has failed before anything was
// done to the machines that were to go: they are free, though they rest a while, once.
func (st *step) backOffLostCommands(records map[string]commandRecord) {
	known := make(map[string]bool, len(records))
	for _, id := range sortedKeys(records) {
		r := records[id]
		if m := st.commands[id]; m != nil {
			m.Of, m.Claims = r.Of, r.Claims
			continue
		}
		known[id] = true
		if st.mem.lostCommands[id] {
			continue
		}
		for _, uid := range r.Claims {
			if c := st.claimWithUID(uid); c != nil && c.Deleting.IsZero() {
				st.backOffClaim(uid, st.pol.BackOff)
			}
		}
	}
	st.mem.lostCommands = known
}

// unwrittenCommand is a move without replacements whose mark has not come back yet.
type unwrittenCommand struct {
	commandRecord
	since time.Time
}

// readUnwrittenCommands takes up the moves that only Memory knows of, until the mark of each of their claims has been read.
func (st *step) readUnwrittenCommands(get func(commandRecord, time.Time) *command) {
	if len(st.mem.unwritten) == 0 {
		return
	}
	left := make(map[string]unwrittenCommand, len(st.mem.unwritten))
	for _, uid := range sortedKeys(st.mem.unwritten) {
		b, c := st.mem.unwritten[uid], st.claimWithUID(uid)
		if c == nil || !c.Deleting.IsZero() || commandIDOf(c) == b.ID {
			continue
		}
		left[uid] = b
		if m := get(b.commandRecord, b.since); !slices.Contains(m.Claims, uid) {
			m.Claims = append(m.Claims[:len(m.Claims):len(m.Claims)], uid)
		}
	}
	st.mem.unwritten = left
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
func (st *step) commandServedBy(c *model.Claim) *command {
	for _, m := range st.commands {
		if slices.Contains(m.replacements, c) || slices.Contains(m.hosts, c) {
			return m
		}
	}
	return nil
}

// podsWithReplacements are the pods on machines of moves that have replacements or hosts: slots are kept for them though they have not been asked to go yet.
func (st *step) podsWithReplacements() []*model.Pod {
	var out []*model.Pod
	for _, id := range sortedKeys(st.commands) {
		out = append(out, st.podsToReplace(st.commands[id])...)
	}
	return out
}

// podsToReplace are those of one move.
func (st *step) podsToReplace(m *command) (out []*model.Pod) {
	if len(m.replacements)+len(m.hosts) == 0 {
		return nil
	}
	for _, c := range m.candidates {
		if n := st.nodeOf(c); n != nil {
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
func (st *step) buildCandidates() {
	st.budgetCounts = map[string]disrupt.NodeCount{}
	for name, x := range st.unchanged.sums {
		st.budgetCounts[name] = disrupt.NodeCount{Total: x.count}
	}
	st.baseCandidates = make(map[*model.Claim]*disrupt.Candidate, len(st.dirtyClaims))
	for _, c := range st.dirtyClaims {
		pool := st.poolByName[c.Pool]
		if pool == nil || st.isForeign(c) {
			continue
		}
		n := st.nodeOf(c)
		initial := c.Is(lifecycle.Initialized)
		if initial && !c.Is(lifecycle.Terminating) {
			k := st.budgetCounts[pool.Name]
			k.Total++
			if !c.Deleting.IsZero() || n == nil || !n.Ready || !n.Deleting.IsZero() || st.commandOfClaim[c.Name] != "" || st.interrupted[c.Name] != nil || st.isDeleting(c) {
				k.Unavailable++
			}
			st.budgetCounts[pool.Name] = k
		}
		if n == nil || !c.Deleting.IsZero() || !n.Deleting.IsZero() {
			continue
		}
		u := st.unchanged.dirtyCandidates[c.Name]
		if u == nil || u.Claim != c || u.Node != n || u.Pool != pool {
			u = disrupt.NewCandidate(c, n, pool)
			if r := pool.Requirements.Mismatch(mergeLabels(c.Labels, n.Labels)); r != nil {
				u.UnmetRequirement = r.String()
			}
			u.UnchangedSince, u.Initialized = lifecycle.Quiet(c, n), initial
		}
		st.baseCandidates[c] = u
		v := *u
		switch v.CommandID = st.commandOfClaim[c.Name]; {
		case st.interrupted[c.Name] != nil:
			v.CommandID = "interrupted"
		case v.CommandID == "" && st.isDeleting(c):
			v.CommandID = "deleted"
		}
		v.Nominated = st.awaitsPods[n.Name] || st.awaitsPods[c.Name] || st.reservations[c.Name] != nil
		st.dirtyCandidates = append(st.dirtyCandidates, &v)
	}
	byNode := func(a, b *disrupt.Candidate) int { return strings.Compare(a.Node.Name, b.Node.Name) }
	slices.SortStableFunc(st.dirtyCandidates, byNode)
	// Those that are still have no more than pods on their way to them.
	st.candidates = make([]*disrupt.Candidate, 0, len(st.s.Nodes))
	rest := st.dirtyCandidates
	for p, u := range st.unchanged.candidates {
		if u != nil {
			st.candidates = append(st.candidates, u)
		}
		for len(rest) > 0 && rest[0].Node == st.s.Nodes[p] {
			st.candidates, rest = append(st.candidates, rest[0]), rest[1:]
		}
	}
	for name := range st.awaitsPods {
		at := none
		if c := findClaim(st.s, name); c >= 0 {
			at = st.claims.nodeOf[c]
		}
		for _, p := range []int32{findNode(st.s, name), at} {
			if p < 0 || st.unchanged.candidates[p] == nil {
				continue
			}
			if i := slices.Index(st.candidates, st.unchanged.candidates[p]); i >= 0 { // else it is known to be
				v := *st.candidates[i]
				v.Nominated = true
				st.candidates[i] = &v
			}
		}
	}
}

// markStarting has units go in a move that begins now. Those given stay as they are: others remember them.
func (st *step) markStarting(units []*disrupt.Candidate) []*disrupt.Candidate {
	out := make([]*disrupt.Candidate, len(units))
	for i, u := range units {
		v := *u
		v.CommandID = "begun"
		out[i] = &v
		for _, list := range [][]*disrupt.Candidate{st.candidates, st.dirtyCandidates} {
			if j := slices.Index(list, u); j >= 0 {
				list[j] = &v
			}
		}
	}
	return out
}

// budgetLeft is how many more machines of a pool may go for a reason.
func (st *step) budgetLeft(pool *model.NodePool, cause plan.Code) (int64, plan.Reason) {
	return disrupt.AllowedDisruptions(pool, st.budgetCounts[pool.Name], cause, st.now)
}

func (st *step) countDown(pool *model.NodePool, n int64) {
	k := st.budgetCounts[pool.Name]
	k.Unavailable += n
	st.budgetCounts[pool.Name] = k
}

// disruptNodes is the queue of all moves: those under way first, then new ones, what must go before what may.
func (st *step) disruptNodes(begin bool) {
	st.buildCandidates()
	st.sampleReplicas()
	st.guard = st.newGuard()
	st.taintedAt = map[string]time.Time{}
	if st.passiveReason != "" {
		st.advanceCommands()
		st.mem.taintedAt = st.taintedAt
		return
	}
	st.advanceInterruptions()
	st.forceRepairs()
	st.advanceCommands()
	st.mem.taintedAt = st.taintedAt
	st.writeDriftConditions()
	st.disruptEmptyNodes()
	bought := slices.ContainsFunc(st.out.Actions, func(a plan.Action) bool { _, ok := a.(plan.CreateClaim); return ok })
	if bought || !begin {
		return // limits are counted anew first; what was bought comes back as a change
	}
	if st.scaleStaticPools() || st.replaceRequired() {
		st.wakeAt(st.now.Add(st.pol.SearchInterval / 10))
		return
	}
	st.consolidateNodes()
}

// advanceCommands takes each move under way one step on.
func (st *step) advanceCommands() {
	for _, id := range sortedKeys(st.commands) {
		m := st.commands[id]
		left := len(m.candidates)
		for _, c := range m.candidates {
			if st.isAboutToBeDeleted(c) {
				left--
			}
		}
		begun := m.deleting > 0 || left < len(m.candidates)
		if begun || len(m.candidates) == 0 {
			st.releaseLandedHosts(m)
		}
		switch {
		case len(m.candidates) == 0 && m.deleting == 0:
			for _, c := range m.replacements { // it is over: they are machines like any other
				st.clearCommandRecord(c, true)
			}
		case begun && st.isReadyToDelete(m):
			st.deleteCandidates(m) // begun to delete, though that may not show yet: no way back
		case left == 0: // what may not be deleted any more is not there, and what is can't be taken back
		case st.passiveReason != "":
			st.abortCommand(m, st.passiveReason, st.pol.SearchInterval)
		default:
			st.advanceCommand(m)
		}
	}
	st.removeStrayTaints()
}

// replacementsReady says whether the replacements that are known are ready for pods.
func (m *command) replacementsReady() bool {
	return !slices.ContainsFunc(m.replacements, func(c *model.Claim) bool { return !c.Is(lifecycle.Initialized) })
}

// isReadyToDelete says whether all is there that a move needs before it deletes. Where it is not, a machine of it goes because of somebody else.
func (st *step) isReadyToDelete(m *command) bool {
	if !m.replacementsReady() {
		return false
	}
	for _, c := range m.candidates {
		if n := st.nodeOf(c); n != nil && !slices.Contains(n.Taints, disruptedTaint) {
			return false
		}
	}
	return len(m.replacements) >= m.Of
}

func (st *step) advanceCommand(m *command) {
	if why := st.abortCause(m); why != "" {
		st.abortCommand(m, why, st.pol.BackOff) // what failed once may well fail again
		return
	}
	written := true
	for _, c := range m.candidates {
		if commandIDOf(c) != m.ID {
			st.markDisrupted(c, m.commandRecord)
			written = false
		}
	}
	if !m.replacementsReady() {
		st.wakeAt(m.since.Add(st.pol.CommandTimeout))
		return
	}
	ready := true
	for _, c := range m.candidates {
		n := st.nodeOf(c)
		if n == nil || slices.Contains(n.Taints, disruptedTaint) {
			continue
		}
		ready = false
		st.taintCandidate(n, c, m.commandRecord)
	}
	reserved, lost := st.reserveHosts(m)
	if lost != "" {
		st.abortCommand(m, "node of nodeclaim "+lost+", whose room it counts on, is gone or goes itself", st.pol.BackOff)
		return
	}
	if !ready || !reserved {
		return
	}
	since, ok := st.mem.taintedAt[m.ID]
	if !ok {
		since = st.now
	}
	st.taintedAt[m.ID] = since
	if due := since.Add(st.pol.TaintSettleDelay); st.now.Before(due) {
		st.wakeAt(due)
		return
	}
	if !written {
		return // what can't be taken back is not begun before it is known to all
	}
	if p := st.findUnplaceablePod(m); p != nil {
		st.abortCommand(m, "pod "+p.Key()+" has come, or has no home any more", 5*st.pol.SearchInterval)
		return
	}
	st.deleteCandidates(m)
}

// taintCandidate keeps new pods off a node that is to go.
func (st *step) taintCandidate(n *model.Node, c *model.Claim, r commandRecord) {
	st.addAction(plan.UpdateNode{Node: n.Name, UID: n.UID, AddTaints: []model.Taint{disruptedTaint}, Why: plan.Reason{Code: r.Cause, Pool: c.Pool, Subject: "node/" + n.Name, Key: r.ID}})
}

// abortCause says why a move must be taken back; empty: it may go on.
func (st *step) abortCause(m *command) string {
	if len(m.replacements) < m.Of {
		return "a replacement is gone or was never made"
	}
	if st.lacksHost(m) {
		return "a node whose room it counts on is not reserved"
	}
	if !st.now.Before(m.since.Add(st.pol.CommandTimeout)) {
		return "it has taken longer than " + st.pol.CommandTimeout.String()
	}
	if m.Cause == plan.Expired || m.Cause == plan.Unhealthy {
		return ""
	}
	for _, u := range st.dirtyCandidates {
		if u.CommandID != m.ID {
			continue
		}
		free := *u
		free.CommandID, free.Nominated, free.Initialized = "", false, true
		for _, r := range st.guard.Blockers(&free, m.Cause, false) {
			switch r.Code {
			case plan.Quiet, plan.Payback, plan.NoPrice, plan.DisruptionBudgetPDB: // decided on before, or for the drain to wait for
			case plan.GroupMinimum:
				if x := st.guard.NodeGroups[u.NodeGroup()]; x.Staying < x.MinSize { // without what goes; the minimum has been raised since
					return string(r.Code) + " " + r.Subject
				}
			default:
				return string(r.Code) + " " + r.Subject
			}
		}
	}
	pools := map[string]bool{}
	for _, c := range m.candidates {
		if pool := st.poolByName[c.Pool]; pool != nil && !pools[c.Pool] {
			pools[c.Pool] = true
			if left, why := st.budgetLeft(pool, m.Cause); left < 0 && m.Cause != plan.Unhealthy {
				return string(why.Code) + " " + why.Key
			}
		}
	}
	return ""
}

// findUnplaceablePod returns a pod on a machine that is about to go for which no room is kept, or not enough, and that may find none on what stands;
// nil: all have a home.
func (st *step) findUnplaceablePod(m *command) *model.Pod {
	slots := map[slotKey]int{}
	for _, c := range slices.Concat(m.replacements, m.hosts) {
		there := map[slotKey]int{} // those who were there, and others who have come meanwhile
		n := st.nodeOf(c)
		if n != nil {
			for _, p := range n.Pods {
				if p.Deleting.IsZero() {
					there[st.slotKeyOf(p)]++
				}
			}
		}
		if n != nil && slices.Contains(m.hosts, c) && st.lacksCapacityForSlots(c, n) {
			if pods := st.podsToReplace(m); len(pods) > 0 {
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
		n := st.nodeOf(c)
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
			k := st.slotKeyOf(p)
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
	return st.findUnplaceable(m, closed, rest)
}

// isAboutToBeDeleted says whether a claim is about to be deleted, though that does not show yet.
func (st *step) isAboutToBeDeleted(c *model.Claim) bool {
	return c.Deleting.IsZero() && st.isDeleting(c)
}

// unboundInTransit are the pods that are on their way, can't be held back, and have no machine that is kept for them: what standing room they take is
// not known before they are there. Those that have waited for long take none, but where they are expected.
func (st *step) unboundInTransit() []*model.Pod {
	var out []*model.Pod
	for _, p := range st.s.Pending {
		if _, expected := st.mem.placements[p.UID]; !st.covered[p.UID] && IsForScheduler(p) && (expected || st.now.Before(p.Created.Add(st.pol.InTransitWait))) {
			out = append(out, p)
		}
	}
	for _, p := range st.leavingPods() {
		if !st.covered[p.UID] {
			out = append(out, p)
		}
	}
	for _, c := range st.dirtyClaims {
		if n := st.nodeOf(c); n != nil && st.isAboutToBeDeleted(c) {
			out = append(out, st.unreservedPodsOn(n)...)
		}
	}
	return slices.Concat(out, st.terminatingUnreserved(), st.podsPendingSuccessor())
}

// unreservedPodsOn are the pods on a node that would go with it and have no slot.
func (st *step) unreservedPodsOn(n *model.Node) (out []*model.Pod) {
	for _, p := range n.Pods {
		if disrupt.IsReschedulable(p) && !st.covered[p.UID] {
			out = append(out, p)
		}
	}
	return out
}

// deleteCandidates deletes the claims that go. There is no way back from here; lifecycle drains them.
func (st *step) deleteCandidates(m *command) {
	for _, c := range m.candidates {
		st.addAction(plan.DeleteClaim{Claim: c.Name, UID: c.UID, Why: plan.Reason{Code: m.Cause, Pool: c.Pool, Subject: "node/" + c.NodeName, Key: plan.CommandKey(m.ID)}})
	}
}

// abortCommand puts everything back as it was. What was bought stays, and is free room like any other from now on. So does what is being deleted
// though that does not show yet: of that nothing can be put back.
func (st *step) abortCommand(m *command, why string, rest time.Duration) {
	reason := plan.Reason{Code: plan.Aborted, Key: m.ID, Want: string(m.Cause), Have: why}
	for _, c := range m.candidates {
		if st.isAboutToBeDeleted(c) {
			continue
		}
		r := reason
		r.Pool, r.Subject = c.Pool, "nodeclaim/"+c.Name
		if c.Is(lifecycle.Disrupted) && st.isWriting(c) {
			st.wakeAt(st.now.Add(st.pol.SearchInterval / 10))
			continue // both or neither: a claim still marked would have its node tainted again
		}
		if n := st.nodeOf(c); n != nil && slices.Contains(n.Taints, disruptedTaint) {
			st.addAction(plan.UpdateNode{Node: n.Name, UID: n.UID, RemoveTaints: []model.Taint{disruptedTaint}, Why: r})
		}
		if c.Is(lifecycle.Disrupted) {
			st.addAction(plan.UpdateClaim{Claim: c.Name, UID: c.UID, Why: r, Conditions: map[string]model.Condition{
				lifecycle.Disrupted: {Status: "False", Reason: string(plan.Aborted), Message: why}}})
		}
		st.backOffClaim(c.UID, rest)
		if _, ok := st.mem.unwritten[c.UID]; ok {
			st.mem.unwritten = withoutKey(st.mem.unwritten, c.UID)
		}
	}
	for _, c := range m.replacements {
		st.clearCommandRecord(c, false)
	}
	for _, c := range m.hosts {
		r := reason
		r.Pool, r.Subject = c.Pool, "nodeclaim/"+c.Name
		st.releaseHost(c, r)
	}
	st.setHosts(m.ID, nil)
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
func (st *step) clearCommandRecord(c *model.Claim, done bool) {
	if c.UID == "" {
		return // not seen yet: when it is
	}
	u := plan.UpdateClaim{Claim: c.Name, UID: c.UID, Annotations: map[string]string{AnnotationCommand: plan.Unset},
		Why: plan.Reason{Code: plan.Landed, Pool: c.Pool, Subject: "nodeclaim/" + c.Name}}
	if !done {
		u.Annotations[disrupt.KeepUntil] = plan.Unset
		u.Why.Code = plan.Aborted
	}
	st.addAction(u)
}

// removeStrayTaints frees nodes that were tainted for a move that nobody knows of any more.
func (st *step) removeStrayTaints() {
	for _, u := range st.dirtyCandidates {
		c, n := u.Claim, u.Node
		if u.CommandID == "" && commandIDOf(c) == "" && slices.Contains(n.Taints, disruptedTaint) {
			st.addAction(plan.UpdateNode{Node: n.Name, UID: n.UID, RemoveTaints: []model.Taint{disruptedTaint},
				Why: plan.Reason{Code: plan.Aborted, Pool: c.Pool, Subject: "node/" + n.Name, Have: "no move"}})
		}
	}
}

func (st *step) markDisrupted(c *model.Claim, r commandRecord) {
	st.addAction(plan.UpdateClaim{Claim: c.Name, UID: c.UID, Why: plan.Reason{Code: r.Cause, Pool: c.Pool, Subject: "nodeclaim/" + c.Name, Key: r.ID},
		Conditions: map[string]model.Condition{lifecycle.Disrupted: {Status: "True", Reason: string(r.Cause), Message: plan.CommandKey(r.ID)}}})
}

// startCommand starts a move: the replacements first, which makes it durable, and the mark on what goes.
func (st *step) startCommand(m *disrupt.Command) {
	hosts := st.hostsFor(m.OnExisting)
	r := commandRecord{Cause: m.Cause, Of: len(m.Replacements), Hosts: len(hosts)}
	if m.OneForOne {
		r.Of = len(m.Candidates)
	}
	parts := []string{string(m.Cause), strconv.FormatInt(st.now.Unix(), 10)}
	for _, u := range m.Candidates {
		r.Claims = append(r.Claims, u.Claim.UID)
		parts = append(parts, u.Claim.UID)
		st.countDown(u.Pool, 1)
		if x := st.guard.NodeGroups[u.NodeGroup()]; x != nil {
			x.Staying--
		}
	}
	m.Candidates = st.markStarting(m.Candidates)
	r.ID = hashName(10, parts...)
	st.setHosts(r.ID, hosts)
	st.out.Commands = append(st.out.Commands, StartedCommand{ID: r.ID, Command: m})
	if r.Of > 0 {
		text, err := json.Marshal(r)
		if err != nil {
			return // a struct of strings can be written
		}
		notes := map[string]string{AnnotationCommand: string(text)}
		if s := m.SavingMicroPerHour(); s > 0 && m.Cause == plan.Underutilized {
			hours := float64(m.CostMicro) / float64(s)
			notes[disrupt.KeepUntil] = st.now.Add(min(time.Duration(hours*float64(time.Hour)), st.pol.Disrupt.Horizon)).UTC().Format(time.RFC3339)
		}
		at := len(st.out.Actions)
		st.createClaims(m.Replacements)
		if m.OneForOne {
			for _, u := range m.Candidates {
				if a, ok := st.staticClaim(u.Pool, m.Why); ok {
					if pods := slices.DeleteFunc(slices.Clone(u.Pods), func(p *model.Pod) bool { return !disrupt.IsReschedulable(p) }); st.pol.Landing == LandBind && len(pods) > 0 && len(u.Pool.StartupTaints) == 0 {
						a.Slots, a.Reserved, a.NoReserve = slotsForPods(pods), true, plan.Reason{} // those of the one that goes
					}
					st.addAction(a)
					st.namedClaims[a.Name] = true
				}
			}
		}
		for i := at; i < len(st.out.Actions); i++ {
			if a, ok := st.out.Actions[i].(plan.CreateClaim); ok {
				a.Annotations = notes
				if keep := st.now.Add(st.pol.Disrupt.Horizon).UTC().Format(time.RFC3339); !a.Reserved && notes[disrupt.KeepUntil] != "" {
					// Others may take its room, and then the move has not saved what it promised: not soon again.
					a.Annotations = map[string]string{AnnotationCommand: notes[AnnotationCommand], disrupt.KeepUntil: keep}
				}
				a.Why = plan.Reason{Code: m.Cause, Pool: a.Pool.Name, Key: plan.CommandKey(r.ID), Want: m.Why.Want, Have: m.Why.Have}
				st.out.Actions[i] = a
			}
		}
	}
	if r.Of > 0 {
		return // the replacements say which claims go; those are marked once the replacements are there, or a lost one would go unnoticed
	}
	next := make(map[string]unwrittenCommand, len(st.mem.unwritten)+len(m.Candidates))
	for k, v := range st.mem.unwritten {
		next[k] = v
	}
	for _, u := range m.Candidates {
		next[u.Claim.UID] = unwrittenCommand{r, st.now}
		st.markDisrupted(u.Claim, r)
		st.taintCandidate(u.Node, u.Claim, r)
	}
	st.mem.unwritten = next
	st.reserveHosts(&command{commandRecord: r})
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

// backOffClaim keeps a claim from new moves for a while after one failed, twice as long each time.
func (st *step) backOffClaim(uid string, d time.Duration) {
	old := st.mem.backOffs[uid]
	if st.now.Before(old.until) {
		return // the same failure, told again
	}
	m := make(map[string]backOff, len(st.mem.backOffs)+1)
	for k, v := range st.mem.backOffs {
		if st.claimWithUID(k) != nil {
			m[k] = v
		}
	}
	m[uid] = backOff{until: st.now.Add(min(d<<min(old.times, 10), 2*time.Hour)), times: old.times + 1}
	st.mem.backOffs = m
	st.wakeAt(m[uid].until)
}

func (st *step) isInBackOff(uid string) bool {
	s, ok := st.mem.backOffs[uid]
	if ok && st.now.Before(s.until) {
		st.wakeAt(s.until)
		return true
	}
	return false
}

// searchInput is what disrupt looks at. With worn, nodes that have drifted may host what moves.
func (st *step) searchInput(worn bool) *disrupt.Input {
	rooms, _ := st.solverNodes()
	going := map[string]bool{} // also what was decided in this very step, which no object shows yet
	for _, u := range st.candidates {
		if u.CommandID != "" || st.isRefreshing(u.NodeGroup()) {
			going[u.Node.Name] = true
		}
	}
	rooms = closeNodes(rooms, st.closedToDisruption(going, worn))
	st.measureStartTimes()
	in := &disrupt.Input{ResourceNames: st.s.ResourceNames, Nodes: rooms, Pools: st.withoutRefreshingGroups(st.purchasablePools()), GroupLeft: st.removableByGroup(), Daemons: st.s.Daemons, Namespaces: st.s.Namespaces,
		BudgetLeft: map[string]int64{}, StartTimes: st.mem.startTimes, BootTime: st.mem.bootTime, BindsPods: st.pol.Landing == LandBind, PoolTotals: map[string]disrupt.PoolTotal{},
		WhyUnreservable: func(n *solve.NewNode) plan.Reason {
			return st.reservationRefusal(st.poolByName[n.Pool], n.Requests, n.Pods)
		}}
	st.forecastReplicas(in, st.pol.Disrupt.Horizon)
	in.UnboundInTransit = st.unboundInTransit()
	for _, p := range st.podsToReschedule() {
		if !st.covered[p.UID] && !slices.Contains(in.UnboundInTransit, p) {
			in.UnboundInTransit = append(in.UnboundInTransit, p)
		}
	}
	for _, u := range st.candidates {
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
func (st *step) measureStartTimes() {
	if due := st.mem.measuredAt.Add(st.pol.FullSearchInterval / 10); st.mem.startTimes != nil && st.now.Before(due) {
		return
	}
	st.mem.startTimes, st.mem.bootTime, st.mem.measuredAt = disrupt.StartTimes{}, 0, st.now
	for _, n := range st.s.Nodes {
		st.mem.startTimes.MeasurePods(n)
	}
	var boots []time.Duration
	for _, c := range st.s.Claims {
		if l := c.Conditions[lifecycle.Initialized]; l.True() && l.Since.After(c.Created) {
			boots = append(boots, l.Since.Sub(c.Created))
		}
	}
	if slices.Sort(boots); len(boots) > 0 {
		st.mem.bootTime = max(boots[len(boots)/2], time.Second)
	}
}

// podsToReschedule are the pods on machines of moves under way that are not being deleted yet.
func (st *step) podsToReschedule() []*model.Pod {
	var out []*model.Pod
	for _, id := range sortedKeys(st.commands) {
		for _, c := range st.commands[id].candidates {
			if n := st.nodeOf(c); n != nil {
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
func (st *step) hasPodsInTransit() bool {
	recent := func(since time.Time) bool { return st.now.Before(since.Add(st.pol.InTransitWait)) }
	uncovered := func(c *model.Claim) bool {
		n := st.nodeOf(c)
		return n != nil && len(st.unreservedPodsOn(n)) > 0
	}
	for _, id := range sortedKeys(st.commands) {
		for _, c := range st.commands[id].candidates {
			if recent(st.commands[id].since) && uncovered(c) {
				return true
			}
		}
	}
	for _, c := range st.dirtyClaims {
		if !c.Deleting.IsZero() && recent(c.Deleting) && uncovered(c) {
			return true
		}
	}
	for _, p := range st.s.Pending {
		if st.isDemand(p) && !st.covered[p.UID] && recent(p.Created) {
			return true
		}
	}
	for _, a := range st.mem.evictions { // it may have no successor yet that anybody could see
		if !a.slot && st.now.Before(a.at.Add(successorTimeout)) {
			return true
		}
	}
	for _, name := range sortedKeys(st.reservations) { // room that others may take until its pods are there
		if h := st.reservations[name]; !h.claim.Reserved && h.awaitedPods() > 0 && recent(h.claim.Created) {
			return true
		}
	}
	return false
}

// consolidateNodes looks for machines whose pods can be had for less.
func (st *step) consolidateNodes() {
	var may []*disrupt.Candidate
	left := map[string]int64{}
	flying := make(map[string]bool, len(st.s.InFlight))
	for k := range st.s.InFlight {
		flying[k] = true
	}
	for _, a := range st.out.Actions {
		flying[a.Key()] = true
	}
	var soon time.Time
	var after time.Duration // the longest consolidateAfter of those that will be at rest soon
	fresh := false          // some have come to rest since machines were looked at last
	for _, u := range st.candidates {
		if len(u.Pods) == 0 || st.isInBackOff(u.Claim.UID) {
			continue
		}
		if why := st.guard.Blockers(u, plan.Underutilized, true); len(why) > 0 {
			if due := st.guard.EligibleAt(u); why[0].Code == plan.Quiet && !due.IsZero() && due.Before(st.now.Add(st.pol.QuietWait)) {
				if after = max(after, u.Pool.ConsolidateAfter); due.After(soon) {
					soon = due
				}
			}
			continue
		}
		fresh = fresh || u.UnchangedSince.Add(u.Pool.ConsolidateAfter).After(st.mem.searchedAt)
		if flying[plan.UpdateClaim{UID: u.Claim.UID}.Key()] { // a write of its own, and then it may
			if due := st.now.Add(st.pol.SearchInterval / 5); due.After(soon) {
				soon = due
			}
			continue
		}
		n, ok := left[u.Pool.Name]
		if !ok {
			n, _ = st.budgetLeft(u.Pool, plan.Underutilized)
			left[u.Pool.Name] = n
		}
		if n <= 0 {
			st.wakeAt(st.now.Add(10 * time.Second)) // a schedule may open, another node may be gone
			continue
		}
		may = append(may, u)
	}
	if len(may) == 0 {
		st.mem.quietWaitSince, st.mem.quietWaitFresh = time.Time{}, false
		return
	}
	// Machines whose pods left together come to rest one after another: all of them at once make a better move than each by itself. As long as
	// none of them has, the others, which have been looked at before, are not looked at alone.
	if st.mem.quietWaitSince.IsZero() || fresh && !st.mem.quietWaitFresh {
		st.mem.quietWaitSince, st.mem.quietWaitFresh = st.now, fresh
	}
	limit := st.pol.QuietWait
	if !st.mem.quietWaitFresh {
		limit += after
	}
	if !soon.IsZero() && st.now.Before(st.mem.quietWaitSince.Add(limit)) {
		st.wakeAt(soon)
		return
	}
	if due := st.mem.searchedAt.Add(st.pol.SearchInterval); st.now.Before(due) {
		st.wakeAt(due)
		return
	}
	if st.hasPodsInTransit() {
		st.wakeAt(st.now.Add(st.pol.SearchInterval))
		return
	}
	st.mem.searchedAt = st.now
	in := st.searchInput(false)
	in.Candidates, in.BudgetLeft = may, left
	var again time.Time
	in.Scope, again = st.searchScope()
	found, mem := disrupt.Consolidate(in, st.pol.Disrupt, st.pol.Solve, st.mem.consolidation)
	for _, name := range mem.Judged {
		if v := mem.WhyKept(name); v.Code != st.mem.consolidation.WhyKept(name).Code {
			st.out.Kept = append(st.out.Kept, Kept{Node: name, Cause: plan.Underutilized, Why: v})
		}
	}
	st.mem.consolidation = mem
	if len(found) > 0 || !mem.Unfinished { // what comes to rest from now on is waited for anew
		st.mem.quietWaitSince, st.mem.quietWaitFresh = time.Time{}, false
	}
	for _, m := range found {
		st.startCommand(m)
	}
	if mem.WasWide {
		st.mem.searchedAllAt = st.now
	}
	switch {
	case len(found) > 0 || mem.Unfinished:
		st.wakeAt(st.now.Add(st.pol.SearchInterval))
	case mem.HasUnsearched():
		st.wakeAt(again)
	}
}

// restPerWork is how long searches rest after a wide one, for each step of its work: ten to twenty times as long as it took.
const restPerWork = 100 * time.Nanosecond

// searchScope is how far to look for moves now, and when further: at everything anew when anything has changed, whenever that was, but no more often
// than costs a small part of a processor; in between at what has changed.
func (st *step) searchScope() (disrupt.Scope, time.Time) {
	rest := st.mem.searchedAllAt.Add(max(st.pol.SearchInterval, min(time.Duration(st.mem.consolidation.LastWideWork)*restPerWork, st.pol.FullSearchInterval)))
	if st.now.Before(rest) {
		return disrupt.Narrow, rest
	}
	return disrupt.Wide, st.now.Add(st.pol.SearchInterval)
}

// replaceRequired starts the next move of a machine that must go: broken, expired, drifted. Those without pods just go. It says whether
// something was begun that is bought for.
func (st *step) replaceRequired() bool {
	type due struct {
		u     *disrupt.Candidate
		cause plan.Code
		since time.Time
		rank  int
	}
	var queue []due
	for _, u := range st.dirtyCandidates {
		c := u.Claim
		switch {
		case u.CommandID != "":
		case st.canReplaceBroken(c):
			queue = append(queue, due{u, plan.Unhealthy, st.unhealthyNodes[c.Name].due, -1})
		case u.Initialized && lifecycle.IsExpired(c, st.now):
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
		if len(st.guard.Blockers(u, d.cause, true)) > 0 || st.isInBackOff(u.Claim.UID) {
			continue
		}
		if st.isWriting(u.Claim) {
			st.wakeAt(st.now.Add(st.pol.SearchInterval))
			continue
		}
		if left, _ := st.budgetLeftFor(u, d.cause); left <= 0 {
			st.wakeAt(st.now.Add(10 * time.Second))
			continue
		}
		if len(u.Pods) == 0 && u.Pool.Replicas < 0 {
			st.startCommand(&disrupt.Command{Cause: d.cause, Candidates: []*disrupt.Candidate{u}, OldMicroPerHour: max(u.PriceMicro, 0), Why: st.disruptionReason(u, d.cause)})
			continue
		}
		var m *disrupt.Command
		if u.Pool.Replicas >= 0 {
			if m = st.replaceStatic(u, d.cause); m == nil {
				continue
			}
		} else {
			var why plan.Reason
			for _, worn := range []bool{false, true} {
				if m, why = disrupt.Replace(st.searchInput(worn), []*disrupt.Candidate{u}, d.cause, st.pol.Disrupt, st.pol.Solve); m != nil {
					break
				}
			}
			if m == nil {
				st.backOffClaim(u.Claim.UID, st.pol.BackOff/10)
				st.out.Kept = append(st.out.Kept, Kept{Node: u.Node.Name, Cause: d.cause, Why: why})
				continue
			}
		}
		m.Why = st.disruptionReason(u, d.cause)
		st.startCommand(m)
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

func (st *step) disruptionReason(u *disrupt.Candidate, cause plan.Code) plan.Reason {
	r := plan.Reason{Code: cause, Pool: u.Pool.Name, Subject: "node/" + u.Node.Name}
	switch cause {
	case plan.Unhealthy:
		return st.unhealthyNodes[u.Claim.Name].cause
	case plan.Expired:
		r.Key, r.Want, r.Have = "expireAfter", u.Claim.ExpireAfter.String(), st.now.Sub(u.Claim.Created).Round(time.Second).String()
	case plan.Drifted:
		d := u.Claim.Conditions[conditionDrifted]
		r.Key, r.Have = d.Reason, d.Message
	}
	return r
}

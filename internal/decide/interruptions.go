// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// A machine whose cloud has said that it will take it away is an interrupted one. Its pods are demand at once, all of them with those of
// every other machine interrupted in the same moment in one solve; its node takes no more pods; and it is drained as soon as each of its pods
// has a home that is ready, or when the time left is needed for the drain. Nothing takes it back and no budget holds it up: it goes in any
// case. PodDisruptionBudgets hold during the drain as always.

// AnnotationInterrupted on a NodeClaim is the notice that its machine will be taken away, as JSON of Notice.
const AnnotationInterrupted = "dovetail.sh/interrupted"

// Notice is what a cloud has said about a machine that it will take away.
type Notice struct {
	Kind string    `json:"kind"`        // as in cloud.Interruption
	At   time.Time `json:"at,omitzero"` // when the machine goes; zero: not said
	Seen time.Time `json:"seen"`        // when the notice came
}

// Text is the notice as it is written into a NodeClaim.
func (n Notice) Text() (string, error) {
	b, err := json.Marshal(n)
	return string(b), err
}

// ReadNotice reads a claim's notice; false: it has none.
func ReadNotice(c *model.Claim) (Notice, bool) {
	text := c.Annotations[AnnotationInterrupted]
	if text == "" {
		return Notice{}, false
	}
	var n Notice
	if json.Unmarshal([]byte(text), &n) != nil || n.Seen.IsZero() {
		return Notice{}, false // somebody else's writing
	}
	return n, true
}

// StateChange is the kind of a notice that a machine is stopping already.
const StateChange = "StateChange"

// interrupted is one such machine.
type interrupted struct {
	claim    *model.Claim
	node     *model.Node // nil: not there yet, or not any more
	notice   Notice
	deadline time.Time // when it will be gone
	drain    time.Time // when its drain must begin, wherever its pods may go
	pods     []*model.Pod
}

// readInterruptions finds the machines that are to be taken away.
func (st *step) readInterruptions() {
	for _, c := range st.dirtyClaims {
		n, ok := ReadNotice(c)
		if !ok || c.Provisional {
			continue
		}
		x := &interrupted{claim: c, node: st.nodeOf(c), notice: n, deadline: n.At}
		if x.deadline.IsZero() {
			x.deadline = n.Seen.Add(st.pol.InterruptionNotice)
		}
		need := st.pol.InterruptionNotice / 8 // for evictions that are refused for a while, and for what is bound anew
		if x.node != nil {
			for _, p := range x.node.Pods {
				if disrupt.IsReschedulable(p) {
					x.pods = append(x.pods, p)
					need = max(need, st.pol.InterruptionNotice/8+p.GracePeriod)
				}
			}
		}
		x.drain = x.deadline.Add(-need)
		if half := n.Seen.Add(x.deadline.Sub(n.Seen) / 2); x.drain.Before(half) {
			x.drain = half // a pod that takes very long to end doesn't take its replacement's time as well
		}
		if st.interrupted == nil {
			st.interrupted = map[string]*interrupted{}
		}
		st.interrupted[c.Name] = x
	}
}

// interruptedPodsDue says whether pods of a machine that is newly interrupted have no other home yet: they are decided on at once, though together
// with those of others whose notices come in the same moment.
func (st *step) interruptedPodsDue() bool {
	if len(st.interrupted) == 0 {
		st.mem.interruptionsSolved = nil
		return false
	}
	known := make(map[string]bool, len(st.interrupted))
	var fresh []*interrupted
	var first, last time.Time
	for _, name := range sortedKeys(st.interrupted) {
		x := st.interrupted[name]
		uid := x.claim.UID
		if st.mem.interruptionsSolved[uid] || !x.claim.Deleting.IsZero() || len(x.pods) == 0 {
			known[uid] = true
			continue
		}
		fresh = append(fresh, x)
		if first.IsZero() || x.notice.Seen.Before(first) {
			first = x.notice.Seen
		}
		if x.notice.Seen.After(last) {
			last = x.notice.Seen
		}
	}
	st.mem.interruptionsSolved = known
	if len(fresh) == 0 {
		return false
	}
	due := last.Add(st.pol.InterruptionBatchIdle)
	if limit := first.Add(5 * st.pol.InterruptionBatchIdle); limit.Before(due) {
		due = limit
	}
	if st.now.Before(due) {
		st.wakeAt(due)
		return false
	}
	for _, x := range fresh {
		known[x.claim.UID] = true
	}
	return true
}

// advanceInterruptions takes each interrupted machine one step on.
func (st *step) advanceInterruptions() {
	if len(st.interrupted) == 0 {
		return
	}
	homes := map[string]*model.Claim{} // by pod uid: the machine that room is kept on for its successor
	for _, name := range sortedKeys(st.reservations) {
		h := st.reservations[name]
		for _, p := range h.pods {
			homes[p.UID] = h.claim
		}
	}
	for _, name := range sortedKeys(st.interrupted) {
		x := st.interrupted[name]
		c := x.claim
		if !c.Deleting.IsZero() {
			continue
		}
		why := plan.Reason{Code: plan.Interrupted, Pool: c.Pool, Subject: "nodeclaim/" + c.Name, Key: x.notice.Kind, Want: x.deadline.UTC().Format(time.RFC3339)}
		gone := plan.DeleteClaim{Claim: c.Name, UID: c.UID, Why: why}
		if x.notice.Kind == StateChange || len(x.pods) == 0 || !st.now.Before(x.drain) {
			st.addAction(gone)
			continue
		}
		if d := c.Conditions[lifecycle.Disrupted]; (!d.True() || d.Reason != string(plan.Interrupted)) && !st.isWriting(c) {
			st.addAction(plan.UpdateClaim{Claim: c.Name, UID: c.UID, Why: why, Conditions: map[string]model.Condition{
				lifecycle.Disrupted: {Status: "True", Reason: string(plan.Interrupted), Message: x.notice.Kind + ", it is gone at " + why.Want}}})
		}
		if !slices.Contains(x.node.Taints, disruptedTaint) {
			st.taintCandidate(x.node, c, commandRecord{Cause: plan.Interrupted, ID: x.notice.Kind})
			st.wakeAt(x.drain)
			continue
		}
		ready := true
		for _, p := range x.pods {
			if p.Owner.UID == "" {
				continue // nobody makes it again: it has no home to wait for
			}
			if home := homes[p.UID]; home != nil {
				ready = ready && home.Is(lifecycle.Initialized)
			} else if _, ok := st.mem.placements[p.UID]; !ok {
				ready = false
			}
		}
		if ready {
			st.addAction(gone)
			continue
		}
		st.wakeAt(x.drain)
	}
}

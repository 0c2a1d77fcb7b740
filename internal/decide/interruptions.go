// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package decide

import (
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// A machine whose cloud has said that it will take it away is an interrupted one. Its pods are demand at once, all of
// them with those of every other machine interrupted in the same moment in one solve; its node takes no more pods; and
// it is drained as soon as each of its pods has a home that is ready, or when the time left is needed for the drain.
// Nothing takes it back and no budget holds it up: it goes in any case. PodDisruptionBudgets hold during the drain as
// always.

// interruptions are the machines that their cloud takes away.
type interruptions struct {
	*draft
	mem *interruptionMemory

	byClaim map[string]*interrupted // by claim name; nil: there are none
	due     bool                    // pods of newly interrupted machines are decided on in this step
}

// interruptionMemory is what interruptions remembers from step to step.
type interruptionMemory struct {
	solved map[string]bool // by uid of an interrupted claim: its pods have been decided on
}

// interrupted is one such machine.
type interrupted struct {
	claim    *model.Claim
	node     *model.Node // nil: not there yet, or not any more
	notice   cluster.Notice
	deadline time.Time // when it will be gone
	drain    time.Time // when its drain must begin, wherever its pods may go
	pods     []*model.Pod
}

// read finds the machines that are to be taken away.
func (it *interruptions) read() {
	for _, c := range it.DirtyClaims {
		n, ok := cluster.ReadNotice(c)
		if !ok || c.Provisional {
			continue
		}
		x := &interrupted{claim: c, node: it.NodeFor(c), notice: n, deadline: n.At}
		if x.deadline.IsZero() {
			x.deadline = n.Seen.Add(it.pol.InterruptionNotice)
		}
		need := it.pol.InterruptionNotice / 8 // for evictions that are refused for a while, and for what is bound anew
		if x.node != nil {
			for _, p := range x.node.Pods {
				if it.isReschedulable(p) {
					x.pods = append(x.pods, p)
					need = max(need, it.pol.InterruptionNotice/8+p.GracePeriod)
				}
			}
		}
		x.drain = x.deadline.Add(-need)
		if half := n.Seen.Add(x.deadline.Sub(n.Seen) / 2); x.drain.Before(half) {
			x.drain = half // a pod that takes very long to end doesn't take its replacement's time as well
		}
		if it.byClaim == nil {
			it.byClaim = map[string]*interrupted{}
		}
		it.byClaim[c.Name] = x
	}
}

// batchPods finds whether pods of a machine that is newly interrupted have no other home yet: they are decided on at once,
// though together with those of others whose notices come in the same moment.
func (it *interruptions) batchPods() {
	if len(it.byClaim) == 0 {
		it.mem.solved = nil
		return
	}
	known := make(map[string]bool, len(it.byClaim))
	var fresh []*interrupted
	var first, last time.Time
	for _, name := range slices.Sorted(maps.Keys(it.byClaim)) {
		x := it.byClaim[name]
		uid := x.claim.UID
		if it.mem.solved[uid] || !x.claim.Deleting.IsZero() || len(x.pods) == 0 {
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
	it.mem.solved = known
	if len(fresh) == 0 {
		return
	}
	due := last.Add(it.pol.InterruptionBatchIdle)
	if limit := first.Add(5 * it.pol.InterruptionBatchIdle); limit.Before(due) {
		due = limit
	}
	if it.due = it.heed(it.IsDue(due)); it.due {
		for _, x := range fresh {
			known[x.claim.UID] = true
		}
	}
}

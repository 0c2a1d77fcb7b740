// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package claims

import (
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/disrupt"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// InterruptionMemory is the state that BatchInterruptions keeps between steps. The zero value is valid.
type InterruptionMemory struct {
	solved map[string]bool // by uid of an interrupted claim: its pods have been decided on
}

// BatchInterruptions reports whether pods of newly interrupted machines are decided on in this step and, if not, when; zero: there
// are none. It batches them with pods of machines whose notices arrive within idle of each other, at most five times idle after the
// first notice.
func BatchInterruptions(v *cluster.View, idle time.Duration, mem InterruptionMemory) (due bool, until time.Time, next InterruptionMemory) {
	if len(v.Interruptions) == 0 {
		return false, time.Time{}, InterruptionMemory{}
	}
	known := make(map[string]bool, len(v.Interruptions))
	var fresh []*cluster.Interruption
	var first, last time.Time
	for _, name := range slices.Sorted(maps.Keys(v.Interruptions)) {
		x := v.Interruptions[name]
		uid := x.Claim.UID
		if mem.solved[uid] || !x.Claim.Deleting.IsZero() || len(x.Pods) == 0 {
			known[uid] = true
			continue
		}
		fresh = append(fresh, x)
		if first.IsZero() || x.Notice.Seen.Before(first) {
			first = x.Notice.Seen
		}
		if x.Notice.Seen.After(last) {
			last = x.Notice.Seen
		}
	}
	next = InterruptionMemory{known}
	if len(fresh) == 0 {
		return false, time.Time{}, next
	}
	at := last.Add(idle)
	if limit := first.Add(5 * idle); limit.Before(at) {
		at = limit
	}
	if due, until = v.IsDue(at); due {
		for _, x := range fresh {
			known[x.Claim.UID] = true
		}
	}
	return due, until, next
}

// InterruptionIn is the input of DrainInterrupted.
type InterruptionIn struct {
	plan.Begun
	Slots    map[string]*model.Claim // by pod UID: the NodeClaim with a slot for its successor
	Expected func(*model.Pod) bool   // reports whether a pod is expected on an existing node
}

// DrainInterrupted advances each interrupted machine by one step, in the order of NodeClaim names: it marks the machine, closes its
// node to new pods, and deletes it once each of its pods has a Ready node, or when its drain must begin.
func DrainInterrupted(v *cluster.View, in InterruptionIn) (out plan.Part) {
	for _, name := range slices.Sorted(maps.Keys(v.Interruptions)) {
		x := v.Interruptions[name]
		c := x.Claim
		if !c.Deleting.IsZero() {
			continue
		}
		why := plan.Reason{Code: plan.Interrupted, Pool: c.Pool, Subject: plan.ObjectOf("nodeclaim", c.Name), Detail: plan.OfInterrupted{Kind: x.Notice.Kind, Until: x.Deadline}}
		gone := plan.DeleteClaim{Claim: c.Name, UID: c.UID, Why: why}
		if x.Notice.Kind == cluster.StateChange || len(x.Pods) == 0 || !v.Now.Before(x.Drain) {
			out.Add(gone)
			continue
		}
		if d := c.Conditions[lifecycle.Disrupted]; (!d.True() || d.Reason != string(plan.Interrupted)) && !in.IsUpdating(c) {
			out.Add(plan.UpdateClaim{Claim: c.Name, UID: c.UID, Why: why, Conditions: map[string]model.Condition{
				lifecycle.Disrupted: {Status: "True", Reason: string(plan.Interrupted), Message: x.Notice.Kind + ": the cloud interrupts the instance at " + x.Deadline.UTC().Format(time.RFC3339)}}})
		}
		if !slices.Contains(x.Node.Taints, disrupt.DisruptedTaint) {
			out.Add(plan.UpdateNode{Node: x.Node.Name, UID: x.Node.UID, AddTaints: []model.Taint{disrupt.DisruptedTaint},
				Why: plan.Reason{Code: plan.Interrupted, Pool: c.Pool, Subject: plan.ObjectOf("node", x.Node.Name)}})
			out.WakeAt(x.Drain)
			continue
		}
		if in.areAtHome(x.Pods) {
			out.Add(gone)
			continue
		}
		out.WakeAt(x.Drain)
	}
	return out
}

// areAtHome reports whether the successor of each pod has a place that is ready. A pod without an owner will have no successor,
// so there is no place to wait for.
func (in *InterruptionIn) areAtHome(pods []*model.Pod) bool {
	return !slices.ContainsFunc(pods, func(p *model.Pod) bool {
		if p.Owner.UID == "" {
			return false
		}
		if home := in.Slots[p.UID]; home != nil {
			return !home.Is(lifecycle.Initialized)
		}
		return !in.Expected(p)
	})
}

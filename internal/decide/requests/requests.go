// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

// Package requests computes the status of ProvisioningRequests: which of their pods have capacity, and when a request is
// Provisioned, Failed or expired.
//
// It places nothing. In a Snapshot, placeholders stand for the pods of a request that do not exist yet. They are pending pods of
// one gang, with the gang's rules, slots and reservations. A request is Provisioned only if each of its pods runs, or has
// capacity reserved on a Ready node. All decisions about a request are in its status, so a restart loses nothing.
//
// Start reading at Follow.
package requests

import (
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cluster"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
)

// State is the state of a ProvisioningRequest at the end of a step.
type State struct {
	Request *model.ProvisioningRequest
	Total   int // number of its pods
	Arrived int // number of pods that are bound to a node
	Ready   int // number of pods that can start now: with reserved capacity on a Ready node
	Coming  int // number of pods with capacity on a node that is being launched

	Why []plan.Reason // why there is no capacity for the first pod without a place; nil: there is, or the search continues

	Conditions map[string]model.Condition // conditions to write to its status, without messages; nil: unchanged
	RetryAt    time.Time                  // when the next attempt to find capacity starts
	Attempts   int                        // number of failed attempts
}

// Reasons of conditions. Reasons that Cluster Autoscaler also has are equal to its reasons.
const (
	Accepted        = "Accepted"
	CapacityFound   = "CapacityIsFound"
	Provisioned     = "CapacityIsProvisioned"
	NotFound        = "CapacityIsNotFound"
	Awaited         = "WaitingForCapacity"
	ValidityExpired = "Expired"
	BookingExpired  = "CapacityReservationTimeExpired"
	AllArrived      = "AllPodsArrived"
)

const (
	// partGrace is how long a part of a request's capacity is kept while there is none for the rest, and how long booked capacity that was
	// lost is looked for.
	partGrace = 2 * time.Minute

	// firstRetry and mostRetry bound how long capacity is not looked for after a part of it was given up.
	firstRetry = time.Minute
	mostRetry  = 30 * time.Minute
)

// Memory is the state kept between steps. The zero value is valid.
type Memory struct {
	byUID map[string]request
}

// request is what is remembered of one request.
type request struct {
	why   []plan.Reason // of the last solve that found no capacity, with all NodePools known
	since time.Time     // when a solve first found none
	tried time.Time     // when a solve last looked for it, with all NodePools known; zero: none has
}

// In is the input of Follow.
type In struct {
	Reservations []*cluster.Reservation
	Holds        func(*cluster.Reservation) bool // reports whether a Ready node is kept for the pods with slots there
	Reserves     func(*model.Pod, int32) bool    // reports whether the existing node at a position must be reserved before it counts as held for a pod
	Expected     func(*model.Pod) string         // the existing node on which a pod without a slot is expected; empty: none
	Decisions    []plan.PodDecision
	Solved       bool // this step solved demand
	Retry        time.Duration
}

// place is where a pod can run, and whether it can start there now.
type place uint8

const (
	noPlace place = iota
	coming
	ready
)

// Follow returns the state of each ProvisioningRequest, by namespace and name, and when to decide again.
func Follow(v *cluster.View, in In, mem Memory) (out []State, next time.Time, _ Memory) {
	if len(v.Snapshot.Requests) == 0 {
		return nil, next, Memory{}
	}
	at, held, why := places(v, in)
	members := map[string][]*model.Pod{} // by uid of the request: its pods, and those that stand for them
	v.EachPod(func(p *model.Pod) {
		if p.Consumes.UID != "" && !p.Gated && p.Deleting.IsZero() && !p.Failed {
			members[p.Consumes.UID] = append(members[p.Consumes.UID], p)
		}
	})
	now := Memory{byUID: map[string]request{}}
	for _, r := range v.Snapshot.Requests {
		x := State{Request: r, Total: r.Total(), RetryAt: r.RetryAt, Attempts: r.Attempts}
		x.Arrived = v.Snapshot.GangsEnded[r.Gang().Name]
		x.Ready = x.Arrived
		m, missing, part := mem.byUID[r.UID], 0, false
		var refused []plan.Reason
		for _, p := range members[r.UID] {
			switch {
			case p.Node != "":
				x.Arrived, x.Ready = x.Arrived+1, x.Ready+1
			case at[p] == ready:
				x.Ready++
			case at[p] == coming:
				x.Coming++
			default:
				if missing++; refused == nil {
					refused = why[p]
				}
			}
			part = part || held[p]
		}
		if in.Solved && !plan.DependsOnUnread(refused, v.Snapshot.Pools) {
			m.tried, m.why = v.Now, refused
		}
		switch {
		case missing == 0 || len(m.why) == 0:
			m.why, m.since = nil, time.Time{}
		case m.since.IsZero():
			m.since = v.Now
		}
		x.Why = m.why
		until := x.settle(v.Now, m.since, part)
		if missing > 0 && !m.tried.IsZero() && r.IsActive(v.Now) {
			until = model.EarlierOf(until, m.tried.Add(in.Retry))
		}
		next = model.EarlierOf(next, until)
		now.byUID[r.UID] = m
		out = append(out, x)
	}
	return out, next, now
}

// places returns where the pods of requests have a place, which of them have a slot on a node, and why those without a place have none.
func places(v *cluster.View, in In) (at map[*model.Pod]place, held map[*model.Pod]bool, why map[*model.Pod][]plan.Reason) {
	at, held, why = map[*model.Pod]place{}, map[*model.Pod]bool{}, map[*model.Pod][]plan.Reason{}
	for _, h := range in.Reservations {
		p := noPlace // not known yet
		for _, pod := range h.Pods {
			if pod.Consumes.UID == "" {
				continue
			}
			if p == noPlace {
				if p = coming; h.Claim.Is(lifecycle.Initialized) && h.Node != nil && h.IsUsable() && in.Holds(h) {
					p = ready
				}
			}
			at[pod], held[pod] = p, true
		}
	}
	standing := func(pod *model.Pod, node string) {
		if n := v.FindNode(node); n >= 0 && v.Snapshot.Nodes[n].Ready && v.Snapshot.Nodes[n].Deleting.IsZero() && !in.Reserves(pod, n) {
			at[pod] = ready
		} else if n >= 0 {
			at[pod] = coming
		}
	}
	for _, pod := range v.Snapshot.Pending {
		if pod.Consumes.UID == "" || held[pod] {
			continue
		}
		if node := in.Expected(pod); node != "" {
			standing(pod, node)
		}
	}
	for _, d := range in.Decisions {
		if d.Pod.Consumes.UID == "" || held[d.Pod] {
			continue
		}
		switch d.Outcome {
		case plan.OnNode:
			standing(d.Pod, d.Target)
		case plan.OnClaim, plan.OnNew:
			at[d.Pod] = coming
		default:
			delete(at, d.Pod)
			why[d.Pod] = d.Reasons
		}
	}
	return at, held, why
}

// settle computes the conditions of a ProvisioningRequest (Accepted, Provisioned, Failed, BookingExpired, CapacityRevoked), and
// returns when they may change. since is when a solve first found no capacity (zero: it found some). part reports whether some of
// its pods have a slot.
func (x *State) settle(now, since time.Time, part bool) (until time.Time) {
	r := x.Request
	if r.IsOver() {
		return until
	}
	x.Conditions = map[string]model.Condition{model.RequestAccepted: {Status: r.Accepted.Status, Reason: r.Accepted.Reason}}
	set := func(condition, status, reason string) {
		x.Conditions[condition] = model.Condition{Status: status, Reason: reason}
	}
	expired, deadline := false, r.Deadline()
	if expired = !deadline.IsZero() && !now.Before(deadline); !expired {
		until = deadline
	}
	grace := since.Add(partGrace)
	lost := !since.IsZero() && !now.Before(grace)
	waits := func() {
		if !since.IsZero() && !lost {
			until = model.EarlierOf(until, grace)
		}
	}
	switch {
	case r.IsProvisioned():
		set(model.RequestProvisioned, "True", r.Status[model.RequestProvisioned].Reason)
		switch {
		case expired:
			set(model.RequestExpired, "True", BookingExpired)
		case x.Total > 0 && x.Arrived >= x.Total:
			set(model.RequestExpired, "True", AllArrived)
		case lost:
			set(model.RequestRevoked, "True", NotFound)
		default:
			waits()
		}
	case expired:
		set(model.RequestFailed, "True", ValidityExpired)
	case len(r.Sets) == 0:
	case now.Before(r.RetryAt):
		set(model.RequestProvisioned, "False", NotFound)
		until = model.EarlierOf(until, r.RetryAt)
	case x.Ready >= x.Total:
		reason := Provisioned
		if r.CheckOnly {
			reason = CapacityFound
		}
		set(model.RequestProvisioned, "True", reason)
		x.RetryAt, x.Attempts = time.Time{}, 0
	case since.IsZero():
		set(model.RequestProvisioned, "False", Awaited)
	case r.NoRetry:
		set(model.RequestFailed, "True", NotFound)
	default:
		set(model.RequestProvisioned, "False", NotFound)
		if part && lost {
			x.Attempts++
			x.RetryAt = now.Add(model.Backoff(firstRetry, x.Attempts-1, mostRetry)).Truncate(time.Second)
		} else if part {
			waits()
		}
	}
	return until
}

// Differs reports whether the request's status in the API server differs from the state. Messages are not compared.
func (x *State) Differs() bool {
	if x.Conditions != nil && (!x.RetryAt.Equal(x.Request.RetryAt) || x.Attempts != x.Request.Attempts) {
		return true
	}
	for name, c := range x.Conditions {
		if have := x.Request.Status[name]; have.Status != c.Status || have.Reason != c.Reason {
			return true
		}
	}
	return false
}

// AreDue reports whether demand must be solved for the pods of requests alone: capacity for a pod without a place was not searched
// yet, or not for the duration retry. covered are the UIDs of pods with a slot.
func AreDue(v *cluster.View, mem Memory, covered map[string]bool, expected func(*model.Pod) string, retry time.Duration) bool {
	return slices.ContainsFunc(v.Snapshot.Pending, func(p *model.Pod) bool {
		if !p.Placeholder || covered[p.UID] || expected(p) != "" {
			return false
		}
		tried := mem.byUID[p.Consumes.UID].tried
		return tried.IsZero() || !v.Now.Before(tried.Add(retry))
	})
}

// Bars returns the pod classes for which no node is launched, because their ProvisioningRequest uses only existing
// capacity (check-capacity).
func Bars(v *cluster.View, pods []*model.Pod) (out []Barred) {
	only := map[string]bool{}
	for _, r := range v.Snapshot.Requests {
		if r.CheckOnly && r.IsActive(v.Now) {
			only[r.Key()] = true
		}
	}
	if len(only) == 0 {
		return nil
	}
	for _, p := range pods {
		if only[p.Class.Request] && !slices.ContainsFunc(out, func(b Barred) bool { return b.Class == p.Class }) {
			out = append(out, Barred{p.Class, plan.Reason{Code: plan.CapacityChecked, Subject: plan.ObjectOf("provisioningrequest", p.Class.Request)}})
		}
	}
	return out
}

// Barred is a class for which no node is launched.
type Barred struct {
	Class *model.Class
	Why   plan.Reason
}

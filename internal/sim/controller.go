// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package sim

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

const (
	// createTries is how often a NodeClaim is created of which it is not known whether it was.
	createTries = 8
	// settleLimit is how long an effect that was answered is waited for.
	settleLimit = 15 * time.Second
	callLimit   = time.Minute
)

// ErrUnknown is the error of a call that may or may not have had an effect.
var ErrUnknown = errors.New("connection reset")

// Control starts a Controller with a Decider for the cluster's nodes.
func (c *Cluster) Control(d Decider) *Controller {
	c.Controller = &Controller{cluster: c, decider: d}
	c.Controller.Restart()
	return c.Controller
}

// Restart restarts the controller, which lists all objects.
func (x *Controller) Restart() {
	c, s := x.cluster, state.New()
	x.State, x.Next, x.watch, x.calls, x.listed, x.decided, x.batch = s, time.Time{}, [streams][]state.Change{}, nil, time.Time{}, time.Time{}, batch{}
	s.SetNow(c.Now)
	x.decider.Restart(s.Resources())
	s.SetNamespace("default", nil, time.Time{})
	for _, p := range c.NodePools {
		s.Pools.SetPool(p)
	}
	for _, b := range c.Buffers {
		s.SetBuffer(b, c.version)
	}
	for _, r := range c.Requests {
		s.SetRequest(r, c.version)
	}
	for _, d := range c.Daemons {
		s.SetDaemon(d)
	}
	if c.Limit != nil {
		s.SetLimit(c.Limit)
	}
	for _, k := range slices.Sorted(maps.Keys(c.Claims)) {
		s.SetClaim(c.Claims[k], c.version)
	}
	for _, n := range c.sorted {
		s.SetNode(n, c.version)
	}
	for _, p := range byKey(c.Pods) {
		s.SetPod(p)
	}
	if c.Controllers != nil {
		c.Controllers.List(s)
	}
	for _, l := range c.Workloads {
		s.SetReplicas(l.UID(), l.told)
		if l.Guarded {
			l.budget = c.budgetOf(l)
			s.SetPDB(l.budget)
		}
	}
}

// crash ends the process and begins another: of its calls, some have been made and some have not.
func (x *Controller) crash() {
	for _, k := range x.calls {
		if !k.begun && x.cluster.Faults.draw("call made before death", 2) == 1 {
			_, _ = x.perform(k.action)
		}
	}
	x.Restart()
}

// tick takes in what there is and decides. With onlyNews it does not decide twice at one instant with nothing new.
func (x *Controller) tick(onlyNews bool) {
	x.deliver()
	x.list()
	x.answer()
	x.deliver()
	c := x.cluster
	if onlyNews && x.decided.Equal(c.Now) && (!x.news || x.Batch.Calm > 0 && x.noted && len(c.busy) == 0) {
		x.acted = false
		return
	}
	x.decide()
}

// IsQuiet reports whether only timers can cause further events.
func (x *Controller) IsQuiet() bool {
	return len(x.calls) == 0 && !x.acted && !slices.ContainsFunc(x.watch[:], func(ch []state.Change) bool { return len(ch) > 0 })
}

// dueAt returns when the simulated controller decides next (in replay too): at once after a start, otherwise when no change has
// been delivered for a moment, or at the time that the last decision asked for; zero: no decision is due.
func (x *Controller) dueAt() time.Time {
	now, b := x.cluster.Now, &x.batch
	if x.decided.IsZero() {
		return now
	}
	if b.heard != x.told {
		if b.heard = x.told; b.first.IsZero() {
			b.first = now
		}
		b.due = model.EarlierOf(b.first.Add(x.Batch.Most), now.Add(x.Batch.Idle))
		if x.DecidesAt != nil {
			b.due = x.DecidesAt(b.first, b.due)
		}
	}
	next := x.Next
	if x.DecidesAt != nil && !next.IsZero() {
		next = x.DecidesAt(next, next)
	}
	due := model.EarlierOf(b.due, next)
	if calm := x.decided.Add(x.Batch.Calm); x.Batch.Calm > 0 && !due.IsZero() && due.Before(calm) && x.isCalm() {
		return calm
	}
	return due
}

// isCalm reports whether nothing has happened since the last decision but that pods came and went, no pod waits for a node that has not been decided
// on, and no node comes or goes. A pod that was younger than Batch.Most when it was last decided on counts as undecided: kube-scheduler may not have
// had its say by then, so that the decision was put off to Next.
func (x *Controller) isCalm() bool {
	c := x.cluster
	if x.urgent != x.batch.calm || len(c.busy) > 0 {
		return false
	}
	for _, p := range c.on[""] {
		if since := model.LaterOf(p.Created, p.Unschedulable); since.Add(x.Batch.Most).After(x.decided) {
			return false
		}
	}
	return true
}

// deliver shows what the watches have.
func (x *Controller) deliver() {
	for i := range x.watch {
		n := len(x.watch[i])
		if x.cluster.Faults.Happens(WatchLags) {
			n = x.cluster.Faults.draw("events", n+1)
		}
		x.news = x.news || n > 0
		for _, ch := range x.watch[i][:n] {
			ch(x.State)
		}
		x.watch[i] = slices.Clone(x.watch[i][n:])
	}
}

// list asks the cloud for its machines.
func (x *Controller) list() {
	c := x.cluster
	if c.Now.Sub(x.listed) < time.Second || c.Faults.Happens(ListFails) {
		return
	}
	x.listed, x.news = c.Now, true
	x.State.SetInstances(c.instances(), c.Now)
}

// See processes the watch events, without a decision.
func (x *Controller) See() {
	x.deliver()
	x.expire()
}

// expire forgets the actions of which nothing is heard.
func (x *Controller) expire() {
	x.State.SetNow(x.cluster.Now)
	x.State.ExpireActions(x.cluster.Now)
}

// decide decides, and begins what was decided.
func (x *Controller) decide() {
	c := x.cluster
	x.expire()
	solve := !c.Faults.Happens(NoLookAtDemand)
	actions, next := x.decider.Decide(c.Now, x.State.Snapshot(c.Now), solve)
	x.Next, x.acted, x.decided, x.news, x.noted = next, false, c.Now, false, true
	if !next.IsZero() && !next.After(c.Now) {
		c.Tell(Event{Kind: Violated, Text: "to look again at " + next.String() + ", which is not after now"})
	}
	for _, a := range actions {
		if _, ok := a.(plan.UpdatePool); !ok {
			x.acted = true
			c.Tell(Event{Kind: Decided, Action: a})
			_, isClaim := a.(plan.UpdateClaim)
			x.noted = x.noted && isClaim
		}
		x.State.Begin(a, c.Now, c.Now.Add(callLimit))
		k := &call{action: a, due: 1}
		if c.Faults.Happens(SlowCall) {
			k.due += 1 + c.Faults.draw("ticks", 8)
		}
		x.calls = append(x.calls, k)
	}
}

// answer makes the calls that were begun, and takes in the answers that are due.
func (x *Controller) answer() {
	f := &x.cluster.Faults
	x.news = x.news || len(x.calls) > 0
	var left []*call
	for _, k := range x.calls {
		if !k.begun {
			k.begun = true
			if f.Happens(CallFails) {
				k.err = ErrUnknown
			} else if k.ver, k.err = x.perform(k.action); k.err == nil && f.Happens(AnswerLost) {
				k.err = ErrUnknown
			}
		}
		if k.due--; k.due > 0 {
			left = append(left, k)
		} else if again := x.take(k); again != nil {
			left = append(left, again)
		}
	}
	x.calls = left
}

// take takes in the answer to a call. It returns the call that is to be made next for it, or nil.
func (x *Controller) take(k *call) *call {
	s, now, key := x.State, x.cluster.Now, k.action.Key()
	switch {
	case k.err == nil:
		s.InFlight.RecordAnswer(key, k.ver, now, now.Add(settleLimit))
		switch a := k.action.(type) {
		case plan.LaunchClaim:
			if k.ver == 0 {
				s.InFlight.EndAction(key)
			}
		case plan.Terminate:
			uid := ""
			if cl := s.FindClaim(a.Claim); cl != nil {
				uid = cl.UID
			}
			s.MarkInstanceGone(a.ProviderID, uid)
		case plan.UpdatePool, plan.UpdateBuffer, plan.UpdateRequest, plan.UpdateQuota, plan.UpdateNodeOverlay, plan.UpdateNodeClass:
			s.InFlight.EndAction(key)
		case plan.UpdateClaim:
			if a.SetSlots {
				s.Overlay.ConfirmSlots(a.Claim)
			}
		}
	case errors.Is(k.err, plan.ErrGone):
		s.InFlight.RecordAnswer(key, 0, now, now.Add(time.Second))
		switch a := k.action.(type) {
		case plan.Bind:
			s.Overlay.DropBinding(model.PodKey(a.Namespace, a.Pod), a.UID)
		case plan.Tolerate:
			s.Overlay.DropToleration(model.PodKey(a.Namespace, a.Pod), a.UID, a.Claim)
		}
	default:
		if a, ok := k.action.(plan.CreateClaim); ok && k.try < createTries-1 && !errors.Is(k.err, plan.ErrInvalid) {
			// It may have been made: until that is known, the same again, as the real controller does.
			if have := s.FindClaim(a.Name); have == nil || !have.Provisional {
				return nil
			}
			s.Begin(a, now, now.Add(callLimit))
			return &call{action: a, due: 2, try: k.try + 1}
		}
		Fail(s, k.action, now.Add(time.Second), !errors.Is(k.err, ErrUnknown))
		if errors.Is(k.err, plan.ErrInvalid) {
			switch a := k.action.(type) {
			case plan.Bind:
				s.Overlay.RefuseBinding(model.PodKey(a.Namespace, a.Pod), a.UID)
			case plan.Tolerate:
				s.Overlay.RefuseToleration(model.PodKey(a.Namespace, a.Pod), a.UID)
			}
		}
	}
	return nil
}

// perform makes a call.
func (x *Controller) perform(action plan.Action) (uint64, error) {
	switch a := action.(type) {
	case plan.LaunchClaim:
		return x.launch(a)
	case plan.CreateClaim:
		v, err := x.cluster.Do(a)
		if errors.Is(err, plan.ErrInvalid) && x.SlotsOf != nil {
			x.State.RecordUnmadeClaim(model.UnmadeClaim{Claim: a.Name, Pool: a.Pool.Name, Slots: x.SlotsOf(a), At: x.cluster.Now, Message: "denied"})
		}
		return v, err
	}
	return x.cluster.Do(action)
}

// launch buys a machine for a NodeClaim as the controller knows it, once: the second time it is answered the first one.
func (x *Controller) launch(a plan.LaunchClaim) (uint64, error) {
	c, cl := x.cluster, x.State.FindClaim(a.Claim)
	c.Tell(Event{Kind: Begun, Action: a})
	if cl == nil || cl.UID != a.UID {
		return 0, plan.ErrGone
	}
	m := c.Machines[a.UID]
	if m == nil {
		var failed model.LaunchFailure
		if m, failed = c.launch(cl); m == nil {
			x.State.RecordLaunchFailure(a.UID, failed)
			return 0, nil
		}
		if c.Faults.Happens(LaunchAnswerLost) {
			x.State.RecordLaunchFailure(a.UID, model.LaunchFailure{Kind: "Unknown", Message: ErrUnknown.Error()})
			return 0, ErrUnknown
		}
	}
	if m.Gone {
		x.State.RecordLaunchFailure(a.UID, model.LaunchFailure{Kind: "NotFound", Message: "it is gone"})
		return 0, nil
	}
	labels := map[string]string{model.LabelInstanceType: m.Type.Name, model.LabelZone: m.Offering.Zone, model.LabelCapacityType: m.Offering.CapacityType}
	if g := m.Offering.Labels[model.LabelNodeGroup]; g != "" {
		labels[model.LabelNodeGroup] = g
	}
	return c.updateClaim(plan.UpdateClaim{Claim: a.Claim, UID: a.UID, ProviderID: m.ID, Capacity: m.Type.Capacity, Allocatable: m.Type.Allocatable, Labels: labels,
		Conditions: map[string]model.Condition{lifecycle.Launched: {Status: "True", Reason: lifecycle.Launched}}})
}

// Fail records that the call of an action failed, and when it may be retried. definitely: the call had no effect.
func Fail(st *state.State, action plan.Action, again time.Time, definitely bool) {
	st.InFlight.RecordFailure(action.Key(), func(int) time.Time { return again })
	switch a := action.(type) {
	case plan.CreateClaim:
		st.Overlay.DropProvisionalClaim(a.Name)
	case plan.UpdateClaim:
		switch {
		case a.SetSlots && definitely:
			st.Overlay.DropSlots(a.Claim)
		case a.SetSlots:
			st.Overlay.DoubtSlots(a.Claim)
		}
	case plan.Bind:
		if definitely {
			st.Overlay.DropBinding(model.PodKey(a.Namespace, a.Pod), a.UID)
		}
	case plan.Tolerate:
		if definitely {
			st.Overlay.DropToleration(model.PodKey(a.Namespace, a.Pod), a.UID, a.Claim)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/lifecycle"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

const (
	answerLimit  = 24 * time.Hour   // every call is answered, but how long it waits for its turn nobody knows
	settleLimit  = 15 * time.Second // an effect that is not seen this long after its answer is decided on again
	createTries  = 8                // then a claim that may or may not have been made is taken for not made: its watch would have shown it
	createLimit  = 5 * time.Minute  // a claim that was made and is not seen by then was deleted before any watch showed it
	refusedPause = 10 * time.Minute // what the API server does not accept is repeated ever more rarely, at last as often as this
)

// beginAction records an action and starts it.
func (c *Controller) beginAction(ctx context.Context, now time.Time, action plan.Action) {
	key, until := action.Key(), now.Add(answerLimit)
	switch a := action.(type) {
	case plan.CreateClaim:
		c.createClaim(ctx, now, a, 1)
	case plan.LaunchClaim:
		c.State.InFlight.BeginAction(key, state.ClaimObject(a.Claim), until)
		c.launchClaim(ctx, now, a)
	case plan.DeleteClaim:
		c.State.InFlight.BeginAction(key, "", until)
		c.startCall(ctx, "DeleteClaim", key, func(ctx context.Context) (uint64, error) { return c.Cluster.DeleteClaim(ctx, a) }, c.recorder.reportFailure("delete", "nodeclaim/"+a.Claim, a.Why))
	case plan.UpdateClaim:
		c.State.InFlight.BeginAction(key, state.ClaimObject(a.Claim), until)
		if a.SetSlots {
			c.State.Overlay.AssumeSlots(a.Claim, a.Slots)
		}
		c.startCall(ctx, laneOfReason("UpdateClaim", a.Why), key, func(ctx context.Context) (uint64, error) { return c.Cluster.UpdateClaim(ctx, a) }, c.answerUpdateClaim(a))
	case plan.UpdateNode:
		c.State.InFlight.BeginAction(key, state.NodeObject(a.Node), until)
		c.startCall(ctx, laneOfReason("UpdateNode", a.Why), key, func(ctx context.Context) (uint64, error) { return c.Cluster.UpdateNode(ctx, a) }, c.recorder.reportFailure("update", "node/"+a.Node, a.Why))
	case plan.DeleteNode:
		c.State.InFlight.BeginAction(key, state.NodeObject(a.Node), until)
		c.startCall(ctx, "DeleteNode", key, func(ctx context.Context) (uint64, error) { return c.Cluster.DeleteNode(ctx, a) }, c.recorder.reportFailure("delete", "node/"+a.Node, a.Why))
	case plan.Bind:
		c.State.InFlight.BeginAction(key, "", until)
		c.State.Overlay.AssumeBinding(a.Namespace+"/"+a.Pod, a.UID, a.Node)
		c.startCall(ctx, laneOfNamespace("Bind", a.Namespace), key, func(ctx context.Context) (uint64, error) { return c.Cluster.Bind(ctx, a) }, c.answerBind(a))
	case plan.Tolerate:
		c.State.InFlight.BeginAction(key, "", until)
		c.State.Overlay.AssumeToleration(a.Namespace+"/"+a.Pod, a.UID, a.Claim)
		c.startCall(ctx, laneOfNamespace("Tolerate", a.Namespace), key, func(ctx context.Context) (uint64, error) { return c.Cluster.Tolerate(ctx, a) }, c.answerTolerate(a))
	case plan.Evict:
		c.State.InFlight.BeginAction(key, "", until)
		c.startCall(ctx, laneOfNamespace("Evict", a.Namespace), key, func(ctx context.Context) (uint64, error) { return c.Cluster.Evict(ctx, a) }, c.answerEvict(a))
	case plan.Restart:
		c.State.InFlight.BeginAction(key, "", until)
		c.startCall(ctx, laneOfNamespace("Restart", a.Namespace), key, func(ctx context.Context) (uint64, error) { return c.Cluster.Restart(ctx, a) }, c.answerRestart(a))
	case plan.DeletePod:
		c.State.InFlight.BeginAction(key, "", until)
		c.startCall(ctx, laneOfNamespace("DeletePod", a.Namespace), key, func(ctx context.Context) (uint64, error) { return c.Cluster.DeletePod(ctx, a) }, c.recorder.reportFailure("delete", "pod/"+a.Namespace+"/"+a.Pod, a.Why))
	case plan.Terminate:
		c.State.InFlight.BeginAction(key, "", until)
		c.terminateInstance(ctx, a)
	case plan.UpdatePool:
		c.State.InFlight.BeginAction(key, "", until)
		c.startCall(ctx, "UpdatePool", key, func(ctx context.Context) (uint64, error) { return c.Cluster.UpdatePool(ctx, a) }, func(s *state.State, err error) {
			if err != nil {
				c.recorder.recordFailure("update", "nodepool/"+a.Pool, a.Why, err)
				return
			}
			s.InFlight.EndAction(key) // decide compares with what the watch shows, and paces itself
		})
	case plan.UpdateNodeClass:
		c.State.InFlight.BeginAction(key, state.NodeClassObject(a.Group, a.Kind, a.Name), until)
		c.startCall(ctx, "UpdateNodeClass", key, func(ctx context.Context) (uint64, error) { return c.Cluster.UpdateNodeClass(ctx, a) }, func(_ *state.State, err error) {
			if err != nil {
				c.recorder.recordFailure("update", "nodeclass/"+a.Name, a.Why, err)
				c.withoutFinalizer[a.UID] = c.withoutFinalizer[a.UID] || a.AddFinalizer && errors.Is(err, plan.ErrInvalid)
			}
		})
	}
}

// errStoodDown: when the turn of a claim to be made had come, another autoscaler was live.
var errStoodDown = errors.New("another autoscaler is live")

// createClaim makes a claim. Where it is not known whether that has been done, the very same is asked again, and until it is known the claim
// is shown: pods alike are one to another for decide, and a second decision could be for other ones of them, under another name.
func (c *Controller) createClaim(ctx context.Context, now time.Time, a plan.CreateClaim, try int) {
	c.State.InFlight.BeginAction(a.Key(), "", now.Add(answerLimit))
	c.State.Overlay.AddProvisionalClaim(provisionalClaim(a, now))
	c.startCall(ctx, "CreateClaim", a.Key(), func(ctx context.Context) (uint64, error) {
		if c.passive.Load() != nil {
			return 0, errStoodDown
		}
		return c.Cluster.CreateClaim(ctx, a)
	}, func(s *state.State, err error) {
		if errors.Is(err, errStoodDown) {
			s.InFlight.EndAction(a.Key())
			s.Overlay.DropProvisionalClaim(a.Name)
			return
		}
		if err == nil {
			// It is there, whatever the watch shows: forgetting it after a moment's lag would buy for its pods again.
			s.InFlight.RecordAnswer(a.Key(), 0, time.Now().Add(createLimit))
			c.Metrics.countCreatedClaim(a)
			return
		}
		c.recorder.recordFailure("create", "nodeclaim/"+a.Name, a.Why, err)
		if errors.Is(err, plan.ErrInvalid) || try >= createTries {
			s.Overlay.DropProvisionalClaim(a.Name)
			return
		}
		time.AfterFunc(retryPause(try, 200*time.Millisecond, 5*time.Second), func() {
			if ctx.Err() != nil {
				return
			}
			c.Emit(func(s *state.State) {
				if have := s.FindClaim(a.Name); have != nil && have.Provisional { // else it has come
					if c.passive.Load() != nil {
						s.Overlay.DropProvisionalClaim(a.Name)
						return
					}
					c.createClaim(ctx, time.Now(), a, try+1)
				}
			})
		})
	})
}

// startCall makes one call in a goroutine of its own, at most Parallel of a kind at once, and four times as many of a kind in all namespaces, and has
// its answer recorded.
func (c *Controller) startCall(ctx context.Context, kind, key string, call func(context.Context) (uint64, error), then func(*state.State, error)) {
	width := c.Config.Parallel
	if strings.HasPrefix(kind, "Bind") {
		width = c.Config.Bindings
	}
	turns := []chan struct{}{c.findLane(kind, width)}
	if all, _, ok := strings.Cut(kind, inNamespace); ok {
		turns = append(turns, c.findLane(all, 4*width))
	}
	go func() {
		for _, lane := range turns {
			select {
			case lane <- struct{}{}:
				defer func() { <-lane }()
			case <-ctx.Done():
				return
			}
		}
		if ctx.Err() != nil {
			return // the loop has ended while it waited for its turn
		}
		cctx, cancel := context.WithTimeout(ctx, c.Config.CallLimit)
		version, err := call(cctx)
		cancel()
		if ctx.Err() != nil {
			return // the loop has ended; whoever comes next reads what became of it
		}
		c.Emit(func(s *state.State) {
			now := time.Now()
			switch {
			case err == nil:
				s.InFlight.RecordAnswer(key, version, now.Add(settleLimit))
			case errors.Is(err, plan.ErrGone):
				s.InFlight.RecordAnswer(key, 0, now.Add(time.Second))
			case errors.Is(err, plan.ErrInvalid):
				// Most will never be accepted; but a role or a policy may be on its way, and what comes next for this object may be another matter.
				s.InFlight.RecordFailure(key, func(n int) time.Time { return now.Add(retryPause(n, time.Second, refusedPause)) })
			case errors.Is(err, plan.ErrBlocked):
				s.InFlight.RecordFailure(key, func(n int) time.Time { return now.Add(retryPause(n, 100*time.Millisecond, 10*time.Second)) })
			case errors.Is(err, plan.ErrConflict):
				s.InFlight.RecordFailure(key, func(n int) time.Time { return now.Add(retryPause(n, 20*time.Millisecond, time.Second)) })
			default:
				s.InFlight.RecordFailure(key, func(n int) time.Time { return now.Add(retryPause(n, 200*time.Millisecond, time.Minute)) })
			}
			if then != nil {
				then(s, err)
			}
		})
	}()
}

// interruptedLane is the lane of what is written into the claims and nodes of machines that are taken away: those to come in their stead go first.
const interruptedLane = "taken"

func laneOfReason(kind string, why plan.Reason) string {
	if why.Code == plan.Interrupted {
		return interruptedLane
	}
	return kind
}

// laneOfClass is the lane of calls to the cloud about a claim: those that hang for one node class or node group hold up no other's.
func laneOfClass(kind string, c *model.Claim) string {
	if c == nil {
		return kind
	}
	return kind + " " + c.ClassGroup + "/" + c.ClassKind + "/" + c.ClassName + " " + c.Labels[model.LabelNodeGroup]
}

// laneOfNamespace is the lane of calls about the pods of a namespace: an admission webhook that takes its time there holds up no other's.
func laneOfNamespace(kind, namespace string) string { return kind + inNamespace + namespace }

const inNamespace = " in "

func (c *Controller) findLane(kind string, width int) chan struct{} {
	l := c.lanes[kind]
	if l == nil {
		if len(c.lanes) >= max(c.laneSweepAt, fewLanes) { // most of them of namespaces and classes that are gone
			maps.DeleteFunc(c.lanes, func(k string, l chan struct{}) bool { return k != interruptedLane && len(l) == 0 })
			c.laneSweepAt = 2 * len(c.lanes)
		}
		l = make(chan struct{}, width)
		c.lanes[kind] = l
	}
	return l
}

// fewLanes are kept though nothing is in them.
const fewLanes = 1000

// hasDoneNothing says whether a call that failed has certainly done nothing.
func hasDoneNothing(err error) bool {
	return errors.Is(err, plan.ErrInvalid) || errors.Is(err, plan.ErrConflict) || isGone(err) || isBlocked(err)
}

func isBlocked(err error) bool { return errors.Is(err, plan.ErrBlocked) }
func isGone(err error) bool    { return errors.Is(err, plan.ErrGone) }

// retryPause is the pause after the n-th failure in a row.
func retryPause(n int, first, most time.Duration) time.Duration {
	d := first
	for i := 1; i < n && d < most; i++ {
		d *= 2
	}
	return min(d, most)
}

// drainReason is why a node is drained.
func (c *Controller) drainReason(node string) string {
	if cl := c.State.FindClaimByNode(node); cl != nil && cl.Is(lifecycle.Disrupted) {
		return cl.Conditions[lifecycle.Disrupted].Reason
	}
	return string(plan.Deleted)
}

// provisionalClaim is how a claim looks until the API server shows it.
func provisionalClaim(a plan.CreateClaim, now time.Time) *model.Claim {
	return &model.Claim{
		Name: a.Name, Pool: a.Pool.Name, Requirements: a.Requirements, Labels: a.Pool.Labels, Annotations: a.Annotations, Taints: a.Pool.Taints,
		StartupTaints: a.Pool.StartupTaints, Requests: a.Requests, ExpireAfter: -1, TerminationGracePeriod: -1, Created: now,
		Reserved: a.Reserved, Slots: a.Slots, NoReserve: string(a.NoReserve.Code), Provisional: true,
	}
}

// launchClaim buys a claim's machine and writes what was bought into the claim.
func (c *Controller) launchClaim(ctx context.Context, now time.Time, a plan.LaunchClaim) {
	claim := c.State.FindClaim(a.Claim)
	class := c.State.Pools.FindNodeClass(claim.ClassGroup, claim.ClassKind, claim.ClassName)
	if class != nil && class.Deleting.IsZero() && !c.ensureFinalizer(now, class) {
		c.State.InFlight.BeginAction(a.Key(), state.ClaimObject(a.Claim), now.Add(100*time.Millisecond))
		return
	}
	if class == nil || !class.Deleting.IsZero() {
		f := model.LaunchFailure{Kind: "NodeClassNotReady", Message: claim.ClassKind + " " + claim.ClassName + " (spec.nodeClassRef) does not exist"}
		if class != nil { // what is made for it is about to go
			f.Message = claim.ClassKind + " " + claim.ClassName + " (spec.nodeClassRef) is being deleted"
		}
		c.State.RecordLaunchFailure(a.UID, f)
		c.State.InFlight.EndAction(a.Key())
		c.Cluster.Event("NodeClaim", "", a.Claim, a.UID, true, "NodeClassNotReady", f.Message)
		c.lookAgain = true // not by Emit: the loop, which alone takes what is emitted, is the one that runs here
		return
	}
	req := launchRequest(claim, class)
	if q := claim.Requirements.Get(model.LabelNodeGroup); q != nil && !q.Complement && len(q.Values) == 1 {
		req.Following = c.State.CountUnlaunched(q.Values[0])
	}
	key := a.Key()
	lane := c.findLane(laneOfClass("Launch", claim), c.Config.Parallel)
	go func() {
		select {
		case lane <- struct{}{}:
		default:
			select {
			case lane <- struct{}{}:
			case <-ctx.Done():
				return
			}
			if !c.stillWanted(ctx, a) {
				<-lane
				return
			}
		}
		defer func() { <-lane }()
		cctx, cancel := context.WithTimeout(ctx, c.Config.CallLimit)
		defer cancel()
		res := c.Provider.Launch(cctx, []cloud.LaunchRequest{req})[0]
		c.Metrics.countCall("Create", time.Since(now), res.Err)
		if res.Err != nil {
			c.Emit(func(s *state.State) { c.takeLaunchFailure(s, a, res.Err) })
			return
		}
		if res.ProviderID == "" { // it is to come: the same is asked again until it has
			c.Emit(func(s *state.State) {
				if s.InFlight.RecordFailure(key, func(n int) time.Time { return time.Now().Add(retryPause(n, 100*time.Millisecond, time.Second)) }) == 1 {
					c.Log.Info("accepted", "nodeclaim", a.Claim, "class", class.Name)
					c.refreshClassOfferings(class.Group, class.Kind, class.Name) // its group may have as many fewer now
				}
			})
			return
		}
		u := launchUpdate(claim, res)
		version, err := c.Cluster.UpdateClaim(cctx, u)
		c.Emit(func(s *state.State) {
			now := time.Now()
			if err != nil {
				c.recorder.recordFailure("launch", "nodeclaim/"+a.Claim, a.Why, err)
				s.InFlight.RecordFailure(key, func(n int) time.Time { return now.Add(retryPause(n, 50*time.Millisecond, 10*time.Second)) })
				return
			}
			s.InFlight.RecordAnswer(key, version, now.Add(settleLimit))
			c.Log.Info("launched", "nodeclaim", a.Claim, "instance", res.ProviderID, "type", res.InstanceType, "zone", res.Zone,
				"capacityType", res.CapacityType, "usdPerHour", formatUSD(res.PriceMicro), "priceModelled", res.Modelled)
			c.Ledger.Add(ledger.Entry{At: now, Kind: "launch", Subject: "nodeclaim/" + a.Claim, Why: []plan.Reason{a.Why}, Outcome: "done", Type: res.InstanceType, Micro: res.PriceMicro})
		})
	}()
}

// stillWanted says whether a claim whose launch had to wait for its turn is still to be launched, and lets go of it if not.
func (c *Controller) stillWanted(ctx context.Context, a plan.LaunchClaim) bool {
	wanted, err := askLoop(ctx, c, func(s *state.State) bool {
		have := s.FindClaim(a.Claim)
		ok := have != nil && have.UID == a.UID && have.Deleting.IsZero() && c.passive.Load() == nil
		if !ok {
			s.InFlight.EndAction(a.Key())
		}
		return ok
	})
	return wanted && err == nil
}

func launchRequest(claim *model.Claim, class *state.NodeClass) cloud.LaunchRequest {
	req := cloud.LaunchRequest{
		ClaimName: claim.Name, ClaimUID: claim.UID, ClaimCreated: claim.Created, Pool: claim.Pool, Requirements: claim.Requirements, Requests: claim.Requests,
		NodeLabels: claim.Labels, Annotations: claim.Annotations, Taints: claim.Taints, StartupTaints: claim.StartupTaints,
		Class: providerNodeClass(class),
	}
	in := func(key string) []string {
		if q := claim.Requirements.Get(key); q != nil && !q.Complement {
			return q.Values
		}
		return nil
	}
	req.Types, req.Zones, req.CapacityTypes = in(model.LabelInstanceType), in(model.LabelZone), in(model.LabelCapacityType)
	return req
}

// launchUpdate is what the claim's status and labels say once its machine is bought.
func launchUpdate(claim *model.Claim, r cloud.LaunchResult) plan.UpdateClaim {
	return plan.UpdateClaim{
		Claim: claim.Name, UID: claim.UID, Annotations: r.Annotations, ProviderID: r.ProviderID, ImageID: r.ImageID, Capacity: r.Capacity, Allocatable: r.Allocatable, Labels: r.Labels,
		Conditions: map[string]model.Condition{"Launched": {Status: "True", Reason: "Launched"}}, Why: plan.Reason{Code: plan.Launching, Pool: claim.Pool},
	}
}

func (c *Controller) takeLaunchFailure(s *state.State, a plan.LaunchClaim, err error) {
	now, kind := time.Now(), cloud.KindOf(err)
	if cl := s.FindClaim(a.Claim); cl != nil && cl.UID == a.UID {
		s.RecordLaunchFailure(a.UID, model.LaunchFailure{Kind: string(kind), Message: err.Error()})
	}
	c.Metrics.launchFailures.WithLabelValues(string(kind)).Inc()
	c.Log.Warn("launch failed", "nodeclaim", a.Claim, "kind", string(kind), "error", err.Error())
	c.Ledger.Add(ledger.Entry{At: now, Kind: "launch", Subject: "nodeclaim/" + a.Claim, Why: []plan.Reason{a.Why}, Outcome: "failed: " + err.Error()})
	reason := "LaunchFailed"
	switch kind {
	case cloud.InsufficientCapacity:
		reason = "InsufficientCapacityError"
		c.refreshOfferings()
		s.InFlight.EndAction(a.Key())
	case cloud.NotReady, cloud.NotFound:
		reason = "NodeClassNotReady"
		s.InFlight.EndAction(a.Key())
	case cloud.Throttled:
		s.InFlight.RecordFailure(a.Key(), func(n int) time.Time {
			return now.Add(max(cloud.AfterOf(err), retryPause(n, 100*time.Millisecond, 10*time.Second)))
		})
	default:
		s.InFlight.RecordFailure(a.Key(), func(n int) time.Time { return now.Add(retryPause(n, 200*time.Millisecond, time.Minute)) })
	}
	c.Cluster.Event("NodeClaim", "", a.Claim, a.UID, true, reason, err.Error())
}

// errClaimed: what was taken for an orphan has a claim.
var errClaimed = errors.New("its nodeclaim is there, though the watch has not shown it: the machine is left alone")

// terminateInstance ends a machine. A machine that is unknown or on its way out already is as good as ended.
func (c *Controller) terminateInstance(ctx context.Context, a plan.Terminate) {
	claimUID := ""
	cl := c.State.FindClaim(a.Claim)
	if cl != nil {
		claimUID = cl.UID
	}
	begin := time.Now()
	c.startCall(ctx, laneOfClass("Terminate", cl), a.Key(), func(ctx context.Context) (uint64, error) {
		if a.Claim == "" { // its claim was not seen; but a watch may be behind, and what is ended is lost
			claimed, err := c.Cluster.Claimed(ctx, a)
			if err == nil && claimed {
				err = errClaimed
			}
			if err != nil {
				return 0, err
			}
		}
		err := c.Provider.Terminate(ctx, []string{a.ProviderID})[0]
		c.Metrics.countCall("Delete", time.Since(begin), err)
		if cloud.KindOf(err) == cloud.NotFound {
			return 0, nil
		}
		return 0, err
	}, func(s *state.State, err error) {
		if err != nil {
			if !errors.Is(err, errClaimed) {
				c.Metrics.endFailures.Inc()
			}
			c.recorder.recordFailure("terminate", a.ProviderID, a.Why, err)
			if a.Claim != "" {
				c.Cluster.Event("NodeClaim", "", a.Claim, claimUID, true, "FailedTermination", err.Error())
			}
			return
		}
		s.MarkInstanceGone(a.ProviderID, claimUID)
		if cl != nil && cl.Labels[model.LabelNodeGroup] != "" { // its group may have one more now
			c.refreshClassOfferings(cl.ClassGroup, cl.ClassKind, cl.ClassName)
		}
		c.Log.Info("terminated", "instance", a.ProviderID, "nodeclaim", a.Claim, "why", string(a.Why.Code))
		entry := ledger.Entry{At: time.Now(), Kind: "terminate", Subject: "instance/" + a.ProviderID, Why: []plan.Reason{a.Why}, Outcome: "done"}
		if a.Claim != "" {
			entry.Related = []string{"nodeclaim/" + a.Claim}
		}
		c.Ledger.Add(entry)
	})
}

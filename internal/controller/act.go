// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/decide/unused"
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
	if a, ok := action.(plan.CreateClaim); ok {
		c.createClaim(ctx, now, a, 1)
		return
	}
	key := action.Key()
	c.State.Begin(action, now, now.Add(answerLimit))
	switch a := action.(type) {
	case plan.LaunchClaim:
		c.launcher.launchClaim(ctx, now, a)
	case plan.DeleteClaim:
		c.startCall(ctx, lane{kind: plan.CallDeleteClaim}, a, func(ctx context.Context) (uint64, error) { return c.Cluster.DeleteClaim(ctx, a) }, c.recorder.ReportFailure("delete", "nodeclaim/"+a.Claim, a.Why))
	case plan.UpdateClaim:
		c.startCall(ctx, c.laneOfUpdate(plan.CallUpdateClaim, c.State.FindClaim(a.Claim), a.Why), a, func(ctx context.Context) (uint64, error) { return c.Cluster.UpdateClaim(ctx, a) }, c.answers.answerUpdateClaim(a))
	case plan.UpdateNode:
		c.startCall(ctx, c.laneOfUpdate(plan.CallUpdateNode, c.State.FindClaimByNode(a.Node), a.Why), a, func(ctx context.Context) (uint64, error) { return c.Cluster.UpdateNode(ctx, a) }, c.recorder.ReportFailure("update", "node/"+a.Node, a.Why))
	case plan.DeleteNode:
		c.startCall(ctx, lane{kind: plan.CallDeleteNode}, a, func(ctx context.Context) (uint64, error) { return c.Cluster.DeleteNode(ctx, a) }, c.recorder.ReportFailure("delete", "node/"+a.Node, a.Why))
	case plan.Bind:
		c.startCall(ctx, lane{kind: plan.CallBind, namespace: a.Namespace}, a, func(ctx context.Context) (uint64, error) {
			began := time.Now()
			defer func() { c.Metrics.ObserveBinding(time.Since(began)) }()
			return c.Cluster.Bind(ctx, a)
		}, c.answers.answerBind(a))
	case plan.Tolerate:
		c.startCall(ctx, lane{kind: plan.CallTolerate, namespace: a.Namespace}, a, func(ctx context.Context) (uint64, error) { return c.Cluster.Tolerate(ctx, a) }, c.answers.answerTolerate(a))
	case plan.Evict:
		c.startCall(ctx, lane{kind: plan.CallEvict, namespace: a.Namespace}, a, func(ctx context.Context) (uint64, error) { return c.Cluster.Evict(ctx, a) }, c.answers.answerEvict(a))
	case plan.Restart:
		c.startCall(ctx, lane{kind: plan.CallRestart, namespace: a.Namespace}, a, func(ctx context.Context) (uint64, error) { return c.Cluster.Restart(ctx, a) }, c.answers.answerRestart(a))
	case plan.DeletePod:
		c.startCall(ctx, lane{kind: plan.CallDeletePod, namespace: a.Namespace}, a, func(ctx context.Context) (uint64, error) { return c.Cluster.DeletePod(ctx, a) }, c.recorder.ReportFailure("delete", "pod/"+model.PodKey(a.Namespace, a.Pod), a.Why))
	case plan.Terminate:
		c.terminateInstance(ctx, a)
	case plan.Reboot:
		c.rebootInstance(ctx, now, a)
	case plan.UpdatePool:
		c.startCall(ctx, lane{kind: plan.CallUpdatePool}, a, func(ctx context.Context) (uint64, error) { return c.Cluster.UpdatePool(ctx, a) }, func(s *state.State, err error) {
			if err != nil {
				c.recorder.Failure("update", "nodepool/"+a.Pool, a.Why, err)
				return
			}
			s.InFlight.EndAction(key) // decide compares with what the watch shows, and paces itself
		})
	case plan.UpdateNodeOverlay:
		c.startCall(ctx, lane{kind: plan.CallOverlay}, a, func(ctx context.Context) (uint64, error) { return c.Cluster.UpdateNodeOverlay(ctx, a) },
			c.recorder.ReportFailure("update", "nodeoverlay/"+a.Overlay, a.Why))
	case plan.UpdateBuffer:
		c.startCall(ctx, lane{kind: plan.CallBuffer}, a, func(ctx context.Context) (uint64, error) { return c.Cluster.UpdateBuffer(ctx, a) },
			c.recorder.ReportFailure("update", "capacitybuffer/"+a.Namespace+"/"+a.Buffer, a.Why))
	case plan.UpdateRequest:
		c.startCall(ctx, lane{kind: plan.CallRequest}, a, func(ctx context.Context) (uint64, error) { return c.Cluster.UpdateRequest(ctx, a) },
			c.recorder.ReportFailure("update", "provisioningrequest/"+a.Namespace+"/"+a.Request, a.Why))
	case plan.UpdateQuota:
		c.startCall(ctx, lane{kind: plan.CallQuota}, a, func(ctx context.Context) (uint64, error) { return c.Cluster.UpdateQuota(ctx, a) },
			c.recorder.ReportFailure("update", "capacityquota/"+a.Quota, a.Why))
	case plan.UpdateNodeClass:
		c.startCall(ctx, lane{kind: plan.CallUpdateClass}, a, func(ctx context.Context) (uint64, error) { return c.Cluster.UpdateNodeClass(ctx, a) }, func(_ *state.State, err error) {
			if err != nil {
				c.recorder.Failure("update", "nodeclass/"+a.Name, a.Why, err)
				c.classes.withoutFinalizer[a.UID] = c.classes.withoutFinalizer[a.UID] || a.AddFinalizer && errors.Is(err, plan.ErrInvalid)
			}
		})
	}
}

// errStoodDown: when the turn of a claim to be made had come, another autoscaler was live.
var errStoodDown = errors.New("another autoscaler is live")

// createClaim makes a claim. Where it is not known whether that has been done, the very same is asked again, and until it is known the claim
// is shown: pods alike are one to another for decide, and a second decision could be for other ones of them, under another name.
func (c *Controller) createClaim(ctx context.Context, now time.Time, a plan.CreateClaim, try int) {
	c.State.Begin(a, now, now.Add(answerLimit))
	c.noteBeneficiary(a)
	c.startCall(ctx, laneOfClaim(a), a, func(ctx context.Context) (uint64, error) {
		if c.passive.Load() != nil {
			return 0, errStoodDown
		}
		return c.Cluster.CreateClaim(ctx, a)
	}, func(s *state.State, err error) {
		if errors.Is(err, errStoodDown) {
			s.InFlight.EndAction(a.Key())
			s.Overlay.DropProvisionalClaim(a.Name)
			c.recorder.NotMade(a.Name)
			return
		}
		if err == nil {
			// It is there, whatever the watch shows: forgetting it after a moment's lag would buy for its pods again.
			now := time.Now()
			s.InFlight.RecordAnswer(a.Key(), 0, now, now.Add(createLimit))
			c.Metrics.CountCreatedClaim(a)
			c.recorder.Made(time.Now(), a.Name)
			return
		}
		if errors.Is(err, plan.ErrInvalid) || try >= createTries {
			s.Overlay.DropProvisionalClaim(a.Name)
			said := afterName(err.Error(), a.Name) // no such claim will be found
			s.RecordUnmadeClaim(unmadeClaim(a, time.Now(), said))
			c.recorder.Unmade(a, said, err)
			return
		}
		c.recorder.Failure("create", "nodeclaim/"+a.Name, a.Why, err)
		time.AfterFunc(retryPause(try, 200*time.Millisecond, 5*time.Second), func() {
			if ctx.Err() != nil {
				return
			}
			c.Emit(func(s *state.State) {
				if have := s.FindClaim(a.Name); have != nil && have.Provisional { // else it has come
					if c.passive.Load() != nil {
						s.Overlay.DropProvisionalClaim(a.Name)
						c.recorder.NotMade(a.Name)
						return
					}
					c.createClaim(ctx, time.Now(), a, try+1)
				}
			})
		})
	})
}

// startCall makes one call in a goroutine of its own, at most Parallel of a kind at once, and four times as many of a kind in all namespaces, when the
// turn of its namespace has come (callTurns), and has its answer recorded.
func (c *Controller) startCall(ctx context.Context, in lane, action plan.Action, call func(context.Context) (uint64, error), then func(*state.State, error)) {
	width, key := c.Config.Parallel, action.Key()
	if in.kind == plan.CallBind {
		width = c.Config.Bindings
	}
	places := c.lanes.findLane(in, width)
	var ofKind chan struct{}
	if in.namespace != "" {
		ofKind = c.lanes.findLane(lane{kind: in.kind}, 4*width)
	}
	work := c.Metrics.AddCall(in.kind)
	go func() {
		leave, ok := enterLane(ctx, places)
		if !ok {
			work.Drop()
			return
		}
		defer leave()
		turn, ok := c.turns.take(ctx, in.namespace, in.kind == plan.CallCreateClaim)
		if !ok {
			work.Drop()
			return // the loop has ended while it waited for its turn
		}
		defer turn.done()
		if ofKind != nil {
			leave, ok := enterLane(ctx, ofKind)
			if !ok {
				work.Drop()
				return
			}
			defer leave()
		}
		work.Start()
		cctx, cancel := context.WithTimeout(ctx, c.Config.CallLimit)
		version, err := call(cctx)
		cancel()
		turn.done()
		work.End(err, false)
		if ctx.Err() != nil {
			return // the loop has ended; whoever comes next reads what became of it
		}
		c.Emit(func(s *state.State) {
			now := time.Now()
			switch {
			case err == nil:
				s.InFlight.RecordAnswer(key, version, now, now.Add(settleLimit))
			case errors.Is(err, plan.ErrGone):
				s.InFlight.RecordAnswer(key, 0, now, now.Add(time.Second))
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
			if err != nil && !errors.Is(err, plan.ErrConflict) { // a conflict is looked at again, and keeps nothing
				s.InFlight.DescribeFailure(key, err.Error(), now)
			}
			if then != nil {
				then(s, err)
			}
		})
	}()
}

// afterName returns what a refusal says after the last mention of an object's name; all of it if it is not mentioned.
func afterName(text, name string) string {
	if i := strings.LastIndex(text, strconv.Quote(name)); i >= 0 {
		text = text[i+len(name)+2:]
		for _, cut := range []string{" is forbidden: ", " is invalid: ", ": "} {
			text = strings.TrimPrefix(text, cut)
		}
	}
	return strings.TrimSpace(text)
}

// unmadeClaim is what is remembered of a claim that was refused.
func unmadeClaim(a plan.CreateClaim, now time.Time, said string) model.UnmadeClaim {
	u := model.UnmadeClaim{Claim: a.Name, Pool: a.Pool.Name, Slots: unused.LaunchSlots(a), At: now, Message: said}
	if q := a.Requirements.Get(model.LabelNodeGroup); q != nil && !q.Complement && len(q.Values) == 1 {
		u.Group = q.Values[0]
	}
	return u
}

// laneOfUpdate is the lane of what is written into a claim or its node: that of the namespace that the claim was made for.
func (c *Controller) laneOfUpdate(kind plan.CallKind, claim *model.Claim, why plan.Reason) lane {
	if why.Code == plan.Interrupted {
		return interruptedLane
	}
	if claim == nil {
		return lane{kind: kind}
	}
	return lane{kind: kind, namespace: c.beneficiaries[claim.Name]}
}

// noteBeneficiary notes the namespace of the first pod that a claim is made for. Those of claims that are gone are
// forgotten when they are more than the others.
func (c *Controller) noteBeneficiary(a plan.CreateClaim) {
	if len(a.Pods) == 0 {
		return
	}
	if len(c.beneficiaries) >= max(c.sweepBeneficiariesAt, fewLanes) {
		maps.DeleteFunc(c.beneficiaries, func(name, _ string) bool { return c.State.FindClaim(name) == nil })
		c.sweepBeneficiariesAt = 2 * len(c.beneficiaries)
	}
	c.beneficiaries[a.Name] = a.Pods[0].Namespace
}

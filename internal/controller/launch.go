// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package controller

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/controller/record"
	"github.com/dovetail-sh/dovetail/internal/ledger"
	"github.com/dovetail-sh/dovetail/internal/model"
	"github.com/dovetail-sh/dovetail/internal/plan"
	"github.com/dovetail-sh/dovetail/internal/state"
)

// launcher has the provider launch machines for NodeClaims. Only the loop uses it.
type launcher struct {
	*edges
	classes       *nodeClasses
	lanes         *callLanes
	turns         *callTurns        // of calls to the API server
	beneficiaries map[string]string // the Controller's
	offerings     *offerings
	recorder      *record.Recorder
	isPassive     func() bool // another autoscaler is live: nothing more is launched
	lookAgain     func()      // has the next step come at once
}

// launchClaim buys a claim's machine and writes what was bought into the claim.
func (la *launcher) launchClaim(ctx context.Context, now time.Time, a plan.LaunchClaim) {
	claim := la.state.FindClaim(a.Claim)
	class := la.state.Pools.FindNodeClass(claim.ClassGroup, claim.ClassKind, claim.ClassName)
	if class != nil && class.Deleting.IsZero() && !la.classes.ensureFinalizer(now, class) {
		la.state.InFlight.BeginAction(a.Key(), state.ClaimObject(a.Claim), now.Add(100*time.Millisecond))
		return
	}
	if class == nil || !class.Deleting.IsZero() || notReadyClass(class).Status != "" {
		f := model.LaunchFailure{Kind: "NodeClassNotReady", Message: claim.ClassKind + " " + claim.ClassName + " (spec.nodeClassRef) does not exist"}
		switch {
		case class != nil && !class.Deleting.IsZero(): // what is made for it is about to go
			f.Message = claim.ClassKind + " " + claim.ClassName + " (spec.nodeClassRef) is being deleted"
		case class != nil:
			f.Message = notReadyClass(class).Message
		}
		la.state.RecordLaunchFailure(a.UID, f)
		la.state.InFlight.EndAction(a.Key())
		la.cluster.Event("NodeClaim", "", a.Claim, a.UID, true, "NodeClassNotReady", f.Message)
		la.lookAgain() // not by Emit: the loop, which alone takes what is emitted, is the one that runs here
		return
	}
	req := launchRequest(claim, class)
	pool := la.state.Pools.FindPool(claim.Pool)
	req.Prices = overlayPrices(pool, req.Types)
	req.Requests = withoutDevices(req.Requests, la.state.Resources().Names())
	req.Requests = withoutOverlayResources(req.Requests, req.Types, la.state.Pools.ListNodeOverlays())
	if q := claim.Requirements.Get(model.LabelNodeGroup); q != nil && !q.Complement && len(q.Values) == 1 {
		req.Following = la.state.CountUnlaunched(q.Values[0])
	}
	key := a.Key()
	turns, beneficiary := la.lanes.findLaunchTurns(claim, la.config.Parallel), la.beneficiaries[a.Claim]
	work := la.metrics.AddCall(plan.CallLaunch)
	go func() {
		turn, ok := turns.take(ctx, beneficiary, false)
		if !ok {
			work.Drop()
			return
		}
		defer turn.done()
		if turn.waited && !la.stillWanted(ctx, a) {
			work.Drop()
			return
		}
		work.Start()
		cctx, cancel := context.WithTimeout(ctx, la.config.CallLimit)
		defer cancel()
		res := la.provider.Launch(cctx, []cloud.LaunchRequest{req})[0]
		work.End(res.Err, false)
		la.metrics.CountCall("Create", req.Pool, time.Since(now), res.Err)
		if res.Err != nil {
			la.emit(func(s *state.State) { la.takeLaunchFailure(s, a, res.Err) })
			return
		}
		if res.ProviderID == "" { // it is to come: the same is asked again until it has
			la.emit(func(s *state.State) {
				if s.InFlight.RecordFailure(key, func(n int) time.Time { return time.Now().Add(retryPause(n, 100*time.Millisecond, time.Second)) }) == 1 {
					la.log.Info("launch accepted", "nodeclaim", a.Claim, "class", class.Name)
					la.offerings.refreshClassOfferings(class.Group, class.Kind, class.Name) // its group may have as many fewer now
				}
			})
			return
		}
		u := launchUpdate(claim, res)
		withOverlayCapacity(pool, &u, res.InstanceType)
		write, ok := la.turns.take(ctx, beneficiary, false)
		if !ok {
			return
		}
		version, err := la.cluster.UpdateClaim(cctx, u)
		write.done()
		la.emit(func(s *state.State) {
			now := time.Now()
			if err != nil {
				la.recorder.Failure("launch", "nodeclaim/"+a.Claim, a.Why, err)
				most := 10 * time.Second
				if errors.Is(err, plan.ErrInvalid) { // each try asks the cloud, too
					most = refusedPause
				}
				s.InFlight.RestartFailures(key) // the instance has come
				s.InFlight.RecordFailure(key, func(n int) time.Time { return now.Add(retryPause(n, 50*time.Millisecond, most)) })
				if !errors.Is(err, plan.ErrConflict) && !errors.Is(err, plan.ErrGone) {
					s.InFlight.DescribeFailure(key, err.Error(), now)
				}
				return
			}
			s.InFlight.RecordAnswer(key, version, now, now.Add(settleLimit))
			if len(res.Unavailable) > 0 {
				la.offerings.markUnavailable()
			}
			la.metrics.CountLaunched(s.Resources().Names(), claim, res)
			la.log.Info("launched", "nodeclaim", a.Claim, "instance", res.ProviderID, "type", res.InstanceType, "zone", res.Zone,
				"capacityType", res.CapacityType, "usdPerHour", model.Dollars(res.PriceMicro), "priceModelled", res.Modelled)
			la.ledger.Add(ledger.Entry{At: now, Kind: "launch", Subject: "nodeclaim/" + a.Claim, Why: []plan.Reason{a.Why}, Outcome: "done", Type: res.InstanceType, Micro: res.PriceMicro})
		})
	}()
}

// stillWanted reports whether a claim whose launch had to wait for its turn is still to be launched, and lets go of it if not.
func (la *launcher) stillWanted(ctx context.Context, a plan.LaunchClaim) bool {
	wanted, err := askLoop(ctx, la.changes, func(s *state.State) bool {
		have := s.FindClaim(a.Claim)
		ok := have != nil && have.UID == a.UID && have.Deleting.IsZero() && !la.isPassive()
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
	annotations := map[string]string{}
	maps.Copy(annotations, r.Annotations)
	if r.PriceMicro > 0 {
		annotations[model.AnnotationLaunchPrice] = model.FormatMicro(r.PriceMicro)
		if r.Modelled {
			annotations[model.AnnotationLaunchPriceEstimated] = "true"
		}
	}
	return plan.UpdateClaim{
		Claim: claim.Name, UID: claim.UID, Annotations: annotations, ProviderID: r.ProviderID, ImageID: r.ImageID, Capacity: r.Capacity, Allocatable: r.Allocatable, Labels: r.Labels,
		Conditions: map[string]model.Condition{"Launched": {Status: "True", Reason: "Launched"}}, Why: plan.Reason{Code: plan.Launching, Pool: claim.Pool},
	}
}

func (la *launcher) takeLaunchFailure(s *state.State, a plan.LaunchClaim, err error) {
	now, kind := time.Now(), cloud.KindOf(err)
	if cl := s.FindClaim(a.Claim); cl != nil && cl.UID == a.UID {
		s.RecordLaunchFailure(a.UID, model.LaunchFailure{Kind: string(kind), Message: err.Error()})
	}
	la.metrics.CountLaunchFailure(s.FindClaim(a.Claim), err)
	la.recorder.LaunchFailed(s.FindClaim(a.Claim), err.Error())
	la.log.Warn("launch failed", "nodeclaim", a.Claim, "kind", string(kind), "error", err.Error())
	la.ledger.Add(ledger.Entry{At: now, Kind: "launch", Subject: "nodeclaim/" + a.Claim, Why: []plan.Reason{a.Why}, Outcome: "failed: " + err.Error()})
	reason := "LaunchFailed"
	switch kind {
	case cloud.InsufficientCapacity:
		reason = "InsufficientCapacityError"
		la.recorder.NoCapacity(a.Claim, err.Error())
		la.offerings.markUnavailable()
		la.offerings.refreshOfferings()
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
	la.cluster.Event("NodeClaim", "", a.Claim, a.UID, true, reason, err.Error())
}

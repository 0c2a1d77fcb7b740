// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package asg

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
)

// Claims of a group that arrive within reconcileWindow share one read of the group and one change of its desired
// capacity, at most maxReconcileClaims of them.
const (
	reconcileWindow    = 10 * time.Millisecond
	maxReconcileClaims = 500
)

// clockSlack is the maximum difference between the local clock and AWS's when times are compared.
const clockSlack = 30 * time.Second

// activitySlack is by how much a scaling activity may seem to begin before the change that caused it.
const activitySlack = 2 * time.Second

// activityCheckAfter is how long a claim has waited for a member before failed scaling activities are looked for.
const activityCheckAfter = 250 * time.Millisecond

// stateOf returns the state of a group in this process, created on first use.
func (gs *scaler) stateOf(name string) *groupState {
	gs.registry.mu.Lock()
	defer gs.registry.mu.Unlock()
	s := gs.registry.states[name]
	if s == nil {
		s = &groupState{name: name, turn: cloud.NewLock(), matched: map[string]string{}, open: map[string]*openClaim{}}
		s.reconciles = awsapi.NewBatcher(gs.aws.Clock, reconcileWindow, maxReconcileClaims, func(ctx context.Context, asks []*openClaim) []claimOutcome { return gs.reconcile(ctx, s, asks) })
		s.terminations = awsapi.NewBatcher(gs.aws.Clock, 20*time.Millisecond, maxReconcileClaims, func(ctx context.Context, ids []string) []error { return gs.terminateMembers(ctx, s, ids) })
		gs.registry.states[name] = s
	}
	return s
}

// reconcile brings a group and its open claims together, once for all who ask at a time: it reads the group, matches
// members to claims, and has it grow, or shrink where claims were given up. Outcomes are in the order of asks; those of closed claims are kept until the
// caller takes them, who may have stopped waiting by then.
func (gs *scaler) reconcile(ctx context.Context, s *groupState, asks []*openClaim) []claimOutcome {
	out := make([]claimOutcome, len(asks))
	if err := s.turn.Acquire(ctx); err != nil {
		for i := range out {
			out[i].err = err
		}
		return out
	}
	defer s.turn.Release()
	for _, a := range asks { // kept open from here on, whatever the calls come to
		if _, known := gs.registry.outcomeOf(a.uid); known {
			continue // another's turn has closed it while this ask waited: opened again it would get a second member
		}
		s.mu.Lock()
		have := s.open[a.uid]
		switch {
		case a.cancelled && have != nil:
			delete(s.open, a.uid)
			if !have.countedAt.IsZero() {
				s.noteGivenUp(have)
			}
		case !a.cancelled && have == nil:
			s.open[a.uid] = a
		}
		s.mu.Unlock()
		if !a.cancelled {
			gs.registry.noteOpen(a.uid, s.name)
		}
	}
	failed := map[string]error{}
	err := gs.reconcileOnce(ctx, s, failed)
	for i, a := range asks {
		if known, ok := gs.registry.outcomeOf(a.uid); ok {
			out[i] = known
		} else {
			out[i].err = cmp.Or(failed[a.uid], err)
		}
		if a.cancelled && out[i].err == nil {
			gs.registry.noteClosed(a.uid)
		}
	}
	return out
}

// reconcileOnce does what reconcile says; it runs once at a time for each group. failed gets the errors of claims that stay
// open, by uid. If a scaling activity has failed, the group is read a second time, because a member may have been launched
// in spite of it.
func (gs *scaler) reconcileOnce(ctx context.Context, s *groupState, failed map[string]error) error {
	var failure *astypes.Activity
	settled := false
	defer func() { s.notePolled(gs.aws.Clock.Now(), settled) }()
	for {
		v, err := gs.readChangedView(ctx, s)
		if err != nil {
			return err
		}
		if v.group == nil {
			for _, a := range s.openClaims() {
				s.closeClaim(gs.registry, a, claimOutcome{err: awsapi.NotReadyError("launch", a.name, "NodeGroupClass %s: group %s does not exist; create it or remove it from spec.selectorTerms", a.class, s.name)})
			}
			return nil
		}
		s.noteDesired(v.desired, v.at)
		s.noteInitialMembers(v.group, v.at)
		wait, coming := gs.matchMembers(ctx, s, v, failed)
		open := s.openClaims()
		if failure != nil { // what has come in spite of it has been matched now
			for _, a := range open {
				if !a.countedAt.IsZero() && a.countedAt.Before(failure.StartTime.Add(activitySlack)) {
					s.noteGivenUp(a)
					s.closeClaim(gs.registry, a, launchFailureOutcome(s.name, a, awsapi.Deref(failure.StatusMessage)))
				}
			}
			open = s.openClaims()
		}
		if wait {
			return nil // who of the members is whose will be known in a moment
		}
		most := gs.registry.maxSizeOf(s.name, v.max)
		present := int64(len(v.members))
		for i := len(open) - 1; i >= 0 && present+max(0, int64(len(open))-coming) > most; i-- { // the youngest
			s.closeClaim(gs.registry, open[i], claimOutcome{full: true, err: fmt.Errorf("group %s has %d of at most %d instances", s.name, present+int64(i), most)})
			open = open[:i]
		}
		if err := gs.noteLate(ctx, s, v); err != nil {
			return err
		}
		want := present + max(0, int64(len(open))-coming)
		switch {
		case want > v.desired:
			s.markCounted(open, gs.aws.Clock.Now())
			if err := gs.setDesiredCapacity(ctx, s, want); err != nil {
				return err
			}
			s.surplus, settled = 0, true
			return nil
		case s.surplus > 0 && v.desired > max(want, v.min):
			if err := gs.readInstances(ctx, v); err != nil {
				return err
			}
			return gs.shrinkGroup(ctx, s, v, max(v.desired-s.surplus, want, v.min), want-present)
		}
		if id := s.undescribed(v); id != "" && s.surplus > 0 { // it may have come for a claim that was given up
			return &cloud.Error{Kind: cloud.Throttled, After: time.Second, Err: fmt.Errorf("EC2 does not describe member %s of group %s yet", id, s.name)}
		}
		s.surplus = 0
		now := gs.aws.Clock.Now()
		s.markCounted(open, now) // somebody else had it grow already
		late := slices.ContainsFunc(open, func(a *openClaim) bool { return now.Sub(a.countedAt) >= activityCheckAfter })
		if failure != nil || !late || int64(len(open)) <= coming {
			settled = true
			return nil
		}
		if failure, err = gs.lastFailedActivity(ctx, s.name, open); err != nil || failure == nil {
			settled = err == nil
			return err
		}
	}
}

// setDesiredCapacity changes a group's desired capacity.
func (gs *scaler) setDesiredCapacity(ctx context.Context, s *groupState, n int64) error {
	_, err := gs.aws.AutoScaling.SetDesiredCapacity(ctx, &autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: &s.name, DesiredCapacity: sdk.Int32(int32(n)), HonorCooldown: sdk.Bool(false)})
	gs.registry.noteCall(s.name, "autoscaling:SetDesiredCapacity", err)
	if err == nil {
		s.noteDesired(n, gs.aws.Clock.Now())
	}
	return err
}

// lastFailedActivity returns the last failed scaling activity of a group since the request for the missing members; nil:
// there is none, or activities may not be read.
func (gs *scaler) lastFailedActivity(ctx context.Context, name string, open []*openClaim) (*astypes.Activity, error) {
	res, err := gs.aws.AutoScaling.DescribeScalingActivities(ctx, &autoscaling.DescribeScalingActivitiesInput{AutoScalingGroupName: &name, MaxRecords: sdk.Int32(20)})
	gs.registry.noteCall(name, "autoscaling:DescribeScalingActivities", err)
	if awsapi.IsDenied(awsapi.ErrorCode(err)) {
		return nil, nil // the class says so; members that come are matched all the same
	}
	if err != nil {
		return nil, err
	}
	for i := range res.Activities {
		a := &res.Activities[i]
		if a.StartTime == nil || a.StatusCode != astypes.ScalingActivityStatusCodeFailed && a.StatusCode != astypes.ScalingActivityStatusCodeCancelled {
			continue
		}
		if slices.ContainsFunc(open, func(o *openClaim) bool {
			return !o.countedAt.IsZero() && o.countedAt.Before(a.StartTime.Add(activitySlack))
		}) {
			return a, nil
		}
	}
	return nil, nil
}

// launchFailureOutcome returns the outcome for a claim whose member could not be launched: NotReady if the message names
// something that a user must correct, otherwise no capacity.
func launchFailureOutcome(group string, a *openClaim, message string) claimOutcome {
	low := strings.ToLower(message)
	for _, word := range []string{"launch template", "not authorized", "unauthorized", "security group", "invalid", "key pair", "ami ", "instance profile", "does not exist"} {
		if strings.Contains(low, word) && !strings.Contains(low, "capacity") {
			return claimOutcome{err: awsapi.NotReadyError("launch", a.name, "NodeGroupClass %s: group %s can't launch: %s", a.class, group, message)}
		}
	}
	return claimOutcome{noCapacity: true, err: fmt.Errorf("group %s: %s", group, message)}
}

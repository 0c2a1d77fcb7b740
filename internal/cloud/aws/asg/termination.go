// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package asg

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instances"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// placeholders returns the requested machines that do not exist yet, each as a placeholder with its claim.
func (gs *scaler) placeholders() []model.Instance {
	var out []model.Instance
	for _, name := range gs.registry.GroupNames() {
		for _, a := range gs.stateOf(name).openClaims() {
			out = append(out, model.Instance{ProviderID: instances.PlaceholderPrefix + a.uid, ClaimUID: a.uid, ClaimName: a.name, Launched: a.created, Coming: true})
		}
	}
	return out
}

// cancelClaim cancels the launch of a claim's machine. It returns NotFound if the claim has requested none, or has it
// already.
func (gs *scaler) cancelClaim(ctx context.Context, uid string) error {
	gs.registry.mu.Lock()
	name := gs.registry.groupByClaim[uid]
	gs.registry.mu.Unlock()
	if name == "" {
		return &cloud.Error{Kind: cloud.NotFound}
	}
	answers, ok := gs.stateOf(name).reconciles.Ask(ctx, []*openClaim{{uid: uid, cancelled: true}})
	if !ok {
		return ctx.Err()
	}
	gs.registry.takeOutcome(uid)
	if answers[0].member != nil {
		return &cloud.Error{Kind: cloud.NotFound}
	}
	return answers[0].err
}

// terminateMembers ends members of one group, each by its id, and has the group want as many fewer. Where the group
// may not become smaller it starts another member instead. Errors are in the order of the ids; NotFound for one that
// is on its way out already.
func (gs *scaler) terminateMembers(ctx context.Context, s *groupState, ids []string) []error {
	if err := s.turn.Acquire(ctx); err != nil {
		return slices.Repeat([]error{err}, len(ids))
	}
	defer s.turn.Release()
	g, err := gs.reader.describeGroup(ctx, s.name)
	if err != nil {
		return slices.Repeat([]error{err}, len(ids))
	}
	errs := make([]error, len(ids))
	cloud.RunConcurrently(len(ids), func(i int) {
		id := ids[i]
		if slices.Index(ids, id) < i {
			errs[i] = &cloud.Error{Kind: cloud.NotFound}
			return
		}
		if g != nil && slices.Contains(g.leaving, id) { // asked again, the group might want one less once more
			gs.instances.MarkEnded(id, gs.aws.Clock.Now())
			errs[i] = &cloud.Error{Kind: cloud.NotFound}
			return
		}
		end := func(smaller bool) error {
			_, err := gs.aws.AutoScaling.TerminateInstanceInAutoScalingGroup(ctx, &autoscaling.TerminateInstanceInAutoScalingGroupInput{InstanceId: &id, ShouldDecrementDesiredCapacity: &smaller})
			gs.registry.noteCall(s.name, "autoscaling:TerminateInstanceInAutoScalingGroup", err)
			return err
		}
		err := end(true)
		if e := err; e != nil && awsapi.ErrorCode(e) == "ValidationError" && strings.Contains(strings.ToLower(e.Error()), "min size") {
			gs.aws.Log.Info("group is at its minimum size: it will replace the instance that is terminated", "group", s.name, "instance", id)
			err = end(false)
		}
		if err != nil && awsapi.ErrorCode(err) == "ValidationError" && strings.Contains(err.Error(), "not found") {
			// It has left the group, or is on its way out.
			err = gs.instances.TerminateNow(ctx, []string{id})[0]
		}
		if err == nil {
			gs.instances.MarkEnded(id, gs.aws.Clock.Now())
		}
		errs[i] = err
	})
	return errs
}

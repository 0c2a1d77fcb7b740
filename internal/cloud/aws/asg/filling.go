// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package asg

import (
	"context"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
)

// fillToMinimum raises the desired capacity of groups to the minimum of their class, if the class sets this. New members
// have no claim, and are adopted like any other member. Failures are logged.
func (gs *scaler) fillToMinimum(ctx context.Context) {
	for _, name := range gs.registry.GroupNames() {
		s := gs.stateOf(name)
		if !s.turn.TryAcquire() {
			continue // somebody is at it
		}
		err := gs.fillGroup(ctx, s, s.takeFill())
		s.turn.Release()
		if err != nil {
			gs.aws.Log.Warn("group can't be filled up to minSize of its NodeGroupClass now", "group", name, "error", awsapi.ReadableError(err))
		}
	}
}

// fillGroup raises the desired capacity of a group to at least so many members, but not above its maximum. It does
// nothing while an instance refresh or EKS replaces members.
func (gs *scaler) fillGroup(ctx context.Context, s *groupState, least int64) error {
	if least == 0 {
		return nil
	}
	g, err := gs.reader.describeGroup(ctx, s.name)
	if err != nil || g == nil || g.problem != "" {
		return err
	}
	if status, err := gs.reader.currentReplacementStatus(ctx, g.name, g.tags); err != nil || status != "" {
		return err
	}
	to := min(least, gs.registry.maxSizeOf(s.name, g.max))
	if g.desired >= to {
		return nil
	}
	if err := gs.setDesiredCapacity(ctx, s, to); err != nil {
		return err
	}
	gs.aws.Log.Info("group filled up to minSize of its NodeGroupClass", "group", s.name, "from", g.desired, "to", to)
	return nil
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package asg

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
)

// shrinkGroup lowers a group's desired capacity to what it has and still waits for, and sees to it that no member
// goes: while a group has more members than it should, it ends some of its own choice. So members are protected from
// scale-in, and lose that only when the group has been read again and wants all that it has. Where that can't be had,
// or whether the group has been made smaller is not known, they keep it: removeStaleProtection finds them later.
//
// This process may die in between, so each member says first, by a tag, that it is protected for a moment only.
// outstanding is how many members open claims wait for.
func (gs *scaler) shrinkGroup(ctx context.Context, s *groupState, v *view, to, outstanding int64) error {
	var ids []string
	had := map[string]bool{}
	gs.noteUnseen(s, v)
	for _, m := range v.members {
		had[m.id] = true
		x := v.instances[m.id]
		if m.protected && (x == nil || x.ProtectedSince.IsZero()) {
			continue
		}
		if s.unseen[m.id].lost {
			continue // it can't bear the tag, and no pod is on it
		}
		if x == nil {
			return &cloud.Error{Kind: cloud.Throttled, After: time.Second, Err: fmt.Errorf("group %s can't be scaled down before EC2 describes its member %s", s.name, m.id)}
		}
		ids = append(ids, m.id)
	}
	if err := gs.tagProtected(ctx, ids, gs.aws.Clock.Now().UTC().Format(time.RFC3339)); err != nil {
		return err
	}
	err := gs.setProtection(ctx, s.name, ids, true)
	if err == nil {
		if err = gs.setDesiredCapacity(ctx, s, to); err != nil && !awsapi.HadNoEffect(err) {
			gs.aws.Log.Warn("scale-in protection of members can't be removed now: the desired capacity of their group is unknown", "group", s.name, "members", len(ids), "error", awsapi.ReadableError(err))
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), awsapi.BatchTimeout)
	defer cancel()
	if e := gs.removeProtection(ctx, s, ids, had, outstanding); e != nil {
		gs.aws.Log.Warn("scale-in protection of members can't be removed now", "group", s.name, "members", len(ids), "error", awsapi.ReadableError(e))
		return cmp.Or(err, e)
	}
	if err == nil {
		s.surplus = 0
	}
	return err
}

// trimExcess makes those groups smaller that want what nobody asks for and AWS has not given them for long: claims
// that were deleted while no process knew what they had asked for have left it behind. Whose wish it was is not
// known; but what has not come by then is not waited for in a claim either. Failures are logged.
func (gs *scaler) trimExcess(ctx context.Context) {
	for _, name := range gs.registry.GroupNames() {
		s := gs.stateOf(name)
		least, is := s.takeOverdueExcess(gs.aws.Clock.Now())
		if !is {
			continue
		}
		if !s.turn.TryAcquire() {
			continue // somebody is at it
		}
		err := gs.trimGroupExcess(ctx, s, least)
		s.turn.Release()
		if err != nil {
			gs.aws.Log.Warn("desired capacity of a group can't be lowered now: the requested instances do not start, and no pod needs them", "group", name, "error", awsapi.ReadableError(err))
		}
	}
}

// trimGroupExcess lowers the desired capacity of a group to its members plus open claims, but not below its minimum and
// least. It does nothing while an instance refresh or EKS replaces members.
func (gs *scaler) trimGroupExcess(ctx context.Context, s *groupState, least int64) error {
	v, err := gs.readGroupView(ctx, s.name)
	if err != nil || v.group == nil || v.problem != "" {
		return err
	}
	if status, err := gs.reader.currentReplacementStatus(ctx, v.name, v.tags); err != nil || status != "" {
		return err // members go and come
	}
	outstanding := int64(len(s.openClaims())) // whether a member is one of theirs already or not
	to := max(int64(len(v.members))+outstanding, v.min, least)
	if v.desired <= to {
		return nil
	}
	if err := gs.shrinkGroup(ctx, s, v, to, outstanding); err != nil {
		return err
	}
	gs.aws.Log.Info("lowering the desired capacity of a group: the requested instances did not start, and no pod needs them", "group", s.name, "from", v.desired, "to", to)
	return nil
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package asg

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instances"
)

// tagProtected writes down on members since when they are protected for a moment; an empty text: they are not. A
// member that EC2 does not know yet, or no more, is nothing that whoever asked has done wrong: the error is
// Throttled, and the group is looked at again.
func (gs *scaler) tagProtected(ctx context.Context, ids []string, since string) error {
	for some := range slices.Chunk(ids, 500) {
		_, err := gs.aws.EC2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: some, Tags: awsapi.EC2Tags(map[string]string{dovetailv1alpha1.TagShielded: since})})
		if awsapi.ErrorCode(err) == awsapi.CodeInstanceUnknown {
			return &cloud.Error{Kind: cloud.Throttled, After: time.Second, Err: awsapi.ReadableError(err)}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeProtection takes the protection of members back, and then what was written down of it, once the group wants
// all that it has. To that end it is made as large again where members have come beside those that it had and those
// that are waited for.
func (gs *scaler) removeProtection(ctx context.Context, s *groupState, ids []string, had map[string]bool, outstanding int64) error {
	g, err := gs.reader.describeGroup(ctx, s.name)
	if err != nil {
		return err
	}
	if g != nil {
		for _, m := range g.members {
			if !had[m.id] {
				outstanding--
			}
		}
		if n := min(int64(len(g.members))+max(0, outstanding), g.max); n > g.desired {
			if err := gs.setDesiredCapacity(ctx, s, n); err != nil {
				return err
			}
		}
	}
	for some := range slices.Chunk(ids, 50) {
		err := gs.setProtection(ctx, s.name, some, false)
		if awsapi.ErrorCode(err) == "ValidationError" { // one that has left its group keeps no other
			err = nil
			for _, id := range some {
				if e := gs.setProtection(ctx, s.name, []string{id}, false); e != nil && awsapi.ErrorCode(e) != "ValidationError" {
					err = e
				}
			}
		}
		if err != nil {
			return err
		}
	}
	return gs.tagProtected(ctx, ids, "")
}

// protectionLimit is the age at which a temporary protection was certainly left behind: the caller that set it has
// ended, and clocks may differ.
const protectionLimit = awsapi.BatchTimeout + clockSlack

// removeStaleProtection takes back protections that a process which died, or could not, has left behind. Failures are
// logged.
func (gs *scaler) removeStaleProtection(ctx context.Context, l *instances.List) {
	left := map[string][]string{}
	for i := range l.All {
		if m := &l.All[i]; m.AutoScalingGroup != "" && !m.Gone && !m.ProtectedSince.IsZero() && l.At.Sub(m.ProtectedSince) > protectionLimit {
			left[m.AutoScalingGroup] = append(left[m.AutoScalingGroup], m.ID)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		s := gs.stateOf(name)
		if !s.turn.TryAcquire() {
			continue // somebody is at it
		}
		err := gs.removeProtection(ctx, s, left[name], nil, 0)
		s.turn.Release()
		if err != nil {
			gs.aws.Log.Warn("scale-in protection of members was not removed, trying again", "group", name, "members", len(left[name]), "error", awsapi.ReadableError(err))
			continue
		}
		gs.aws.Log.Info("temporary scale-in protection of group members removed", "group", name, "members", len(left[name]))
	}
}

// setProtection enables or disables scale-in protection of members.
func (gs *scaler) setProtection(ctx context.Context, name string, ids []string, on bool) error {
	for some := range slices.Chunk(ids, 50) {
		_, err := gs.aws.AutoScaling.SetInstanceProtection(ctx, &autoscaling.SetInstanceProtectionInput{AutoScalingGroupName: &name, InstanceIds: some, ProtectedFromScaleIn: &on})
		gs.registry.noteCall(name, "autoscaling:SetInstanceProtection", err)
		if err != nil {
			return err
		}
	}
	return nil
}

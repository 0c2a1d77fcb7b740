// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package asg

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instances"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// matchMembers assigns members without a claim to open claims. failed contains the errors of claims that remain open, by
// UID. wait: make no other decision now, because a member from before this process may have a claim's tag that EC2 does
// not show yet. coming: number of new members that EC2 does not describe yet.
func (gs *scaler) matchMembers(ctx context.Context, s *groupState, v *view, failed map[string]error) (wait bool, coming int64) {
	gs.recognizeMembers(s, v)
	gs.noteUnseen(s, v)
	pairs, wait, coming := pairMembers(s, v)
	errs := make([]error, len(pairs))
	cloud.RunConcurrently(len(pairs), func(i int) { errs[i] = gs.tagMember(ctx, pairs[i].m, pairs[i].a.uid, pairs[i].a.name, pairs[i].a.pool) })
	for i, x := range pairs {
		switch {
		case errs[i] == nil:
			s.matched[x.m.ID] = x.a.uid
			x.m.ClaimUID, x.m.ClaimName = x.a.uid, x.a.name
			gs.instances.AddLaunched(*x.m)
			s.closeClaim(gs.registry, x.a, claimOutcome{member: x.m})
		case awsapi.ErrorCode(errs[i]) == awsapi.CodeInstanceUnknown: // EC2 does not know it everywhere yet
			wait = true
		default:
			failed[x.a.uid] = errs[i]
			wait = true // it stays open, and its member nobody's
		}
	}
	return wait, coming
}

// recognizeMembers assigns members to claims by their tags, as described by EC2 or written by this process.
func (gs *scaler) recognizeMembers(s *groupState, v *view) {
	there := map[string]bool{}
	for _, m := range v.members {
		there[m.id] = true
	}
	for id := range s.matched {
		if m := v.instances[id]; m == nil && !there[id] || m != nil && m.Gone {
			delete(s.matched, id)
		}
	}
	s.mu.Lock()
	maps.DeleteFunc(s.late, func(id string, _ time.Time) bool { return !there[id] || s.matched[id] != "" })
	s.mu.Unlock()
	of := map[string]*instances.Instance{}
	for id, m := range v.instances {
		if uid, ok := s.matched[id]; ok {
			m.ClaimUID = uid
		}
		if m.ClaimUID != "" && (of[m.ClaimUID] == nil || of[m.ClaimUID].Gone) {
			of[m.ClaimUID] = m
		}
	}
	for _, a := range s.openClaims() {
		if m := of[a.uid]; m != nil {
			s.closeClaim(gs.registry, a, claimOutcome{member: m})
		}
	}
}

// pairing is a member that is to become a claim's.
type pairing struct {
	m *instances.Instance
	a *openClaim
}

// pairMembers pairs members without a claim with open claims: the oldest member with the oldest claim that allows it, or
// with the oldest of all if none does. A member from before this process is used only for an older claim. For wait and
// coming see matchMembers.
func pairMembers(s *groupState, v *view) (pairs []pairing, wait bool, coming int64) {
	open := s.openClaims()
	s.mu.Lock()
	old, since := s.initialMembers, s.firstViewedAt
	s.mu.Unlock()
	earlier := func(a *openClaim) bool { return !a.created.IsZero() && a.created.Before(since) }
	var free []*instances.Instance
	for _, x := range v.members {
		if v.instances[x.id] == nil && s.matched[x.id] == "" && !s.unseen[x.id].lost {
			if !old[x.id] {
				coming++
			} else if v.at.Sub(since) < instances.ListDelay && slices.ContainsFunc(open, earlier) {
				wait = true
			}
		}
		if m := v.instances[x.id]; m != nil && m.ClaimUID == "" && !m.Gone {
			free = append(free, m)
		}
	}
	slices.SortFunc(free, func(a, b *instances.Instance) int {
		return cmp.Or(a.Launched.Compare(b.Launched), strings.Compare(a.ID, b.ID))
	})
	for _, m := range free {
		best := -1
		for i, a := range open {
			if old[m.ID] && !(earlier(a) && m.Launched.After(a.created.Add(-clockSlack))) {
				continue
			}
			if a.fits != nil && a.fits(m) {
				best = i
				break
			}
			if best < 0 {
				best = i
			}
		}
		if best < 0 {
			continue
		}
		if old[m.ID] && v.at.Sub(since) < instances.ListDelay {
			return nil, true, coming
		}
		pairs = append(pairs, pairing{m, open[best]})
		open = slices.Delete(slices.Clone(open), best, best+1)
	}
	return pairs, wait, coming
}

// tagMember writes down whose a member is, as tags on it.
func (gs *scaler) tagMember(ctx context.Context, m *instances.Instance, uid, name, pool string) error {
	tags := map[string]string{
		awsv1.TagClaimUID: uid, awsv1.TagNodeClaim: name, awsv1.TagClusterName: gs.aws.Config.ClusterName, "kubernetes.io/cluster/" + gs.aws.Config.ClusterName: "owned",
	}
	if pool != "" {
		tags[awsv1.TagNodePool] = pool
	}
	_, err := gs.aws.EC2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{m.ID}, Tags: awsapi.EC2Tags(tags)})
	gs.registry.noteCall(m.AutoScalingGroup, "ec2:CreateTags", err)
	return err
}

// noteGivenUp notes that the desired capacity of a group counts a claim that was given up.
func (s *groupState) noteGivenUp(a *openClaim) {
	if s.surplus == 0 || a.countedAt.Before(s.asked) {
		s.asked = a.countedAt
	}
	s.surplus++
}

// noteLate notes which members have come for claims that were given up before: as many of those that are nobody's and were launched since the group was to
// have them, the youngest, as far as the group has more than its minimum. They are ended unless they are adopted.
func (gs *scaler) noteLate(ctx context.Context, s *groupState, v *view) error {
	if s.surplus == 0 {
		return nil
	}
	if err := gs.readInstances(ctx, v); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var free []*instances.Instance
	for _, x := range v.members {
		if m := v.instances[x.id]; m != nil && s.matched[x.id] == "" && m.ClaimUID == "" && !m.Gone && s.late[m.ID].IsZero() && !s.initialMembers[m.ID] && m.Launched.After(s.asked.Add(-activitySlack)) {
			free = append(free, m)
		}
	}
	slices.SortFunc(free, func(a, b *instances.Instance) int {
		return cmp.Or(b.Launched.Compare(a.Launched), strings.Compare(a.ID, b.ID))
	})
	for _, m := range free[:max(0, min(int64(len(free)), s.surplus, v.desired-v.min-int64(len(s.late))))] {
		if s.late == nil {
			s.late = map[string]time.Time{}
		}
		s.late[m.ID] = v.at
		s.surplus--
	}
	return nil
}

// unseenLimit is for how long a member is waited for that EC2 does not describe. It takes seconds to describe an instance, in rare cases minutes. One that it
// does not describe then has ended without its group's having noticed.
const unseenLimit = 5 * time.Minute

// noteUnseen records since when EC2 has not described members of a group, if its instances were read. A member that was
// not described for unseenLimit counts as lost: no claim waits for it any more, and it is logged.
func (gs *scaler) noteUnseen(s *groupState, v *view) {
	if !v.read {
		return
	}
	now := map[string]unseen{}
	for _, m := range v.members {
		if v.instances[m.id] != nil {
			continue
		}
		x, known := s.unseen[m.id]
		if !known {
			x.since = v.at
		}
		if !x.lost && v.at.Sub(x.since) >= unseenLimit {
			x.lost = true
			gs.aws.Log.Warn("EC2 does not describe a member of a group; NodeClaims no longer wait for it", "group", s.name, "instance", m.id, "after", unseenLimit.String())
		}
		now[m.id] = x
	}
	s.unseen = now
}

// undescribed returns a member that was launched after the group was first read, has no known claim, and is not
// described by EC2 yet; empty: there is none. Lost members are ignored. v has the instances.
func (s *groupState) undescribed(v *view) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range v.members {
		if v.instances[m.id] == nil && s.matched[m.id] == "" && !s.initialMembers[m.id] && !s.unseen[m.id].lost {
			return m.id
		}
	}
	return ""
}

// lateSince returns when it was found that a member had been launched for a claim that was given up; zero: it was not.
func (gs *scaler) lateSince(m *instances.Instance) time.Time {
	gs.registry.mu.Lock()
	s := gs.registry.states[m.AutoScalingGroup]
	gs.registry.mu.Unlock()
	if s == nil {
		return time.Time{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.late[m.ID]
}

// adoptMember assigns the member with an instance ID to the claim that was created to adopt it. It returns NotFound if
// the member has another claim, or is no longer in a group.
func (gs *scaler) adoptMember(ctx context.Context, req cloud.LaunchRequest, id string) (*instances.Instance, error) {
	read := func() (*instances.Instance, error) {
		res, err := gs.aws.EC2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
		if err != nil {
			return nil, err
		}
		for _, in := range instances.FlattenReservations(res.Reservations) {
			m := instances.ReadInstance(in)
			return &m, nil
		}
		return nil, &cloud.Error{Kind: cloud.NotFound}
	}
	m, err := read()
	if err != nil || m.Gone || m.ClaimUID == req.ClaimUID {
		return m, err
	}
	if m.AutoScalingGroup == "" {
		return nil, &cloud.Error{Kind: cloud.NotFound, Err: fmt.Errorf("instance %s is no longer in a group", id)}
	}
	s := gs.stateOf(m.AutoScalingGroup)
	if err := s.turn.Acquire(ctx); err != nil {
		return nil, err
	}
	defer s.turn.Release()
	if m, err = read(); err != nil { // somebody may have had the turn before
		return nil, err
	}
	if uid := cmp.Or(s.matched[id], m.ClaimUID); uid != "" && uid != req.ClaimUID {
		return nil, &cloud.Error{Kind: cloud.NotFound, Err: fmt.Errorf("instance %s now belongs to another NodeClaim", id)}
	}
	if err := gs.tagMember(ctx, m, req.ClaimUID, req.ClaimName, req.Pool); err != nil {
		return nil, err
	}
	s.matched[id] = req.ClaimUID
	m.ClaimUID, m.ClaimName = req.ClaimUID, req.ClaimName
	gs.instances.AddLaunched(*m)
	return m, nil
}

// adoptableAs says for which class a claim may be made for a member that is nobody's, and what labels the machine
// has; an empty class: not now.
func (gs *scaler) adoptableAs(m *instances.Instance) (class string, labels model.Labels) {
	gs.registry.mu.Lock()
	class, s := gs.registry.classes[m.AutoScalingGroup], gs.registry.states[m.AutoScalingGroup]
	gs.registry.mu.Unlock()
	if class == "" || s == nil {
		return "", nil
	}
	since := m.Launched
	if gs.started.After(since) && gs.started.Sub(m.Launched) < 10*time.Minute {
		since = gs.started // it may be an open claim's
	}
	if len(s.openClaims()) > 0 || gs.aws.Clock.Now().Sub(since) < adoptAfter {
		return "", nil
	}
	return class, model.Labels{model.LabelInstanceType: m.InstanceType, model.LabelZone: m.Zone, model.LabelCapacityType: m.CapacityType, model.LabelNodeGroup: m.AutoScalingGroup}
}

// groupMembers are the members of a group that count towards its desired capacity, by id, and whether they are being replaced, or may be.
type groupMembers struct {
	ids       map[string]bool
	replacing bool
}

// readMembers reads the members of a group; none if they can't be read now, which the log says.
func (gs *scaler) readMembers(ctx context.Context, group string) groupMembers {
	ids, err := gs.reader.memberIDs(ctx, group)
	if err != nil {
		gs.aws.Log.Warn("no NodeClaims are created for existing group members now: the group can't be read", "group", group, "error", awsapi.ReadableError(err))
	}
	if len(ids) == 0 {
		return groupMembers{}
	}
	return groupMembers{ids, gs.isReplacing(ctx, group)}
}

// isReplacing reports whether an instance refresh, or EKS, replaces the members of a group, or may, since nobody can tell
// now. What those start would be taken for a node that no pod needs. What was read of that is no older than adoptAfter, and
// so than any member that may be adopted; else nobody can tell.
func (gs *scaler) isReplacing(ctx context.Context, group string) bool {
	status, err := gs.reader.currentReplacementStatus(ctx, group, gs.registry.tagsOf(group))
	if err != nil {
		gs.aws.Log.Warn("no NodeClaims are created for existing group members now: instance refreshes of the group can't be read", "group", group, "error", awsapi.ReadableError(err))
		return true
	}
	return status != ""
}

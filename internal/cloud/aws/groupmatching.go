// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// matchMembers hands members that are nobody's to open claims. It says whether to wait with everything else, as a member that was there before
// this process may bear a claim's tag that EC2 does not show yet; and how many members have come that EC2 does not show at all.
func (gs *groupScaler) matchMembers(ctx context.Context, s *groupState, v *groupView, answers map[string]claimOutcome) (wait bool, coming int64) {
	there := map[string]bool{}
	for _, m := range v.members {
		there[m.id] = true
	}
	for id := range s.matched {
		if m := v.instances[id]; m == nil && !there[id] || m != nil && m.gone {
			delete(s.matched, id)
		}
	}
	of := map[string]*instance{}
	for id, m := range v.instances {
		if uid, ok := s.matched[id]; ok {
			m.claimUID = uid
		}
		if m.claimUID != "" && (of[m.claimUID] == nil || of[m.claimUID].gone) {
			of[m.claimUID] = m
		}
	}
	open := s.openClaims()
	for _, a := range open {
		if m := of[a.uid]; m != nil {
			s.closeClaim(gs.registry, a, answers, claimOutcome{member: m})
		}
	}
	open = s.openClaims()
	s.mu.Lock()
	old, since := s.initialMembers, s.firstViewedAt
	s.mu.Unlock()
	earlier := func(a *openClaim) bool { return !a.created.IsZero() && a.created.Before(since) }
	var free []*instance
	for _, x := range v.members {
		if v.instances[x.id] == nil {
			if !old[x.id] {
				coming++
			} else if v.at.Sub(since) < ListDelay && slices.ContainsFunc(open, earlier) {
				wait = true
			}
		}
		if m := v.instances[x.id]; m != nil && m.claimUID == "" && !m.gone {
			free = append(free, m)
		}
	}
	slices.SortFunc(free, func(a, b *instance) int {
		return cmp.Or(a.launched.Compare(b.launched), strings.Compare(a.id, b.id))
	})
	type pair struct {
		m *instance
		a *openClaim
	}
	var pairs []pair
	for _, m := range free {
		best := -1
		for i, a := range open {
			if old[m.id] && !(earlier(a) && m.launched.After(a.created.Add(-clockSlack))) {
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
		if old[m.id] && v.at.Sub(since) < ListDelay {
			return true, coming
		}
		pairs = append(pairs, pair{m, open[best]})
		open = slices.Delete(slices.Clone(open), best, best+1)
	}
	errs := make([]error, len(pairs))
	runConcurrently(len(pairs), func(i int) { errs[i] = gs.tagMember(ctx, pairs[i].m, pairs[i].a.uid, pairs[i].a.name, pairs[i].a.pool) })
	for i, x := range pairs {
		switch {
		case errs[i] == nil:
			s.matched[x.m.id] = x.a.uid
			x.m.claimUID, x.m.claimName = x.a.uid, x.a.name
			gs.instances.addLaunched(*x.m)
			s.closeClaim(gs.registry, x.a, answers, claimOutcome{member: x.m})
		case errorCode(errs[i]) == codeInstanceUnknown: // EC2 does not know it everywhere yet
			wait = true
		default:
			answers[x.a.uid] = claimOutcome{err: errs[i]}
			wait = true // it stays open, and its member nobody's
		}
	}
	return wait, coming
}

// tagMember writes down whose a member is.
func (gs *groupScaler) tagMember(ctx context.Context, m *instance, uid, name, pool string) error {
	tags := map[string]string{
		awsv1.TagClaimUID: uid, awsv1.TagNodeClaim: name, awsv1.TagClusterName: gs.aws.config.ClusterName, "kubernetes.io/cluster/" + gs.aws.config.ClusterName: "owned",
	}
	if pool != "" {
		tags[awsv1.TagNodePool] = pool
	}
	_, err := gs.aws.EC2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{m.id}, Tags: ec2Tags(tags)})
	return err
}

// adoptMember makes a member that was there before a claim the claim's.
func (gs *groupScaler) adoptMember(ctx context.Context, req cloud.LaunchRequest, id string) (*instance, error) {
	read := func() (*instance, error) {
		res, err := gs.aws.EC2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
		if err != nil {
			return nil, err
		}
		for _, in := range flattenReservations(res.Reservations) {
			m := readInstance(in)
			return &m, nil
		}
		return nil, &cloud.Error{Kind: cloud.NotFound}
	}
	m, err := read()
	if err != nil || m.gone || m.claimUID == req.ClaimUID {
		return m, err
	}
	if m.autoScalingGroup == "" {
		return nil, &cloud.Error{Kind: cloud.NotFound, Err: fmt.Errorf("instance %s is in no group any more", id)}
	}
	s := gs.stateOf(m.autoScalingGroup)
	if err := s.turn.lock(ctx); err != nil {
		return nil, err
	}
	defer s.turn.unlock()
	if m, err = read(); err != nil { // somebody may have had the turn before
		return nil, err
	}
	if uid := cmp.Or(s.matched[id], m.claimUID); uid != "" && uid != req.ClaimUID {
		return nil, &cloud.Error{Kind: cloud.NotFound, Err: fmt.Errorf("instance %s has become another claim's", id)}
	}
	if err := gs.tagMember(ctx, m, req.ClaimUID, req.ClaimName, req.Pool); err != nil {
		return nil, err
	}
	s.matched[id] = req.ClaimUID
	m.claimUID, m.claimName = req.ClaimUID, req.ClaimName
	gs.instances.addLaunched(*m)
	return m, nil
}

// adoptAfter is how long a member that is nobody's is left alone: a claim that is open, after a restart, say, may want it.
const adoptAfter = 30 * time.Second

// adoptableAs says for which class a claim may be made for a member that is nobody's, and what the machine is; empty: not now.
func (gs *groupScaler) adoptableAs(m *instance) (class string, labels model.Labels) {
	gs.registry.mu.Lock()
	class, s := gs.registry.classes[m.autoScalingGroup], gs.registry.states[m.autoScalingGroup]
	gs.registry.mu.Unlock()
	if class == "" || s == nil {
		return "", nil
	}
	since := m.launched
	if gs.started.After(since) && gs.started.Sub(m.launched) < 10*time.Minute {
		since = gs.started // it may be an open claim's
	}
	if len(s.openClaims()) > 0 || gs.aws.clock.Now().Sub(since) < adoptAfter {
		return "", nil
	}
	return class, model.Labels{model.LabelInstanceType: m.instanceType, model.LabelZone: m.zone, model.LabelCapacityType: m.capacityType, model.LabelNodeGroup: m.autoScalingGroup}
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"context"
	"fmt"
	"slices"
	"time"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// groupLaunch is what is remembered of a claim's launch in a group.
type groupLaunch struct {
	claimLaunch
	searched    bool  // what was bought before was looked for
	lastFailure error // why the group that was asked last has none
}

// Launch asks a group for a machine, see cloud.Provider.
//
// What a group should have is its present members and one more for each open claim that has none, counted anew each time; so a
// repetition changes nothing, whoever makes it. A member that has come is matched to the oldest open claim that allows what it is, or
// to the oldest of all where none does, and from then on bears the claim's uid as a tag. Until one has come the answer has no
// provider id: the same request, made again, tells. Members that were there when a group was first looked at are nobody's, unless a
// claim is older than that look.
func (p *groupProvider) Launch(ctx context.Context, req cloud.LaunchRequest) cloud.LaunchResult {
	c, err := readNodeGroupClass("launch", req.Class)
	if err != nil {
		return cloud.LaunchResult{Err: classifyError(ctx, "launch", req.ClaimName, err)}
	}
	l, release, err := p.launches.acquire(ctx, req.ClaimUID)
	if err != nil {
		return cloud.LaunchResult{Err: classifyError(ctx, "launch", req.ClaimName, err)}
	}
	defer release()
	return p.launch(ctx, c, req, l)
}

func (p *groupProvider) launch(ctx context.Context, c *nodeGroupClass, req cloud.LaunchRequest, l *groupLaunch) cloud.LaunchResult {
	fail := func(err error) cloud.LaunchResult {
		return cloud.LaunchResult{Err: classifyError(ctx, "launch", req.ClaimName, err)}
	}
	if l.result != nil {
		return confirmLaunched(ctx, p.instances, req, &l.claimLaunch)
	}
	o, ch, err := p.offeringsOf(ctx, nil, c)
	if err != nil {
		return fail(err)
	}
	if id := req.Annotations[dovetailv1alpha1.AnnotationAdopt]; id != "" {
		m, err := p.scaler.adoptMember(ctx, req, instanceID(id))
		if err != nil {
			return fail(err)
		}
		return p.answerMatched(ctx, ch, req, l, m)
	}
	if !l.searched { // for what another process, or this one long ago, has found for it
		list, err := p.instances.list(ctx, time.Time{})
		if err != nil {
			return fail(err)
		}
		if m := list.byClaim(req.ClaimUID); m != nil {
			return p.answerMatched(ctx, ch, req, l, m)
		}
		l.searched = true
	}
	if l.options == nil {
		l.options = groupLaunchOptions(o, req)
	}
	if len(l.options) == 0 {
		return fail(&cloud.Error{Kind: cloud.Denied, Err: fmt.Errorf("no group of NodeGroupClass %s offers anything for %s that holds %s", c.name, describeRequest(req), formatRequests(req.Requests))})
	}
	for {
		name := p.nextGroup(req.ClaimUID, l)
		if name == "" {
			missing := slices.Clone(l.unavailable)
			return fail(&cloud.Error{Kind: cloud.InsufficientCapacity, Offerings: sortOfferingKeys(missing), Err: l.lastFailure})
		}
		s := p.scaler.stateOf(name)
		a, told := p.registry.takeOutcome(req.ClaimUID)
		if !told {
			if p.registry.groupOfClaim(req.ClaimUID) == "" && !s.waitForBatch(ctx, p.aws.clock, req.Following) {
				return fail(ctx.Err())
			}
			ask := &openClaim{uid: req.ClaimUID, name: req.ClaimName, pool: req.Pool, created: req.ClaimCreated, class: c.name, fits: matchesGroupOption(l.options, name)}
			answers, ok := s.reconciles.ask(ctx, []*openClaim{ask})
			if !ok {
				return fail(ctx.Err())
			}
			a = answers[0]
		}
		if a.group != "" {
			name = a.group
		}
		switch {
		case a.member != nil:
			return p.answerMatched(ctx, ch, req, l, a.member)
		case a.full:
			l.lastFailure = a.err
			for _, c := range l.options {
				if k := c.key(); c.offering.Labels[model.LabelNodeGroup] == name {
					k.Group = name
					l.unavailable = append(l.unavailable, k)
				}
			}
		case a.noCapacity:
			l.lastFailure = a.err
			for _, c := range l.options {
				if c.offering.Labels[model.LabelNodeGroup] == name {
					l.unavailable = append(l.unavailable, c.key())
				}
			}
		case a.err != nil:
			return fail(a.err)
		default:
			return cloud.LaunchResult{} // one is to come
		}
	}
}

// matchesGroupOption says whether a member is one of the offerings of a group that a claim allows.
func matchesGroupOption(list []launchOption, group string) func(*instance) bool {
	return func(m *instance) bool {
		return slices.ContainsFunc(list, func(c launchOption) bool {
			return c.offering.Labels[model.LabelNodeGroup] == group && c.key() == cloud.OfferingKey{InstanceType: m.instanceType, Zone: m.zone, CapacityType: m.capacityType}
		})
	}
}

// nextGroup is the group to ask: the one that was asked already, or that of the cheapest offering which is not known to be missing.
func (p *groupProvider) nextGroup(uid string, l *groupLaunch) string {
	if name := p.registry.groupOfClaim(uid); name != "" {
		return name
	}
	for _, c := range l.options {
		group := c.offering.Labels[model.LabelNodeGroup]
		if !slices.ContainsFunc(l.unavailable, func(k cloud.OfferingKey) bool {
			return k.Group == group || k.Group == "" && k == c.key()
		}) {
			return group
		}
	}
	return ""
}

// answerMatched answers for a member that has become a claim's: as what it is, whatever was asked for.
func (p *groupProvider) answerMatched(ctx context.Context, ch *selectedGroups, req cloud.LaunchRequest, l *groupLaunch, m *instance) cloud.LaunchResult {
	if m.gone {
		return endedResult(req, m.id)
	}
	g, err := p.catalogue.load(ctx, false)
	if err != nil {
		return cloud.LaunchResult{Err: classifyError(ctx, "launch", req.ClaimName, err)}
	}
	var a *scalingGroup
	for _, x := range ch.groups {
		if x.name == m.autoScalingGroup {
			a = x
		}
	}
	t := g.findType(m.instanceType)
	var o *offeredType
	if a != nil && t != nil {
		o = p.buildType(a, t)
	}
	if o == nil {
		return cloud.LaunchResult{Err: &cloud.Error{Kind: cloud.Unknown, Op: "launch", Object: req.ClaimName,
			Err: fmt.Errorf("its machine %s is a %s of group %s, of which NodeGroupClass %s knows nothing", m.id, m.instanceType, m.autoScalingGroup, ch.name)}}
	}
	price, modelled := g.priceMicro(t, m.zone, m.capacityType)
	labels := model.Labels{model.LabelNodeGroup: a.name}
	for k, v := range a.labels {
		labels[k] = v
	}
	res := launchResult(launchOption{o, &model.Offering{Zone: m.zone, CapacityType: m.capacityType, PriceMicro: price, Modelled: modelled, Labels: labels}}, m.id, req, "")
	res.Annotations = nil
	if m.image != "" {
		res.ImageID = m.image
	}
	for _, k := range l.unavailable {
		if k.InstanceType != m.instanceType || k.Zone != m.zone {
			res.Unavailable = append(res.Unavailable, k)
		}
	}
	res.Unavailable = sortOfferingKeys(res.Unavailable)
	l.result, l.launchedAt, l.options = &res, p.aws.clock.Now(), nil
	p.registry.noteClosed(req.ClaimUID)
	return res
}

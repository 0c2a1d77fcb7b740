// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package asg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	dovetailv1alpha1 "github.com/dovetail-sh/dovetail/api/dovetail/v1alpha1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instances"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/launch"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/offering"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/quota"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// claimLaunch is the state of a claim's launch in a group.
type claimLaunch struct {
	launch.Claim
	searched    bool  // what was bought before was looked for
	lastFailure error // why the group that was asked last has none
}

// Launch requests a machine from a group, see cloud.Provider.
//
// The desired capacity of a group is its current members plus one for each open claim without a member, computed anew
// each time, so a repeated request changes nothing. A new member is assigned to the oldest open claim that allows it, or
// to the oldest of all if none does, and is tagged with the UID of the claim. Until a member is assigned, the result has
// no provider ID, and a repeated request returns it once known. Members that existed when the group was first read
// belong to no claim, unless the claim is older than that.
func (p *Provider) Launch(ctx context.Context, req cloud.LaunchRequest) cloud.LaunchResult {
	c, err := readNodeClass("launch", req.Class)
	if err != nil {
		return cloud.LaunchResult{Err: awsapi.ClassifyError(ctx, "launch", req.ClaimName, err)}
	}
	l, release, err := p.launches.Acquire(ctx, req.ClaimUID)
	if err != nil {
		return cloud.LaunchResult{Err: awsapi.ClassifyError(ctx, "launch", req.ClaimName, err)}
	}
	defer release()
	return p.launch(ctx, c, req, l)
}

// launch returns the earlier launch of a claim. Otherwise it tries groups, cheapest first, until one has a member for
// it, will have one, or returns an error that requires a retry.
func (p *Provider) launch(ctx context.Context, c *nodeClass, req cloud.LaunchRequest, l *claimLaunch) cloud.LaunchResult {
	fail := func(err error) cloud.LaunchResult {
		return cloud.LaunchResult{Err: awsapi.ClassifyError(ctx, "launch", req.ClaimName, err)}
	}
	if l.Result != nil {
		return launch.Confirm(ctx, p.instances, req, &l.Claim)
	}
	o, ch, err := p.offeringsOf(ctx, nil, c)
	if err != nil {
		return fail(err)
	}
	if id := req.Annotations[dovetailv1alpha1.AnnotationAdopt]; id != "" {
		m, err := p.scaler.adoptMember(ctx, req, instances.InstanceID(id))
		if err != nil {
			return fail(err)
		}
		return p.answerMatched(ctx, ch, req, l, m)
	}
	if !l.searched { // for what another process, or this one long ago, has found for it
		list, err := p.instances.List(ctx, time.Time{})
		if err != nil {
			return fail(err)
		}
		if m := list.ByClaim(req.ClaimUID); m != nil {
			return p.answerMatched(ctx, ch, req, l, m)
		}
		l.searched = true
	}
	if l.Options == nil {
		l.Options = launchOptions(o, req)
	}
	if len(l.Options) == 0 {
		return fail(&cloud.Error{Kind: cloud.Denied, Err: fmt.Errorf("no offering of the groups of NodeGroupClass %s matches %s and fits %s", c.name, launch.DescribeRequest(req), launch.FormatRequests(req.Requests))})
	}
	for {
		name := p.nextGroup(&req, l)
		if name == "" {
			missing := slices.Clone(l.Unavailable)
			for _, c := range l.Options {
				if req.IsUnavailable(c.Key(), c.Offering.Labels[model.LabelNodeGroup]) && !slices.Contains(missing, c.Key()) {
					missing = append(missing, c.Key())
				}
			}
			if l.lastFailure == nil {
				l.lastFailure = errors.New("all groups that the NodeClaim allows recently had no capacity")
			}
			return fail(&cloud.Error{Kind: cloud.InsufficientCapacity, Offerings: offering.SortKeys(missing), Err: l.lastFailure})
		}
		a, err := p.askGroup(ctx, c, req, l, name)
		if err != nil {
			return fail(err)
		}
		if a.group != "" {
			name = a.group
		}
		switch {
		case a.member != nil:
			return p.answerMatched(ctx, ch, req, l, a.member)
		case a.full:
			l.lastFailure = a.err
			for _, c := range l.Options {
				if k := c.Key(); c.Offering.Labels[model.LabelNodeGroup] == name {
					k.Group, k.Full = name, true
					l.Unavailable = append(l.Unavailable, k)
				}
			}
		case a.noCapacity:
			l.lastFailure = a.err
			var largest *offering.Option
			for i := range l.Options {
				c := &l.Options[i]
				if c.Offering.Labels[model.LabelNodeGroup] != name {
					continue
				}
				l.Unavailable = append(l.Unavailable, c.Key())
				if largest == nil || c.CPUs > largest.CPUs {
					largest = c
				}
			}
			// Which type was refused the group does not say: a smaller one may fit in what is left.
			if code := quota.CodeIn(a.err.Error()); code != "" && largest != nil {
				l.lastFailure = fmt.Errorf("group %s: %s", name, p.quotas.Note(code, a.err.Error(), largest.Offering.CapacityType, largest.Name, largest.CPUs))
			}
		case a.err != nil:
			return fail(a.err)
		default:
			return cloud.LaunchResult{} // one is to come
		}
	}
}

// askGroup requests a member of a group for a claim, or returns the outcome of an earlier request. Claims of one plan
// are batched first. After the request, the group is read again only when due. Errors are those of the context.
func (p *Provider) askGroup(ctx context.Context, c *nodeClass, req cloud.LaunchRequest, l *claimLaunch, name string) (claimOutcome, error) {
	s := p.scaler.stateOf(name)
	if a, told := p.registry.takeOutcome(req.ClaimUID); told {
		return a, nil
	}
	if p.registry.groupOfClaim(req.ClaimUID) == "" && !s.waitForBatch(ctx, p.aws.Clock, req.Following) {
		return claimOutcome{}, ctx.Err()
	}
	if s.isPolled(req.ClaimUID, p.aws.Clock.Now()) {
		return claimOutcome{}, nil
	}
	answers, ok := s.reconciles.Ask(ctx, []*openClaim{{
		uid: req.ClaimUID, name: req.ClaimName, pool: req.Pool, created: req.ClaimCreated, class: c.name, fits: matchesOption(l.Options, name),
	}})
	if !ok {
		return claimOutcome{}, ctx.Err()
	}
	p.registry.takeOutcome(req.ClaimUID)
	return answers[0], nil
}

// matchesOption is a function that reports whether a machine is one of the options that a claim has in a group.
func matchesOption(list []offering.Option, group string) func(*instances.Instance) bool {
	return func(m *instances.Instance) bool {
		return slices.ContainsFunc(list, func(c offering.Option) bool {
			return c.Offering.Labels[model.LabelNodeGroup] == group && c.Key() == cloud.OfferingKey{InstanceType: m.InstanceType, Zone: m.Zone, CapacityType: m.CapacityType}
		})
	}
}

// nextGroup is the group to ask: the one that was asked already, or that of the cheapest option which is not known to
// be unavailable, to it or to others; empty: there is none.
func (p *Provider) nextGroup(req *cloud.LaunchRequest, l *claimLaunch) string {
	if name := p.registry.groupOfClaim(req.ClaimUID); name != "" {
		return name
	}
	for _, c := range l.Options {
		group := c.Offering.Labels[model.LabelNodeGroup]
		if !req.IsUnavailable(c.Key(), group) && !slices.ContainsFunc(l.Unavailable, func(k cloud.OfferingKey) bool {
			return k.Group == group || k.Group == "" && k == c.Key()
		}) {
			return group
		}
	}
	return ""
}

// answerMatched returns the result for a member assigned to a claim, with the properties of the member and not of the
// request.
func (p *Provider) answerMatched(ctx context.Context, ch *selectedGroups, req cloud.LaunchRequest, l *claimLaunch, m *instances.Instance) cloud.LaunchResult {
	if m.Gone {
		return launch.Ended(req, m.ID)
	}
	cat, err := p.catalogue.Load(ctx, false)
	if err != nil {
		return cloud.LaunchResult{Err: awsapi.ClassifyError(ctx, "launch", req.ClaimName, err)}
	}
	var a *group
	for _, x := range ch.groups {
		if x.name == m.AutoScalingGroup {
			a = x
		}
	}
	t := cat.FindType(m.InstanceType)
	var o *offering.Type
	if a != nil && t != nil {
		o = p.buildType(a, t)
	}
	if o == nil {
		return cloud.LaunchResult{Err: &cloud.Error{Kind: cloud.Unknown, Op: "launch", Object: req.ClaimName,
			Err: fmt.Errorf("its instance %s is a %s of group %s, which NodeGroupClass %s does not offer", m.ID, m.InstanceType, m.AutoScalingGroup, ch.name)}}
	}
	price, modelled := cat.PriceMicro(t, m.Zone, m.CapacityType)
	labels := model.Labels{model.LabelNodeGroup: a.name}
	maps.Copy(labels, a.labels)
	bought := offering.Option{Type: o, Offering: &model.Offering{
		Zone: m.Zone, CapacityType: m.CapacityType, PriceMicro: price, Modelled: modelled, Labels: labels,
	}}
	res := launch.NewResult(bought, m.ID, req, "")
	res.Annotations = nil
	if m.Image != "" {
		res.ImageID = m.Image
	}
	for _, k := range l.Unavailable {
		if k.InstanceType != m.InstanceType || k.Zone != m.Zone || k.Group != "" && k.Group != a.name {
			res.Unavailable = append(res.Unavailable, k)
		}
	}
	res.Unavailable = offering.SortKeys(res.Unavailable)
	l.Result, l.LaunchedAt, l.Options = &res, p.aws.Clock.Now(), nil
	p.registry.noteClosed(req.ClaimUID)
	return res
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instances"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/launch"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/nodeclass"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/offering"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// maxAttempts bounds how many requests for one claim may fail: one for each capacity type, one for a
// launch template made again, and those that another process made.
const maxAttempts = 8

// Launch launches one machine with CreateFleet, see cloud.Provider.
//
// The client token of the n-th request of a claim is its UID and n. A request without a response is repeated unchanged;
// after a failed request, the next token is used. After a restart, the request may differ from the one sent before,
// because prices and addresses have changed: EC2 then reports that the token was used, and the machine is searched by
// its tag, for the maximum lag of Describe calls, before the next token is used.
func (p *Provider) Launch(ctx context.Context, req cloud.LaunchRequest) cloud.LaunchResult {
	c, err := nodeclass.Read("launch", req.Class)
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

// launch returns the earlier launch of a claim. Otherwise it makes requests until one returns a machine, no option is
// left, or an error requires a retry.
func (p *Provider) launch(ctx context.Context, c *nodeclass.Class, req cloud.LaunchRequest, l *claimLaunch) cloud.LaunchResult {
	const op = "launch"
	fail := func(err error) cloud.LaunchResult {
		return cloud.LaunchResult{Err: awsapi.ClassifyError(ctx, op, req.ClaimName, err)}
	}
	r, err := p.classes.Resolve(ctx, c)
	if err != nil {
		return fail(err)
	}
	// What was bought before this process began, or so long ago that it was forgotten.
	if l.Result == nil && l.pending == nil && l.attempt == 0 {
		list, err := p.instances.List(ctx, time.Time{})
		if err != nil {
			return fail(err)
		}
		if m := list.ByClaim(req.ClaimUID); m != nil {
			return p.answerExisting(ctx, r, req, l, m)
		}
	}
	if l.Result != nil {
		return launch.Confirm(ctx, p.instances, req, &l.Claim)
	}
	if err := r.ReadyError(op); err != nil && l.pending == nil {
		return fail(err)
	}
	o, err := p.offeringsOf(ctx, r, req.Requirements)
	if err != nil {
		return fail(err)
	}
	if l.Options == nil {
		l.Options = o.Options(req)
	}
	if len(l.Options) == 0 {
		return fail(&cloud.Error{Kind: cloud.Denied, Err: fmt.Errorf("no offering of EC2NodeClass %s in region %s matches %s and fits %s", c.Name, p.aws.Region, launch.DescribeRequest(req), launch.FormatRequests(req.Requests))})
	}
	for {
		if l.pending == nil {
			if err := p.prepareRequest(r, o, req, l); err != nil {
				return fail(err)
			}
		}
		for _, t := range l.pending.templates {
			if err := p.templates.ensure(ctx, t); err != nil {
				return fail(err)
			}
		}
		answer, err := p.aws.EC2.CreateFleet(ctx, l.pending.input)
		if err == nil {
			if res, done := p.handleAnswer(r, o, req, l, answer); done {
				return res
			}
			continue
		}
		switch code := awsapi.ErrorCode(err); {
		case code == awsapi.CodeTokenReused:
			if res, done := p.recoverReusedToken(ctx, r, req, l); done {
				return res
			}
		case awsapi.IsTemplateNotFound(code) && !l.templateRecreated:
			l.templateRecreated = true
			p.templates.forget(l.pending.templates)
			// Nothing came of the request, and its token was not used.
		default:
			if awsapi.WasRejected(err, code) {
				// It was refused for what it says. Another one may be made of what is known by then.
				l.pending, l.Options = nil, nil
			}
			return fail(err)
		}
	}
}

// prepareRequest makes the next request for a claim the pending one. An error says why there is none: no capacity,
// too many attempts, or a class that no request can be made of.
func (p *Provider) prepareRequest(r *nodeclass.Resolved, o *offering.Set, req cloud.LaunchRequest, l *claimLaunch) error {
	next := p.nextOptions(l, &req)
	if len(next) == 0 {
		missing := slices.Concat(l.Unavailable, p.quotaLimitedOfferings(o))
		all := len(missing) == 0
		for _, c := range l.Options {
			if all || req.IsUnavailable(c.Key(), "") {
				missing = append(missing, c.Key())
			}
		}
		return &cloud.Error{Kind: cloud.InsufficientCapacity, Offerings: offering.SortKeys(missing), Err: p.reachedQuotas(l.Options)}
	}
	if l.failedAttempts >= maxAttempts {
		return fmt.Errorf("gave up after %d failed launch requests", l.failedAttempts)
	}
	token := req.ClaimUID
	if l.attempt > 0 {
		token = fmt.Sprintf("%s-%d", req.ClaimUID, l.attempt)
	}
	var err error
	if l.pending, err = p.buildRequest(r, req, next, token); err != nil {
		return awsapi.NotReadyError("launch", req.ClaimName, "EC2NodeClass %s: %w", r.Name, err)
	}
	return nil
}

// nextOptions returns the options to try now: those of the first capacity type with options that are not known to be
// unavailable, see withoutBareMetal; nil: all are unavailable.
func (p *Provider) nextOptions(l *claimLaunch, req *cloud.LaunchRequest) []offering.Option {
	for _, step := range splitByCapacityType(l.Options) {
		left := slices.DeleteFunc(slices.Clone(step), func(c offering.Option) bool {
			return slices.Contains(l.Unavailable, c.Key()) || req.IsUnavailable(c.Key(), "") || p.quotas.Find(c.Offering.CapacityType, c.Name, c.CPUs) != ""
		})
		if len(left) > 0 {
			return withoutBareMetal(left, req.Requirements)
		}
	}
	return nil
}

// quotaLimitedOfferings returns the offerings of a class that cannot be launched because of a known exhausted quota, for
// any request.
func (p *Provider) quotaLimitedOfferings(o *offering.Set) []cloud.OfferingKey {
	if p.quotas.IsEmpty() {
		return nil
	}
	var out []cloud.OfferingKey
	for _, it := range o.Types {
		t, of := o.ByName[it.Name], map[string]bool{}
		for _, c := range []string{model.Spot, model.OnDemand} {
			of[c] = p.quotas.Find(c, t.Name, t.CPUs) != ""
		}
		for i := range it.Offerings {
			if of[it.Offerings[i].CapacityType] {
				out = append(out, offering.Option{Type: t, Offering: &it.Offerings[i]}.Key())
			}
		}
	}
	return out
}

// reachedQuotas says which quotas of the account keep some of the options from being launched; nil: none does.
func (p *Provider) reachedQuotas(options []offering.Option) error {
	var texts []string
	for _, c := range options {
		if text := p.quotas.Find(c.Offering.CapacityType, c.Name, c.CPUs); text != "" && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	if len(texts) == 0 {
		return nil
	}
	slices.Sort(texts)
	return errors.New(strings.Join(texts, "; "))
}

// answerExisting returns the result for a machine launched for a claim earlier, by this process or another.
func (p *Provider) answerExisting(ctx context.Context, r *nodeclass.Resolved, req cloud.LaunchRequest, l *claimLaunch, m *instances.Instance) cloud.LaunchResult {
	if m.Gone {
		return launch.Ended(req, m.ID)
	}
	o, err := p.offeringsOf(ctx, r, req.Requirements)
	if err != nil {
		return cloud.LaunchResult{Err: awsapi.ClassifyError(ctx, "launch", req.ClaimName, err)}
	}
	t := o.ByName[m.InstanceType]
	if t == nil {
		return cloud.LaunchResult{Err: &cloud.Error{Kind: cloud.Unknown, Op: "launch", Object: req.ClaimName, Err: fmt.Errorf("its instance %s is a %s, which EC2NodeClass %s no longer offers", m.ID, m.InstanceType, r.Name)}}
	}
	c := offering.Option{Type: t, Offering: &model.Offering{Zone: m.Zone, CapacityType: m.CapacityType}}
	for i := range t.InstanceType.Offerings {
		if f := &t.InstanceType.Offerings[i]; f.Zone == m.Zone && f.CapacityType == m.CapacityType {
			c.Offering = f
		}
	}
	res := launch.NewResult(c, m.ID, req, r.Hash)
	res.ImageID = m.Image
	l.Result, l.LaunchedAt, l.pending, l.Options = &res, m.Launched, nil, nil
	return res
}

// recoverReusedToken looks for the machine that another process bought with the same token. When there is none for as
// long as Describe may lag, that request came to nothing, and the next token may be used. It is not done when the
// next request is to be made.
func (p *Provider) recoverReusedToken(ctx context.Context, r *nodeclass.Resolved, req cloud.LaunchRequest, l *claimLaunch) (cloud.LaunchResult, bool) {
	now := p.aws.Clock.Now()
	if l.tokenReusedSince.IsZero() {
		l.tokenReusedSince = now
	}
	list, err := p.instances.List(ctx, now)
	if err != nil {
		return cloud.LaunchResult{Err: awsapi.ClassifyError(ctx, "launch", req.ClaimName, err)}, true
	}
	if m := list.ByClaim(req.ClaimUID); m != nil {
		return p.answerExisting(ctx, r, req, l, m), true
	}
	if wait := l.tokenReusedSince.Add(instances.ListDelay).Sub(now); wait > 0 {
		return cloud.LaunchResult{Err: &cloud.Error{Kind: cloud.Throttled, Op: "launch", Object: req.ClaimName, After: min(wait, time.Second),
			Err: errors.New("its client token was already used: looking for the instance by tag")}}, true
	}
	l.attempt, l.failedAttempts = l.attempt+1, l.failedAttempts+1
	// The next token has a lag of its own to be waited for.
	l.pending, l.Options, l.tokenReusedSince = nil, nil, time.Time{}
	if l.failedAttempts >= maxAttempts {
		return cloud.LaunchResult{Err: &cloud.Error{Kind: cloud.Unknown, Op: "launch", Object: req.ClaimName, Err: fmt.Errorf("%d client tokens were used before, and no instance has the NodeClaim's tag", l.failedAttempts)}}, true
	}
	o, err := p.offeringsOf(ctx, r, req.Requirements)
	if err != nil {
		return cloud.LaunchResult{Err: awsapi.ClassifyError(ctx, "launch", req.ClaimName, err)}, true
	}
	l.Options = o.Options(req)
	return cloud.LaunchResult{}, len(l.Options) == 0
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// maxAttempts bounds how many requests for one claim may be answered in vain: one for each capacity type, one for a launch template made
// again, and those that another process made.
const maxAttempts = 8

// fleetLaunch is what is remembered of a claim's launch through CreateFleet.
type fleetLaunch struct {
	claimLaunch
	attempt           int           // tokens before this one are used up
	failedAttempts    int           // as many of them bought nothing; those for which there was only no time are not counted
	pending           *fleetRequest // sent, and not answered
	templateRecreated bool          // a missing launch template was made again
	tokenReusedSince  time.Time     // when a token was first found used by other parameters; zero: never
}

// Launch buys one machine with CreateFleet, see cloud.Provider.
//
// The token of a claim's n-th request is its uid and n. A request that got no answer is sent again as it was; one that was answered
// in vain is followed by the next. After a restart the request may differ from that sent before, for prices and addresses have moved
// on: EC2 then says that the token was used, and the machine is looked for by its tag, for as long as Describe may lag, before the
// next token.
func (p *fleetProvider) Launch(ctx context.Context, req cloud.LaunchRequest) cloud.LaunchResult {
	c, err := readNodeClass("launch", req.Class)
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

func (p *fleetProvider) launch(ctx context.Context, c *nodeClass, req cloud.LaunchRequest, l *fleetLaunch) cloud.LaunchResult {
	const op = "launch"
	fail := func(err error) cloud.LaunchResult {
		return cloud.LaunchResult{Err: classifyError(ctx, op, req.ClaimName, err)}
	}
	r, err := p.classes.resolve(ctx, c)
	if err != nil {
		return fail(err)
	}
	// What was bought before this process began, or so long ago that it was forgotten.
	if l.result == nil && l.pending == nil && l.attempt == 0 {
		list, err := p.instances.list(ctx, time.Time{})
		if err != nil {
			return fail(err)
		}
		if m := list.byClaim(req.ClaimUID); m != nil {
			return p.answerExisting(ctx, r, req, l, m)
		}
	}
	if l.result != nil {
		return confirmLaunched(ctx, p.instances, req, &l.claimLaunch)
	}
	if err := r.readyError(op); err != nil && l.pending == nil {
		return fail(err)
	}
	o, err := p.offeringsOf(ctx, r)
	if err != nil {
		return fail(err)
	}
	if l.options == nil {
		l.options = o.launchOptions(req)
	}
	if len(l.options) == 0 {
		return fail(&cloud.Error{Kind: cloud.Denied, Err: fmt.Errorf("EC2NodeClass %s offers nothing in region %s for %s that holds %s", c.name, p.aws.Region, describeRequest(req), formatRequests(req.Requests))})
	}
	for {
		if l.pending == nil {
			next := p.nextOptions(l)
			if len(next) == 0 {
				missing := slices.Concat(l.unavailable, p.quotaLimitedOfferings(o))
				if len(missing) == 0 {
					for _, c := range l.options {
						missing = append(missing, c.key())
					}
				}
				return fail(&cloud.Error{Kind: cloud.InsufficientCapacity, Offerings: sortOfferingKeys(missing)})
			}
			if l.failedAttempts >= maxAttempts {
				return fail(fmt.Errorf("%d requests were made in vain", l.failedAttempts))
			}
			token := req.ClaimUID
			if l.attempt > 0 {
				token = fmt.Sprintf("%s-%d", req.ClaimUID, l.attempt)
			}
			if l.pending, err = p.buildFleetRequest(r, req, next, token); err != nil {
				return fail(notReadyError(op, req.ClaimName, "EC2NodeClass %s: %w", c.name, err))
			}
		}
		for _, t := range l.pending.templates {
			if err := p.templates.ensure(ctx, t); err != nil {
				return fail(err)
			}
		}
		answer, err := p.aws.EC2.CreateFleet(ctx, l.pending.input)
		if err == nil {
			if res, done := p.handleFleetAnswer(r, o, req, l, answer); done {
				return res
			}
			continue
		}
		switch code := errorCode(err); {
		case code == codeTokenReused:
			if res, done := p.recoverReusedToken(ctx, r, req, l); done {
				return res
			}
		case isTemplateNotFound(code) && !l.templateRecreated:
			l.templateRecreated = true
			p.templates.forget(l.pending.templates)
			// Nothing came of the request, and its token was not used.
		default:
			if wasRejected(err, code) {
				// It was refused for what it says. Another one may be made of what is known by then.
				l.pending, l.options = nil, nil
			}
			return fail(err)
		}
	}
}

// nextOptions are the offerings to try now: of the first capacity type of which not all are known to be missing.
func (p *fleetProvider) nextOptions(l *fleetLaunch) []launchOption {
	now := p.aws.clock.Now()
	for _, step := range splitByCapacityType(l.options) {
		left := slices.DeleteFunc(slices.Clone(step), func(c launchOption) bool {
			return slices.Contains(l.unavailable, c.key()) || p.quotas.isExhaustedFor(now, c.typeInfo, c.offering.CapacityType)
		})
		if len(left) > 0 {
			return left
		}
	}
	return nil
}

// answerExisting answers for a machine that was bought earlier.
func (p *fleetProvider) answerExisting(ctx context.Context, r *resolvedClass, req cloud.LaunchRequest, l *fleetLaunch, m *instance) cloud.LaunchResult {
	if m.gone {
		return endedResult(req, m.id)
	}
	o, err := p.offeringsOf(ctx, r)
	if err != nil {
		return cloud.LaunchResult{Err: classifyError(ctx, "launch", req.ClaimName, err)}
	}
	t := o.byName[m.instanceType]
	if t == nil {
		return cloud.LaunchResult{Err: &cloud.Error{Kind: cloud.Unknown, Op: "launch", Object: req.ClaimName, Err: fmt.Errorf("its machine %s is a %s, which EC2NodeClass %s does not offer any more", m.id, m.instanceType, r.name)}}
	}
	c := launchOption{t, &model.Offering{Zone: m.zone, CapacityType: m.capacityType}}
	for i := range t.instanceType.Offerings {
		if f := &t.instanceType.Offerings[i]; f.Zone == m.zone && f.CapacityType == m.capacityType {
			c.offering = f
		}
	}
	res := launchResult(c, m.id, req, r.hash)
	res.ImageID = m.image
	l.result, l.launchedAt, l.pending, l.options = &res, m.launched, nil, nil
	return res
}

// recoverReusedToken looks for the machine that another process bought with the token. When there is none for as long as Describe may lag,
// the request came to nothing, and the next token may be used.
func (p *fleetProvider) recoverReusedToken(ctx context.Context, r *resolvedClass, req cloud.LaunchRequest, l *fleetLaunch) (cloud.LaunchResult, bool) {
	now := p.aws.clock.Now()
	if l.tokenReusedSince.IsZero() {
		l.tokenReusedSince = now
	}
	list, err := p.instances.list(ctx, now)
	if err != nil {
		return cloud.LaunchResult{Err: classifyError(ctx, "launch", req.ClaimName, err)}, true
	}
	if m := list.byClaim(req.ClaimUID); m != nil {
		return p.answerExisting(ctx, r, req, l, m), true
	}
	if wait := l.tokenReusedSince.Add(ListDelay).Sub(now); wait > 0 {
		return cloud.LaunchResult{Err: &cloud.Error{Kind: cloud.Throttled, Op: "launch", Object: req.ClaimName, After: min(wait, time.Second),
			Err: errors.New("its token was used before: looking for the machine by its tag")}}, true
	}
	l.attempt, l.failedAttempts = l.attempt+1, l.failedAttempts+1
	l.pending, l.options, l.tokenReusedSince = nil, nil, time.Time{} // the next token has a lag of its own to be waited for
	if l.failedAttempts >= maxAttempts {
		return cloud.LaunchResult{Err: &cloud.Error{Kind: cloud.Unknown, Op: "launch", Object: req.ClaimName, Err: fmt.Errorf("%d tokens were used before, and no machine bears the claim's tag", l.failedAttempts)}}, true
	}
	o, err := p.offeringsOf(ctx, r)
	if err != nil {
		return cloud.LaunchResult{Err: classifyError(ctx, "launch", req.ClaimName, err)}, true
	}
	l.options = o.launchOptions(req)
	return cloud.LaunchResult{}, len(l.options) == 0
}

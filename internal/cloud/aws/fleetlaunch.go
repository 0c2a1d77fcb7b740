// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	awsv1 "github.com/dovetail-sh/dovetail/api/aws/v1"
	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// launchRegistry are the launches of this process: what was asked for, so that a repetition asks for the same, and what came of it.
type launchRegistry struct {
	mu      sync.Mutex
	byClaim map[string]*claimLaunch // by claim uid
}

// claimLaunch is one claim's. Its fields are used by whoever has the turn.
type claimLaunch struct {
	turn   chan struct{}
	usedAt time.Time // when it was last looked at

	attempt           int            // tokens before this one are used up
	failedAttempts    int            // as many of them bought nothing; those for which there was only no time are not counted
	pending           *fleetRequest  // sent, and not answered
	options           []launchOption // all that the request allowed, when it was first made
	unavailable       []cloud.OfferingKey
	templateRecreated bool      // a missing launch template was made again
	tokenReusedSince  time.Time // when a token was first found used by other parameters; zero: never
	searched          bool      // of a group's: what was bought before was looked for
	lastFailure       error     // of a group's: why the last one asked has none
	result            *cloud.LaunchResult
	launchedAt        time.Time
}

// launchRetention is how long a launch is remembered after it was last looked at, also one whose request had no answer: its claim is gone by then. One
// that is not is found by its tag.
const launchRetention = 30 * time.Minute

// maxAttempts bounds how many requests for one claim may be answered in vain: one for each capacity type, one for a launch template made
// again, and those that another process made.
const maxAttempts = 8

// Launch implements cloud.Provider: one CreateFleet for each claim, side by side.
//
// The token of a claim's n-th request is its uid and n. A request that got no answer is sent again as it was; one that was answered
// in vain is followed by the next. After a restart the request may differ from that sent before, for prices and addresses have moved
// on: EC2 then says that the token was used, and the machine is looked for by its tag, for as long as Describe may lag, before the
// next token.
func (p *Provider) Launch(ctx context.Context, requests []cloud.LaunchRequest) []cloud.LaunchResult {
	results := make([]cloud.LaunchResult, len(requests))
	var wg sync.WaitGroup
	for i, r := range requests {
		wg.Go(func() {
			results[i] = p.launchClaim(ctx, r)
			results[i].ClaimUID = r.ClaimUID
		})
	}
	wg.Wait()
	return results
}

// launchClaim takes a claim's turn and has its class's kind of machines bought.
func (p *Provider) launchClaim(ctx context.Context, req cloud.LaunchRequest) cloud.LaunchResult {
	fail := func(err error) cloud.LaunchResult {
		return cloud.LaunchResult{Err: classifyError(ctx, "launch", req.ClaimName, err)}
	}
	if ctx.Err() != nil {
		return fail(ctx.Err())
	}
	var c *nodeClass
	var g *nodeGroupClass
	var err error
	if isNodeGroupClass(req.Class) {
		g, err = readNodeGroupClass("launch", req.Class)
	} else {
		c, err = readNodeClass("launch", req.Class)
	}
	if err != nil {
		return fail(err)
	}
	l := p.claimLaunchOf(req.ClaimUID)
	select {
	case <-l.turn:
	case <-ctx.Done():
		return fail(ctx.Err())
	}
	defer func() { l.turn <- struct{}{} }()
	l.usedAt = p.clock.Now()
	if g != nil {
		return p.launchInGroup(ctx, g, req, l)
	}
	return p.launchWithFleet(ctx, c, req, l)
}

func (p *Provider) launchWithFleet(ctx context.Context, c *nodeClass, req cloud.LaunchRequest, l *claimLaunch) cloud.LaunchResult {
	const op = "launch"
	fail := func(err error) cloud.LaunchResult {
		return cloud.LaunchResult{Err: classifyError(ctx, op, req.ClaimName, err)}
	}
	r, err := p.resolveClass(ctx, c)
	if err != nil {
		return fail(err)
	}
	// What was bought before this process began, or so long ago that it was forgotten.
	if l.result == nil && l.pending == nil && l.attempt == 0 {
		list, err := p.listInstances(ctx, time.Time{})
		if err != nil {
			return fail(err)
		}
		if m := list.byClaim(req.ClaimUID); m != nil {
			return p.answerExisting(ctx, r, req, l, m)
		}
	}
	if l.result != nil {
		return p.confirmLaunched(ctx, req, l)
	}
	if err := r.readyError(op); err != nil && l.pending == nil {
		return fail(err)
	}
	o, err := p.fleetOfferings(ctx, r)
	if err != nil {
		return fail(err)
	}
	if l.options == nil {
		l.options = o.launchOptions(req)
	}
	if len(l.options) == 0 {
		return fail(&cloud.Error{Kind: cloud.Denied, Err: fmt.Errorf("EC2NodeClass %s offers nothing in region %s for %s that holds %s", c.name, p.region, describeRequest(req), formatRequests(req.Requests))})
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
			if err := p.ensureTemplate(ctx, t); err != nil {
				return fail(err)
			}
		}
		answer, err := p.ec2.CreateFleet(ctx, l.pending.input)
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
			p.forgetTemplates(l.pending)
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

// wasRejected says whether a request certainly had no effect: the service answered that what it asks for won't do. Any answer of 500 and above,
// and one that came too late, may hide an instance.
func wasRejected(err error, code string) bool {
	var res *smithyhttp.ResponseError
	return code != "" && !isThrottled(code) && !isDenied(code) && code != "RequestExpired" && !strings.HasPrefix(code, "RequestTimeout") &&
		errors.As(err, &res) && res.HTTPStatusCode() < 500
}

func (p *Provider) forgetTemplates(b *fleetRequest) {
	for _, t := range b.templates {
		p.templateCache.forget(t.name)
	}
}

// claimLaunchOf is what is remembered of a claim's launch.
func (p *Provider) claimLaunchOf(uid string) *claimLaunch {
	now := p.clock.Now()
	p.launches.mu.Lock()
	defer p.launches.mu.Unlock()
	l := p.launches.byClaim[uid]
	if l == nil {
		if len(p.launches.byClaim)%64 == 63 {
			for k, old := range p.launches.byClaim {
				select {
				case <-old.turn:
					if now.Sub(old.usedAt) > launchRetention {
						delete(p.launches.byClaim, k)
					}
					old.turn <- struct{}{}
				default: // somebody is at it
				}
			}
		}
		l = &claimLaunch{turn: make(chan struct{}, 1), usedAt: now}
		l.turn <- struct{}{}
		p.launches.byClaim[uid] = l
	}
	return l
}

// nextOptions are the offerings to try now: of the first capacity type of which not all are known to be missing.
func (p *Provider) nextOptions(l *claimLaunch) []launchOption {
	now := p.clock.Now()
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

// handleFleetAnswer takes in what CreateFleet said. It is not done when the next request is to be made.
func (p *Provider) handleFleetAnswer(r *resolvedClass, o *offeringSet, req cloud.LaunchRequest, l *claimLaunch, a *ec2.CreateFleetOutput) (cloud.LaunchResult, bool) {
	b := l.pending
	for _, in := range a.Instances {
		if len(in.InstanceIds) == 0 {
			continue
		}
		res := cloud.LaunchResult{}
		missing, _, _ := p.readFleetErrors(r, b, a.Errors)
		key := cloud.OfferingKey{InstanceType: string(in.InstanceType), CapacityType: b.capacityType()}
		if o := in.LaunchTemplateAndOverrides; o != nil && o.Overrides != nil {
			key.Zone = p.overrideZone(r, o.Overrides)
			if key.InstanceType == "" {
				key.InstanceType = string(o.Overrides.InstanceType)
			}
		}
		c, ok := b.options[key]
		if !ok {
			return cloud.LaunchResult{Err: &cloud.Error{Kind: cloud.Unknown, Op: "launch", Object: req.ClaimName, Err: fmt.Errorf("EC2 bought %s, which was not asked for", key)}}, true
		}
		res = launchResult(c, in.InstanceIds[0], req, r.hash)
		price := c.offering.PriceMicro
		for _, k := range slices.Concat(l.unavailable, missing) {
			if m, ok := b.options[k]; !ok || m.offering.PriceMicro <= price {
				res.Unavailable = append(res.Unavailable, k)
			}
		}
		res.Unavailable = sortOfferingKeys(append(res.Unavailable, p.quotaLimitedOfferings(o)...))
		b.recordTaken(c, r)
		l.result, l.launchedAt, l.pending, l.options = &res, p.clock.Now(), nil, nil
		p.instances.addLaunched(instance{id: in.InstanceIds[0], zone: key.Zone, claimUID: req.ClaimUID, claimName: req.ClaimName, launched: l.launchedAt})
		return res, true
	}
	// Nothing was bought: this token is used up.
	l.attempt++
	missing, elsewhere, other := p.readFleetErrors(r, b, a.Errors)
	if other == nil || len(missing) > 0 || !isThrottled(deref(other.ErrorCode)) {
		l.failedAttempts++
	}
	l.pending = nil
	if other != nil {
		code := deref(other.ErrorCode)
		switch {
		case isTemplateNotFound(code) && !l.templateRecreated:
			l.templateRecreated = true
			p.forgetTemplates(b)
			return cloud.LaunchResult{}, false
		case isTemplateNotFound(code):
			return cloud.LaunchResult{Err: notReadyError("launch", req.ClaimName, "EC2NodeClass %s: its launch template was deleted, made again and is missing still: %s", r.name, deref(other.ErrorMessage))}, true
		case len(missing) == 0:
			kind := cloud.Unknown
			after := time.Duration(0)
			switch {
			case isDenied(code):
				kind = cloud.Denied
			case isThrottled(code):
				kind, after = cloud.Throttled, defaultThrottleDelay
			case strings.HasPrefix(code, "Invalid"):
				kind = cloud.Denied
			}
			return cloud.LaunchResult{Err: &cloud.Error{Kind: kind, Op: "launch", Object: req.ClaimName, After: after,
				Err: fmt.Errorf("EC2 CreateFleet: %s: %s", code, deref(other.ErrorMessage))}}, true
		}
	}
	if len(missing) == 0 && !elsewhere { // EC2 does not say of which
		for k := range b.options {
			missing = append(missing, k)
		}
	}
	l.unavailable = append(l.unavailable, missing...)
	return cloud.LaunchResult{}, false
}

func (b *fleetRequest) capacityType() string {
	for k := range b.options {
		return k.CapacityType // all have the same
	}
	return ""
}

// errorTarget is what an error of CreateFleet is about, as far as it says.
func (b *fleetRequest) errorTarget(e *types.CreateFleetError) (name, zone string) {
	a := e.LaunchTemplateAndOverrides
	if a == nil || a.Overrides == nil {
		return "", ""
	}
	zone = deref(a.Overrides.AvailabilityZone)
	for z, s := range b.subnets {
		if s.id == deref(a.Overrides.SubnetId) {
			zone = z
		}
	}
	return string(a.Overrides.InstanceType), zone
}

// readFleetErrors are the offerings that had no capacity, whether a zone had no addresses where it was tried and has some in another subnet, and the
// first error of any other kind. Beside the last two EC2 says as well, of nothing in particular, that capacity could not be fulfilled: that is no
// news of any offering.
func (p *Provider) readFleetErrors(r *resolvedClass, b *fleetRequest, errs []types.CreateFleetError) (out []cloud.OfferingKey, elsewhere bool, other *types.CreateFleetError) {
	room := func(zone string) bool {
		s := r.bestSubnet(zone)
		return s != nil && s.free > s.taken.Load()
	}
	for i := range errs {
		e := &errs[i]
		_, zone := b.errorTarget(e)
		switch code := deref(e.ErrorCode); {
		case !isOutOfCapacity(code) && other == nil:
			other = e
		case code == codeNoAddresses && zone != "":
			if s := b.subnets[zone]; s != nil {
				s.taken.Store(s.free)
			}
			elsewhere = elsewhere || room(zone)
		}
	}
	for i := range errs {
		e := &errs[i]
		code := deref(e.ErrorCode)
		name, zone := b.errorTarget(e)
		wide, all := accountLimit(code)
		switch {
		case !isOutOfCapacity(code), code == codeNoAddresses && zone != "" && room(zone):
			continue
		case (other != nil || elsewhere) && (code == codeUnfulfillable || name == "" && zone == "" && !wide):
			continue
		}
		if all {
			p.quotas.noteExhausted(p.clock.Now(), quotaKey{b.capacityType(), allFamilies}, 0)
		}
		for k, c := range b.options {
			if wide && !all && (name == "" || k.InstanceType == name) {
				p.quotas.noteExhausted(p.clock.Now(), quotaKey{k.CapacityType, quotaFamily(c.name)}, c.cpus)
			}
			if all || (name == "" || k.InstanceType == name) && (zone == "" || k.Zone == zone) ||
				code == codeNoAddresses && k.Zone == zone {
				if !slices.Contains(out, k) {
					out = append(out, k)
				}
			}
		}
	}
	return sortOfferingKeys(out), elsewhere, other
}

func sortOfferingKeys(list []cloud.OfferingKey) []cloud.OfferingKey {
	slices.SortFunc(list, func(a, b cloud.OfferingKey) int {
		switch {
		case a.Less(b):
			return -1
		case b.Less(a):
			return 1
		}
		return 0
	})
	return slices.Compact(list)
}

func (p *Provider) overrideZone(r *resolvedClass, o *types.FleetLaunchTemplateOverrides) string {
	for _, s := range r.subnets {
		if s.id == deref(o.SubnetId) {
			return s.zone
		}
	}
	return deref(o.AvailabilityZone)
}

// launchResult describes a machine that was bought.
func launchResult(c launchOption, id string, req cloud.LaunchRequest, hash string) cloud.LaunchResult {
	out := cloud.LaunchResult{
		ClaimUID: req.ClaimUID, ProviderID: providerID(c.offering.Zone, id), InstanceType: c.name, Zone: c.offering.Zone, CapacityType: c.offering.CapacityType,
		PriceMicro: c.offering.PriceMicro, Modelled: c.offering.Modelled, ImageID: c.image.id, Capacity: c.instanceType.Capacity, Allocatable: c.instanceType.Allocatable,
		Labels:      model.Labels{model.LabelZone: c.offering.Zone, model.LabelCapacityType: c.offering.CapacityType},
		Annotations: model.Labels{awsv1.AnnotationEC2NodeClassHash: hash, awsv1.AnnotationEC2NodeClassHashVersion: awsv1.EC2NodeClassHashVersion},
	}
	for _, from := range []model.Labels{c.instanceType.Labels, c.offering.Labels} {
		for k, v := range from {
			out.Labels[k] = v
		}
	}
	return out
}

func providerID(zone, id string) string { return "aws:///" + zone + "/" + id }

// instanceID is the instance of a provider id; what is none is taken as it is, for EC2 to say so.
func instanceID(providerID string) string {
	return providerID[strings.LastIndexByte(providerID, '/')+1:]
}

// confirmLaunched answers what a launch has bought, unless it has ended since.
func (p *Provider) confirmLaunched(ctx context.Context, req cloud.LaunchRequest, l *claimLaunch) cloud.LaunchResult {
	gone := func() cloud.LaunchResult {
		return cloud.LaunchResult{Err: &cloud.Error{Kind: cloud.NotFound, Op: "launch", Object: req.ClaimName, Err: fmt.Errorf("its machine %s has ended", l.result.ProviderID)}}
	}
	id := instanceID(l.result.ProviderID)
	if p.instances.hasEnded(id) {
		return gone()
	}
	res, err := p.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	switch {
	case errorCode(err) == codeInstanceUnknown && p.clock.Now().Sub(l.launchedAt) < ListDelay:
		return *l.result // it is not described yet
	case errorCode(err) == codeInstanceUnknown:
		return gone()
	case err != nil:
		return cloud.LaunchResult{Err: classifyError(ctx, "launch", req.ClaimName, err)}
	}
	for _, in := range flattenReservations(res.Reservations) {
		if isEnding(in.State) {
			return gone()
		}
	}
	return *l.result
}

// answerExisting answers for a machine that was bought earlier.
func (p *Provider) answerExisting(ctx context.Context, r *resolvedClass, req cloud.LaunchRequest, l *claimLaunch, m *instance) cloud.LaunchResult {
	if m.gone {
		return cloud.LaunchResult{Err: &cloud.Error{Kind: cloud.NotFound, Op: "launch", Object: req.ClaimName, Err: fmt.Errorf("its machine %s has ended", m.id)}}
	}
	o, err := p.fleetOfferings(ctx, r)
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
func (p *Provider) recoverReusedToken(ctx context.Context, r *resolvedClass, req cloud.LaunchRequest, l *claimLaunch) (cloud.LaunchResult, bool) {
	now := p.clock.Now()
	if l.tokenReusedSince.IsZero() {
		l.tokenReusedSince = now
	}
	list, err := p.listInstances(ctx, now)
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
	o, err := p.fleetOfferings(ctx, r)
	if err != nil {
		return cloud.LaunchResult{Err: classifyError(ctx, "launch", req.ClaimName, err)}, true
	}
	l.options = o.launchOptions(req)
	return cloud.LaunchResult{}, len(l.options) == 0
}

func describeRequest(r cloud.LaunchRequest) string {
	var out []string
	if len(r.Types) > 0 {
		out = append(out, fmt.Sprintf("%d types", len(r.Types)))
	}
	if len(r.Zones) > 0 {
		out = append(out, "zones "+strings.Join(r.Zones, ", "))
	}
	if len(r.CapacityTypes) > 0 {
		out = append(out, "capacity types "+strings.Join(r.CapacityTypes, ", "))
	}
	if len(r.Requirements) > 0 {
		s := r.Requirements.String()
		if len(s) > 300 {
			s = s[:300] + "…"
		}
		out = append(out, "requirements "+s)
	}
	if len(out) == 0 {
		return "any requirements"
	}
	return strings.Join(out, ", ")
}

func formatRequests(r model.Resources) string {
	if r.IsZero() {
		return "a node"
	}
	return r.Format(model.FixedNames())
}

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

// launches are the launches of this process: what was asked for, so that a repetition asks for the same, and what came of it.
type launches struct {
	mu sync.Mutex
	m  map[string]*launch // by claim uid
}

// launch is one claim's. Its fields are used by whoever has the turn.
type launch struct {
	turn chan struct{}
	at   time.Time // when it was last looked at

	attempt  int         // tokens before this one are used up
	vain     int         // as many of them bought nothing; those for which there was only no time are not counted
	pending  *purchase   // sent, and not answered
	tried    []candidate // all that the request allowed, when it was first made
	missing  []cloud.OfferingKey
	mended   bool      // a missing launch template was made again
	reused   time.Time // when a token was first found used by other parameters; zero: never
	looked   bool      // of a group's: what was bought before was looked for
	reason   error     // of a group's: why the last one asked has none
	bought   *cloud.LaunchResult
	boughtAt time.Time
}

// keep is how long a launch is remembered after it was last looked at, also one whose request had no answer: its claim is gone by then. One
// that is not is found by its tag.
const keep = 30 * time.Minute

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
			results[i] = p.launch(ctx, r)
			results[i].ClaimUID = r.ClaimUID
		})
	}
	wg.Wait()
	return results
}

// launch takes a claim's turn and has its class's kind of machines bought.
func (p *Provider) launch(ctx context.Context, req cloud.LaunchRequest) cloud.LaunchResult {
	fail := func(err error) cloud.LaunchResult {
		return cloud.LaunchResult{Err: failed(ctx, "launch", req.ClaimName, err)}
	}
	if ctx.Err() != nil {
		return fail(ctx.Err())
	}
	var c *class
	var g *groupClass
	var err error
	if ofGroups(req.Class) {
		g, err = readGroupClass("launch", req.Class)
	} else {
		c, err = readClass("launch", req.Class)
	}
	if err != nil {
		return fail(err)
	}
	l := p.launchOf(req.ClaimUID)
	select {
	case <-l.turn:
	case <-ctx.Done():
		return fail(ctx.Err())
	}
	defer func() { l.turn <- struct{}{} }()
	l.at = p.clock.Now()
	if g != nil {
		return p.launchInGroup(ctx, g, req, l)
	}
	return p.launchFleet(ctx, c, req, l)
}

func (p *Provider) launchFleet(ctx context.Context, c *class, req cloud.LaunchRequest, l *launch) cloud.LaunchResult {
	const op = "launch"
	fail := func(err error) cloud.LaunchResult {
		return cloud.LaunchResult{Err: failed(ctx, op, req.ClaimName, err)}
	}
	r, err := p.resolve(ctx, c)
	if err != nil {
		return fail(err)
	}
	// What was bought before this process began, or so long ago that it was forgotten.
	if l.bought == nil && l.pending == nil && l.attempt == 0 {
		list, err := p.machines(ctx, time.Time{})
		if err != nil {
			return fail(err)
		}
		if m := list.of(req.ClaimUID); m != nil {
			return p.found(ctx, r, req, l, m)
		}
	}
	if l.bought != nil {
		return p.again(ctx, req, l)
	}
	if err := r.ready(op); err != nil && l.pending == nil {
		return fail(err)
	}
	o, err := p.offer(ctx, r)
	if err != nil {
		return fail(err)
	}
	if l.tried == nil {
		l.tried = o.candidates(req)
	}
	if len(l.tried) == 0 {
		return fail(&cloud.Error{Kind: cloud.Denied, Err: fmt.Errorf("EC2NodeClass %s offers nothing in region %s for %s that holds %s", c.name, p.region, describe(req), requestsOf(req.Requests))})
	}
	for {
		if l.pending == nil {
			next := p.next(l)
			if len(next) == 0 {
				missing := slices.Concat(l.missing, p.beyond(o))
				if len(missing) == 0 {
					for _, c := range l.tried {
						missing = append(missing, c.key())
					}
				}
				return fail(&cloud.Error{Kind: cloud.InsufficientCapacity, Offerings: sortedKeys(missing)})
			}
			if l.vain >= maxAttempts {
				return fail(fmt.Errorf("%d requests were made in vain", l.vain))
			}
			token := req.ClaimUID
			if l.attempt > 0 {
				token = fmt.Sprintf("%s-%d", req.ClaimUID, l.attempt)
			}
			if l.pending, err = p.purchase(r, req, next, token); err != nil {
				return fail(notReady(op, req.ClaimName, "EC2NodeClass %s: %w", c.name, err))
			}
		}
		for _, t := range l.pending.templates {
			if err := p.ensureTemplate(ctx, t); err != nil {
				return fail(err)
			}
		}
		answer, err := p.ec2.CreateFleet(ctx, l.pending.input)
		if err == nil {
			if res, done := p.answered(r, o, req, l, answer); done {
				return res
			}
			continue
		}
		switch code := codeOf(err); {
		case code == codeTokenReused:
			if res, done := p.tokenReused(ctx, r, req, l); done {
				return res
			}
		case noTemplate(code) && !l.mended:
			l.mended = true
			p.forgetTemplates(l.pending)
			// Nothing came of the request, and its token was not used.
		default:
			if refused(err, code) {
				// It was refused for what it says. Another one may be made of what is known by then.
				l.pending, l.tried = nil, nil
			}
			return fail(err)
		}
	}
}

// refused says whether a request certainly had no effect: the service answered that what it asks for won't do. Any answer of 500 and above,
// and one that came too late, may hide an instance.
func refused(err error, code string) bool {
	var res *smithyhttp.ResponseError
	return code != "" && !throttled(code) && !denied(code) && code != "RequestExpired" && !strings.HasPrefix(code, "RequestTimeout") &&
		errors.As(err, &res) && res.HTTPStatusCode() < 500
}

func (p *Provider) forgetTemplates(b *purchase) {
	for _, t := range b.templates {
		p.templates.forget(t.name)
	}
}

// launchOf is what is remembered of a claim's launch.
func (p *Provider) launchOf(uid string) *launch {
	now := p.clock.Now()
	p.launches.mu.Lock()
	defer p.launches.mu.Unlock()
	l := p.launches.m[uid]
	if l == nil {
		if len(p.launches.m)%64 == 63 {
			for k, old := range p.launches.m {
				select {
				case <-old.turn:
					if now.Sub(old.at) > keep {
						delete(p.launches.m, k)
					}
					old.turn <- struct{}{}
				default: // somebody is at it
				}
			}
		}
		l = &launch{turn: make(chan struct{}, 1), at: now}
		l.turn <- struct{}{}
		p.launches.m[uid] = l
	}
	return l
}

// next are the offerings to try now: of the first capacity type of which not all are known to be missing.
func (p *Provider) next(l *launch) []candidate {
	now := p.clock.Now()
	for _, step := range steps(l.tried) {
		left := slices.DeleteFunc(slices.Clone(step), func(c candidate) bool {
			return slices.Contains(l.missing, c.key()) || p.quotas.refuses(now, c.machineType, c.o.CapacityType)
		})
		if len(left) > 0 {
			return left
		}
	}
	return nil
}

// answered takes in what CreateFleet said. It is not done when the next request is to be made.
func (p *Provider) answered(r *resolved, o *offer, req cloud.LaunchRequest, l *launch, a *ec2.CreateFleetOutput) (cloud.LaunchResult, bool) {
	b := l.pending
	for _, in := range a.Instances {
		if len(in.InstanceIds) == 0 {
			continue
		}
		res := cloud.LaunchResult{}
		missing, _, _ := p.missing(r, b, a.Errors)
		key := cloud.OfferingKey{InstanceType: string(in.InstanceType), CapacityType: b.capacityType()}
		if o := in.LaunchTemplateAndOverrides; o != nil && o.Overrides != nil {
			key.Zone = p.zoneOf(r, o.Overrides)
			if key.InstanceType == "" {
				key.InstanceType = string(o.Overrides.InstanceType)
			}
		}
		c, ok := b.offers[key]
		if !ok {
			return cloud.LaunchResult{Err: &cloud.Error{Kind: cloud.Unknown, Op: "launch", Object: req.ClaimName, Err: fmt.Errorf("EC2 bought %s, which was not asked for", key)}}, true
		}
		res = result(c, in.InstanceIds[0], req, r.hash)
		price := c.o.PriceMicro
		for _, k := range slices.Concat(l.missing, missing) {
			if m, ok := b.offers[k]; !ok || m.o.PriceMicro <= price {
				res.Unavailable = append(res.Unavailable, k)
			}
		}
		res.Unavailable = sortedKeys(append(res.Unavailable, p.beyond(o)...))
		b.take(c, r)
		l.bought, l.boughtAt, l.pending, l.tried = &res, p.clock.Now(), nil, nil
		p.fleet.bought(machine{id: in.InstanceIds[0], zone: key.Zone, claimUID: req.ClaimUID, claimName: req.ClaimName, launched: l.boughtAt})
		return res, true
	}
	// Nothing was bought: this token is used up.
	l.attempt++
	missing, elsewhere, other := p.missing(r, b, a.Errors)
	if other == nil || len(missing) > 0 || !throttled(deref(other.ErrorCode)) {
		l.vain++
	}
	l.pending = nil
	if other != nil {
		code := deref(other.ErrorCode)
		switch {
		case noTemplate(code) && !l.mended:
			l.mended = true
			p.forgetTemplates(b)
			return cloud.LaunchResult{}, false
		case noTemplate(code):
			return cloud.LaunchResult{Err: notReady("launch", req.ClaimName, "EC2NodeClass %s: its launch template was deleted, made again and is missing still: %s", r.name, deref(other.ErrorMessage))}, true
		case len(missing) == 0:
			kind := cloud.Unknown
			after := time.Duration(0)
			switch {
			case denied(code):
				kind = cloud.Denied
			case throttled(code):
				kind, after = cloud.Throttled, throttleAfter
			case strings.HasPrefix(code, "Invalid"):
				kind = cloud.Denied
			}
			return cloud.LaunchResult{Err: &cloud.Error{Kind: kind, Op: "launch", Object: req.ClaimName, After: after,
				Err: fmt.Errorf("EC2 CreateFleet: %s: %s", code, deref(other.ErrorMessage))}}, true
		}
	}
	if len(missing) == 0 && !elsewhere { // EC2 does not say of which
		for k := range b.offers {
			missing = append(missing, k)
		}
	}
	l.missing = append(l.missing, missing...)
	return cloud.LaunchResult{}, false
}

func (b *purchase) capacityType() string {
	for k := range b.offers {
		return k.CapacityType // all have the same
	}
	return ""
}

// where is what an error of CreateFleet is about, as far as it says.
func (b *purchase) where(e *types.CreateFleetError) (name, zone string) {
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

// missing are the offerings that had no capacity, whether a zone had no addresses where it was tried and has some in another subnet, and the
// first error of any other kind. Beside the last two EC2 says as well, of nothing in particular, that capacity could not be fulfilled: that is no
// news of any offering.
func (p *Provider) missing(r *resolved, b *purchase, errs []types.CreateFleetError) (out []cloud.OfferingKey, elsewhere bool, other *types.CreateFleetError) {
	room := func(zone string) bool {
		s := r.best(zone)
		return s != nil && s.free > s.taken.Load()
	}
	for i := range errs {
		e := &errs[i]
		_, zone := b.where(e)
		switch code := deref(e.ErrorCode); {
		case !noCapacity(code) && other == nil:
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
		name, zone := b.where(e)
		wide, all := accountWide(code)
		switch {
		case !noCapacity(code), code == codeNoAddresses && zone != "" && room(zone):
			continue
		case (other != nil || elsewhere) && (code == codeUnfulfillable || name == "" && zone == "" && !wide):
			continue
		}
		if all {
			p.quotas.spend(p.clock.Now(), quota{b.capacityType(), everything}, 0)
		}
		for k, c := range b.offers {
			if wide && !all && (name == "" || k.InstanceType == name) {
				p.quotas.spend(p.clock.Now(), quota{k.CapacityType, families(c.name)}, c.cpus)
			}
			if all || (name == "" || k.InstanceType == name) && (zone == "" || k.Zone == zone) ||
				code == codeNoAddresses && k.Zone == zone {
				if !slices.Contains(out, k) {
					out = append(out, k)
				}
			}
		}
	}
	return sortedKeys(out), elsewhere, other
}

func sortedKeys(list []cloud.OfferingKey) []cloud.OfferingKey {
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

func (p *Provider) zoneOf(r *resolved, o *types.FleetLaunchTemplateOverrides) string {
	for _, s := range r.subnets {
		if s.id == deref(o.SubnetId) {
			return s.zone
		}
	}
	return deref(o.AvailabilityZone)
}

// result describes a machine that was bought.
func result(c candidate, id string, req cloud.LaunchRequest, hash string) cloud.LaunchResult {
	out := cloud.LaunchResult{
		ClaimUID: req.ClaimUID, ProviderID: providerID(c.o.Zone, id), InstanceType: c.name, Zone: c.o.Zone, CapacityType: c.o.CapacityType,
		PriceMicro: c.o.PriceMicro, Modelled: c.o.Modelled, ImageID: c.image.id, Capacity: c.it.Capacity, Allocatable: c.it.Allocatable,
		Labels:      model.Labels{model.LabelZone: c.o.Zone, model.LabelCapacityType: c.o.CapacityType},
		Annotations: model.Labels{awsv1.AnnotationEC2NodeClassHash: hash, awsv1.AnnotationEC2NodeClassHashVersion: awsv1.EC2NodeClassHashVersion},
	}
	for _, from := range []model.Labels{c.it.Labels, c.o.Labels} {
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

// again answers what a launch has bought, unless it has ended since.
func (p *Provider) again(ctx context.Context, req cloud.LaunchRequest, l *launch) cloud.LaunchResult {
	gone := func() cloud.LaunchResult {
		return cloud.LaunchResult{Err: &cloud.Error{Kind: cloud.NotFound, Op: "launch", Object: req.ClaimName, Err: fmt.Errorf("its machine %s has ended", l.bought.ProviderID)}}
	}
	id := instanceID(l.bought.ProviderID)
	if p.fleet.hasEnded(id) {
		return gone()
	}
	res, err := p.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	switch {
	case codeOf(err) == codeInstanceUnknown && p.clock.Now().Sub(l.boughtAt) < ListDelay:
		return *l.bought // it is not described yet
	case codeOf(err) == codeInstanceUnknown:
		return gone()
	case err != nil:
		return cloud.LaunchResult{Err: failed(ctx, "launch", req.ClaimName, err)}
	}
	for _, in := range instancesOf(res.Reservations) {
		if ended(in.State) {
			return gone()
		}
	}
	return *l.bought
}

// found answers for a machine that was bought earlier.
func (p *Provider) found(ctx context.Context, r *resolved, req cloud.LaunchRequest, l *launch, m *machine) cloud.LaunchResult {
	if m.gone {
		return cloud.LaunchResult{Err: &cloud.Error{Kind: cloud.NotFound, Op: "launch", Object: req.ClaimName, Err: fmt.Errorf("its machine %s has ended", m.id)}}
	}
	o, err := p.offer(ctx, r)
	if err != nil {
		return cloud.LaunchResult{Err: failed(ctx, "launch", req.ClaimName, err)}
	}
	t := o.by[m.instanceType]
	if t == nil {
		return cloud.LaunchResult{Err: &cloud.Error{Kind: cloud.Unknown, Op: "launch", Object: req.ClaimName, Err: fmt.Errorf("its machine %s is a %s, which EC2NodeClass %s does not offer any more", m.id, m.instanceType, r.name)}}
	}
	c := candidate{t, &model.Offering{Zone: m.zone, CapacityType: m.capacityType}}
	for i := range t.it.Offerings {
		if f := &t.it.Offerings[i]; f.Zone == m.zone && f.CapacityType == m.capacityType {
			c.o = f
		}
	}
	res := result(c, m.id, req, r.hash)
	res.ImageID = m.image
	l.bought, l.boughtAt, l.pending, l.tried = &res, m.launched, nil, nil
	return res
}

// tokenReused looks for the machine that another process bought with the token. When there is none for as long as Describe may lag,
// the request came to nothing, and the next token may be used.
func (p *Provider) tokenReused(ctx context.Context, r *resolved, req cloud.LaunchRequest, l *launch) (cloud.LaunchResult, bool) {
	now := p.clock.Now()
	if l.reused.IsZero() {
		l.reused = now
	}
	list, err := p.machines(ctx, now)
	if err != nil {
		return cloud.LaunchResult{Err: failed(ctx, "launch", req.ClaimName, err)}, true
	}
	if m := list.of(req.ClaimUID); m != nil {
		return p.found(ctx, r, req, l, m), true
	}
	if wait := l.reused.Add(ListDelay).Sub(now); wait > 0 {
		return cloud.LaunchResult{Err: &cloud.Error{Kind: cloud.Throttled, Op: "launch", Object: req.ClaimName, After: min(wait, time.Second),
			Err: errors.New("its token was used before: looking for the machine by its tag")}}, true
	}
	l.attempt, l.vain = l.attempt+1, l.vain+1
	l.pending, l.tried, l.reused = nil, nil, time.Time{} // the next token has a lag of its own to be waited for
	if l.vain >= maxAttempts {
		return cloud.LaunchResult{Err: &cloud.Error{Kind: cloud.Unknown, Op: "launch", Object: req.ClaimName, Err: fmt.Errorf("%d tokens were used before, and no machine bears the claim's tag", l.vain)}}, true
	}
	o, err := p.offer(ctx, r)
	if err != nil {
		return cloud.LaunchResult{Err: failed(ctx, "launch", req.ClaimName, err)}, true
	}
	l.tried = o.candidates(req)
	return cloud.LaunchResult{}, len(l.tried) == 0
}

func describe(r cloud.LaunchRequest) string {
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

func requestsOf(r model.Resources) string {
	if r.IsZero() {
		return "a node"
	}
	return r.Format(model.FixedNames())
}

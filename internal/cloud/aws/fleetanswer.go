// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// handleFleetAnswer takes in what CreateFleet said. It is not done when the next request is to be made.
func (p *fleetProvider) handleFleetAnswer(r *resolvedClass, o *offeringSet, req cloud.LaunchRequest, l *fleetLaunch, a *ec2.CreateFleetOutput) (cloud.LaunchResult, bool) {
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
		l.result, l.launchedAt, l.pending, l.options = &res, p.aws.clock.Now(), nil, nil
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
			p.templates.forget(b.templates)
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

// readFleetErrors are the offerings that had no capacity, whether a zone had no addresses where it was tried and has some in another subnet, and the
// first error of any other kind. Beside the last two EC2 says as well, of nothing in particular, that capacity could not be fulfilled: that is no
// news of any offering.
func (p *fleetProvider) readFleetErrors(r *resolvedClass, b *fleetRequest, errs []types.CreateFleetError) (out []cloud.OfferingKey, elsewhere bool, other *types.CreateFleetError) {
	room := func(zone string) bool {
		s := r.bestSubnet(zone)
		return s != nil && s.remaining() > 0
	}
	for i := range errs {
		e := &errs[i]
		_, zone := b.errorTarget(e)
		switch code := deref(e.ErrorCode); {
		case !isOutOfCapacity(code) && other == nil:
			other = e
		case code == codeNoAddresses && zone != "":
			if s := b.subnets[zone]; s != nil {
				s.markFull()
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
			p.quotas.noteExhausted(p.aws.clock.Now(), quotaKey{b.capacityType(), allFamilies}, 0)
		}
		for k, c := range b.options {
			if wide && !all && (name == "" || k.InstanceType == name) {
				p.quotas.noteExhausted(p.aws.clock.Now(), quotaKey{k.CapacityType, quotaFamily(c.name)}, c.cpus)
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

func (p *fleetProvider) overrideZone(r *resolvedClass, o *types.FleetLaunchTemplateOverrides) string {
	for _, s := range r.subnets {
		if s.id == deref(o.SubnetId) {
			return s.zone
		}
	}
	return deref(o.AvailabilityZone)
}

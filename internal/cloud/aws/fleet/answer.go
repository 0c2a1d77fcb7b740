// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package fleet

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instances"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/launch"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/nodeclass"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/offering"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/quota"
)

// handleAnswer takes in what CreateFleet said to the pending request. It is not done when the next request is to be
// made.
func (p *Provider) handleAnswer(r *nodeclass.Resolved, o *offering.Set, req cloud.LaunchRequest, l *claimLaunch, a *ec2.CreateFleetOutput) (cloud.LaunchResult, bool) {
	b := l.pending
	for _, in := range a.Instances {
		if len(in.InstanceIds) == 0 {
			continue
		}
		res := cloud.LaunchResult{}
		missing, _, _ := p.readErrors(r, b, a.Errors)
		key := cloud.OfferingKey{InstanceType: string(in.InstanceType), CapacityType: b.capacityType()}
		if o := in.LaunchTemplateAndOverrides; o != nil && o.Overrides != nil {
			key.Zone = p.overrideZone(r, o.Overrides)
			if key.InstanceType == "" {
				key.InstanceType = string(o.Overrides.InstanceType)
			}
		}
		c, ok := b.options[key]
		if !ok {
			return cloud.LaunchResult{Err: &cloud.Error{Kind: cloud.Unknown, Op: "launch", Object: req.ClaimName, Err: fmt.Errorf("EC2 launched %s, which was not requested", key)}}, true
		}
		res = launch.NewResult(c, in.InstanceIds[0], req, r.Hash)
		price := c.PriceMicro
		for _, k := range slices.Concat(l.Unavailable, missing) {
			if m, ok := b.options[k]; !ok || m.PriceMicro <= price {
				res.Unavailable = append(res.Unavailable, k)
			}
		}
		res.Unavailable = offering.SortKeys(append(res.Unavailable, p.quotaLimitedOfferings(o)...))
		b.recordTaken(c, r)
		l.Result, l.LaunchedAt, l.pending, l.Options = &res, p.aws.Clock.Now(), nil, nil
		p.instances.AddLaunched(instances.Instance{ID: in.InstanceIds[0], Zone: key.Zone, ClaimUID: req.ClaimUID, ClaimName: req.ClaimName, Launched: l.LaunchedAt})
		return res, true
	}
	// Nothing was bought: this token is used up.
	l.attempt++
	missing, elsewhere, other := p.readErrors(r, b, a.Errors)
	if other == nil || len(missing) > 0 || !awsapi.IsThrottled(awsapi.Deref(other.ErrorCode)) {
		l.failedAttempts++
	}
	l.pending = nil
	if other != nil {
		code := awsapi.Deref(other.ErrorCode)
		switch {
		case awsapi.IsTemplateNotFound(code) && !l.templateRecreated:
			l.templateRecreated = true
			p.templates.forget(b.templates)
			return cloud.LaunchResult{}, false
		case awsapi.IsTemplateNotFound(code):
			return cloud.LaunchResult{Err: awsapi.NotReadyError("launch", req.ClaimName, "EC2NodeClass %s: its launch template was deleted and recreated, and is still not found: %s", r.Name, awsapi.Deref(other.ErrorMessage))}, true
		case len(missing) == 0:
			kind := cloud.Unknown
			after := time.Duration(0)
			switch {
			case awsapi.IsDenied(code):
				kind = cloud.Denied
			case awsapi.IsThrottled(code):
				kind, after = cloud.Throttled, awsapi.DefaultThrottleDelay
			case strings.HasPrefix(code, "Invalid"):
				kind = cloud.Denied
			}
			return cloud.LaunchResult{Err: &cloud.Error{Kind: kind, Op: "launch", Object: req.ClaimName, After: after,
				Err: fmt.Errorf("EC2 CreateFleet: %s: %s", code, awsapi.Deref(other.ErrorMessage))}}, true
		}
	}
	if len(missing) == 0 && !elsewhere { // EC2 does not say of which
		for k := range b.options {
			missing = append(missing, k)
		}
	}
	l.Unavailable = append(l.Unavailable, missing...)
	return cloud.LaunchResult{}, false
}

// readErrors reads the errors of an answer that has no machine. out: the offerings that had no capacity, sorted.
// elsewhere: a zone had no addresses in the subnet that was tried, and has some in another. other: the first error of
// any other kind; nil: there is none.
//
// Beside the last two EC2 says as well, of nothing in particular, that capacity could not be fulfilled: that says
// nothing of any offering.
func (p *Provider) readErrors(r *nodeclass.Resolved, b *request, errs []types.CreateFleetError) (out []cloud.OfferingKey, elsewhere bool, other *types.CreateFleetError) {
	room := func(zone string) bool {
		s := r.BestSubnet(zone)
		return s != nil && s.Remaining() > 0
	}
	for i := range errs {
		e := &errs[i]
		_, zone := b.errorTarget(e)
		switch code := awsapi.Deref(e.ErrorCode); {
		case !awsapi.IsOutOfCapacity(code) && other == nil:
			other = e
		case code == awsapi.CodeNoAddresses && zone != "":
			if s := b.subnets[zone]; s != nil {
				s.MarkFull()
			}
			elsewhere = elsewhere || room(zone)
		}
	}
	for i := range errs {
		e := &errs[i]
		code := awsapi.Deref(e.ErrorCode)
		name, zone := b.errorTarget(e)
		wide, all := quota.Covers(code)
		switch {
		case !awsapi.IsOutOfCapacity(code), code == awsapi.CodeNoAddresses && zone != "" && room(zone):
			continue
		case (other != nil || elsewhere) && (code == awsapi.CodeUnfulfillable || name == "" && zone == "" && !wide):
			continue
		}
		for k, c := range b.options {
			if wide && (all || name == "" || k.InstanceType == name) {
				p.quotas.Note(code, awsapi.Deref(e.ErrorMessage), k.CapacityType, c.Name, c.CPUs)
			}
			if all || (name == "" || k.InstanceType == name) && (zone == "" || k.Zone == zone) ||
				code == awsapi.CodeNoAddresses && k.Zone == zone {
				if !slices.Contains(out, k) {
					out = append(out, k)
				}
			}
		}
	}
	return offering.SortKeys(out), elsewhere, other
}

// overrideZone is the zone of an override that EC2 chose.
func (p *Provider) overrideZone(r *nodeclass.Resolved, o *types.FleetLaunchTemplateOverrides) string {
	for _, s := range r.Subnets {
		if s.ID == awsapi.Deref(o.SubnetId) {
			return s.Zone
		}
	}
	return awsapi.Deref(o.AvailabilityZone)
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package interruption

import (
	"context"
	"strings"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instances"
)

// impairedFor is how long a status check must fail before the instance counts as lost. deniedInterval is the retry
// interval after a denied request.
const (
	impairedFor    = 2 * time.Minute
	deniedInterval = time.Hour
)

// StatusChecks polls EC2 for instances that fail status checks or are scheduled for maintenance. It needs no queue.
type StatusChecks struct {
	aws       *awsapi.Account
	instances *instances.Index
	next      time.Time            // when EC2 is asked again; zero: at once
	told      map[checkNotice]bool // what was said by the last answer and has been dealt with
}

// checkNotice is one thing that is wrong with one instance.
type checkNotice struct{ instance, kind string }

// NewStatusChecks returns StatusChecks. index determines which instances belong to the cluster.
func NewStatusChecks(a *awsapi.Account, index *instances.Index) *StatusChecks {
	return &StatusChecks{aws: a, instances: index, told: map[checkNotice]bool{}}
}

// checkFilters are what to ask for: EC2 takes an instance for which all filters of one request hold, and any of these
// is enough.
var checkFilters = []types.Filter{
	awsapi.NewFilter("instance-status.status", string(types.SummaryStatusImpaired)),
	awsapi.NewFilter("system-status.status", string(types.SummaryStatusImpaired)),
	awsapi.NewFilter("event.code", string(types.EventCodeInstanceReboot), string(types.EventCodeSystemReboot), string(types.EventCodeSystemMaintenance),
		string(types.EventCodeInstanceRetirement), string(types.EventCodeInstanceStop)),
}

// Watch passes each event of the cluster's instances to handle once, until the context ends. Events that could not be
// handled are passed again with the next response.
func (s *StatusChecks) Watch(ctx context.Context, handle func(context.Context, cloud.Interruption) error) {
	interval := s.aws.Config.StatusCheckInterval
	for interval > 0 {
		if wait := s.next.Sub(s.aws.Clock.Now()); wait > 0 && s.aws.Clock.Wait(ctx, wait) != nil {
			return
		}
		if ctx.Err() != nil {
			return
		}
		s.next = s.aws.Clock.Now().Add(interval)
		found, err := s.find(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case awsapi.IsDenied(awsapi.ErrorCode(err)):
			s.next = s.aws.Clock.Now().Add(deniedInterval)
			s.aws.Log.Warn("EC2's status checks can't be read: allow ec2:DescribeInstanceStatus in the controller's IAM policy; trying again in an hour", "error", awsapi.ReadableError(err))
		case err != nil:
			s.aws.Log.Warn("EC2 status checks can't be read, trying again", "error", awsapi.ReadableError(err))
		default:
			s.tell(ctx, found, handle)
		}
	}
}

// find asks EC2 which instances something is wrong with, and since when or from when on.
func (s *StatusChecks) find(ctx context.Context) (map[checkNotice]time.Time, error) {
	out := map[checkNotice]time.Time{}
	for _, f := range checkFilters {
		pages := ec2.NewDescribeInstanceStatusPaginator(s.aws.EC2, &ec2.DescribeInstanceStatusInput{MaxResults: sdk.Int32(1000), Filters: []types.Filter{f}})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return nil, err
			}
			for i := range page.InstanceStatuses {
				readStatus(out, &page.InstanceStatuses[i], s.aws.Clock.Now())
			}
		}
	}
	return out, nil
}

// readStatus adds the problems of one instance to out. A check that has just begun to fail may still recover.
func readStatus(out map[checkNotice]time.Time, in *types.InstanceStatus, now time.Time) {
	id := awsapi.Deref(in.InstanceId)
	for _, c := range []struct {
		kind    string
		summary *types.InstanceStatusSummary
	}{{cloud.InstanceStatusFailed, in.InstanceStatus}, {cloud.SystemStatusFailed, in.SystemStatus}} {
		if c.summary == nil {
			continue
		}
		for _, d := range c.summary.Details {
			if since := awsapi.Deref(d.ImpairedSince); d.Status == types.StatusTypeFailed && now.Sub(since) >= impairedFor {
				out[checkNotice{id, c.kind}] = time.Time{}
			}
		}
	}
	for _, e := range in.Events {
		// EC2 goes on listing an event that is over, with a word in front of what it was.
		if text := awsapi.Deref(e.Description); strings.HasPrefix(text, "[Completed]") || strings.HasPrefix(text, "[Canceled]") {
			continue
		}
		out[checkNotice{id, cloud.ScheduledChange}] = awsapi.Deref(e.NotBefore)
	}
}

// tell passes new events to handle, and removes those that no longer apply.
func (s *StatusChecks) tell(ctx context.Context, found map[checkNotice]time.Time, handle func(context.Context, cloud.Interruption) error) {
	for n := range s.told {
		if _, still := found[n]; !still {
			delete(s.told, n)
		}
	}
	for n, at := range found {
		if s.told[n] {
			continue
		}
		where, err := s.instances.FindProviderID(ctx, n.instance)
		if err != nil {
			s.aws.Log.Warn("a failed EC2 status check can't be handled yet, trying again", "instance", n.instance, "error", err)
			continue
		}
		if where == "" { // not the cluster's
			s.told[n] = true
			continue
		}
		s.told[n] = handle(ctx, cloud.Interruption{ProviderID: where, Kind: n.kind, At: at, Sent: s.aws.Clock.Now()}) == nil
	}
}

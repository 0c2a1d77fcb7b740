// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package instances

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
)

// Terminate terminates machines that are not in a group. Concurrent calls share one request. Errors are in the order of
// the IDs; false: the context ended first.
func (x *Index) Terminate(ctx context.Context, ids []string) ([]error, bool) {
	return x.terminations.Ask(ctx, ids)
}

// TerminateNow terminates instances with its own request. Errors are in the order of the IDs: nil if this call
// terminates the instance, NotFound if it was already being terminated. EC2 rejects a request with an unknown or
// protected ID: such an ID is removed and the request repeated.
func (x *Index) TerminateNow(ctx context.Context, ids []string) []error {
	out := make([]error, len(ids))
	open := slices.Compact(slices.Sorted(slices.Values(ids)))
	answer := map[string]error{}
	for len(open) > 0 {
		res, err := x.aws.EC2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: open})
		if code := awsapi.ErrorCode(err); code == awsapi.CodeInstanceUnknown || code == awsapi.CodeInstanceBad {
			unknown := slices.DeleteFunc(slices.Clone(open), func(id string) bool { return !containsID(err.Error(), id) })
			if len(unknown) == 0 {
				if len(open) > 1 { // it does not say which: one by one
					for _, id := range open {
						answer[id] = x.TerminateNow(ctx, []string{id})[0]
					}
					break
				}
				unknown = open
			}
			for _, id := range unknown {
				answer[id] = err
			}
			open = slices.DeleteFunc(open, func(id string) bool { return slices.Contains(unknown, id) })
			continue
		}
		if code := awsapi.ErrorCode(err); len(open) > 1 && code != "" && !awsapi.IsThrottled(code) && !strings.HasPrefix(code, "Internal") {
			for _, id := range open { // one that may not be ended fails the whole call: it must not keep the others
				answer[id] = x.TerminateNow(ctx, []string{id})[0]
			}
			break
		}
		if err != nil {
			for _, id := range open {
				answer[id] = err
			}
			break
		}
		now := x.aws.Clock.Now()
		for _, s := range res.TerminatingInstances {
			id := awsapi.Deref(s.InstanceId)
			x.MarkEnded(id, now)
			if isEnding(s.PreviousState) {
				answer[id] = &cloud.Error{Kind: cloud.NotFound}
			}
		}
		break
	}
	for i, id := range ids {
		out[i] = answer[id]
	}
	return out
}

// Reboot requests the restart of an instance, once: a request without a response may have had its effect, and is not
// repeated.
func (x *Index) Reboot(ctx context.Context, id string) error {
	_, err := x.aws.EC2.RebootInstances(ctx, &ec2.RebootInstancesInput{InstanceIds: []string{id}}, func(o *ec2.Options) { o.Retryer = aws.NopRetryer{} })
	return awsapi.ExplainDenied("reboot instances", err)
}

// containsID reports whether a text names an id, and not one that begins or ends with it.
func containsID(text, id string) bool {
	for i := 0; ; {
		j := strings.Index(text[i:], id)
		if j < 0 {
			return false
		}
		at, end := i+j, i+j+len(id)
		word := func(b byte) bool {
			return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b == '-'
		}
		if (at == 0 || !word(text[at-1])) && (end == len(text) || !word(text[end])) {
			return true
		}
		i = end
	}
}

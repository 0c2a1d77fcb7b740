// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package interruption

import (
	"maps"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// TestReadStatus: what counts of an answer of DescribeInstanceStatus.
func TestReadStatus(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	failing := func(since time.Duration) *types.InstanceStatusSummary {
		return &types.InstanceStatusSummary{Status: types.SummaryStatusImpaired, Details: []types.InstanceStatusDetails{{Status: types.StatusTypeFailed, ImpairedSince: sdk.Time(now.Add(-since))}}}
	}
	event := func(text string) []types.InstanceStatusEvent {
		return []types.InstanceStatusEvent{{Code: types.EventCodeInstanceRetirement, Description: &text, NotBefore: sdk.Time(now.Add(time.Hour))}}
	}
	for name, c := range map[string]struct {
		in   types.InstanceStatus
		want map[string]time.Time // by kind: when the machine goes
	}{
		"a check that has just begun to fail":  {types.InstanceStatus{InstanceStatus: failing(time.Minute)}, map[string]time.Time{}},
		"a check that fails for two minutes":   {types.InstanceStatus{InstanceStatus: failing(2 * time.Minute)}, map[string]time.Time{cloud.InstanceStatusFailed: {}}},
		"the hardware below":                   {types.InstanceStatus{SystemStatus: failing(time.Hour)}, map[string]time.Time{cloud.SystemStatusFailed: {}}},
		"maintenance that is to come":          {types.InstanceStatus{Events: event("The instance is running on degraded hardware")}, map[string]time.Time{cloud.ScheduledChange: now.Add(time.Hour)}},
		"maintenance that is over":             {types.InstanceStatus{Events: event("[Completed] The instance is running on degraded hardware")}, map[string]time.Time{}},
		"maintenance that was called off":      {types.InstanceStatus{Events: event("[Canceled] The instance is running on degraded hardware")}, map[string]time.Time{}},
		"nothing but a check that is not done": {types.InstanceStatus{InstanceStatus: &types.InstanceStatusSummary{Details: []types.InstanceStatusDetails{{Status: types.StatusTypeInitializing}}}}, map[string]time.Time{}},
	} {
		c.in.InstanceId = sdk.String("i-1")
		found := map[checkNotice]time.Time{}
		readStatus(found, &c.in, now)
		have := map[string]time.Time{}
		for n, at := range found {
			have[n.kind] = at
		}
		if !maps.Equal(have, c.want) {
			t.Errorf("%s: have %v, want %v", name, have, c.want)
		}
	}
}

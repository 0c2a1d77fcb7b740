// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package interruption

import (
	"slices"
	"testing"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// FuzzReadEvent: whatever stands in the queue is refused, passed over, or one of the notices that are acted upon.
func FuzzReadEvent(f *testing.F) {
	for _, s := range []string{
		`{"version":"0","source":"aws.ec2","detail-type":"EC2 Spot Instance Interruption Warning","time":"2026-01-02T03:04:05Z","detail":{"instance-id":"i-1","instance-action":"terminate"}}`,
		`{"source":"aws.ec2","detail-type":"EC2 Instance Rebalance Recommendation","time":"2026-01-02T03:04:05Z","detail":{"instance-id":"i-1"}}`,
		`{"source":"aws.ec2","detail-type":"EC2 Capacity Reservation Instance Interruption Warning","time":"2026-01-02T03:04:05Z","detail":{"instance-id":"i-1","instance-termination-time":"2026-01-02T04:04:05Z"}}`,
		`{"source":"aws.ec2","detail-type":"EC2 Instance State-change Notification","time":"2026-01-02T03:04:05Z","detail":{"instance-id":"i-1","state":"Stopping"}}`,
		`{"source":"aws.health","detail-type":"AWS Health Event","time":"2026-01-02T03:04:05Z","detail":{"service":"EC2","eventTypeCategory":"scheduledChange","startTime":"Fri, 02 Jan 2026 03:04:05 GMT","affectedEntities":[{"entityValue":"i-1"},{"entityValue":""}]}}`,
		`{"source":"aws.autoscaling","detail-type":"EC2 Instance-terminate Lifecycle Action","time":"2026-01-02T03:04:05Z","detail":{"EC2InstanceId":"i-1","LifecycleTransition":"autoscaling:EC2_INSTANCE_TERMINATING"}}`,
		`{"Records":[]}`, `null`, `[]`, `{"detail":"text"}`, `{"detail":null,"time":"0000-01-01T00:00:00Z"}`, "",
	} {
		f.Add(s)
	}
	kinds := []string{"", cloud.SpotInterruption, cloud.ReservationInterruption, cloud.Rebalance, cloud.StateChange, cloud.ScheduledChange}
	f.Fuzz(func(t *testing.T, body string) {
		n, err := readEvent(body)
		if err != nil && (n.kind != "" || n.instances != nil) {
			t.Errorf("refused and acted upon: %+v, %v", n, err)
		}
		if !slices.Contains(kinds, n.kind) || n.kind == "" && n.instances != nil {
			t.Errorf("notice %+v", n)
		}
	})
}

// TestLifecycleHookIsANotice: an instance whose group waits for a lifecycle hook before it terminates it is about to go. One that is launched is not.
func TestLifecycleHookIsANotice(t *testing.T) {
	for detailType, kind := range map[string]string{"EC2 Instance-terminate Lifecycle Action": cloud.ScheduledChange, "EC2 Instance-launch Lifecycle Action": "", "EC2 Instance Terminate Successful": ""} {
		n, err := readEvent(`{"source":"aws.autoscaling","detail-type":"` + detailType + `","time":"2026-01-02T03:04:05Z","detail":{"EC2InstanceId":"i-1","LifecycleHookName":"drain","AutoScalingGroupName":"web"}}`)
		if err != nil || n.kind != kind || kind != "" && !slices.Equal(n.instances, []string{"i-1"}) {
			t.Errorf("%s: %+v, %v", detailType, n, err)
		}
	}
}

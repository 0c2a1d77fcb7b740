// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package interruption

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// spotNotice is the notice period of spot interruptions, and the default for machines in a reservation.
const spotNotice = 2 * time.Minute

// event is what EventBridge puts into the queue.
type event struct {
	Version    string          `json:"version"`
	DetailType string          `json:"detail-type"`
	Source     string          `json:"source"`
	Time       time.Time       `json:"time"`
	Detail     json.RawMessage `json:"detail"`
}

// notice is what an event tells of instances.
type notice struct {
	kind      string
	instances []string
	at, sent  time.Time
	stopping  bool
	started   bool // an instance has started: kind is empty
}

// readEvent reads a message of the queue; the zero notice for an event that is not about an instance's end. An error:
// the message is no event.
func readEvent(body string) (notice, error) {
	var e event
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		return notice{}, fmt.Errorf("read message: %w", err)
	}
	var d struct {
		InstanceID        string `json:"instance-id"`
		MemberID          string `json:"EC2InstanceId"` // of an Auto Scaling group
		State             string `json:"state"`
		Service           string `json:"service"`
		EventTypeCategory string `json:"eventTypeCategory"`
		StartTime         string `json:"startTime"`
		TerminationTime   string `json:"instance-termination-time"`
		AffectedEntities  []struct {
			EntityValue string `json:"entityValue"`
		} `json:"affectedEntities"`
	}
	if len(e.Detail) > 0 {
		if err := json.Unmarshal(e.Detail, &d); err != nil {
			return notice{}, fmt.Errorf("read message: detail: %w", err)
		}
	}
	n := notice{sent: e.Time}
	if d.InstanceID != "" {
		n.instances = []string{d.InstanceID}
	}
	switch e.Source + " " + e.DetailType {
	case "aws.ec2 EC2 Spot Instance Interruption Warning":
		n.kind, n.at = cloud.SpotInterruption, e.Time.Add(spotNotice)
	case "aws.ec2 EC2 Capacity Reservation Instance Interruption Warning":
		n.kind, n.at = cloud.ReservationInterruption, e.Time.Add(spotNotice)
		if at, err := time.Parse(time.RFC3339, d.TerminationTime); err == nil {
			n.at = at
		}
	case "aws.autoscaling EC2 Instance-terminate Lifecycle Action": // its group ends it when a lifecycle hook is completed, or has waited long enough
		if d.MemberID == "" {
			return notice{}, nil
		}
		n.kind, n.instances = cloud.ScheduledChange, []string{d.MemberID}
	case "aws.ec2 EC2 Instance Rebalance Recommendation":
		n.kind = cloud.Rebalance
	case "aws.ec2 EC2 Instance State-change Notification":
		switch strings.ToLower(d.State) {
		case "stopping", "stopped", "shutting-down", "terminated":
			n.kind, n.at, n.stopping = cloud.StateChange, e.Time, strings.HasPrefix(strings.ToLower(d.State), "stop")
		default:
			return notice{started: strings.EqualFold(d.State, "pending")}, nil
		}
	case "aws.health AWS Health Event":
		if d.Service != "EC2" || d.EventTypeCategory != "scheduledChange" {
			return notice{}, nil
		}
		n.kind = cloud.ScheduledChange
		if at, err := time.Parse(time.RFC1123, d.StartTime); err == nil {
			n.at = at
		}
		n.instances = nil
		for _, a := range d.AffectedEntities {
			n.instances = append(n.instances, a.EntityValue)
		}
	default:
		return notice{}, nil
	}
	return n, nil
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud/machines"
	"github.com/dovetail-sh/dovetail/internal/model"
)

// Kinds of interruption notice.
const (
	SpotInterruption = "spot-interruption" // EC2 interrupts the instance after the notice
	Rebalance        = "rebalance"         // EC2 may interrupt the instance
	ScheduledChange  = "scheduled-change"  // the instance is retired after the notice
	StateChange      = "state-change"      // the instance stops immediately
	ReservationTaken = "reservation-taken" // the owner of the instance's reservation reclaims it: EC2 interrupts the instance after the notice
	Impaired         = "impaired"          // the instance's status checks fail from now on; no event is sent, only DescribeInstanceStatus reports it
)

// Interruption requests notices for the named instances, or for Count running spot instances selected by the seed.
type Interruption struct {
	Kind      string            `json:"kind"`
	Instances []string          `json:"instances,omitempty"`
	Count     int               `json:"count,omitempty"`
	Notice    machines.Duration `json:"notice,omitzero"`  // 0: as in the settings
	Silent    bool              `json:"silent,omitempty"` // SpotInterruption: the instance is interrupted without a notice
}

// Interrupted are the affected instances.
type Interrupted struct {
	Instances []string `json:"instances"`
}

// event is EventBridge's envelope.
type event struct {
	Version    string   `json:"version"`
	ID         string   `json:"id"`
	DetailType string   `json:"detail-type"`
	Source     string   `json:"source"`
	Account    string   `json:"account"`
	Time       string   `json:"time"`
	Region     string   `json:"region"`
	Resources  []string `json:"resources"`
	Detail     any      `json:"detail"`
}

// notify puts an event of now into the queue.
func (t *tx) notify(source, kind string, resources []string, detail any) {
	t.notifyAt(t.now, source, kind, resources, detail)
}

// notifyAt puts an event into the queue, with the time at which it happened.
func (t *tx) notifyAt(at time.Time, source, kind string, resources []string, detail any) {
	h := hash("event", fmt.Sprint(t.m.Seq()))
	e := event{
		Version: "0", ID: fmt.Sprintf("%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16]), DetailType: kind, Source: source,
		Account: t.settings.Account, Time: at.UTC().Format("2006-01-02T15:04:05Z"), Region: t.catalog.Region, Resources: resources, Detail: detail,
	}
	raw, err := json.Marshal(e)
	if err != nil {
		panic(err) // plain data
	}
	t.send(string(raw))
}

type spotDetail struct {
	InstanceID      string `json:"instance-id"`
	InstanceAction  string `json:"instance-action,omitempty"`
	TerminationTime string `json:"instance-termination-time,omitempty"`
}

type stateDetail struct {
	InstanceID string `json:"instance-id"`
	State      string `json:"state"`
}

type healthDetail struct {
	EventARN          string         `json:"eventArn"`
	Service           string         `json:"service"`
	EventTypeCode     string         `json:"eventTypeCode"`
	EventTypeCategory string         `json:"eventTypeCategory"`
	StartTime         string         `json:"startTime"`
	EndTime           string         `json:"endTime"`
	AffectedEntities  []healthEntity `json:"affectedEntities"`
}

type healthEntity struct {
	EntityValue string `json:"entityValue"`
}

// interrupt gives notice to instances, all or none.
func (t *tx) interrupt(in Interruption) (Interrupted, error) {
	var out Interrupted
	switch in.Kind {
	case SpotInterruption, Rebalance, ScheduledChange, ReservationTaken, StateChange, Impaired:
	default:
		return out, fmt.Errorf("interruption: kind %q: use %s, %s, %s, %s, %s or %s", in.Kind, SpotInterruption, Rebalance, ScheduledChange, ReservationTaken, StateChange, Impaired)
	}
	var chosen []*instance
	for _, id := range in.Instances {
		i := t.instances.items[id]
		if i == nil || gone(t.machine(i)) {
			return out, fmt.Errorf("interruption: instance %s does not run", id)
		}
		if in.Kind == ReservationTaken && t.reservedIn(i) == "" {
			return out, fmt.Errorf("interruption: instance %s runs in no reservation", id)
		}
		chosen = append(chosen, i)
	}
	if len(in.Instances) == 0 {
		for _, i := range t.alive() {
			if len(chosen) < in.Count && t.machine(i).CapacityType == model.Spot && i.Goes.IsZero() && t.machine(i).State == machines.Running {
				chosen = append(chosen, i)
			}
		}
		if in.Count < 1 || len(chosen) < in.Count {
			return out, fmt.Errorf("interruption: count %d: %d spot instances run that have no notice yet", in.Count, len(chosen))
		}
	}
	notice := t.settings.Notice
	if in.Notice > 0 {
		notice = time.Duration(in.Notice)
	}
	for _, i := range chosen {
		out.Instances = append(out.Instances, i.ID)
		is := *i
		arn := []string{t.arn("ec2", "instance/"+i.ID)}
		switch in.Kind {
		case SpotInterruption:
			is.Goes = t.now.Add(notice)
			if !in.Silent {
				t.notify("aws.ec2", "EC2 Spot Instance Interruption Warning", arn, spotDetail{InstanceID: i.ID, InstanceAction: "terminate"})
			}
		case ReservationTaken:
			is.Goes = t.now.Add(notice)
			t.notify("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning", arn, spotDetail{i.ID, "terminate", is.Goes.UTC().Format("2006-01-02T15:04:05Z")})
		case Rebalance:
			t.notify("aws.ec2", "EC2 Instance Rebalance Recommendation", arn, spotDetail{InstanceID: i.ID})
		case ScheduledChange:
			is.Goes, is.Event = t.now.Add(notice), "instance-retirement"
			t.notify("aws.health", "AWS Health Event", arn, healthDetail{
				EventARN: "arn:aws:health:" + t.catalog.Region + "::event/EC2/AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED/" + i.ID, Service: "EC2",
				EventTypeCode: "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED", EventTypeCategory: "scheduledChange",
				StartTime: is.Goes.UTC().Format(time.RFC1123), EndTime: is.Goes.UTC().Format(time.RFC1123), AffectedEntities: []healthEntity{{i.ID}},
			})
		case StateChange:
			is.Goes = t.now
			t.notify("aws.ec2", "EC2 Instance State-change Notification", arn, stateDetail{i.ID, "stopping"})
		case Impaired:
			is.Impaired = t.now
		}
		t.instances.put(t, i.ID, is)
	}
	t.stir()
	return out, nil
}

// turn runs everything that is due, and returns when there is more; zero: never.
func (c *Cloud) turn() (next time.Time, err error) {
	soon := func(at time.Time) {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	err = c.transact(true, func(t *tx) {
		for _, i := range t.instances.sorted() {
			if i.Goes.IsZero() || gone(t.machine(i)) {
				continue
			}
			if t.now.Before(i.Goes) {
				soon(i.Goes)
				continue
			}
			reason := "Server.SpotInstanceTermination"
			if t.machine(i).CapacityType != model.Spot {
				reason = "Server.ScheduledStop"
			}
			t.end(i, reason)
		}
		for _, g := range t.groups.sorted() {
			soon(t.tend(g))
			soon(t.advanceUpgrade(t.groups.items[g.Name]))
		}
	})
	return next, err
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package aws

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/dovetail-sh/dovetail/internal/cloud"
)

// Kinds of interruption.
const (
	SpotInterruption = "SpotInterruption"
	Rebalance        = "Rebalance"
	ScheduledChange  = "ScheduledChange"
	StateChange      = "StateChange"
	// ReservationInterruption is of a machine in a reservation that its owner takes back, or in a block that ends.
	ReservationInterruption = "CapacityReservationInterruption"
)

// spotNotice is how long before it goes the end of a spot machine is told, and of one in a reservation where nothing else is said.
const spotNotice = 2 * time.Minute

// queueEvent is what EventBridge puts into the queue.
type queueEvent struct {
	Version    string          `json:"version"`
	DetailType string          `json:"detail-type"`
	Source     string          `json:"source"`
	Time       time.Time       `json:"time"`
	Detail     json.RawMessage `json:"detail"`
}

// instanceNotice is what an event tells of instances.
type instanceNotice struct {
	kind      string
	instances []string
	at, sent  time.Time
	stopping  bool
}

// readEvent reads an event; the zero notice for one that is not about an instance's end.
func readEvent(body string) (instanceNotice, error) {
	var e queueEvent
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		return instanceNotice{}, fmt.Errorf("read message: %w", err)
	}
	var d struct {
		InstanceID        string `json:"instance-id"`
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
			return instanceNotice{}, fmt.Errorf("read message: detail: %w", err)
		}
	}
	n := instanceNotice{sent: e.Time}
	if d.InstanceID != "" {
		n.instances = []string{d.InstanceID}
	}
	switch e.Source + " " + e.DetailType {
	case "aws.ec2 EC2 Spot Instance Interruption Warning":
		n.kind, n.at = SpotInterruption, e.Time.Add(spotNotice)
	case "aws.ec2 EC2 Capacity Reservation Instance Interruption Warning":
		n.kind, n.at = ReservationInterruption, e.Time.Add(spotNotice)
		if at, err := time.Parse(time.RFC3339, d.TerminationTime); err == nil {
			n.at = at
		}
	case "aws.ec2 EC2 Instance Rebalance Recommendation":
		n.kind = Rebalance
	case "aws.ec2 EC2 Instance State-change Notification":
		switch strings.ToLower(d.State) {
		case "stopping", "stopped", "shutting-down", "terminated":
			n.kind, n.at, n.stopping = StateChange, e.Time, strings.HasPrefix(strings.ToLower(d.State), "stop")
		default:
			return instanceNotice{}, nil
		}
	case "aws.health AWS Health Event":
		if d.Service != "EC2" || d.EventTypeCategory != "scheduledChange" {
			return instanceNotice{}, nil
		}
		n.kind = ScheduledChange
		if at, err := time.Parse(time.RFC1123, d.StartTime); err == nil {
			n.at = at
		}
		n.instances = nil
		for _, a := range d.AffectedEntities {
			n.instances = append(n.instances, a.EntityValue)
		}
	default:
		return instanceNotice{}, nil
	}
	return n, nil
}

// pollWait is how long the queue waits for a message before it says that there is none, and pollLimit how long it is waited for: a connection that
// has gone dead is not, while spot machines have two minutes.
const (
	pollWait    = 20 * time.Second
	pollTimeout = pollWait + 10*time.Second
)

// maxBatchesInFlight bounds the batches of messages that are dealt with at one time.
const maxBatchesInFlight = 100

// Interruptions implements cloud.Interrupter. Without a queue there are none, and it waits for the context to end. A message is
// taken from the queue when all that it tells has been dealt with; one that is about no machine of the cluster's, or can't be read,
// at once. A batch is asked for while those before are dealt with: the queue hands out ten at a time, and fifty machines may be announced
// in one moment.
func (p *Provider) Interruptions(ctx context.Context, handle func(context.Context, cloud.Interruption) error) error {
	if p.config.InterruptionQueue == "" {
		<-ctx.Done()
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, pollTimeout)
	q, err := p.sqs.GetQueueUrl(limited, &sqs.GetQueueUrlInput{QueueName: &p.config.InterruptionQueue})
	cancel()
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return classifyError(ctx, "interruptions", "queue "+p.config.InterruptionQueue, err)
	}
	var batches sync.WaitGroup
	defer batches.Wait()
	turns := make(chan struct{}, maxBatchesInFlight)
	for ctx.Err() == nil {
		select {
		case turns <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		limited, cancel := context.WithTimeout(ctx, pollTimeout)
		res, err := p.sqs.ReceiveMessage(limited, &sqs.ReceiveMessageInput{
			QueueUrl: q.QueueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: int32(pollWait / time.Second), VisibilityTimeout: 20,
		})
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return classifyError(ctx, "interruptions", "queue "+p.config.InterruptionQueue, err)
		}
		batches.Go(func() {
			defer func() { <-turns }()
			p.handleMessages(ctx, q.QueueUrl, res.Messages, handle)
		})
	}
	return nil
}

// handleMessages deals with a batch of messages, and takes those from the queue with which it is done.
func (p *Provider) handleMessages(ctx context.Context, queue *string, messages []sqstypes.Message, handle func(context.Context, cloud.Interruption) error) {
	var wg sync.WaitGroup
	done := make([]bool, len(messages))
	for i := range messages {
		wg.Go(func() { done[i] = p.handleMessage(ctx, deref(messages[i].Body), handle) })
	}
	wg.Wait()
	var entries []sqstypes.DeleteMessageBatchRequestEntry
	for i := range messages {
		if done[i] {
			entries = append(entries, sqstypes.DeleteMessageBatchRequestEntry{Id: sdk.String(fmt.Sprint(i)), ReceiptHandle: messages[i].ReceiptHandle})
		}
	}
	if len(entries) > 0 {
		limited, cancel := context.WithTimeout(ctx, pollTimeout)
		defer cancel()
		if _, err := p.sqs.DeleteMessageBatch(limited, &sqs.DeleteMessageBatchInput{QueueUrl: queue, Entries: entries}); err != nil && ctx.Err() == nil {
			p.log.Warn("messages dealt with stay in the queue and will come again", "queue", p.config.InterruptionQueue, "error", readableError(err))
		}
	}
}

// handleMessage hands on what a message tells, and says whether the message is done with.
func (p *Provider) handleMessage(ctx context.Context, body string, handle func(context.Context, cloud.Interruption) error) bool {
	n, err := readEvent(body)
	if err != nil {
		p.log.Warn("a message that is no event is thrown away", "queue", p.config.InterruptionQueue, "error", err)
		return true
	}
	done := true
	for _, id := range n.instances {
		if n.kind == "" {
			break
		}
		where, err := p.findProviderID(ctx, id)
		if err != nil {
			p.log.Warn("a notice can't be dealt with yet, it will come again", "instance", id, "error", err)
			done = false
			continue
		}
		if where == "" {
			continue // not the cluster's
		}
		if err := handle(ctx, cloud.Interruption{ProviderID: where, Kind: n.kind, At: n.at, Sent: n.sent, Stops: n.stopping}); err != nil {
			done = false
		}
	}
	return done
}

// findProviderID is the provider id of an instance of the cluster's; empty when it is none.
func (p *Provider) findProviderID(ctx context.Context, id string) (string, error) {
	known := func(l *instanceList) string {
		if l != nil {
			if i, ok := l.byID[id]; ok {
				return providerID(l.all[i].zone, id)
			}
		}
		p.instances.mu.Lock()
		defer p.instances.mu.Unlock()
		if m, ok := p.instances.launched[id]; ok {
			return providerID(m.zone, id)
		}
		return ""
	}
	p.instances.mu.Lock()
	last := p.instances.last
	p.instances.mu.Unlock()
	if where := known(last); where != "" {
		return where, nil
	}
	list, err := p.listInstances(ctx, p.clock.Now().Add(-maxDriftListAge/12))
	if err != nil {
		return "", err
	}
	return known(list), nil
}

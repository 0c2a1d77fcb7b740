// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package interruption

import (
	"context"
	"fmt"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/dovetail-sh/dovetail/internal/cloud"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awsapi"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/instances"
)

// pollWait is the long-polling duration of the queue. pollTimeout is the timeout of the response: a dead connection must
// not delay spot interruption notices, which arrive two minutes in advance.
const (
	pollWait    = 20 * time.Second
	pollTimeout = pollWait + 10*time.Second
)

// maxBatchesInFlight bounds the batches of messages that are dealt with at one time.
const maxBatchesInFlight = 100

// Queue is the SQS queue to which EventBridge sends interruption events.
type Queue struct {
	aws       *awsapi.Account
	instances *instances.Index
	started   func() // called when the queue tells that an instance, whosever it is, has started
}

// NewQueue returns a Queue. index determines which instances belong to the cluster. started is called for every instance
// that has started, including those of other clusters.
func NewQueue(a *awsapi.Account, index *instances.Index, started func()) *Queue {
	return &Queue{aws: a, instances: index, started: started}
}

// Watch implements cloud.Interrupter. Without a configured queue, it waits for the context to end. A message is deleted
// after all its events have been handled; if it is unreadable or concerns no machine of the cluster, immediately. A
// batch is received while earlier ones are being handled, since the queue returns at most ten messages and fifty
// machines may be interrupted at once.
func (q *Queue) Watch(ctx context.Context, handle func(context.Context, cloud.Interruption) error) error {
	if q.aws.Config.InterruptionQueue == "" {
		<-ctx.Done()
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, pollTimeout)
	queue, err := q.aws.SQS.GetQueueUrl(limited, &sqs.GetQueueUrlInput{QueueName: &q.aws.Config.InterruptionQueue})
	cancel()
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return awsapi.ClassifyError(ctx, "interruptions", "queue "+q.aws.Config.InterruptionQueue, err)
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
		res, err := q.aws.SQS.ReceiveMessage(limited, &sqs.ReceiveMessageInput{
			QueueUrl: queue.QueueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: int32(pollWait / time.Second), VisibilityTimeout: 20,
		})
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return awsapi.ClassifyError(ctx, "interruptions", "queue "+q.aws.Config.InterruptionQueue, err)
		}
		batches.Go(func() {
			defer func() { <-turns }()
			q.handleMessages(ctx, queue.QueueUrl, res.Messages, handle)
		})
	}
	return nil
}

// handleMessages deals with a batch of messages side by side, and deletes those with which it is done.
func (q *Queue) handleMessages(ctx context.Context, queue *string, messages []sqstypes.Message, handle func(context.Context, cloud.Interruption) error) {
	var wg sync.WaitGroup
	done := make([]bool, len(messages))
	for i := range messages {
		wg.Go(func() { done[i] = q.handleMessage(ctx, awsapi.Deref(messages[i].Body), handle) })
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
		if _, err := q.aws.SQS.DeleteMessageBatch(limited, &sqs.DeleteMessageBatchInput{QueueUrl: queue, Entries: entries}); err != nil && ctx.Err() == nil {
			q.aws.Log.Warn("handled messages could not be deleted from the queue and are delivered again", "queue", q.aws.Config.InterruptionQueue, "error", awsapi.ReadableError(err))
		}
	}
}

// handleMessage handles the events of a message, and reports whether the message can be deleted.
func (q *Queue) handleMessage(ctx context.Context, body string, handle func(context.Context, cloud.Interruption) error) bool {
	n, err := readEvent(body)
	if err != nil {
		q.aws.Log.Warn("dropped a queue message that is not an event", "queue", q.aws.Config.InterruptionQueue, "error", err)
		return true
	}
	if n.started {
		q.started()
	}
	done := true
	for _, id := range n.instances {
		if n.kind == "" {
			break
		}
		where, err := q.instances.FindProviderID(ctx, id)
		if err != nil {
			q.aws.Log.Warn("an interruption notice can't be handled yet; the queue delivers it again", "instance", id, "error", err)
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

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/shapes"
	"github.com/dovetail-sh/dovetail/internal/cloud/aws/awstest/wire"
)

const (
	hidden      = 30 * time.Second // how long a received message is hidden, unless the call says
	longestPoll = 20 * time.Second
	retention   = 5 * time.Minute // how long a message is kept that nobody deletes, as Karpenter's installation guide sets it
)

// collect has the queue hold what it holds now: it puts in what has happened meanwhile, and drops what is older than it keeps messages. It returns when
// there will be more, as far as that is known.
func (t *tx) collect() (next time.Time) {
	next = t.tellStates()
	for _, m := range t.messages.sorted() {
		if !t.now.Before(m.Sent.Add(retention)) {
			t.messages.drop(t, m.ID)
			delete(t.inFlight, m.ID)
		}
	}
	return next
}

func (c *Cloud) queueAddress() string {
	return "https://sqs." + c.catalog.Region + ".amazonaws.com/" + c.settings.Account + "/" + c.settings.Queue
}

func noQueue() error {
	return &wire.Error{Code: "QueueDoesNotExist", Message: "The specified queue does not exist."}
}

// knownQueue takes the address of the queue, whatever host it has.
func (c *Cloud) knownQueue(address string) error {
	if !strings.HasSuffix(address, "/"+c.settings.Account+"/"+c.settings.Queue) {
		return noQueue()
	}
	return nil
}

func (t *tx) queueURL(in *shapes.SQSGetQueueUrlRequest) (*shapes.SQSGetQueueUrlResult, error) {
	if in.QueueName != t.settings.Queue || in.QueueOwnerAWSAccountId != "" && in.QueueOwnerAWSAccountId != t.settings.Account {
		return nil, noQueue()
	}
	return &shapes.SQSGetQueueUrlResult{QueueUrl: t.queueAddress()}, nil
}

func (t *tx) queueAttributes(in *shapes.SQSGetQueueAttributesRequest) (*shapes.SQSGetQueueAttributesResult, error) {
	if err := t.knownQueue(in.QueueUrl); err != nil {
		return nil, err
	}
	t.collect()
	flying := 0
	for id := range t.messages.items {
		if t.now.Before(t.inFlight[id]) {
			flying++
		}
	}
	all := map[string]string{
		"QueueArn":                    t.arn("sqs", t.settings.Queue),
		"ApproximateNumberOfMessages": strconv.Itoa(len(t.messages.items) - flying), "ApproximateNumberOfMessagesNotVisible": strconv.Itoa(flying),
		"VisibilityTimeout": strconv.Itoa(int(hidden / time.Second)), "MessageRetentionPeriod": strconv.Itoa(int(retention / time.Second)),
		"CreatedTimestamp": strconv.FormatInt(accountCreated.Unix(), 10), "LastModifiedTimestamp": strconv.FormatInt(accountCreated.Unix(), 10),
		"ApproximateNumberOfMessagesDelayed": "0", "DelaySeconds": "0", "MaximumMessageSize": "262144", "ReceiveMessageWaitTimeSeconds": "0", "SqsManagedSseEnabled": "true",
	}
	out := &shapes.SQSGetQueueAttributesResult{Attributes: shapes.SQSAttributes{}}
	for _, name := range in.AttributeNames {
		for k, v := range all {
			if name == "All" || name == k {
				out.Attributes[k] = v
			}
		}
	}
	return out, nil
}

// receiving is the call ReceiveMessage, which waits outside any transaction.
func (c *Cloud) receiving() *wire.Operation {
	return &wire.Operation{
		In: reflect.TypeFor[shapes.SQSReceiveMessageRequest](), Out: reflect.TypeFor[shapes.SQSReceiveMessageResult](),
		Run: func(ctx context.Context, in any) (any, error) {
			return c.receiveMessage(ctx, in.(*shapes.SQSReceiveMessageRequest))
		},
	}
}

// receiveMessage waits, if requested, until there is a message or the wait time is over.
func (c *Cloud) receiveMessage(ctx context.Context, in *shapes.SQSReceiveMessageRequest) (*shapes.SQSReceiveMessageResult, error) {
	wait, atMost, hide := time.Duration(0), 1, hidden
	if in.WaitTimeSeconds != nil {
		wait = time.Duration(*in.WaitTimeSeconds) * time.Second
	}
	if in.MaxNumberOfMessages != nil {
		atMost = int(*in.MaxNumberOfMessages)
	}
	if in.VisibilityTimeout != nil {
		hide = time.Duration(*in.VisibilityTimeout) * time.Second
	}
	if wait < 0 || wait > longestPoll || atMost < 1 || atMost > 10 || hide < 0 || hide > 12*time.Hour {
		return nil, wire.Refuse("InvalidParameterValue", "WaitTimeSeconds 0 to 20, MaxNumberOfMessages 1 to 10, VisibilityTimeout 0 to 43200")
	}
	if err := c.knownQueue(in.QueueUrl); err != nil {
		return nil, err
	}
	end := c.clock.Now().Add(wait)
	for {
		c.mu.Lock()
		mail := c.mail
		c.mu.Unlock()
		out := &shapes.SQSReceiveMessageResult{}
		var again time.Time // when there is a message that is not there now, as far as that is known
		if err := c.transact(true, func(t *tx) {
			again = t.receive(out, atMost, hide, append(in.AttributeNames, in.MessageSystemAttributeNames...))
		}); err != nil {
			return nil, &wire.Error{Code: "InternalError", Message: err.Error(), Status: http.StatusInternalServerError}
		}
		now := c.clock.Now()
		if len(out.Messages) > 0 || !now.Before(end) || ctx.Err() != nil {
			return out, nil
		}
		until := end
		if !again.IsZero() && again.Before(end) {
			until = again
		}
		c.waitForMail(ctx, mail, until.Sub(now))
	}
}

// waitForMail returns when a message arrives, the time is over or the context ends.
func (c *Cloud) waitForMail(ctx context.Context, mail <-chan struct{}, d time.Duration) {
	wait, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-mail:
			cancel()
		case <-wait.Done():
		}
	}()
	_ = c.clock.Wait(wait, d)
	cancel()
	<-done
}

// receive takes messages that nobody holds, oldest first, with the attributes asked for, and says when there is the next, held or to come, as far as that is known.
func (t *tx) receive(out *shapes.SQSReceiveMessageResult, atMost int, hide time.Duration, attributes []string) (again time.Time) {
	again = t.collect()
	for _, m := range t.messages.sorted() {
		if until := t.inFlight[m.ID]; t.now.Before(until) {
			if again.IsZero() || until.Before(again) {
				again = until
			}
			continue
		}
		if len(out.Messages) == atMost {
			break
		}
		t.receiptCount++
		receipt := id("receipt", m.ID, strconv.FormatInt(t.receiptCount, 10))
		t.receipts[receipt] = m.ID
		t.inFlight[m.ID] = t.now.Add(hide)
		received := shapes.SQSMessage{MessageId: m.ID, ReceiptHandle: receipt, MD5OfBody: md5Of(m.Body), Body: m.Body}
		if slices.Contains(attributes, "All") || slices.Contains(attributes, "SentTimestamp") {
			received.Attributes = shapes.SQSAttributes{"SentTimestamp": strconv.FormatInt(m.Sent.UnixMilli(), 10)}
		}
		out.Messages = append(out.Messages, received)
	}
	return again
}

func md5Of(body string) string {
	sum := md5.Sum([]byte(body))
	return hex.EncodeToString(sum[:])
}

func (t *tx) deleteMessage(in *shapes.SQSDeleteMessageRequest) (*wire.None, error) {
	if err := t.knownQueue(in.QueueUrl); err != nil {
		return nil, err
	}
	return &wire.None{}, t.forget(in.ReceiptHandle)
}

// forget deletes a message by its receipt handle. A missing message is not an error.
func (t *tx) forget(receipt string) error {
	m, ok := t.receipts[receipt]
	if !ok {
		return &wire.Error{Code: "ReceiptHandleIsInvalid", Message: "The input receipt handle is invalid."}
	}
	if t.messages.items[m] != nil {
		t.messages.drop(t, m)
		delete(t.inFlight, m)
	}
	return nil
}

func (t *tx) deleteMessages(in *shapes.SQSDeleteMessageBatchRequest) (*shapes.SQSDeleteMessageBatchResult, error) {
	if err := t.knownQueue(in.QueueUrl); err != nil {
		return nil, err
	}
	if len(in.Entries) < 1 || len(in.Entries) > 10 {
		return nil, &wire.Error{Code: "TooManyEntriesInBatchRequest", Message: "A batch has 1 to 10 entries."}
	}
	out := &shapes.SQSDeleteMessageBatchResult{}
	for _, e := range in.Entries {
		if err := t.forget(e.ReceiptHandle); err != nil {
			out.Failed = append(out.Failed, shapes.SQSBatchResultErrorEntry{Id: e.Id, SenderFault: new(true), Code: "ReceiptHandleIsInvalid"})
			continue
		}
		out.Successful = append(out.Successful, shapes.SQSDeleteMessageBatchResultEntry{Id: e.Id})
	}
	return out, nil
}

func (t *tx) sendMessage(in *shapes.SQSSendMessageRequest) (*shapes.SQSSendMessageResult, error) {
	if err := t.knownQueue(in.QueueUrl); err != nil {
		return nil, err
	}
	return &shapes.SQSSendMessageResult{MessageId: t.send(in.MessageBody), MD5OfMessageBody: md5Of(in.MessageBody)}, nil
}

// send puts a message into the queue. Ids sort as messages were sent.
func (t *tx) send(body string) string {
	m := strconv.FormatInt(1_000_000_000_000+t.m.Seq(), 10) + "-" + id("m", strconv.FormatInt(t.m.Seq(), 10))
	t.messages.put(t, m, message{ID: m, Body: body, Sent: t.now})
	t.ring()
	return m
}

// ring has those look again who wait for a message.
func (c *Cloud) ring() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.mail)
	c.mail = make(chan struct{})
}

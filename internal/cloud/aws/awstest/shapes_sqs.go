// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

// The shapes of SQS, version 2012-11-05: of every call served, the members read and written. A type is named as its shape in the
// service model, a field as its member; test/awsmodels holds names and tags against that model.

type sqsGetQueueUrlRequest struct {
	QueueName              string `json:"QueueName,omitempty"`
	QueueOwnerAWSAccountId string `json:"QueueOwnerAWSAccountId,omitempty"`
}

type sqsGetQueueUrlResult struct {
	QueueUrl string `json:"QueueUrl,omitempty"`
}

type sqsGetQueueAttributesRequest struct {
	QueueUrl       string   `json:"QueueUrl,omitempty"`
	AttributeNames []string `json:"AttributeNames,omitempty"`
}

type sqsGetQueueAttributesResult struct {
	Attributes map[string]string `json:"Attributes,omitempty"`
}

type sqsReceiveMessageRequest struct {
	QueueUrl                    string   `json:"QueueUrl,omitempty"`
	AttributeNames              []string `json:"AttributeNames,omitempty"`
	MessageSystemAttributeNames []string `json:"MessageSystemAttributeNames,omitempty"`
	MessageAttributeNames       []string `json:"MessageAttributeNames,omitempty"`
	MaxNumberOfMessages         *int64   `json:"MaxNumberOfMessages,omitempty"`
	VisibilityTimeout           *int64   `json:"VisibilityTimeout,omitempty"`
	WaitTimeSeconds             *int64   `json:"WaitTimeSeconds,omitempty"`
	ReceiveRequestAttemptId     string   `json:"ReceiveRequestAttemptId,omitempty"`
}

type sqsReceiveMessageResult struct {
	Messages []sqsMessage `json:"Messages,omitempty"`
}

type sqsMessage struct {
	MessageId     string            `json:"MessageId,omitempty"`
	ReceiptHandle string            `json:"ReceiptHandle,omitempty"`
	MD5OfBody     string            `json:"MD5OfBody,omitempty"`
	Body          string            `json:"Body,omitempty"`
	Attributes    map[string]string `json:"Attributes,omitempty"`
}

type sqsDeleteMessageRequest struct {
	QueueUrl      string `json:"QueueUrl,omitempty"`
	ReceiptHandle string `json:"ReceiptHandle,omitempty"`
}

type sqsDeleteMessageBatchRequest struct {
	QueueUrl string                              `json:"QueueUrl,omitempty"`
	Entries  []sqsDeleteMessageBatchRequestEntry `json:"Entries,omitempty"`
}

type sqsDeleteMessageBatchRequestEntry struct {
	Id            string `json:"Id,omitempty"`
	ReceiptHandle string `json:"ReceiptHandle,omitempty"`
}

type sqsDeleteMessageBatchResult struct {
	Successful []sqsDeleteMessageBatchResultEntry `json:"Successful,omitempty"`
	Failed     []sqsBatchResultErrorEntry         `json:"Failed,omitempty"`
}

type sqsDeleteMessageBatchResultEntry struct {
	Id string `json:"Id,omitempty"`
}

type sqsBatchResultErrorEntry struct {
	Id          string `json:"Id,omitempty"`
	SenderFault *bool  `json:"SenderFault,omitempty"`
	Code        string `json:"Code,omitempty"`
	Message     string `json:"Message,omitempty"`
}

type sqsSendMessageRequest struct {
	QueueUrl    string `json:"QueueUrl,omitempty"`
	MessageBody string `json:"MessageBody,omitempty"`
}

type sqsSendMessageResult struct {
	MD5OfMessageBody string `json:"MD5OfMessageBody,omitempty"`
	MessageId        string `json:"MessageId,omitempty"`
}

// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package shapes

import (
	"encoding/xml"
	"maps"
	"slices"
)

// The shapes of SQS, version 2012-11-05: of every call served, the members read and written. A type is named as its shape in the
// service model, a field as its member; test/awsmodels holds names and JSON tags against that model. The tags in and xml are the names of the
// older query protocol, which that model no longer has; in it lists and maps are flat.

// SQSAttributes maps attribute names to values. In XML, each attribute is an element with a Name and a Value child.
type SQSAttributes map[string]string

// MarshalXML writes one element for each value, by name.
func (a SQSAttributes) MarshalXML(e *xml.Encoder, start xml.StartElement) error {
	for _, name := range slices.Sorted(maps.Keys(a)) {
		one := struct {
			Name  string
			Value string
		}{name, a[name]}
		if err := e.EncodeElement(one, start); err != nil {
			return err
		}
	}
	return nil
}

type SQSGetQueueUrlRequest struct {
	QueueName              string `json:"QueueName,omitempty" in:"QueueName"`
	QueueOwnerAWSAccountId string `json:"QueueOwnerAWSAccountId,omitempty" in:"QueueOwnerAWSAccountId"`
}

type SQSGetQueueUrlResult struct {
	QueueUrl string `json:"QueueUrl,omitempty" xml:"QueueUrl,omitempty"`
}

type SQSGetQueueAttributesRequest struct {
	QueueUrl       string   `json:"QueueUrl,omitempty" in:"QueueUrl"`
	AttributeNames []string `json:"AttributeNames,omitempty" in:"AttributeName"`
}

type SQSGetQueueAttributesResult struct {
	Attributes SQSAttributes `json:"Attributes,omitempty" xml:"Attribute,omitempty"`
}

type SQSReceiveMessageRequest struct {
	QueueUrl                    string   `json:"QueueUrl,omitempty" in:"QueueUrl"`
	AttributeNames              []string `json:"AttributeNames,omitempty" in:"AttributeName"`
	MessageSystemAttributeNames []string `json:"MessageSystemAttributeNames,omitempty" in:"MessageSystemAttributeName"`
	MessageAttributeNames       []string `json:"MessageAttributeNames,omitempty" in:"MessageAttributeName"`
	MaxNumberOfMessages         *int64   `json:"MaxNumberOfMessages,omitempty" in:"MaxNumberOfMessages"`
	VisibilityTimeout           *int64   `json:"VisibilityTimeout,omitempty" in:"VisibilityTimeout"`
	WaitTimeSeconds             *int64   `json:"WaitTimeSeconds,omitempty" in:"WaitTimeSeconds"`
	ReceiveRequestAttemptId     string   `json:"ReceiveRequestAttemptId,omitempty" in:"ReceiveRequestAttemptId"`
}

type SQSReceiveMessageResult struct {
	Messages []SQSMessage `json:"Messages,omitempty" xml:"Message,omitempty"`
}

type SQSMessage struct {
	MessageId     string        `json:"MessageId,omitempty" xml:"MessageId,omitempty"`
	ReceiptHandle string        `json:"ReceiptHandle,omitempty" xml:"ReceiptHandle,omitempty"`
	MD5OfBody     string        `json:"MD5OfBody,omitempty" xml:"MD5OfBody,omitempty"`
	Body          string        `json:"Body,omitempty" xml:"Body,omitempty"`
	Attributes    SQSAttributes `json:"Attributes,omitempty" xml:"Attribute,omitempty"`
}

type SQSDeleteMessageRequest struct {
	QueueUrl      string `json:"QueueUrl,omitempty" in:"QueueUrl"`
	ReceiptHandle string `json:"ReceiptHandle,omitempty" in:"ReceiptHandle"`
}

type SQSDeleteMessageBatchRequest struct {
	QueueUrl string                              `json:"QueueUrl,omitempty" in:"QueueUrl"`
	Entries  []SQSDeleteMessageBatchRequestEntry `json:"Entries,omitempty" in:"DeleteMessageBatchRequestEntry"`
}

type SQSDeleteMessageBatchRequestEntry struct {
	Id            string `json:"Id,omitempty" in:"Id"`
	ReceiptHandle string `json:"ReceiptHandle,omitempty" in:"ReceiptHandle"`
}

type SQSDeleteMessageBatchResult struct {
	Successful []SQSDeleteMessageBatchResultEntry `json:"Successful,omitempty" xml:"DeleteMessageBatchResultEntry,omitempty"`
	Failed     []SQSBatchResultErrorEntry         `json:"Failed,omitempty" xml:"BatchResultErrorEntry,omitempty"`
}

type SQSDeleteMessageBatchResultEntry struct {
	Id string `json:"Id,omitempty" xml:"Id,omitempty"`
}

type SQSBatchResultErrorEntry struct {
	Id          string `json:"Id,omitempty" xml:"Id,omitempty"`
	SenderFault *bool  `json:"SenderFault,omitempty" xml:"SenderFault,omitempty"`
	Code        string `json:"Code,omitempty" xml:"Code,omitempty"`
	Message     string `json:"Message,omitempty" xml:"Message,omitempty"`
}

type SQSSendMessageRequest struct {
	QueueUrl    string `json:"QueueUrl,omitempty" in:"QueueUrl"`
	MessageBody string `json:"MessageBody,omitempty" in:"MessageBody"`
}

type SQSSendMessageResult struct {
	MD5OfMessageBody string `json:"MD5OfMessageBody,omitempty" xml:"MD5OfMessageBody,omitempty"`
	MessageId        string `json:"MessageId,omitempty" xml:"MessageId,omitempty"`
}

type SQSListQueuesRequest struct {
	QueueNamePrefix string `json:"QueueNamePrefix,omitempty" in:"QueueNamePrefix"`
	NextToken       string `json:"NextToken,omitempty" in:"NextToken"`
	MaxResults      *int64 `json:"MaxResults,omitempty" in:"MaxResults"`
}

type SQSListQueuesResult struct {
	QueueUrls []string `json:"QueueUrls,omitempty" xml:"QueueUrl,omitempty"`
	NextToken string   `json:"NextToken,omitempty" xml:"NextToken,omitempty"`
}

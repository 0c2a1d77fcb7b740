// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

import "encoding/xml"

// The shapes of SQS, version 2012-11-05: of every call served, the members read and written. A type is named as its shape in the
// service model, a field as its member; test/awsmodels holds names and JSON tags against that model. The tags in and xml are the names of the
// older query protocol, which that model no longer has; in it lists and maps are flat.

// sqsAttributes are values by name. In XML each is an element of the map's name with a Name and a Value.
type sqsAttributes map[string]string

// MarshalXML writes one element for each value, by name.
func (a sqsAttributes) MarshalXML(e *xml.Encoder, start xml.StartElement) error {
	for _, name := range sortedKeys(a) {
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

type sqsGetQueueUrlRequest struct {
	QueueName              string `json:"QueueName,omitempty" in:"QueueName"`
	QueueOwnerAWSAccountId string `json:"QueueOwnerAWSAccountId,omitempty" in:"QueueOwnerAWSAccountId"`
}

type sqsGetQueueUrlResult struct {
	QueueUrl string `json:"QueueUrl,omitempty" xml:"QueueUrl,omitempty"`
}

type sqsGetQueueAttributesRequest struct {
	QueueUrl       string   `json:"QueueUrl,omitempty" in:"QueueUrl"`
	AttributeNames []string `json:"AttributeNames,omitempty" in:"AttributeName"`
}

type sqsGetQueueAttributesResult struct {
	Attributes sqsAttributes `json:"Attributes,omitempty" xml:"Attribute,omitempty"`
}

type sqsReceiveMessageRequest struct {
	QueueUrl                    string   `json:"QueueUrl,omitempty" in:"QueueUrl"`
	AttributeNames              []string `json:"AttributeNames,omitempty" in:"AttributeName"`
	MessageSystemAttributeNames []string `json:"MessageSystemAttributeNames,omitempty" in:"MessageSystemAttributeName"`
	MessageAttributeNames       []string `json:"MessageAttributeNames,omitempty" in:"MessageAttributeName"`
	MaxNumberOfMessages         *int64   `json:"MaxNumberOfMessages,omitempty" in:"MaxNumberOfMessages"`
	VisibilityTimeout           *int64   `json:"VisibilityTimeout,omitempty" in:"VisibilityTimeout"`
	WaitTimeSeconds             *int64   `json:"WaitTimeSeconds,omitempty" in:"WaitTimeSeconds"`
	ReceiveRequestAttemptId     string   `json:"ReceiveRequestAttemptId,omitempty" in:"ReceiveRequestAttemptId"`
}

type sqsReceiveMessageResult struct {
	Messages []sqsMessage `json:"Messages,omitempty" xml:"Message,omitempty"`
}

type sqsMessage struct {
	MessageId     string        `json:"MessageId,omitempty" xml:"MessageId,omitempty"`
	ReceiptHandle string        `json:"ReceiptHandle,omitempty" xml:"ReceiptHandle,omitempty"`
	MD5OfBody     string        `json:"MD5OfBody,omitempty" xml:"MD5OfBody,omitempty"`
	Body          string        `json:"Body,omitempty" xml:"Body,omitempty"`
	Attributes    sqsAttributes `json:"Attributes,omitempty" xml:"Attribute,omitempty"`
}

type sqsDeleteMessageRequest struct {
	QueueUrl      string `json:"QueueUrl,omitempty" in:"QueueUrl"`
	ReceiptHandle string `json:"ReceiptHandle,omitempty" in:"ReceiptHandle"`
}

type sqsDeleteMessageBatchRequest struct {
	QueueUrl string                              `json:"QueueUrl,omitempty" in:"QueueUrl"`
	Entries  []sqsDeleteMessageBatchRequestEntry `json:"Entries,omitempty" in:"DeleteMessageBatchRequestEntry"`
}

type sqsDeleteMessageBatchRequestEntry struct {
	Id            string `json:"Id,omitempty" in:"Id"`
	ReceiptHandle string `json:"ReceiptHandle,omitempty" in:"ReceiptHandle"`
}

type sqsDeleteMessageBatchResult struct {
	Successful []sqsDeleteMessageBatchResultEntry `json:"Successful,omitempty" xml:"DeleteMessageBatchResultEntry,omitempty"`
	Failed     []sqsBatchResultErrorEntry         `json:"Failed,omitempty" xml:"BatchResultErrorEntry,omitempty"`
}

type sqsDeleteMessageBatchResultEntry struct {
	Id string `json:"Id,omitempty" xml:"Id,omitempty"`
}

type sqsBatchResultErrorEntry struct {
	Id          string `json:"Id,omitempty" xml:"Id,omitempty"`
	SenderFault *bool  `json:"SenderFault,omitempty" xml:"SenderFault,omitempty"`
	Code        string `json:"Code,omitempty" xml:"Code,omitempty"`
	Message     string `json:"Message,omitempty" xml:"Message,omitempty"`
}

type sqsSendMessageRequest struct {
	QueueUrl    string `json:"QueueUrl,omitempty" in:"QueueUrl"`
	MessageBody string `json:"MessageBody,omitempty" in:"MessageBody"`
}

type sqsSendMessageResult struct {
	MD5OfMessageBody string `json:"MD5OfMessageBody,omitempty" xml:"MD5OfMessageBody,omitempty"`
	MessageId        string `json:"MessageId,omitempty" xml:"MessageId,omitempty"`
}

type sqsListQueuesRequest struct {
	QueueNamePrefix string `json:"QueueNamePrefix,omitempty" in:"QueueNamePrefix"`
	NextToken       string `json:"NextToken,omitempty" in:"NextToken"`
	MaxResults      *int64 `json:"MaxResults,omitempty" in:"MaxResults"`
}

type sqsListQueuesResult struct {
	QueueUrls []string `json:"QueueUrls,omitempty" xml:"QueueUrl,omitempty"`
	NextToken string   `json:"NextToken,omitempty" xml:"NextToken,omitempty"`
}

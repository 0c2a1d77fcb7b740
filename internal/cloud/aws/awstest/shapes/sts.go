// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package shapes

// The shapes of STS, version 2011-06-15: of every call served, the members read and written. A type is named as its shape in the
// service model, a field as its member; test/awsmodels holds names and tags against that model.

type STSGetCallerIdentityRequest struct {
}

type STSGetCallerIdentityResponse struct {
	UserId  string `xml:"UserId,omitempty"`
	Account string `xml:"Account,omitempty"`
	Arn     string `xml:"Arn,omitempty"`
}

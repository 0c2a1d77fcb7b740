// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package shapes

// The shapes of SSM, version 2014-11-06: of every call served, the members read and written. A type is named as its shape in the
// service model, a field as its member; test/awsmodels holds names and tags against that model.

type SSMGetParameterRequest struct {
	Name           string `json:"Name,omitempty"`
	WithDecryption *bool  `json:"WithDecryption,omitempty"`
}

type SSMGetParameterResult struct {
	Parameter *SSMParameter `json:"Parameter,omitempty"`
}

type SSMParameter struct {
	Name             string `json:"Name,omitempty"`
	Type             string `json:"Type,omitempty"`
	Value            string `json:"Value,omitempty"`
	Version          *int64 `json:"Version,omitempty"`
	Selector         string `json:"Selector,omitempty"`
	SourceResult     string `json:"SourceResult,omitempty"`
	LastModifiedDate *Epoch `json:"LastModifiedDate,omitempty"`
	ARN              string `json:"ARN,omitempty"`
	DataType         string `json:"DataType,omitempty"`
}

type SSMGetParametersRequest struct {
	Names          []string `json:"Names,omitempty"`
	WithDecryption *bool    `json:"WithDecryption,omitempty"`
}

type SSMGetParametersResult struct {
	Parameters        []SSMParameter `json:"Parameters,omitempty"`
	InvalidParameters []string       `json:"InvalidParameters,omitempty"`
}

type SSMGetParametersByPathRequest struct {
	Path           string `json:"Path,omitempty"`
	Recursive      *bool  `json:"Recursive,omitempty"`
	WithDecryption *bool  `json:"WithDecryption,omitempty"`
	MaxResults     *int64 `json:"MaxResults,omitempty"`
	NextToken      string `json:"NextToken,omitempty"`
}

type SSMGetParametersByPathResult struct {
	Parameters []SSMParameter `json:"Parameters"`
	NextToken  string         `json:"NextToken,omitempty"`
}

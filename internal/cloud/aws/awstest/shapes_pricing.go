// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package awstest

// The shapes of the Price List, version 2017-10-15: of every call served, the members read and written. A type is named as its shape in the
// service model, a field as its member; test/awsmodels holds names and tags against that model.

type priceGetProductsRequest struct {
	ServiceCode   string        `json:"ServiceCode,omitempty"`
	Filters       []priceFilter `json:"Filters,omitempty"`
	FormatVersion string        `json:"FormatVersion,omitempty"`
	NextToken     string        `json:"NextToken,omitempty"`
	MaxResults    *int64        `json:"MaxResults,omitempty"`
}

type priceFilter struct {
	Type  string `json:"Type,omitempty"`
	Field string `json:"Field,omitempty"`
	Value string `json:"Value,omitempty"`
}

type priceGetProductsResponse struct {
	FormatVersion string   `json:"FormatVersion,omitempty"`
	PriceList     []string `json:"PriceList"`
	NextToken     string   `json:"NextToken,omitempty"`
}

type priceDescribeServicesRequest struct {
	ServiceCode   string `json:"ServiceCode,omitempty"`
	FormatVersion string `json:"FormatVersion,omitempty"`
	NextToken     string `json:"NextToken,omitempty"`
	MaxResults    *int64 `json:"MaxResults,omitempty"`
}

type priceDescribeServicesResponse struct {
	Services      []priceService `json:"Services"`
	FormatVersion string         `json:"FormatVersion,omitempty"`
	NextToken     string         `json:"NextToken,omitempty"`
}

type priceService struct {
	ServiceCode    string   `json:"ServiceCode,omitempty"`
	AttributeNames []string `json:"AttributeNames,omitempty"`
}

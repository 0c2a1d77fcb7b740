// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Dovetail Authors

package shapes

// The shapes of the Price List, version 2017-10-15: of every call served, the members read and written. A type is named as its shape in the
// service model, a field as its member; test/awsmodels holds names and tags against that model.

type PriceGetProductsRequest struct {
	ServiceCode   string        `json:"ServiceCode,omitempty"`
	Filters       []PriceFilter `json:"Filters,omitempty"`
	FormatVersion string        `json:"FormatVersion,omitempty"`
	NextToken     string        `json:"NextToken,omitempty"`
	MaxResults    *int64        `json:"MaxResults,omitempty"`
}

type PriceFilter struct {
	Type  string `json:"Type,omitempty"`
	Field string `json:"Field,omitempty"`
	Value string `json:"Value,omitempty"`
}

type PriceGetProductsResponse struct {
	FormatVersion string   `json:"FormatVersion,omitempty"`
	PriceList     []string `json:"PriceList"`
	NextToken     string   `json:"NextToken,omitempty"`
}

type PriceDescribeServicesRequest struct {
	ServiceCode   string `json:"ServiceCode,omitempty"`
	FormatVersion string `json:"FormatVersion,omitempty"`
	NextToken     string `json:"NextToken,omitempty"`
	MaxResults    *int64 `json:"MaxResults,omitempty"`
}

type PriceDescribeServicesResponse struct {
	Services      []PriceService `json:"Services"`
	FormatVersion string         `json:"FormatVersion,omitempty"`
	NextToken     string         `json:"NextToken,omitempty"`
}

type PriceService struct {
	ServiceCode    string   `json:"ServiceCode,omitempty"`
	AttributeNames []string `json:"AttributeNames,omitempty"`
}
